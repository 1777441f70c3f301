"""Operators on nan, infinities, zeros with a sign and large numbers, by onnxruntime and in eager Python."""

from __future__ import annotations

import itertools

import pytest
import torch
from engine_checks import assert_engine_computed, small_engine
from torch import nn

import jitlite

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

NUMBERS = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 0.1, 1e10, -1e-3]
PAIRS = torch.tensor(list(itertools.product(NUMBERS, NUMBERS)))

UNARY = {
    name: getattr(torch, name)
    for name in "neg abs floor ceil round trunc sign sqrt relu exp log sigmoid tanh reciprocal square isnan isinf "
    "isfinite logical_not erf expm1 log1p rsqrt frac log2".split()
}
BINARY = {
    **{
        name: getattr(torch, name)
        for name in "add sub mul div maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor remainder "
        "fmod floor_divide atan2 hypot".split()
    },
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "pow": torch.pow,
    "where": lambda x, y: torch.where(x > y, x, y),
    "clamp": lambda x, y: torch.clamp(x, min=y),
}


class Calls(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        return self.function(x, y)


NOT_OF_FLOAT64 = {"erf", "atan2"}
"""onnxruntime fails to compile these, and the graph of the group runs."""


def check(request: pytest.FixtureRequest, function, dtype: torch.dtype, name: str) -> None:
    x, y = (column.contiguous() for column in PAIRS.to(dtype).unbind(1))
    model = Calls(function).eval()
    fast = jitlite.optimize(model, (x, y), small_engine("onnxruntime"))
    found, expected = fast(x, y), model(x, y)
    if dtype is torch.float64 and name in NOT_OF_FLOAT64:
        request.applymarker(pytest.mark.without_engine)
        assert fast.counters.fallbacks == 1, fast.explain()
    else:
        assert_engine_computed(fast)
    assert found.dtype == expected.dtype
    wrong = ~torch.isclose(found.double(), expected.double(), rtol=1e-5, atol=1e-7, equal_nan=True)
    told = [(x[i].item(), y[i].item(), expected[i].item(), found[i].item()) for i in wrong.nonzero()[:4].flatten()]
    assert not told, told


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_of_one(name, dtype, request):
    check(request, lambda x, y: UNARY[name](x), dtype, name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_of_two(name, dtype, request):
    check(request, BINARY[name], dtype, name)
