"""Operators as ONNX, run by onnxruntime, beside eager: for several sizes with one compilation each."""

from __future__ import annotations

import pytest
import torch
from engine_cases import CASES, DECIDED_BY_SIZES, LATER, Calls
from engine_checks import assert_engine_computed, small_engine
from torch import nn

import jitlite

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


ALL = {**CASES, **LATER}
LEFT_OUT = {"bitwise": "__rshift__", "avg_pool ceil": "avg_pool2d", "aminmax": "median"}
"""Cases that are not whole on the engine, and the operator that ONNX has no translation of."""


@pytest.mark.parametrize("name", ALL)
def test_an_operator(name):
    f, make = ALL[name]
    model = Calls(f).eval()
    first = make(4)
    varying = {n: [0] for n, _ in zip("xy", first, strict=False)}
    fast = jitlite.optimize(model, first, engine=small_engine("onnxruntime"), dynamic_shapes=varying)
    for n in (4, 2, 6):
        args = make(n)
        torch.testing.assert_close(fast(*args), model(*args), rtol=1e-4, atol=1e-5, equal_nan=True)
    left = LEFT_OUT.get(name)
    assert_engine_computed(fast, 1.0 if left is None else 0.0, as_it_was=name in DECIDED_BY_SIZES)
    assert (left is None) != (f"left out: aten::{left}, 1 time" in fast.explain()), fast.explain()


def test_transformer_encoder():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    fast = jitlite.optimize(model, torch.randn(2, 5, 16), engine="onnxruntime", dynamic_shapes={"src": [0]})
    with torch.no_grad():
        for n in (2, 3, 7):
            x = torch.randn(n, 5, 16)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert_engine_computed(fast)


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
    assert_engine_computed(fast, 0.95, most_compiled=3)


@pytest.mark.parametrize("name", ["x // y", "x % y", "fmod"])
def test_division_of_ints_by_zero_raises_what_eager_raises(name):
    f = {"x // y": lambda x, y: x // y, "x % y": lambda x, y: x % y, "fmod": torch.fmod}[name]
    x, y = torch.arange(4), torch.tensor([1, 2, 3, 4])
    fast = jitlite.optimize(Calls(f).eval(), (x, y), engine=small_engine("onnxruntime"))
    assert torch.equal(fast(x, y), f(x, y))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fast(x, y - 1)
    assert torch.equal(fast(x, y), f(x, y))
