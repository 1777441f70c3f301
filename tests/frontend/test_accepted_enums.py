"""Enum classes as values, and what their members have, mean what they mean in eager Python."""

from __future__ import annotations

import pytest
import torch
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite

HEAD = """
from enum import Flag, IntEnum

class Mode(Enum):
    A = "a"
    B = "b"
    FIRST = "a"

    @property
    def upper(self):
        return self.value.upper()

    def describe(self, n: int) -> str:
        return self.name + str(n)

    def other(self) -> "Mode":
        return Mode.B if self == Mode.A else Mode.A

    @staticmethod
    def default() -> "Mode":
        return Mode.A

    @classmethod
    def parse(cls, text: str) -> "Mode":
        return cls(text)

class Level(IntEnum):
    LOW = 1
    HIGH = 7

    def twice(self):
        return self * 2

    @staticmethod
    def scaled(n: int):
        return n * 3

class Name(str, Enum):
    X = "x"
    Y = "y"

class Planet(Enum):
    EARTH = (1, 2.0)
    MARS = (3, 4.0)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius

    def weight(self, n: float) -> float:
        return n * self.mass / self.radius

class Bits(Flag):
    A = 1
    B = 2

def count(cls):
    return len(cls), [m.name for m in cls]
"""

CLASSES: Table = {
    "members in order": (
        "n: int",
        "r = 0\nfor i, m in enumerate(Level):\n  r += i * m.value\n"
        "return r, len(Mode), [m.name for m in Mode], list(Level)[1].name, [a + m for a, m in zip([1, 2], Level)]",
        [[1]],
    ),
    "by name": ("s: str", "return Mode['B'].value, Mode[s].value, Level['HIGH'] + 1", [["A"], ["B"], ["FIRST"], ["C"]]),
    "by value": (
        "s: str, n: int",
        "return Mode(s).name, Level(n).name, Mode('b').value, Name(s.replace('a', 'x')).name, Level(Level.LOW).name",
        [["a", 1], ["b", 7], ["a", 2], ["q", 1]],
    ),
    "of no member": ("n: int", "return Mode(n).name", [[1]]),
    "by name of no member": ("n: int", "return Mode['Q'].value", [[1]]),
    "members": (
        "m: str",
        "return list(Mode.__members__.keys()), m in Mode.__members__, Mode(m) in Mode, isinstance(Mode(m), Mode)",
        [["a"], ["b"]],
    ),
    "passed to a function": ("n: int", "return count(Level), count(Mode)", [[1]]),
    "match": ("s: str", "match Mode(s):\n  case Mode.A:\n    return 1\n  case _:\n    return 2", [["a"], ["b"], ["c"]]),
}

MEMBERS: Table = {
    "properties and methods": (
        "s: str, n: int",
        "m = Mode(s)\nreturn m.upper, m.describe(n), m.other().name, Mode.A.upper, [k.describe(n) for k in Mode]",
        [["a", 3], ["b", 4]],
    ),
    "functions of the class": (
        "s: str, n: int",
        "return Mode.default().name, Mode.parse(s).name, Level.scaled(n), Mode.describe(Mode.B, n), "
        "Mode(s).default().name",
        [["a", 3], ["b", 4], ["c", 4]],
    ),
    "given by __init__": (
        "s: str, v: float",
        "p = Planet[s]\nreturn p.mass, p.radius, p.weight(v), Planet.EARTH.mass, p.value[0]",
        [["EARTH", 3.0], ["MARS", 1.0]],
    ),
    "ints": (
        "x: Tensor, n: int",
        "return Level.HIGH.twice(), Level.LOW + n, n - Level.HIGH, x[Level.LOW], "
        "Level.LOW < Level.HIGH, n == Level.LOW",
        [[T34, 1]],
    ),
    "that may be None": (
        "n: int, x: Optional[int], s: Optional[str]",
        "m: Optional[Mode] = None\nif n > 1:\n  m = Mode.B\n"
        "return m == Mode.B, m != Mode.A, x == n, x != n, 1 == x, s == 'a', x == x",
        [[1, 1, "a"], [2, None, None], [3, 2, "b"]],
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    check_case(CLASSES, name, head=HEAD)


@pytest.mark.parametrize("name", MEMBERS)
def test_members(name):
    check_case(MEMBERS, name, head=HEAD)


def test_a_member_is_an_argument():
    namespace = compile_source(source_of("m: Mode, n: int", "return m.upper, m.describe(n), m.other()", HEAD))
    for member in namespace["Mode"]:
        assert jitlite.script(namespace["f"])(member, 2) == namespace["f"](member, 2)


REFUSED = {
    "Bits(n)": "which member of 'Bits' a value means is computed by its class",
    "Mode(n, 1)": "takes the value of a member",
    "Mode.C": "has no attribute 'C'",
    "Mode[n]": "not subscriptable",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused(expression):
    source = source_of("n: int", f"return {expression}", HEAD)
    with pytest.raises(jitlite.CompileError, match=REFUSED[expression]) as raised:
        jitlite.script(compile_source(source)["f"])
    assert "HERE" in str(raised.value)


def test_a_class_of_a_module():
    namespace = compile_source(source_of("n: int", "return n", HEAD))
    mode = namespace["Mode"]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mode = mode.B

        def forward(self, x: torch.Tensor):
            return x + 1 if self.mode.upper == "B" else x

    assert jitlite.script(Net())(torch.ones(1)) == 2
