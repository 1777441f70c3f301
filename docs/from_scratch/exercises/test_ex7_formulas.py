"""Is exercise 7 solved?"""

from unittest import mock

import ch7_autodiff
import torch
from ex7_formulas import MORE_FORMULAS
from torch import Tensor


def sigmoid(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sigmoid()


def absolute(x: Tensor, y: Tensor) -> Tensor:
    return (x - y).abs() * y


def greater(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x, y * 2) * x


def check(function, x, y):
    leaves = [x.clone().requires_grad_(), y.clone().requires_grad_()]
    wanted = torch.autograd.grad(function(*leaves).sum(), leaves)
    with mock.patch.dict(ch7_autodiff.FORMULAS, MORE_FORMULAS):
        torch.testing.assert_close(ch7_autodiff.GradientFunction(function)(x, y), wanted)


def test_sigmoid():
    check(sigmoid, torch.randn(5), torch.randn(5))
    check(sigmoid, torch.tensor([100.0, -100.0]), torch.ones(1))


def test_abs():
    check(absolute, torch.randn(5), torch.randn(5))
    check(absolute, torch.ones(3), torch.tensor([1.0, 2.0, 0.0]))  # at 0, its gradient is 0


def test_maximum():
    check(greater, torch.randn(5), torch.randn(5))
    check(greater, torch.randn(2, 3), torch.randn(3))
    check(greater, torch.full((3,), 2.0), torch.tensor([1.0, 0.5, 1.5]))  # where both are equal, each gets a half
