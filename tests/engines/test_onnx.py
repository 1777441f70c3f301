"""Operators as ONNX, run by onnxruntime, beside eager: for several sizes with one compilation each."""

from __future__ import annotations

import pytest
import torch
from engine_cases import CASES, DECIDED_BY_SIZES, Calls
from torch import nn

import jitlite

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", CASES)
def test_an_operator(name):
    f, make = CASES[name]
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
