"""Is exercise 4 solved?"""

import torch
from ch3_ssa import compile_graph
from ch4_passes import PASSES, optimize
from ch6_interpreter import ScriptFunction
from ex4_simplify import simplify
from graphs import all_nodes
from torch import Tensor


def on_ints(n: int) -> int:
    return 0 + (n + 0) * 1 - 0 + 1 * n


def in_blocks(n: int) -> int:
    for _ in range(n):
        if n > 3:
            n = n * 1 - 1
    return n


def on_floats(x: float) -> float:
    return (x * 1.0 - 0.0) * 1 - 0


def zero_has_a_sign(x: float) -> float:
    return x + 0.0


def an_int_becomes_a_float(n: int) -> float:
    return n * 1.0


def a_bool_becomes_an_int(b: bool) -> int:
    return b + 0


def a_tensor_of_ints_becomes_one_of_floats(x: Tensor) -> Tensor:
    return x * 1.0


def other_operations(n: int) -> int:
    return 0 - n + n // 2


def operations(function):
    graph = optimize(compile_graph(function), (simplify, *PASSES))
    return [node.kind for node in all_nodes(graph) if node.kind.startswith("aten::")]


def computes(function, *args):
    result = ScriptFunction(function, lambda graph: optimize(graph, (simplify, *PASSES)))(*args)
    assert repr(result) == repr(function(*args))


def test_what_changes_nothing_goes():
    assert operations(on_ints) == ["aten::add"]
    assert operations(on_floats) == []
    computes(on_ints, 5)
    for x in (1.5, 0.0, -0.0, float("nan"), float("inf")):
        computes(on_floats, x)


def test_in_blocks_too():
    assert "aten::mul" not in operations(in_blocks)
    computes(in_blocks, 6)


def test_what_changes_something_stays():
    cases = [
        (zero_has_a_sign, -0.0),
        (an_int_becomes_a_float, 3),
        (a_bool_becomes_an_int, True),
        (a_tensor_of_ints_becomes_one_of_floats, torch.arange(3)),
        (other_operations, 7),
    ]
    for function, arg in cases:
        assert operations(function)
        computes(function, arg)


def test_it_says_whether_it_changed_anything():
    assert simplify(compile_graph(on_ints))
    assert not simplify(compile_graph(other_operations))
