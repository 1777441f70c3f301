"""`next` of a generator expression, and of what `iter` gives, is the first element, as in Python."""

from __future__ import annotations

import pytest
import torch
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

NEXT: Table = {
    "with a default": (
        "xs: List[int]",
        "return next((x for x in xs if x > 3), -1), next(iter(xs), 0), next((x > 2 for x in xs), True)",
        [[[1, 5]], [[]]],
    ),
    "with None": (
        "xs: List[int]",
        "v = next((x for x in xs if x > 3), None)\nreturn 0 if v is None else v",
        [[[1, 5]], [[]]],
    ),
    "without": ("xs: List[int]", "return next(i for i, x in enumerate(xs) if x > 3)", [[[1, 5, 7]], [[1]], [[]]]),
    "of a dict": (
        "d: Dict[str, int]",
        "return next(iter(d)), next(iter(d.values())), next(iter(d.items()))",
        [[{"a": 1, "b": 2}], [{}]],
    ),
    "later elements are not computed": (
        "xs: List[int]",
        "return next((10 // x for x in xs), -1)",
        [[[1, 0]], [[0, 1]]],
    ),
    "of tuples and tensors": (
        "x: Tensor",
        "return next(iter((x, x + 1))), next((y for y in (x, x + 1) if y.sum() > 70), x), next(iter(x))"
        ", next(iter(()), 3)",
        [[T34], [torch.zeros(0)]],
    ),
    "in a loop": (
        "xs: List[int]",
        "t = 0\nfor i in range(3):\n t += next((x for x in xs if x > i), 100)\nreturn t",
        [[[1, 5]], [[]]],
    ),
    "the default comes first": (
        "xs: List[int]",
        "def bump(k: int):\n xs.append(k)\n return k\nreturn next((x for x in xs if x > 2), bump(3)), xs",
        [[[1, 5]], [[]]],
    ),
    "only where it is asked for": (
        "xs: List[int], a: bool",
        "return a or next(x for x in xs) > 2",
        [[[], True], [[], False], [[3], False]],
    ),
}


@pytest.mark.parametrize("name", NEXT)
def test_next_is_the_first_element(name):
    check_case(NEXT, name)


@pytest.mark.parametrize(
    "body", ["it = iter(xs)\nreturn next(it)", "return next(xs)", "return next(iter((1, 'a')), 2)"]
)
def test_iterators_that_are_kept_are_refused(body):
    function = compile_source(source_of("xs: List[int]", body))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
