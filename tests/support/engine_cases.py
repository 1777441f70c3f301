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


def of_ints(n: int) -> tuple[torch.Tensor, ...]:
    return torch.randint(-9, 9, (n, 3)), torch.randint(1, 5, (n, 3))


def odd(n: int) -> tuple[torch.Tensor, ...]:
    """Numbers with nan, infinities and zeros among them."""
    x = torch.randn(n, 4)
    x[0] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
    return (x,)


def rows(n: int) -> tuple[torch.Tensor, ...]:
    """Numbers, and the places of rows."""
    return torch.randn(n, 5), torch.randint(2, (3,))


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

LATER: dict[str, tuple[Callable[..., object], Make]] = {
    "cumsum": (lambda x: x.cumsum(0) + x.cumsum(-1), floats(None, 3)),
    "cumsum ints": (lambda x, y: x.cumsum(1) + (x > 0).cumsum(0), of_ints),
    "cumprod": (lambda x: x.cumprod(1), floats(None, 3)),
    "sort": (lambda x: (*x.sort(1), *x.sort(0, descending=True)), floats(None, 3)),
    "argsort": (lambda x: x.argsort(-1) + x.argsort(0, descending=True), floats(None, 3)),
    "sort odd": (lambda x: (*x.sort(1), x.sort(1, descending=True)[1]), odd),
    "topk": (lambda x: (*x.topk(2, 1), *x.topk(1, -1, largest=False)), floats(None, 3)),
    "scatter": (lambda x, i: x.scatter(1, i[:, :1], 2.5) + x.scatter(-1, i[:, :1], x[:, :1] * 2), with_indices),
    "scatter_add": (lambda x, i: x.scatter_add(1, i, x[:, :3]), with_indices),
    "scatter_reduce": (
        lambda x, i: x.scatter_reduce(1, i, x[:, :3], "sum") + x.scatter_reduce(0, i * 0, x[:, :3] + 1, "prod"),
        with_indices,
    ),
    "scatter_reduce ints": (
        lambda x, y: (x.scatter_reduce(1, y - y, y, "amax"), x.scatter_reduce(0, x * 0, y, "amin")),
        of_ints,
    ),
    "index two": (lambda x, i: x[i[:, 0] * 0, i[:, 1]] + x[i[:, 0] * 0 - 1, i[:, 0]], with_indices),
    "index apart": (lambda x, i: x[:, None][i[:, :2] * 0, :, i[:, 1:]], with_indices),
    "index_put": (lambda x, i: x.index_put((i[:, 0] * 0, i[:, 1]), torch.tensor(2.0)), with_indices),
    "index_put add": (lambda x, i: x.index_put((i[:, 0] * 0, i[:, 1]), x[:, 0], accumulate=True), with_indices),
    "index_add": (lambda x, i: x.index_add(0, i, x[:2].sum() * torch.ones(3, 5)), rows),
    "index_copy": (lambda x, i: x.index_copy(1, torch.tensor([0, 2]), x[:, :2]), rows),
    "index_fill": (lambda x, i: x.index_fill(1, torch.tensor([0, 2]), 1.5), rows),
    "slice_scatter": (lambda x: torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3), floats(None, 3)),
    "select_scatter": (lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, -1), floats(None, 3)),
    "diagonal": (lambda x: x[:, :, None] * torch.diagonal(x[:, :, None] * x[:, None], 1, 1, 2).sum(), floats(None, 3)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2) + F.interpolate(x, (8, 6)), floats(None, 2, 4, 3)),
    "nearest odd": (lambda x: F.interpolate(x, (7, 2)), floats(None, 2, 4, 3)),
    "nearest line": (lambda x: F.interpolate(x, 7), floats(None, 2, 4)),
    "bilinear": (
        lambda x: (
            F.interpolate(x, (7, 5), mode="bilinear") + F.interpolate(x, (7, 5), mode="bilinear", align_corners=True)
        ),
        floats(None, 2, 4, 3),
    ),
    "linear line": (lambda x: F.interpolate(x, 7, mode="linear"), floats(None, 2, 4)),
    "bicubic": (lambda x: F.interpolate(x, (7, 5), mode="bicubic"), floats(None, 2, 4, 3)),
    "floor divide ints": (lambda x, y: (x // y, x // 4, torch.div(x, y, rounding_mode="trunc")), of_ints),
    "remainder ints": (lambda x, y: (x % y, torch.fmod(x, y), x % 3, x % -3), of_ints),
    "remainder": (lambda x, y: (torch.remainder(x, y), torch.fmod(x, y)), pair(None, 3)),
    "atan2": (lambda x, y: torch.atan2(x, y), pair(None, 3)),
    "pow ints": (lambda x, y: (x**2, x**3, x**0), of_ints),
    "bitwise": (lambda x, y: ((x & y) | (x ^ 3), ~x, x << 1, x >> y), of_ints),
    "logical ints": (lambda x, y: (torch.logical_and(x, y), torch.logical_xor(x, y), torch.logical_not(x)), of_ints),
    "bools": (lambda x, y: ((x > 0) + (y > 2), (x > 0) * (y > 2), (x > 0).sum(1), (x > 0).long() - 1), of_ints),
    "ints more": (
        lambda x, y: (x.abs(), -x, x.sign(), x.clamp(-2, 3), torch.maximum(x, y), x.sum(1), x.amax(1)),
        of_ints,
    ),
    "mm ints": (lambda x, y: x @ y.t(), of_ints),
    "reflect": (lambda x: F.pad(x, [1, 2], mode="reflect"), floats(None, 2, 4)),
    "reflect image": (lambda x: F.pad(x, [1, 2, 2, 1], mode="reflect"), floats(None, 2, 4, 3)),
    "replicate": (lambda x: F.pad(x, [1, 2, 0, 3], mode="replicate"), floats(None, 2, 4, 3)),
    "replicate line": (lambda x: F.pad(x, [1, 2], mode="replicate"), floats(None, 2, 4)),
    "circular": (lambda x: F.pad(x, [1, 2], mode="circular"), floats(None, 2, 4)),
    "roll": (lambda x: x.roll(1, 1) + x.roll((1, 2), (0, 1)), floats(None, 3)),
    "flip": (lambda x: x.flip(0, -1), floats(None, 3)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), floats(None, 3)),
    "unbind": (lambda x: x.unbind(1)[0] + x.unbind(-1)[2], floats(None, 3)),
    "chunk": (lambda x: [y + 1 for y in (*x.chunk(2, 1), *x.split(2, 1), *x.split([1, 3], -1))], floats(None, 4)),
    "isinf": (lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.sign(), x.nan_to_num()), odd),
    "odd relu": (lambda x: (x.relu(), x.clamp(-1, 1), x.softmax(1), x.sum(1), x.amax(1), x.exp(), x.tanh()), odd),
    "odd argmax": (lambda x: (x.argmax(1), x.argmin(1), x.max(1)[0], x.min(1)[1], x.any(1)), odd),
    "round": (lambda x: (x.round(), (x * 4).trunc() / 2, (x * 2).floor().div(2).round(), x.frac()), floats(None, 3)),
    "logarithms": (lambda x: (x.abs().log2(), x.abs().log10(), x.exp2(), x.expm1(), x.abs().log1p()), floats(None, 3)),
    "var": (
        lambda x: (x.var(1), x.std(0), x.var([0, 1], correction=0), x.norm(), x.norm(1, 1), x.std()),
        floats(None, 3),
    ),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0), x.argmax(), x.argmax(1, keepdim=True)), floats(None, 3)),
    "max": (lambda x: (*x.max(1), *x.min(0, keepdim=True), x.max(), x.min()), floats(None, 3)),
    "einsum": (
        lambda x, y: torch.einsum("bij,bkj->bik", x, y) + torch.einsum("bij,bij->b", x, y)[:, None, None],
        pair(None, 3, 4),
    ),
    "masked_fill": (lambda x: x.masked_fill(x > 0, -1.5), floats(None, 3)),
    "tril": (lambda x: x.tril() + x.triu(1) + x.tril(-1), floats(None, 3)),
    "one_hot": (lambda x, i: F.one_hot(i, 6).sum(1), with_indices),
    "nll_loss": (lambda x, i: F.nll_loss(x, i[:, 0]) + F.cross_entropy(x, i[:, 1]), with_indices),
    "losses": (
        lambda x, y: (F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.binary_cross_entropy_with_logits(x, y)),
        pair(None, 3),
    ),
    "group_norm": (lambda x: F.group_norm(x, 2, torch.arange(4.0), torch.ones(4)), floats(None, 4, 5)),
    "group_norm plain": (lambda x: F.group_norm(x, 2), floats(None, 4, 5)),
    "instance_norm": (lambda x: F.instance_norm(x), floats(None, 4, 5)),
    "conv transposed groups": (
        lambda x: F.conv_transpose2d(x, torch.ones(2, 3, 3, 3), torch.ones(6), 2, 1, 1, groups=2),
        floats(None, 2, 5, 5),
    ),
    "conv same": (lambda x: F.conv2d(x, torch.ones(3, 2, 3, 3), padding="same"), floats(None, 2, 5, 5)),
    "conv3d": (lambda x: F.conv3d(x, torch.ones(3, 2, 2, 2, 2)), floats(None, 2, 4, 4, 4)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2, 2), floats(None, 2, 8)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2, 2, 1), floats(None, 2, 4, 4, 4)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2, 1), floats(None, 2, 8)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, 2), floats(None, 2, 4, 4, 4)),
    "avg_pool ceil": (lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True), floats(None, 2, 5, 7)),
    "adaptive several": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), floats(None, 2, 5, 7)),
    "adaptive line": (lambda x: F.adaptive_avg_pool1d(x, 3), floats(None, 2, 7)),
    "lp_pool": (lambda x: F.lp_pool2d(x, 2, 2), floats(None, 2, 4, 4)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2).sum() + F.pixel_unshuffle(x, 2).sum(1), floats(None, 4, 4, 4)),
    "unfold": (lambda x: F.unfold(x, 2), floats(None, 2, 4, 4)),
    "gather negative": (lambda x, i: x.gather(-1, i) + x.take_along_dim(i, 1), with_indices),
    "negative dims": (
        lambda x: x.sum(-1, keepdim=True) + x.transpose(-1, -2).mean(-2)[:, None].flip(-2),
        floats(None, 3),
    ),
    "movedim": (lambda x: x.movedim(0, 1).flatten(-2).sum() + x.swapaxes(0, 1).sum(), floats(None, 3, 2)),
    "meshgrid": (lambda x: torch.meshgrid(x[:, 0], torch.arange(3.0), indexing="ij")[0] + x, floats(None, 3)),
    "linspace": (lambda x: x + torch.linspace(0, 1, 3), floats(None, 3)),
    "outer": (
        lambda x: torch.outer(x[:, 0], x[0]) + torch.addcmul(x, x, x) + torch.addcdiv(x, x, x.abs() + 1),
        floats(None, 3),
    ),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3) + torch.hypot(x, y) + torch.logaddexp(x, y), pair(None, 3)),
    "activations": (
        lambda x: [
            F.softplus(x),
            F.mish(x),
            F.selu(x),
            F.celu(x),
            F.softsign(x),
            F.logsigmoid(x),
            F.glu(x, 1),
            F.hardsigmoid(x),
            F.relu6(x),
            F.threshold(x, 0.1, 5.0),
            F.hardshrink(x),
            F.softshrink(x),
            F.tanhshrink(x),
            F.prelu(x, torch.tensor(0.3)),
            F.softmin(x, 1),
        ],
        floats(None, 4),
    ),
    "attention": (lambda x, y: F.scaled_dot_product_attention(x, y, y, is_causal=True), pair(None, 2, 4, 8)),
    "logsumexp": (lambda x: x.logsumexp(1) + F.normalize(x, dim=1).sum(1), floats(None, 3)),
    "aminmax": (lambda x: [*torch.aminmax(x, dim=1), x.median(1)[0]], floats(None, 3)),
    "prod": (lambda x: x.prod(1) + x.prod(), floats(None, 3)),
    "all": (lambda x: (x.bool().all(), x.bool().any(1), (x > 0).all(0), x.count_nonzero()), floats(None, 3)),
    "empty": (
        lambda x: (x[:, :0].sum(1), torch.cat([x[:, :0], x], 1), x[:, 3:].relu(), x[:, :0].cumsum(1)),
        floats(None, 3),
    ),
    "ones": (
        lambda x: (x[:, :1].sum(1), x[:, :1].softmax(1), x[:, :1].sort(1)[1], x[:, 1:2].expand(-1, 3) * 2),
        floats(None, 3),
    ),
    "no dims": (
        lambda x: (x.sum().exp() + x[0, 0].relu(), x.sum().sum(), x[0, 0].argmax(), x.sum().cumsum(0)),
        floats(None, 3),
    ),
    "where numbers": (lambda x: torch.where(x > 0, 1.0, x) + torch.where(x > 0, 2, 3), floats(None, 3)),
    "double and ints": (
        lambda x: (x.double().sin(), x.int() // 2, x.to(torch.uint8 if False else torch.int32) % 3),
        floats(None, 3),
    ),
}
"""Cases of converters that one of the languages may lack."""


DECIDED_BY_SIZES = (
    "slice", "gather negative",
)  # fmt: skip
"""Cases in which torch decides something by sizes, so that a recording does not hold for all of them."""


class Calls(nn.Module):
    def __init__(self, f: Callable[..., object]) -> None:
        super().__init__()
        self.f = f

    def forward(self, x, y=None):
        return self.f(x) if y is None else self.f(x, y)
