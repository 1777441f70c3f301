"""Reads of attributes stand in front of operators, and not in front of what sets them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.base import options
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[m for _ in range(3) for m in (nn.Linear(4, 4), nn.ReLU(inplace=True))])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Counting(nn.Module):
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.scale + 1.0
        self.scale = self.scale + y.sum()
        y = y * self.scale - 1.0
        for _ in range(2):
            y = y * self.scale + 0.5
            self.scale = self.scale * 0.5 + 1.0
        return y * self.scale + self.scale


class Asking(nn.Module):
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(3))

    @torch.jit.ignore
    def change(self) -> None:
        self.scale = torch.full((3,), 5.0)

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.scale + 1.0
        self.change()
        return y * self.scale + 1.0


class Choosing(nn.Module):
    scale: Tensor
    other: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(3))
        self.register_buffer("other", torch.full((3,), 2.0))

    def forward(self, x: Tensor, sets: bool) -> Tensor:
        y = x * self.scale + 1.0
        if sets:
            self.other = self.other + y
        z = y * self.other + 1.0
        return z * self.scale + self.other


def kernels_of(module: nn.Module, *arguments: object) -> list[object]:
    scripted = jitlite.script(module)
    with torch.no_grad():
        return list(scripted.forward.kernels.compile(*arguments))


def test_layers_of_a_module_are_one_kernel():
    assert len(kernels_of(Layers(), torch.randn(2, 4))) == 1


@pytest.mark.parametrize(
    ("make", "rest"), [(Layers, ()), (Counting, ()), (Asking, ()), (Choosing, (True,)), (Choosing, (False,))]
)
def test_what_is_read_is_what_stands_there_then(make, rest):
    torch.manual_seed(0)
    eager = make()
    torch.manual_seed(0)
    with options.override(native="now"), torch.no_grad():
        scripted = jitlite.script(make())
        for _ in range(3):
            x = torch.randn(2, 4) if make is Layers else torch.randn(3)
            torch.testing.assert_close(scripted(x, *rest), eager(x, *rest))
            for (name, ours), (_, theirs) in zip(scripted.named_buffers(), eager.named_buffers(), strict=True):
                torch.testing.assert_close(ours, theirs, msg=name)
