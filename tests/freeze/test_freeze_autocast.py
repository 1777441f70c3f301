"""Layers under autocast keep what follows them: their results are rounded, and of another dtype, before that."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import jitlite

X = torch.linspace(-1, 1, 2 * 3 * 6 * 6).view(2, 3, 6, 6)


class Cast(nn.Module):
    """Autocast around a layer and what follows; the end of one block before another one begins."""

    def __init__(self, layer: nn.Module, norm: nn.Module, follows: str) -> None:
        super().__init__()
        self.layer, self.norm, self.follows = layer, norm, follows
        self.register_buffer("constant", torch.full((4, 1, 1) if isinstance(layer, nn.Conv2d) else (4,), 1.001))

    def after(self, x: Tensor) -> Tensor:
        if self.follows == "norm":
            return self.norm(x)
        if self.follows == "add":
            return x + self.constant
        if self.follows == "mul":
            return x * self.constant
        return x / self.constant

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = x + 0
        with torch.autocast("cpu", dtype=torch.bfloat16):
            if x.dim() > 1:
                x = self.after(self.layer(x))
        return x


class Outside(Cast):
    """The same after a block of autocast."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = x + 0
        return self.after(self.layer(x))


def model(cls: type[Cast], kind: str, follows: str) -> Cast:
    torch.manual_seed(0)
    if kind == "conv":
        return cls(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), follows).eval()
    return cls(nn.Linear(6, 4), nn.BatchNorm2d(3), follows).eval()


@pytest.mark.parametrize("follows", ["norm", "add", "mul", "div"])
@pytest.mark.parametrize("kind", ["conv", "linear"])
@pytest.mark.parametrize("how", ["script", "trace"])
def test_under_autocast_nothing_is_folded(how, kind, follows):
    eager = model(Cast, kind, follows)
    with torch.no_grad():
        made = jitlite.script(eager) if how == "script" else jitlite.trace(eager, X)
        frozen, expected = jitlite.freeze(made), eager(X)
        assert frozen(X).dtype == expected.dtype
        assert torch.equal(frozen(X), expected)


@pytest.mark.parametrize("follows", ["norm", "add", "mul", "div"])
def test_after_autocast_it_is_folded(follows):
    eager = model(Outside, "conv", follows)
    frozen = jitlite.freeze(jitlite.script(eager))
    assert "_fused_" in str(frozen.graph)
    torch.testing.assert_close(frozen(X), eager(X))


def test_a_trace_made_under_autocast_keeps_its_rounding():
    eager = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        frozen, expected = jitlite.freeze(jitlite.trace(eager, X)), eager(X)
    assert torch.equal(frozen(X), expected)
