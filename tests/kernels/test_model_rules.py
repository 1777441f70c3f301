"""Activations, losses, norms and rearranged tensors in machine code are those of eager Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_law import EXACT, FEW, SUMS, compared, outcome
from torch import Tensor
from torch.nn import functional as F

import jitlite
from jitlite.base import options


def special(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.randn(*shape, dtype=dtype) * 4
    known = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 30.0, -30.0, 100.0, -100.0, 3.0, -3.0]
    for i, number in enumerate(known[: x.numel()]):
        x.view(-1)[i] = number
    return x


def hard(x: Tensor):
    return F.hardswish(x), F.hardsigmoid(x), torch.threshold(x, 0.5, -2.0)


def soft(x: Tensor):
    return F.softplus(x), F.softplus(x, 2.0, 10.0), F.mish(x), F.elu(x, 0.7), F.selu(x), F.celu(x, 1.3)


def shrunk(x: Tensor):
    soft, more = F.softshrink(x) + 0.0, F.softshrink(x, 3.0) + 0.0  # eager is of two minds about the sign of 0
    return F.hardshrink(x), F.hardshrink(x, 3.0), soft, more, x.frac()


def of_logits(x: Tensor, y: Tensor, w: Tensor):
    a = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    b = F.binary_cross_entropy_with_logits(x, y, w, reduction="none", pos_weight=w)
    return a, b, F.binary_cross_entropy_with_logits(x, y, w), F.binary_cross_entropy_with_logits(x, y, pos_weight=w)


def log_sigmoid(x: Tensor):
    return F.logsigmoid(x), -x


def gated(x: Tensor):
    return F.glu(x), F.glu(x, 0)


def distances(x: Tensor, y: Tensor):
    nn = torch._C._nn
    return nn.mse_loss(x, y, 0), nn.l1_loss(x, y, 0), nn.smooth_l1_loss(x, y, 0, 0.7), nn.huber_loss(x, y, 0, 0.7)


def summed_distances(x: Tensor, y: Tensor):
    nn = torch._C._nn
    return nn.mse_loss(x, y, 1), nn.l1_loss(x, y, 2), nn.smooth_l1_loss(x, y, 1), nn.huber_loss(x, y, 1)


def losses(x: Tensor, y: Tensor):
    mean, total = F.nll_loss(x, y), F.nll_loss(x, y, reduction="sum", ignore_index=2)
    return mean, total, F.cross_entropy(x, y), F.nll_loss(x, y, reduction="none"), -x


def batch(x: Tensor, p: Tensor):
    return F.batch_norm(x, p, p * p, p, -p, False), F.batch_norm(x, p, p * p)


def modal(x: Tensor, p: Tensor, training: bool):
    y = F.batch_norm(x, p, p * p, p, -p, training)
    return F.relu(y), F.dropout(x, 0.5, training) + 1.0


def pooled(x: Tensor):
    one, some = F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x * 2, (1, 1))
    return one, some.flatten(-3) + 1, F.adaptive_avg_pool1d(x[0], 1)


def activated_in_place(x: Tensor):
    a = F.hardtanh(F.relu6(x + 1.0, True), -0.5, 0.25, True) + F.hardswish(x * 2, True)
    b = F.leaky_relu(x * 3, 0.1, True) + F.elu(x * 4, 1.5, True) + F.celu(x - 1, 2.0, True) + F.selu(x - 2, True)
    return a, b + F.silu(x * 0.5, True) + F.hardsigmoid(x * 5, True) + F.mish(x * 6, True)


def group(x: Tensor, p: Tensor):
    return torch.group_norm(x, 2, p, p), torch.group_norm(x, 3), torch.group_norm(x, 6, None, p)


def root_mean_square(x: Tensor, p: Tensor):
    return torch.rms_norm(x, [6], p), torch.rms_norm(x, [6], None, 1e-5)


def spreads(x: Tensor):
    a, b = torch.var_mean(x, 1)
    c, d = torch.std_mean(x, [0], keepdim=True)
    return a, b, c, d, x.norm(), x.norm(dim=1), torch.linalg.vector_norm(x, 1, [0], True)


def triangles(x: Tensor, k: int):
    return x.tril(), x.triu(1), x.tril(k), x.triu(-k)


def rearranged(x: Tensor):
    return x.flip(0), x.flip([0, 1]), x.roll(2, 0), x.roll(-7, 1), x.repeat(2, 3), x.repeat(2, 1, 0)


def running(x: Tensor):
    return x.cumsum(0), x.cumsum(-1)


X = [special(7, 5), special(4, 6).t(), special(5, 6, dtype=torch.float64), torch.randn(0, 3), special(33)]
CLASSES = [torch.randint(0, 5, (9,)), torch.tensor([1, 2, -100, 0, 4, -100, 3, 2, 2]), torch.tensor([9] * 9)]
WIDE = [torch.randn(4, 6), torch.randn(2, 6, 7), torch.randn(2, 6, 3, 4)]
FLAT = [torch.randn(4, 8), torch.randn(5, 1), torch.arange(20).view(4, 5), torch.randn(40, 300)]
PAIRS = [(torch.randn(5, 7), torch.randn(5, 7)), (torch.randn(5, 7), torch.randn(7))]

CASES: list[tuple[Callable[..., Any], float, list[tuple[Any, ...]]]] = [
    (hard, EXACT, [(x,) for x in X]),
    (soft, FEW, [(x,) for x in X]),
    (shrunk, EXACT, [(x,) for x in X]),
    (of_logits, SUMS, [(torch.randn(9, 5) * 20, torch.rand(9, 5), torch.rand(5) + 0.5)]),
    (log_sigmoid, FEW, [(X[0],), (X[2],)]),
    (gated, FEW, [(special(6, 8),), (special(2, 6, 4),)]),
    (distances, EXACT, PAIRS),
    (summed_distances, SUMS, PAIRS),
    (losses, SUMS, [(torch.randn(9, 5), y) for y in CLASSES]),
    (batch, SUMS, [(x, torch.rand(6)) for x in WIDE]),
    (
        pooled,
        SUMS,
        [
            (x,)
            for x in (
                *WIDE[2:],
                torch.randn(3, 1, 5, 1),
                torch.randn(2, 3, 0, 4),
                torch.randn(0, 3, 2, 2),
                torch.randn(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
            )
        ],
    ),
    (activated_in_place, 4 * FEW, [(x,) for x in (*WIDE, torch.randn(3, 4).t())]),
    (modal, SUMS, [(x, torch.rand(6), training) for training in (False, True, False) for x in WIDE]),
    (group, SUMS, [(x, torch.randn(6)) for x in WIDE]),
    (root_mean_square, SUMS, [(torch.randn(3, 4, 6), torch.randn(6)), (torch.randn(6) * 1e-4, torch.randn(6))]),
    (spreads, SUMS, [(torch.randn(4, 8),), (torch.randn(30, 7) * 100 + 5,)]),
    (triangles, EXACT, [(torch.randn(4, 8), 2), (torch.randn(2, 5, 1), 1), (FLAT[2], -1), (special(3, 5), 0)]),
    (rearranged, EXACT, [(x,) for x in FLAT]),
    (running, EXACT, [(x,) for x in FLAT]),
]


@pytest.mark.parametrize(("program", "units", "calls"), CASES, ids=[p.__name__ for p, _, _ in CASES])
def test_rules(program: Callable[..., Any], units: float, calls: list[tuple[Any, ...]]) -> None:
    with options.override(native="now", verify=True):
        function = jitlite.script(program)
        for arguments in calls:
            assert compared(outcome(program, arguments), outcome(function, arguments), units) is None
    runs = sum(region.implementation.runs for region in function.executor.general.regions)
    assert runs, [region.implementation.status for region in function.executor.general.regions]
