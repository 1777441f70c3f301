"""Is exercise 3 solved?"""

import torch
from ch1_tree import smooth
from ch3_ssa import compile_graph
from ch4_passes import area, optimize
from ch6_interpreter import collatz
from ex3_to_python import to_python
from operators import OPERATORS


def swaps(a: int, b: int, n: int) -> int:
    for _ in range(n):
        old = a
        a = b
        b = old
    return a * 10 + b


def both(a: int, b: int) -> int:
    if a > b:
        a = b
        b = a * 2
    return a - b


def check(function, *args):
    for graph in (compile_graph(function), optimize(compile_graph(function))):
        scope = {"OPERATORS": OPERATORS}
        exec(to_python(graph), scope)
        assert torch.equal(torch.as_tensor(scope["f"](*args)), torch.as_tensor(function(*args)))


def test_one_node_after_the_other():
    check(area, 2.5, 3)


def test_branches():
    check(both, 1, 2)
    check(both, 2, 1)


def test_a_loop_carries_all_its_values_at_once():
    check(swaps, 1, 2, 5)
    check(swaps, 1, 2, 0)
    check(smooth, torch.randn(6), 4)


def test_a_condition_ends_a_loop():
    check(collatz.function, 1)
    check(collatz.function, 27)
