"""Weights of linear layers, laid out for products: the numbers and the layers stay."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.freeze.freeze import FrozenModule
from jitlite.ir.graph import constant_of
from jitlite.passes.lay_out_weights import lay_out_weights


class Layers(nn.Module):
    """Small layers, one of them called twice, a large one, and one in half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Linear(6, 8)
        self.twice = nn.Linear(8, 8, bias=False)
        self.large = nn.Linear(8, 16_384)
        self.narrow = nn.Linear(8, 2).to(torch.bfloat16)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.twice(torch.relu(self.twice(self.small(x))))
        return x, self.large(x).sum(-1), self.narrow(x.to(torch.bfloat16))


def weights(module: FrozenModule) -> list[Tensor]:
    found = [constant_of(n.inputs[1]) for n in module.forward.graph.all_nodes() if n.kind == "aten::linear"]
    return [weight for weight in found if isinstance(weight, Tensor)]


def test_weights_of_small_layers_are_laid_out_by_inputs():
    torch.manual_seed(0)
    module = jitlite.optimize_for_inference(jitlite.script(Layers().eval()))
    found = weights(module)
    assert [tuple(w.shape) for w in found] == [(8, 6), (8, 8), (8, 8), (16_384, 8), (2, 8)]
    assert [w.stride(0) == 1 for w in found] == [True, True, True, False, False]
    assert found[1].data_ptr() == found[2].data_ptr(), "one weight stays one"
    assert not lay_out_weights(module.forward.graph), "there is no more to do"


def test_results_and_archives_stay():
    torch.manual_seed(0)
    eager = Layers().eval()
    module = jitlite.optimize_for_inference(jitlite.script(eager))
    file = io.BytesIO()
    jitlite.save(module, file)
    for shape in ((6,), (1, 6), (5, 6), (2, 3, 6), (0, 6), (300, 6)):
        x = torch.randn(shape)
        for loaded in (module, jitlite.load(io.BytesIO(file.getvalue())), torch.jit.load(io.BytesIO(file.getvalue()))):
            for _ in range(3):
                torch.testing.assert_close(loaded(x)[:2], eager(x)[:2], rtol=1e-5, atol=1e-5)
                torch.testing.assert_close(loaded(x)[2], eager(x)[2], rtol=2e-2, atol=2e-2)


def test_a_weight_that_is_written_stays():
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(x)
            self.layer.weight.mul_(2.0)
            return y

    eager = Writes().eval().requires_grad_(False)
    module = jitlite.optimize_for_inference(jitlite.script(copy.deepcopy(eager)))
    x = torch.randn(2, 3)
    torch.testing.assert_close(module(x), eager(x))
    torch.testing.assert_close(module(x), eager(x))


class Shared(nn.Module):
    """A weight that a layer shares with another use: that it is seen, an embedding, a product, a view of itself."""

    def __init__(self, use: str) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.tied = nn.Linear(6, 6)
        self.tied.weight = self.layer.weight
        self.use = use

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.tied(self.layer(x))
        weight = self.layer.weight
        if self.use == "embedding":
            return y, nn.functional.embedding(torch.arange(3), weight)
        if self.use == "product":
            return y, y @ weight
        if self.use == "view":
            return y, weight.view(-1)
        return y, weight


@pytest.mark.parametrize("use", ["embedding", "product", "view", "result"])
def test_a_weight_that_something_else_uses_stays(use):
    torch.manual_seed(0)
    eager = Shared(use).eval()
    module = jitlite.optimize_for_inference(jitlite.script(eager))
    assert [w.stride(0) for w in weights(module)] == [6, 6]
    buffer = io.BytesIO()
    jitlite.save(module, buffer)
    x = torch.randn(2, 6)
    for read in (jitlite.load, torch.jit.load):
        buffer.seek(0)
        loaded = read(buffer)
        for _ in range(3):
            for wanted, got in zip(eager(x), loaded(x), strict=True):
                torch.testing.assert_close(got, wanted)
                assert got.stride() == wanted.stride()
