"""Normalizations write their running statistics while they train, which their schemas do not say: regions know."""

from __future__ import annotations

import pytest
import torch
from kernel_law import FEW, compared, outcome
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


def cast_and_written_back(x: Tensor, m: Tensor, v: Tensor, train: bool):
    a, b = m.to(torch.float64), v.to(torch.float64)
    y = torch.batch_norm(x, None, None, a, b, train, 0.1, 1e-5, False)
    m.copy_(a)
    v.copy_(b)
    return y * 2 + 1


def cast_and_given(x: Tensor, m: Tensor, v: Tensor, train: bool):
    a, b = m.to(torch.float64), v.double()
    y = torch.batch_norm(x, None, None, a, b, train, 0.1, 1e-5, False)
    return a, y.relu() + 1, b


def cast_and_read(x: Tensor, m: Tensor, v: Tensor, train: bool):
    a, b = m.to(torch.float64), v.to(torch.float64)
    before = a * 2
    y = torch.batch_norm(x, None, None, a, b, train, 0.1, 1e-5, False)
    return before, a * 2, b + y.sum()


def unread(x: Tensor, m: Tensor, v: Tensor, train: bool):
    a, b = m.to(torch.float64), v.to(torch.float64)
    torch.batch_norm(x, None, None, a, b, train, 0.1, 1e-5, False)
    return a * 2, b * 2


def of_columns(x: Tensor, m: Tensor, v: Tensor, train: bool):
    a, b = m.to(torch.float64).reshape(-1), v.to(torch.float64).contiguous()
    y = torch.batch_norm(x, None, None, a, b, train, 0.1, 1e-5, False)
    return a, b, y - 1


def instances(x: Tensor, m: Tensor, v: Tensor, train: bool):
    a, b = m.to(torch.float64), v.to(torch.float64)
    y = torch.instance_norm(x.t()[None], None, None, a, b, train, 0.1, 1e-5, False)
    m.copy_(a)
    return y + 1, b


def always(x: Tensor, m: Tensor, v: Tensor, train: bool):
    a, b = m.to(torch.float64), v.to(torch.float64)
    y = torch.batch_norm(x, None, None, a, b, True, 0.1, 1e-5, False)
    m.copy_(a)
    return y.exp() + 1, b


FUNCTIONS = [cast_and_written_back, cast_and_given, cast_and_read, unread, of_columns, instances, always]


@pytest.mark.parametrize("native", ["now", "off"])
@pytest.mark.parametrize("executor", ["profiling", "simple", "off"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_in_eager(function, executor, native):
    x = torch.linspace(-2.0, 3.0, 15, dtype=torch.float64).view(5, 3)
    with options.override(native=native, executor=executor), torch.no_grad():
        scripted = jitlite.script(function)
        for train in (True, False, True):
            for dtype in (torch.float32, torch.float64):
                given = x, torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype), train
                again = tuple(v.clone() if isinstance(v, Tensor) else v for v in given)
                assert compared(outcome(function, given), outcome(scripted, again), FEW) is None
