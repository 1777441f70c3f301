"""Modules whose submodules have several names are looked at once each, also where they want another in their place."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import jitlite

LEVELS = 60


class Pair(nn.Module):
    def __init__(self, child: nn.Module) -> None:
        super().__init__()
        self.a = child
        self.b = child

    def forward(self, x: Tensor) -> Tensor:
        return x


class AddsOne(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class WantsAnother(nn.Module):
    asked = 0

    def __prepare_scriptable__(self) -> nn.Module:
        WantsAnother.asked += 1
        return AddsOne()


def test_a_submodule_with_two_names_on_every_level():
    module: nn.Module = AddsOne()
    for _ in range(LEVELS):
        module = Pair(module)
    scripted = jitlite.script(module)
    assert sum(1 for _ in scripted.modules()) == LEVELS + 1
    assert torch.equal(scripted(torch.ones(2)), torch.ones(2))


def test_what_has_two_names_is_asked_once_and_stays_one_object():
    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = self.second = WantsAnother()

        def forward(self, x: Tensor) -> Tensor:
            return self.first(x) + self.second(x)

    WantsAnother.asked = 0
    scripted = jitlite.script(Calls())
    assert WantsAnother.asked == 1
    assert scripted.first is scripted.second
    assert torch.equal(scripted(torch.ones(2)), torch.full((2,), 4.0))
