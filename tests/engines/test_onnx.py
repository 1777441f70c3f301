"""Operators as ONNX, run by onnxruntime, beside eager: for several sizes with one compilation each."""

from __future__ import annotations

import re

import pytest
import torch
from engine_cases import CASES, DECIDED_BY_SIZES, LATER, Calls
from torch import nn

import jitlite

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


ALL = {**CASES, **LATER}


@pytest.mark.parametrize("name", ALL)
def test_an_operator(name):
    f, make = ALL[name]
    model = Calls(f).eval()
    first = make(4)
    varying = {n: [0] for n, _ in zip("xy", first, strict=False)}
    fast = jitlite.optimize(model, first, engine=_small(), dynamic_shapes=varying)
    for n in (4, 2, 6):
        args = make(n)
        torch.testing.assert_close(fast(*args), model(*args), rtol=1e-4, atol=1e-5, equal_nan=True)
    told = fast.explain()
    assert fast.counters.compiled and not fast.counters.fallbacks, told
    assert name in DECIDED_BY_SIZES or "the model as it was" not in told, told


def _small() -> object:
    from jitlite.engines.onnx.runtime import OnnxRuntime

    class Small(OnnxRuntime):
        least = 1

    return Small()


def test_transformer_encoder():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    fast = jitlite.optimize(model, torch.randn(2, 5, 16), engine="onnxruntime", dynamic_shapes={"src": [0]})
    with torch.no_grad():
        for n in (2, 3, 7):
            x = torch.randn(n, 5, 16)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert fast.counters.compiled and not fast.counters.fallbacks, fast.explain()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True, bidirectional=True)
        self.cell = nn.GRUCell(12, 12)

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        state = torch.zeros(x.size(0), 12)
        for i in range(3):
            state = self.cell(y[:, i], state)
        return state, h


def test_recurrent_layers():
    """They are recorded as the operators that they are made of, for all sizes of the batch."""
    torch.manual_seed(0)
    model = Recurrent().eval()
    fast = jitlite.optimize(model, torch.randn(3, 3, 4), engine="onnxruntime", dynamic_shapes={"x": [0]})
    with torch.no_grad():
        for n in (3, 2, 5, 8, 4):
            x = torch.randn(n, 3, 4)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    told = fast.explain()
    inside, everything = map(int, re.search(r"(\d+) of (\d+) operators on tensors", told).groups())
    assert not fast.counters.fallbacks and "the model as it was" not in told, told
    assert inside >= 0.95 * everything and fast.counters.compiled <= 3, told


@pytest.mark.parametrize("name", ["x // y", "x % y", "fmod"])
def test_division_of_ints_by_zero_raises_what_eager_raises(name):
    f = {"x // y": lambda x, y: x // y, "x % y": lambda x, y: x % y, "fmod": torch.fmod}[name]
    x, y = torch.arange(4), torch.tensor([1, 2, 3, 4])
    fast = jitlite.optimize(Calls(f).eval(), (x, y), engine=_small())
    assert torch.equal(fast(x, y), f(x, y))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fast(x, y - 1)
    assert torch.equal(fast(x, y), f(x, y))
