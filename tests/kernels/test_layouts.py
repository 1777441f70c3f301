"""Strides of empty tensors, and views that are copies where memory is laid out in another way: as in eager Python."""

from __future__ import annotations

import pytest
import torch
from kernel_law import FEW, compared, difference, outcome
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


def agree(fn, *calls):
    """The same function, called with all of these arguments, gives as a kernel what it gives in Python."""
    with options.override(native="now"), torch.no_grad():
        scripted = jitlite.script(fn)
        for _ in range(2):
            for arguments in calls:
                expected, got = outcome(fn, arguments), outcome(scripted, arguments)
                if isinstance(expected.result, Exception):
                    assert type(got.result) is type(expected.result), got.result
                else:
                    assert compared(expected, got) is None, arguments
        states = [r.implementation for r in scripted.executor.general.regions if r.implementation is not None]
        assert any(state.runs for state in states), [state.status for state in states]


X = torch.arange(12.0).view(3, 4)
GAPS = torch.arange(48.0).view(6, 8)[:3, :4]
ROWS = torch.arange(48.0).view(6, 8)[::2, ::2]


# -- no elements


def like(x, n: int):
    y = (x + 1)[:, :n]
    return torch.zeros_like(y), torch.full_like(y, 2.0), y.clone(), y.flip(0), y.unsqueeze(0).clone(), y * 2


def like_a_row(x, n: int):
    y = (x + 1)[0, ::2][:n]
    return torch.ones_like(y), y.clone(), y * 2


def turned(x, n: int):
    y = (x * 2).t()[:n]
    return y + 1, y.relu(), y + y, y.double() + 1, y.clone(), y.contiguous() + 1


@pytest.mark.parametrize("fn", [like, like_a_row, turned])
def test_strides_of_empty_tensors(fn):
    agree(fn, (X, 2), (X, 0), (X, 4), (GAPS, 0), (X[:0], 2), (X[:, :0], 1), (X.t(), 0))


# -- views or copies


def writes_contiguous(x, n: int):
    y = x * 2
    z = y[:, :n].contiguous()
    z.add_(1)
    return y


def writes_reshaped(x, n: int):
    y = x * 2
    z = y[:, :n].reshape(-1)
    z.add_(1)
    return y


def writes_split(x, n: int):
    y = x * 2
    z = y[:, :2].reshape(x.shape[0], 2, 1)
    z.add_(1)
    return y


def writes_what_was_split(x, n: int):
    y = x * 2
    z = y.t().reshape(x.shape[1], x.shape[0], 1)
    y.add_(1)
    return z


def copies_for_sure(x, n: int):
    y = x * 2
    z = y.t().reshape(-1)
    w = y.t().contiguous()
    y.add_(1)
    return z, w


def gives_contiguous(x, n: int):
    y = x.contiguous()
    w = x.clone()
    w.neg_()
    return y, w


def in_a_branch(x, n: int):
    y = x * 2
    z = y
    if n > 1:
        z = y[:, :n].contiguous() * 1
    return y + 1, z * 2


@pytest.mark.parametrize(
    "fn",
    [writes_contiguous, writes_reshaped, writes_split, writes_what_was_split, copies_for_sure, gives_contiguous,
     in_a_branch],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_is_written_through_a_view(fn):
    """`contiguous` and `reshape` give a view of some arguments, and a copy of others for which there is one kernel."""
    agree(fn, (ROWS, 3), (X, 3), (X, 4), (GAPS, 4), (X, 1), (X[:1], 2), (X, 0), (X.t().contiguous().t(), 3), (X[:0], 4))


def vector(x, n: int):
    y = x.contiguous()
    w = x.clone()
    w.neg_()
    return y, w


def test_a_kernel_for_gaps_takes_none():
    agree(vector, (torch.arange(6.0)[::2], 1), (torch.arange(3.0), 1))


# -- pieces


def split(x, n: int):
    y = (x + 1).abs().sqrt()
    a, b = y.split(2)
    return a * 2, b


def chunk(x, n: int):
    y = (x + 1).abs().sqrt()
    a, b = y.chunk(2)
    return a * 2, b


@pytest.mark.parametrize("fn", [split, chunk])
def test_pieces_of_no_dimensions(fn):
    agree(fn, (torch.ones(4), 1), (torch.tensor(2.0), 1))


OPERANDS = [
    lambda: torch.randn(4, 3),
    lambda: torch.randn(3, 4).t(),
    lambda: torch.randn(2, 4, 3),
    lambda: torch.randn(2, 3, 4).transpose(1, 2),
    lambda: torch.randn(4, 2, 3).transpose(0, 1),
    lambda: torch.randn(3, 4, 2).permute(2, 1, 0),
    lambda: torch.randn(4, 1),
    lambda: torch.randn(2, 1, 3).transpose(0, 2).contiguous().transpose(0, 2),
]


@pytest.mark.parametrize("first", range(len(OPERANDS)))
def test_operands_in_different_orders(first: int) -> None:
    """Torch asks one operand after the other how the result lies in memory."""

    def f(x: Tensor, y: Tensor):
        return x * y + y, (y - x).tanh()

    scripted = jitlite.script(f)
    with options.override(native="now", verify=True):
        for second in OPERANDS:
            x, y = OPERANDS[first](), second()
            assert difference(f(x, y), scripted(x, y), FEW) is None
    assert sum(state.runs for _, state in tensor_regions(scripted.executor)) == len(OPERANDS)
