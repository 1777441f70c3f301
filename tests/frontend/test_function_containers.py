"""Lists, tuples and dicts of functions, as globals and as attributes of modules, mean what they mean in Python."""

from __future__ import annotations

import functools
import operator

import pytest
import torch
import torch.nn.functional as F
from accepted_python import T34, Table, check_case, check_module

import jitlite

HEAD = """
LISTED, TUPLED = [torch.relu, inc, torch.tanh], (inc, dec)
NAMED = [("add", operator.add), ("mul", operator.mul)]
PARTIALS = (functools.partial(helper, b=3), lambda v: v * 2)
MIXED = ((inc, 2), (dec, 3))
"""

GLOBALS: Table = {
    "tuples": (
        "x: Tensor",
        "for f in TUPLED:\n  x = f(x)\nreturn x, TUPLED[1](x), TUPLED[-1](x), len(TUPLED)",
        [[T34]],
    ),
    "tuples in lists": (
        "x: Tensor",
        "for n, f in NAMED:\n  x = f(x, 2) + len(n)\nreturn x, NAMED[0][1](x, x)",
        [[T34]],
    ),
    "tuples in tuples": (
        "x: Tensor",
        "for f, n in MIXED:\n  x = f(x) * n\nreturn x, [f(x) for f, _ in MIXED]",
        [[T34]],
    ),
    "partials and lambdas": ("x: Tensor", "for f in PARTIALS:\n  x = f(x)\nreturn x, PARTIALS[0](2)", [[T34]]),
    "slices": (
        "x: Tensor",
        "for f in LISTED[1:]:\n  x = f(x)\nfor f in TUPLED[::-1]:\n  x = f(x)\nreturn x, LISTED[:1][0](x)",
        [[T34]],
    ),
    "positions of run time": (
        "x: Tensor, i: int",
        "return TUPLED[i](x), LISTED[i](x)",
        [[T34, 0], [T34, -1], [T34, 5]],
    ),
    "zip and enumerate": (
        "x: Tensor",
        "for i, (f, g) in enumerate(zip(TUPLED, LISTED)):\n  x = f(g(x)) + i\nreturn x",
        [[T34]],
    ),
}


@pytest.mark.parametrize("name", GLOBALS)
def test_globals(name):
    check_case(GLOBALS, name, head=HEAD)


def halved(x: torch.Tensor):
    return x / 2


class Net(torch.nn.Module):
    def __init__(self, steps=(torch.relu, halved), sign=1):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.sign = sign
        self.listed = list(steps)
        self.tupled = (self.linear, self.scale, functools.partial(F.leaky_relu, negative_slope=0.5))
        self.named = {"scale": self.scale, "linear": self.linear, "tanh": torch.tanh}
        self.pairs = [("add", operator.add), ("mul", operator.mul)]
        self.nested = {"first": [halved, self.scale], "second": (torch.neg,)}

    def scale(self, x: torch.Tensor):
        return x * 3 * self.sign


class Loops(Net):
    def forward(self, x: torch.Tensor):
        for step in self.listed:
            x = step(x)
        for i, step in enumerate(self.tupled):
            x = step(x) + i
        for name, step in self.named.items():
            x = step(x) + len(name)
        for _, step in self.pairs:
            x = step(x, 2)
        return x, [step(x) for step in self.tupled], len(self.listed)


class Parts(Net):
    def forward(self, x: torch.Tensor, i: int, name: str):
        for step in self.nested["first"]:
            x = step(x)
        y = self.named[name](x) if name in self.named else x
        return self.tupled[0](x), self.named["linear"](x), self.tupled[i](x), y, self.nested["second"][0](x)


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Loops(), Loops((torch.tanh,), -1)
        self.three = Loops((torch.relu, halved), -1)

    def forward(self, x: torch.Tensor):
        return self.one(x)[0], self.two(x)[0], self.three(x)[0]


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (Loops, [[T34]]),
        (Parts, [[T34, 0, "scale"], [T34, -1, "tanh"], [T34, 1, "none"]]),
        (Outer, [[T34]]),
    ],
    ids=["loops", "parts", "of several modules"],
)
def test_attributes_of_modules(make, inputs):
    check_module(make(), inputs)


def test_a_position_that_is_not_there():
    scripted = jitlite.script(Parts())
    with pytest.raises(IndexError):
        scripted(T34, 7, "scale")


def test_what_is_no_function_is_refused_where_it_is_used():
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mixed = [halved, object()]

        def forward(self, x: torch.Tensor):
            return self.mixed[1](x)

    with pytest.raises(jitlite.CompileError, match="python value of type 'object'"):
        jitlite.script(Mixed())


def test_it_is_no_value():
    class Returned(Net):
        def forward(self, x: torch.Tensor):
            return self.listed

    with pytest.raises(jitlite.CompileError, match="a list of functions cannot be used as a value"):
        jitlite.script(Returned())
