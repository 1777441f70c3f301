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
