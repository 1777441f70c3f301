"""Methods marked with `export` beside recorded ones: both are of one object, with the signatures that each has."""

from __future__ import annotations

import copy
import io
from typing import List, Optional, Tuple

import pytest
import torch
from torch import Tensor, nn

import jitlite

X, MASK = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 1.0])


class Layer(nn.Module):
    """Its recording takes one tensor, its source two; objects that look the same differ in their numbers."""

    sizes: List[int]

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))
        self.sizes = (1, 2)  # type: ignore[assignment]  # a tuple for a list, as torch's convolutions have it

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tuple[Tensor, Optional[Tensor]]:
        if mask is not None:
            x = x * mask
        return x * self.weight + len(self.sizes), mask


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(2.0), Layer(3.0)])
        self.unused = nn.AvgPool1d(1)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        for layer in self.layers:
            x, mask = layer(x, mask)
        return x

    @torch.jit.export
    def masked(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        for layer in self.layers:
            x, mask = layer(x, mask)
        return x

    @torch.jit.export
    def of_forward(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        return self.forward(x, mask) + 1

    @torch.jit.export
    def of_fork(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        return jitlite.wait(jitlite.fork(self.forward, x, mask))

    @torch.jit.export
    def unrecorded(self, x: Tensor) -> Tensor:
        return self.unused(x[None])[0] + x


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) * 2


CALLS = [
    ("forward", (X,)), ("masked", (X, MASK)), ("masked", (X, None)), ("of_forward", (X, MASK)), ("of_fork", (X, MASK)),
    ("unrecorded", (X,)),
]  # fmt: skip
ROADS = {
    "as it is": lambda m: m,
    "copied": copy.deepcopy,
    "saved": lambda m: jitlite.load(io.BytesIO(m.save_to_buffer())),
    "saved for torch": lambda m: torch.jit.load(io.BytesIO(m.save_to_buffer())),
    "saved twice": lambda m: jitlite.load(io.BytesIO(jitlite.load(io.BytesIO(m.save_to_buffer())).save_to_buffer())),
    "frozen": lambda m: jitlite.freeze(m.eval(), ["masked", "of_forward", "of_fork", "unrecorded"]),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name, arguments", CALLS)
def test_exported_methods_do_what_the_source_does(name, arguments, road):
    eager = Net()
    made = ROADS[road](jitlite.trace(eager, (X,)))
    torch.testing.assert_close(getattr(made, name)(*arguments), getattr(eager, name)(*arguments))


@pytest.mark.parametrize("road", [r for r in ROADS if r != "frozen"])
def test_exported_methods_of_submodules(road):
    eager = Outer()
    made = ROADS[road](jitlite.trace(eager, (X,)))
    torch.testing.assert_close(made(X), eager(X))
    torch.testing.assert_close(made.net.masked(X, MASK), eager.net.masked(X, MASK))
    torch.testing.assert_close(made.net.of_forward(X, MASK), eager.net.of_forward(X, MASK))


def test_each_layer_keeps_its_own_weight_after_training():
    eager = Net()
    made = jitlite.trace(eager, (X,))
    with torch.no_grad():
        made.layers[1].weight.fill_(5.0)
    for name, arguments in CALLS:
        torch.testing.assert_close(getattr(made, name)(*arguments), getattr(eager, name)(*arguments))
