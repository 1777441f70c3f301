"""Whole models on engines: nearly all that computes is in groups, results are those of eager, one compilation does for
all batch sizes.

Weights are random and images small, nothing is downloaded. A model takes up to some minutes, most of them for what the
engine compiles.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial

import pytest
import torch
from engine_checks import PACKAGES, assert_engine_computed, need, share_of
from torch import Tensor, nn

import jitlite

pytestmark = pytest.mark.slow

BATCHES = (2, 3, 5, 8, 17)
LEAST_SHARE = 0.95
MOST_ERROR = 1e-4


class Recurrent(nn.Module):
    """Two recurrent layers, and a linear one for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(6, 8, 2, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.layers(x)[0])


class Decoder(nn.Module):
    """A gated recurrent unit that takes the likeliest token of each step, until all sequences have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.of_token = nn.Linear(4, 24)
        self.of_state = nn.Linear(8, 24)
        self.out = nn.Linear(8, 7)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        token = torch.zeros(x.size(0), dtype=torch.int64)
        total = torch.zeros(x.size(0))
        steps = 0
        state = x + 0
        while steps < 12 and bool((token != 3).any()):
            new, old = self.of_token(self.embedding(token)).chunk(3, 1), self.of_state(state).chunk(3, 1)
            reset, update = torch.sigmoid(new[0] + old[0]), torch.sigmoid(new[1] + old[1])
            state = (1 - update) * torch.tanh(new[2] + reset * old[2]) + update * state
            best, token = self.out(state).log_softmax(-1).max(1)
            total = total + best
            steps += 1
        return state, total


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)


def of_torchvision(name: str) -> Callable[[], nn.Module]:
    """Makes a model of torchvision with random weights."""

    def make() -> nn.Module:
        if importlib.util.find_spec("torchvision") is None:
            pytest.skip("torchvision is not installed: pip install torchvision")
        made: nn.Module = getattr(importlib.import_module("torchvision.models"), name)(weights=None)
        return made

    return make


def fewer_layers(name: str) -> nn.Module:
    """A model of torchvision as large ones are made, with few layers and channels, which IREE compiles in time."""
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed: pip install torchvision")
    if name == "densenet":
        return models.DenseNet(8, (2, 2, 2), 16, 2, 0, 10)
    if name == "vit":
        made = models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)
        nn.init.normal_(made.heads.head.weight)  # zeros at first
        return made
    blocks = [
        models.efficientnet.MBConvConfig(4, k, s, a, b, 1, 1.0, 1.0) for k, s, a, b in ((3, 1, 8, 8), (5, 2, 8, 16))
    ]
    return models.EfficientNet(blocks, 0.2, num_classes=10)


IMAGE = (3, 32, 32)
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet18": (of_torchvision("resnet18"), IMAGE),
    "mobilenet_v3_small": (of_torchvision("mobilenet_v3_small"), IMAGE),
    "efficientnet": (partial(fewer_layers, "efficientnet"), IMAGE),
    "densenet": (partial(fewer_layers, "densenet"), IMAGE),
    "vit": (partial(fewer_layers, "vit"), IMAGE),
    "lstm": (Recurrent, (5, 6)),
    "decoder": (Decoder, (8,)),
    "encoder": (encoder, (7, 16)),
}


@pytest.mark.parametrize("engine", PACKAGES)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_in_groups_right_and_compiled_once(name, engine):
    need(engine)
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    parameter = "src" if name == "encoder" else "x"
    with torch.no_grad():
        fast = jitlite.optimize(model, torch.randn(3, *shape), engine=engine, dynamic_shapes={parameter: [0]})
        errors = {batch: largest_difference(fast, model, torch.randn(batch, *shape)) for batch in BATCHES}
    assert_engine_computed(fast, LEAST_SHARE, most_compiled=share_of(fast).groups)
    assert max(errors.values()) <= MOST_ERROR, errors


def largest_difference(fast: Callable[[Tensor], object], model: nn.Module, x: Tensor) -> float:
    """Between what an engine and what eager makes of an argument; tensors of the same shapes are asked for.

    Random weights make some models give tiny numbers, so it is a part of the largest one where that is less than 1.
    """
    found, wanted = fast(x), model(x)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    differences = [0.0]
    for one, other in pairs:
        assert one.shape == other.shape and one.dtype == other.dtype
        differences.append((one - other).abs().max().item() / min(other.abs().max().item(), 1.0))
    return max(differences)
