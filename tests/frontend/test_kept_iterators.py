"""Iterators in variables are gone through once, as Python's are, or refused."""

from __future__ import annotations

import pytest
import torch
from strategies import compile_source

import jitlite

HEAD = "import itertools\ndef f(xs: List[int], n: int):\n    "

ITERATORS = [
    "zip(xs, xs)", "enumerate(xs)", "map(lambda v: (v, v), xs)", "filter(lambda v: v[0] > 1, [(x, x) for x in xs])",
    "reversed([(x, x) for x in xs])", "((x, x) for x in xs)", "itertools.pairwise(xs)", "itertools.product(xs, xs)",
    "itertools.chain([(x, x) for x in xs], [(1, 2)])", "itertools.chain.from_iterable([[(x, x)] for x in xs])",
]  # fmt: skip

TWICE = {
    "loops one after the other": ("for a, b in z: n += a\nfor a, b in z: n += 100 * b\nreturn n", "in line 4 already"),
    "lists": ("return list(z), list(z)", "in line 4 already"),
    "within a loop": ("for _ in range(2):\n  for a, b in z: n += a + b\nreturn n", "in a loop"),
    "within a while": ("while n > 0:\n  n -= len(list(z)) + 1\nreturn n", "in a loop"),
    "within a comprehension": ("return [a for _ in range(2) for a, b in z]", "in a loop"),
    "in a branch and behind it": ("if n > 1:\n  n += len(list(z))\nreturn n + len(list(z))", "in line 5 already"),
    "after a break": ("for a, b in z:\n  n += a\n  break\nreturn n + len(list(z))", "in line 4 already"),
    "by another name": ("y = z\nn += len(list(y))\nreturn n + len(list(z))", "in line 5 already"),
}

ONCE = {
    "once": "for a, b in z: n += a\nreturn n",
    "in either branch": "if n > 1:\n  n += len(list(z))\nelse:\n  n -= len(list(z))\nreturn n",
    "in one that returns": "if n > 1:\n  return len(list(z))\nreturn n - len(list(z))",
    "made anew in a loop": "for i in range(2):\n  y = zip(xs, xs)\n  for a, b in y: n += a\nz = 1\nreturn n + z + z",
    "made anew": "for a, b in z: n += a\nz = zip(xs, xs)\nfor a, b in z: n += b\nreturn n",
    "by another name": "y = z\nreturn len(list(y))",
    "by its own name": "y = z\nreturn len(list(z))",
    "as a list": "y = list(z)\nreturn len(y) + len(y)",
}


def function_of(iterator, body):
    return compile_source(HEAD + "\n    ".join([f"z = {iterator}", *body.split("\n")]))["f"]


@pytest.mark.parametrize("what", TWICE)
@pytest.mark.parametrize("iterator", ITERATORS)
def test_a_second_time_is_refused(iterator, what):
    body, told = TWICE[what]
    with pytest.raises(jitlite.CompileError, match=f"the iterator z is gone through {told}") as info:
        jitlite.script(function_of(iterator, body))
    assert info.value.hint == "keep a list: z = list(...)"


@pytest.mark.parametrize("what", ONCE)
@pytest.mark.parametrize("iterator", ITERATORS[:6])
def test_once_on_each_way_is_what_python_does(iterator, what):
    if what == "made anew" and not iterator.startswith("zip"):
        return  # a variable keeps the kind of what it holds
    function = function_of(iterator, ONCE[what])
    script = jitlite.script(function)
    for xs, n in (([1, 2, 3], 2), ([], 0), ([5], 5)):
        assert script(xs, n) == function(xs, n)


def test_a_range_and_a_list_are_no_iterators():
    @jitlite.script
    def f(xs: list[int], x: torch.Tensor):
        r = range(len(xs))
        total = 0
        for i in r:
            for j in r:
                total += i * j
        doubled = [v * 2 for v in xs]
        return total + len(doubled) + len(doubled)

    assert f([1, 2, 3], torch.ones(1)) == 15
