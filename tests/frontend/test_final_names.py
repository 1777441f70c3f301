"""`Final` marks constants of modules by whatever name a module knows it, also where annotations are not evaluated."""

from __future__ import annotations

import typing
from typing import Final
from typing import Final as Fixed

import pytest
import torch
from torch import nn

import jitlite


class Plain(nn.Module):
    k: Final[int]

    def __init__(self, k: int = 3) -> None:
        super().__init__()
        self.k = k

    def forward(self, x):
        return x if self.k > 5 else x * self.k


class OfTyping(Plain):
    k: typing.Final[int]


class OfTorch(Plain):
    k: torch.jit.Final[int]


class OfJitlite(Plain):
    k: jitlite.Final[int]


class Renamed(Plain):
    k: Fixed[int]


class Bare(Plain):
    k: Fixed


class Quoted(Plain):
    k: "Final[int]"


@pytest.mark.parametrize("cls", [Plain, OfTyping, OfTorch, OfJitlite, Renamed, Bare, Quoted])
def test_final_is_known_by_any_name(cls):
    module = jitlite.script(cls())
    assert torch.equal(module(torch.ones(2)), torch.full((2,), 3.0))
    assert "prim::If" not in str(module.inlined_graph), "a constant decides the branch"


def test_other_names_that_end_alike_are_no_final():
    class Finalist(nn.Module):
        k: List[int]  # noqa: F821

        def __init__(self) -> None:
            super().__init__()
            self.k = [1]

        def forward(self, x):
            self.k.append(2)
            return x * len(self.k)

    assert torch.equal(jitlite.script(Finalist())(torch.ones(2)), torch.full((2,), 2.0))
