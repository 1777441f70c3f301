"""Enums and named tuples that are defined inside a function are the same type wherever they are met."""

import enum
from typing import NamedTuple

import torch

import jitlite


def test_in_annotations_constants_and_attributes():
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    class Painted(NamedTuple):
        size: int
        color: Color

    def paint(color: Color, old: Painted):
        new = Painted(1, Color.RED)
        if color == Color.RED:
            new = old
        return new, Color.BLUE

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = Painted(0, Color.RED)

        def forward(self, color: Color):
            self.last = Painted(self.last.size + 1, color)
            return self.last

    assert jitlite.script(paint)(Color.RED, Painted(3, Color.BLUE)) == (Painted(3, Color.BLUE), Color.BLUE)
    scripted = jitlite.script(Model())
    assert scripted(Color.BLUE) == Painted(1, Color.BLUE) and scripted.last.size == 1


def test_a_local_class_named_by_a_string_is_found_in_methods_of_modules():
    class Uses(torch.nn.Module):
        def forward(self, p: "Local") -> int:  # noqa: F821 - defined behind
            return p.n

    class Local:  # no variable of `forward`, whose annotation is a string
        def __init__(self, n: int):
            self.n = n

    assert jitlite.script(Uses())(Local(3)) == 3


def test_annotate_in_init_says_the_type_of_an_attribute():
    class Keeps(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = jitlite.annotate(list[int], [])
            self.last = jitlite.annotate(str | None, None)

        def forward(self, xs: list[int]):
            self.seen = xs
            self.last = "set"
            return self.seen

    scripted = jitlite.script(Keeps())
    assert scripted([1, 2]) == [1, 2] and scripted.last == "set"
