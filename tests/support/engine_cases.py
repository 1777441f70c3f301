"""Operators as functions with arguments for several sizes, for engines to be compared with eager."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

Make = Callable[[int], tuple[torch.Tensor, ...]]


def floats(*shape: int | None) -> Make:
    return lambda n: (torch.randn([n if s is None else s for s in shape]),)


def pair(*shape: int | None) -> Make:
    return lambda n: (*floats(*shape)(n), *floats(*shape)(n))


def positive(*shape: int | None) -> Make:
    return lambda n: (floats(*shape)(n)[0].abs() + 0.1,)


def with_indices(n: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(n, 5), torch.randint(5, (n, 3))


UNARY = "exp tanh sigmoid sin cos atan sinh asinh erf neg abs floor ceil sign relu reciprocal square".split()
OF_POSITIVE = "sqrt log rsqrt".split()
BINARY = "add sub mul div maximum minimum eq ne lt le gt ge".split()

CASES: dict[str, tuple[Callable[..., object], Make]] = {
    **{name: (getattr(torch, name), floats(None, 3)) for name in UNARY},
    **{name: (getattr(torch, name), positive(None, 3)) for name in OF_POSITIVE},
    **{name: (getattr(torch, name), pair(None, 3)) for name in BINARY},
    "add alpha": (lambda x, y: torch.add(x, y, alpha=2), pair(None, 3)),
    "add int": (lambda x: x + torch.arange(3), floats(None, 3)),
    "numbers": (lambda x: 2 - x * 3 + x / 4 - 1, floats(None, 3)),
    "ints": (lambda x: x.to(torch.int64) * 2 + 1, floats(None, 3)),
    "div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), pair(None, 3)),
    "div trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), pair(None, 3)),
    "pow": (lambda x: x**2 + x.abs() ** 0.5, floats(None, 3)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0.1), floats(None, 3)),
    "hardswish": (F.hardswish, floats(None, 3)),
    "silu": (F.silu, floats(None, 3)),
    "gelu": (F.gelu, floats(None, 3)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), floats(None, 3)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), floats(None, 3)),
    "elu": (F.elu, floats(None, 3)),
    "where": (lambda x, y: torch.where(x > y, x, y * 2), pair(None, 3)),
    "logical": (lambda x, y: ((x > 0) & (y > 0)) | ~(x < y), pair(None, 3)),
    "isnan": (lambda x: torch.isnan(x / x.floor()) | torch.isinf(x), floats(None, 3)),
    "double": (lambda x: x.double() * 2, floats(None, 3)),
    "mm": (lambda x, y: x @ y.t(), pair(None, 3)),
    "bmm": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), pair(None, 2, 3)),
    "linear": (lambda x: F.linear(x, torch.ones(4, 3), torch.arange(4.0)), floats(None, 3)),
    "conv": (lambda x: F.conv2d(x, torch.ones(4, 1, 3, 3), None, 2, 1, 1, 2), floats(None, 2, 8, 8)),
    "conv1d": (lambda x: F.conv1d(x, torch.ones(4, 2, 3), torch.ones(4), dilation=2), floats(None, 2, 9)),
    "conv transposed": (
        lambda x: F.conv_transpose2d(x, torch.ones(2, 3, 3, 3), None, 2, 1, 1),
        floats(None, 2, 5, 5),
    ),
    "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1), floats(None, 2, 8, 8)),
    "max_pool ceil": (lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True), floats(None, 2, 7, 7)),
    "avg_pool": (lambda x: F.avg_pool2d(x, 3, 2, 1), floats(None, 2, 8, 8)),
    "avg_pool inside": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), floats(None, 2, 8, 8)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, 1), floats(None, 2, 5, 5)),
    "batch_norm": (
        lambda x: F.batch_norm(x, torch.arange(2.0), torch.ones(2), torch.ones(2), torch.zeros(2)),
        floats(None, 2, 4, 4),
    ),
    "batch_norm plain": (lambda x: F.batch_norm(x, torch.ones(2), torch.ones(2)), floats(None, 2, 4, 4)),
    "layer_norm": (lambda x: F.layer_norm(x, [3], torch.ones(3), torch.arange(3.0)), floats(None, 4, 3)),
    "layer_norm two": (lambda x: F.layer_norm(x, [4, 3]), floats(None, 4, 3)),
    "softmax": (lambda x: F.softmax(x, 1) + F.log_softmax(x, 0), floats(None, 3)),
    "mean": (lambda x: x.mean() + x.mean(1) + x.mean([0, 1], keepdim=True), floats(None, 3)),
    "sum": (lambda x: x.sum() + x.sum(0)[:1] + x.sum(1, keepdim=True), floats(None, 3)),
    "amax": (lambda x: x.amax(1) - x.amin([0, 1]), floats(None, 3)),
    "any": (lambda x: torch.any(x > 0, 1) | torch.all(x > -1, 1), floats(None, 3)),
    "view": (lambda x: x.view(x.size(0) * 3, -1) + x.reshape(-1, 2), floats(None, 3, 2)),
    "permute": (lambda x: x.permute(2, 0, 1) * 2, floats(None, 3, 2)),
    "unsqueeze": (lambda x: x.unsqueeze(-1).squeeze(-1) + x[None, :, 0].squeeze(0)[:, None], floats(None, 3)),
    "expand": (lambda x: x[:, None].expand(-1, 4, -1) + 1, floats(None, 3)),
    "select": (lambda x: x[0] + x[-1] * x[:, 1].sum(), floats(None, 3)),
    "slice": (lambda x: x[1:, ::2] + x[:-1, -1:], floats(None, 3)),
    "cat": (lambda x, y: torch.cat([x, y, x], 1), pair(None, 3)),
    "stack": (lambda x, y: torch.stack([x, y], -1), pair(None, 3)),
    "repeat": (lambda x: x.repeat(2, 3, 1), floats(None, 3)),
    "gather": (lambda x, i: x.gather(1, i) + 1, with_indices),
    "index_select": (lambda x: x.index_select(1, torch.tensor([2, 0])) + 1, floats(None, 3)),
    "embedding": (lambda x, i: F.embedding(i, torch.arange(10.0).view(5, 2)) * 2, with_indices),
    "pad": (lambda x: F.pad(x, [1, 2, 0, 1], value=3.0), floats(None, 3)),
    "full": (lambda x: torch.zeros(x.size(0), 3) + torch.full([3], 2.5) + x, floats(None, 3)),
    "arange": (
        lambda x: torch.arange(3) + torch.arange(1, 2.5, 0.5) + torch.arange(x.size(0))[:, None] + x,
        floats(None, 3),
    ),
    "zeros_like": (lambda x: torch.full_like(x, 2.5) + x, floats(None, 3)),
}


DECIDED_BY_SIZES = ("slice", "pad")
"""Cases in which torch decides something by sizes, so that a recording does not hold for all of them."""


class Calls(nn.Module):
    def __init__(self, f: Callable[..., object]) -> None:
        super().__init__()
        self.f = f

    def forward(self, x, y=None):
        return self.f(x) if y is None else self.f(x, y)
