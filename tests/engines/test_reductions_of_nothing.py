"""Reductions of tensors that have elements in one call and none in the next, by onnxruntime and in eager Python."""

from __future__ import annotations

import pytest
import torch
from engine_checks import assert_engine_computed, small_engine
from torch import nn

import jitlite

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

FLOATS = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(0),
    "mean of all": lambda x: x.mean(),
    "mean of two": lambda x: x.mean((0, 1), keepdim=True),
    "prod": lambda x: x.prod(0),
    "std": lambda x: x.std(0),
    "var": lambda x: x.var(dim=0, unbiased=False),
    "norm": lambda x: torch.linalg.vector_norm(x, 2, 0),
    "largest norm": lambda x: torch.linalg.vector_norm(x, float("inf"), 0),
    "logsumexp": lambda x: x.logsumexp(0),
}
BOTH = {
    "any": lambda x: x.any(0),
    "all": lambda x: x.all(),
    "amax": lambda x: x.amax(0),
    "amin of all": lambda x: x.amin(),
    "max": lambda x: x.max(0)[0],
    "min": lambda x: x.min(0)[1],
    "max of all": lambda x: x.max(),
    "min of all": lambda x: x.min(),
    "max as a number": lambda x: torch.ones(2) * int(x.max()),
    "argmax": lambda x: x.argmax(0),
    "argmin of all": lambda x: x.argmin(),
    "amax of the other": lambda x: x.amax(1),
    "softmax": lambda x: x.to(torch.float32).softmax(0),
    "cumsum": lambda x: x.cumsum(0),
}
CASES = [(n, f, torch.float32) for n, f in {**FLOATS, **BOTH}.items()] + [(n, f, torch.int64) for n, f in BOTH.items()]


class Reduced(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor):
        return self.function(x[2:])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "function", "dtype"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_of_what_may_be_empty(name, function, dtype):
    model = Reduced(function).eval()
    fast = jitlite.optimize(model, (torch.ones(5, 3, dtype=dtype),), small_engine("onnxruntime"), {"x": [0]})
    for rows in (5, 2, 4, 3, 0):
        x = torch.arange(rows * 3).reshape(rows, 3).to(dtype)
        try:
            expected = model(x)
        except (RuntimeError, IndexError) as error:
            with pytest.raises(type(error)):
                fast(x)
        else:
            found = fast(x)
            assert found.dtype == expected.dtype
            torch.testing.assert_close(found, expected, equal_nan=True)
    assert_engine_computed(fast, fallbacks=fast.counters.fallbacks, as_it_was=True)
