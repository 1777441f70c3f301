"""Small programs at the edges of the language: results are eager's, and faults are told at their place."""

import gc
import math
import sys
import threading
from typing import Dict, List, Optional

import pytest
import torch

import jitlite
from jitlite.compiler.program import compiling


def largest(x: torch.Tensor):
    return x.max(0)


def truths(xs: List[int], d: Dict[str, int], s: str):
    return bool(xs), bool(d), bool(s)


def row_norms(x: torch.Tensor):
    return torch.norm(x, dim=1), torch.norm(x, p=1, dim=1)


def epsilon():
    return torch.finfo(torch.float32).eps, torch.iinfo(torch.int8).max


def dtypes(x: torch.Tensor):
    promoted = torch.promote_types(torch.int, torch.half)
    return promoted, torch.result_type(x, 1), x.to(promoted).dtype, promoted == torch.half


def limits():
    return torch.iinfo(torch.int8)


def wrong_default(a: int = "x"):  # type: ignore[assignment]
    return a


def calls_wrong_default():
    return wrong_default()


sourceless_globals: Dict[str, object] = {}
exec("def sourceless(a: int): return a", sourceless_globals)
sourceless = sourceless_globals["sourceless"]


def calls_sourceless(a: int):
    return sourceless(a)  # type: ignore[operator]


def right_defaults(a: float = 1, b: Optional[List[int]] = None, c: Optional[float] = 2):
    return a, b, c


def test_named_results_of_operators_are_the_classes_of_torch() -> None:
    x = torch.tensor([[1.0, 5.0], [3.0, 2.0]])
    found = jitlite.script(largest)(x)
    assert type(found) is torch.return_types.max
    assert found.values.tolist() == [3.0, 5.0] and found.indices.tolist() == [1, 0]


@pytest.mark.parametrize("args", [([], {}, ""), ([0], {"": 0}, "0")])
def test_bool_of_containers_asks_whether_they_have_elements(args: tuple[object, ...]) -> None:
    assert jitlite.script(truths)(*args) == truths(*args)  # type: ignore[arg-type]


def test_an_overload_whose_default_does_not_fit_is_passed_over() -> None:
    x = torch.tensor([[3.0, 4.0]])
    assert [t.tolist() for t in jitlite.script(row_norms)(x)] == [[5.0], [7.0]]


def test_limits_of_a_dtype_give_their_numbers() -> None:
    assert jitlite.script(epsilon)() == epsilon()


def test_operators_that_give_dtypes_give_objects_of_torch() -> None:
    assert jitlite.script(dtypes)(torch.ones(1)) == dtypes(torch.ones(1))


def test_defaults_may_be_none_or_numbers_that_convert() -> None:
    assert jitlite.script(right_defaults)() == right_defaults()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (limits, "iinfo of torch.int8 cannot be used as a value"),
        (wrong_default, 'Expected a default value of type int on parameter "a"'),
        (calls_sourceless, "Can't get source for 'sourceless'"),
        (calls_wrong_default, 'Expected a default value of type int on parameter "a"'),
    ],
)
def test_faults_are_told_at_their_place(function: object, message: str) -> None:
    with pytest.raises(jitlite.CompileError) as raised:
        jitlite.script(function)
    text = str(raised.value)
    assert message in text and text.startswith(f"{__file__}:") and "~" in text


def float_powers(a: int, x: float):
    return math.pow(a, 3), math.pow(x, 2), math.pow(a, x)


def test_pow_of_math_gives_floats():
    expected, got = float_powers(2, 1.5), jitlite.script(float_powers)(2, 1.5)
    assert got == expected and [type(v) for v in got] == [float, float, float]


def test_threads_that_compile_at_once_leave_the_process_as_it_was():
    before = sys.getrecursionlimit(), gc.isenabled()
    branches = "".join(f"    if x == {k}:\n        return {k}\n" for k in range(60))
    results = []

    def work():
        unit = jitlite.CompilationUnit(f"def f(x: int) -> int:\n{branches}    return -1\n")
        results.append((unit.f(50), unit.f(99)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(50, -1)] * 8
    assert (sys.getrecursionlimit(), gc.isenabled()) == before


def test_overlapping_compilations_restore_what_the_first_one_found():
    before = sys.getrecursionlimit(), gc.isenabled()
    first, second = compiling(), compiling()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert (sys.getrecursionlimit(), gc.isenabled()) == before
