"""Numbers that come out of tensors, where an int is wanted: in kernels as in eager."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


def decoded(w: Tensor, n: int) -> Tensor:
    x, out = w[0], torch.zeros(n, dtype=torch.long)
    for i in range(n):
        j = (x * w).sum(1).argmax().item()
        x = torch.tanh(w[j] + x)
        out[i] = j
    return out


def row(x: Tensor, at: Tensor) -> Tensor:
    return torch.tanh(x[at.max().item()] + 1) * 2


def turns(x: Tensor, at: Tensor) -> Tensor:
    for _ in range(at.max().item()):
        x = torch.sin(x) + 1
    return x


X = torch.linspace(-2, 2, 12).reshape(4, 3)


def test_a_loop_that_reads_its_next_index_is_one_kernel():
    with options.override(native="now"), torch.no_grad():
        scripted = jitlite.script(decoded)
        assert torch.equal(scripted(X, 5), decoded(X, 5))
        ((_, state),) = tensor_regions(scripted.executor)
        assert state.runs == 1 and not state.bailouts


@pytest.mark.parametrize("function", [row, turns])
@pytest.mark.parametrize(
    "at", [torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32), torch.tensor([-1]), torch.tensor([9]),
           torch.tensor([1.0, 2.0]), torch.tensor([True]), torch.tensor([2.0], dtype=torch.float64)],
    ids=lambda t: f"{t.dtype}{t.tolist()}",
)  # fmt: skip
def test_what_is_no_int_raises_as_in_eager(function, at):
    if function is row and at.dtype is torch.bool:
        pytest.skip("in eager, a bool adds a dimension; the script refuses it")

    def outcome(called):
        try:
            return called(X, at)
        except Exception as error:
            return type(error)

    expected = outcome(function)
    with options.override(native="now"), torch.no_grad():
        scripted = jitlite.script(function)
        for _ in range(2):
            found = outcome(scripted)
            if isinstance(expected, Tensor):
                torch.testing.assert_close(found, expected)
            else:
                assert found is expected
