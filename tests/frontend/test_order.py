"""Tuples and lists are ordered as in eager Python: by the first elements that differ, then by their lengths."""

from __future__ import annotations

import itertools

import pytest
from accepted_python import Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

NAN = float("nan")
OPERATORS = ("<", "<=", ">", ">=")
ELEMENTS = {
    "int": [1, 2, 2**70],
    "float": [1.0, NAN, float("inf"), -0.0],
    "str": ["a", "ab", ""],
    "bool": [True, False],
    "Tuple[int, str]": [(1, "a"), (1, "b")],
    "List[int]": [[], [1], [1, 2]],
}


def _all(text: str) -> str:
    return ", ".join(text.replace("OP", op) for op in OPERATORS)


def _lists(values: list[object]) -> list[tuple[object, ...]]:
    return [(), *zip(values), *zip(values, values[::-1])]


TUPLES: Table = {
    element: (
        f"a: {element}, b: {element}, n: int",
        f"return {_all('(a, n) OP (b, 2)')}, {_all('(n, a) OP (2, b)')}, {_all('(a,) OP (b, n)')}, "
        f"{_all('(a, b) OP (a, b)')}, {_all('() OP (a,)')}",
        [[a, b, n] for a, b in itertools.product(values, values) for n in (1, 3)],
    )
    for element, values in ELEMENTS.items()
}  # fmt: skip
LISTS: Table = {
    element: (
        f"a: List[{element}], b: List[{element}]",
        f"return {_all('a OP b')}, {_all('a OP a')}, {_all('a[:1] OP b')}",
        [[list(a), list(b)] for a, b in itertools.product(_lists(values), repeat=2)],
    )
    for element, values in ELEMENTS.items()
}  # fmt: skip
USES: Table = {
    "numbers of several types": (
        "n: int, x: float", "return (n, x) < (x, n), (n,) < (x,), (True, n) <= (n, x), x in (1, 2), x in (True, n)",
        [[1, 2.0], [2, 2.0], [1, 1.0], [1, NAN]],
    ),
    "a named tuple": (
        "n: int",
        "p = min([Point(3), Point(n)])\nreturn Point(n, 2) < Point(2, 1), max(Point(n), Point(2)).x, p.x, p.y",
        [[1], [2], [4]],
    ),
    "largest and smallest": (
        "a: int, b: int",
        "return max((a, b), (b, a)), min((a, b), (b, a)), max((a, b), (b, a), (1, 1)), max((a, b)), "
        "min([(a, 'x'), (b, 'y')])",
        [[1, 2], [2, 1]],
    ),
    "keys": (
        "xs: List[Tuple[str, int]]",
        "return max(xs, key=lambda p: (p[1], p[0])), sorted(xs, key=lambda p: (-p[1], p[0])), "
        "max(xs, default=('', 0)), min(xs, key=lambda p: [p[1], 0])",
        [[[("a", 1), ("b", 1), ("c", 0)]]],
    ),
    "versions": (
        "v: str",
        "parts = [int(p) for p in v.split('.')]\nreturn parts >= [1, 10], (parts[0], parts[1]) >= (1, 10)",
        [["1.9"], ["1.10"], ["2.0.1"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TUPLES)
def test_the_order_of_tuples(name):
    check_case(TUPLES, name)


@pytest.mark.parametrize("name", LISTS)
def test_the_order_of_lists(name):
    check_case(LISTS, name)


@pytest.mark.parametrize("name", USES)
def test_where_an_order_is_used(name):
    check_case(USES, name)


def test_tuples_of_tensors_are_refused():
    function = compile_source(source_of("x: Tensor", "return (x, 1) < (x, 2)"))["f"]
    with pytest.raises(CompileError, match="no order that is a bool") as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
