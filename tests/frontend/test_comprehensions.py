"""Comprehensions with conditions and several loops, beside eager Python."""

from __future__ import annotations

import io
from typing import Dict, List, Optional  # noqa: UP035

import pytest
import torch
from torch import nn

import jitlite


def conditions(xs: List[int], n: int):
    x = 7
    found = [x * 2 for x in xs if x % 2 == 0 if x > n]
    return found, x, sum([i for i in xs if i > 1]), [i for i in xs if i > 100]


def several_loops(xs: List[int], n: int):
    i = 9
    pairs = [(i, j) for i in range(n) if i for j in range(i) if (i + j) % 2 == 1]
    return pairs, i, [x + k for x in xs for k in [x, n] for x in range(k)]


def dicts(xs: List[int], n: int):
    return {x: [y for y in xs if y != x] for x in xs if x > n}, {x: k for x in xs for k in range(x)}


def in_a_nested_function(xs: List[int], n: int):
    x = 3

    def f(m: int):
        return [x + y for x in xs for y in range(m) if x != n]

    return f(2), x


def generators(xs: List[int], n: int):
    return any(x > n for x in xs if x != 2), all(x > n for x in xs if x > n)


def raising(xs: List[int], n: int):
    return [10 // x for x in xs if x != 0], [n // x for x in xs if x != n]


@pytest.mark.parametrize("f", [conditions, several_loops, dicts, in_a_nested_function, generators, raising])
@pytest.mark.parametrize("args", [([1, 2, 4, 6], 3), ([], 2), ([2, 2, 5], 2), ([3, 1], -1)])
def test_values_are_those_of_python(f, args):
    assert jitlite.script(f)(*args) == f(*args)


def test_exceptions_of_conditions_are_those_of_python():
    def f(xs: List[int]):
        return [x for x in xs if 6 // x > 1]

    scripted = jitlite.script(f)
    assert scripted([1, 5]) == f([1, 5])
    with pytest.raises(ZeroDivisionError):
        scripted([1, 0])


def test_a_condition_refines():
    def f(xs: List[Optional[int]], d: Dict[str, Optional[int]]):
        return [x + 1 for x in xs if x is not None], {k: v * 2 for k, v in d.items() if v is not None}

    args = ([1, None, 3], {"a": None, "b": 2})
    assert jitlite.script(f)(*args) == f(*args)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 3)])

    def forward(self, x, skip: int):
        linear = [layer.weight for layer in self.layers if isinstance(layer, nn.Linear)]
        return linear, [layer(x) for i, layer in enumerate(self.layers) if i != skip]


def test_a_loop_over_modules_with_a_condition():
    module, x = Layers(), torch.ones(1, 2)
    scripted = jitlite.script(module)
    buffer = io.BytesIO()
    jitlite.save(scripted, buffer)
    for loaded in (scripted, jitlite.load(io.BytesIO(buffer.getvalue()))):
        for skip in range(3):
            torch.testing.assert_close(loaded(x, skip), module(x, skip))


def test_elements_of_several_types_are_refused_with_the_place():
    def f(xs: List[int]):
        found: List[str] = [x for x in xs if x]
        return found

    with pytest.raises(jitlite.CompileError, match=r"List type annotation `List\[str\]` did not match"):
        jitlite.script(f)
