"""Special methods of named tuples: each operator and function of Python asks them, or the class is refused."""

from __future__ import annotations

import pytest
from accepted_python import WAYS
from strategies import compile_source

import jitlite
from jitlite.base import options
from jitlite.base.source import CompileError

HEAD = """
from typing import *

class V(NamedTuple):
    x: int
    y: int = 2

    def __len__(self):
        return 7

    def __add__(self, other):
        return V(self.x + other.x, self.y + other.y)

    def __eq__(self, other):
        return self.x == other.x

    def __bool__(self):
        return self.x > 0

    def __contains__(self, v):
        return v == self.y

    def __neg__(self):
        return V(-self.x, -self.y)

    def __mul__(self, k):
        return V(self.x * k, self.y * k)

    def __rmul__(self, k):
        return V(self.x * k * 10, self.y * k)

    def __lt__(self, other):
        return self.x < other.x

    def __int__(self):
        return self.x

    def __abs__(self):
        return V(abs(self.x), abs(self.y))

class Empty(NamedTuple):
    x: int

    def __len__(self):
        return 0

class Plain(NamedTuple):
    x: int
    y: int = 2

class Iterated(NamedTuple):
    x: int

    def __iter__(self):
        return iter([1])

class Indexed(NamedTuple):
    x: int

    def __getitem__(self, i):
        return 5
"""

BODIES = {
    "length": "return len(V(n)), len(Empty(n))",
    "operators": "return V(n) + V(1), V(n) * 3, 3 * V(n), -V(n), Plain(n) + Plain(1)",
    "comparisons": "return V(n) == V(n, 5), V(n) != V(n, 5), V(n) < V(1), V(n) > V(1), Plain(n) == Plain(n)",
    "truth": "return 1 if V(n) else 2, not V(n), bool(V(n)), bool(Empty(n)), not Empty(n), bool(Plain(n))",
    "membership": "return n in V(n), 2 in V(n), n in Plain(n), 7 not in V(n)",
    "functions": "return int(V(n)), abs(V(-n))",
    "in place": "v = V(n)\n    w = v\n    v += V(1)\n    return v, w",
}


@pytest.mark.parametrize("name", BODIES)
def test_special_methods_are_asked(name):
    function = compile_source(f"{HEAD}\ndef f(n: int):\n    {BODIES[name]}\n")["f"]
    for changes in WAYS:
        with options.override(**changes):
            compiled = jitlite.script(function)
            for n in (0, 3, -2):
                assert repr(compiled(n)) == repr(function(n)), (changes, n)


@pytest.mark.parametrize("cls", ["Iterated", "Indexed"])
def test_what_changes_the_fields_is_refused(cls):
    function = compile_source(f"{HEAD}\ndef f(n: int):\n    return {cls}(n)\n")["f"]
    with pytest.raises(CompileError, match="the named tuple .* defines") as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
