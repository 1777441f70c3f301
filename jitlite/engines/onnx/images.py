"""Padding, pooling and normalization of images of any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from jitlite.engines.converters import Ref, constants, number
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.onnx.builder import CONVERTERS, Attribute, OnnxBuilder
from jitlite.engines.onnx.indexing import count_up, int_binary, length_of

_of = CONVERTERS.of


def _each(values: object, rank: int) -> list[int]:
    """A number for each dimension of an image."""
    found = list(constants(values))
    return found * (rank if len(found) == 1 else 1)


def _with_batch(out: OnnxBuilder, x: object, rank: int) -> Ref:
    given = out.given(x)
    if given.rank != rank + 2:
        raise EngineRefusal("its input has no batch dimension")
    return given


# -- padding


def _padded(mode: str, out: OnnxBuilder, x: object, pads: object) -> Ref:
    given, widths = out.given(x), constants(pads)
    if min(widths, default=0) < 0:
        raise EngineRefusal("it takes elements away")
    before, after = [0] * given.rank, [0] * given.rank
    for i in range(len(widths) // 2):
        before[given.rank - 1 - i], after[given.rank - 1 - i] = widths[2 * i : 2 * i + 2]
    return out.result("Pad", [given, out.ints([*before, *after])], mode=mode)


for _rank in (1, 2, 3):
    _of(f"aten::reflection_pad{_rank}d")(partial(_padded, "reflect"))
    _of(f"aten::replication_pad{_rank}d")(partial(_padded, "edge"))


# -- pooling


def _max_pooled(
    rank: int, out: OnnxBuilder, x: object, kernel: object, stride: object = (), padding: object = 0,
    dilation: object = 1, ceil: object = False,
) -> Ref:  # fmt: skip
    window, pads = _each(kernel, rank), _each(padding, rank)
    return out.result(
        "MaxPool", [_with_batch(out, x, rank)], kernel_shape=window, strides=_each(stride, rank) or window,
        pads=[*pads, *pads], dilations=_each(dilation, rank), ceil_mode=int(bool(ceil)),
    )  # fmt: skip


_of("aten::max_pool2d_with_indices")(partial(_max_pooled, 2))
_of("aten::max_pool3d_with_indices")(partial(_max_pooled, 3))


def _averaged(
    rank: int, out: OnnxBuilder, x: object, kernel: object, stride: object = (), padding: object = 0, *options: object
) -> Ref:
    """Behind the padding are: are sizes rounded up, does padding count, and what is divided by."""
    given: list[object] = [*options, *(False, True, None)[len(options) :]]
    ceil, counts, divisor = given
    if divisor is not None or ceil:
        raise EngineRefusal("it divides by another number than the size of the window, or rounds sizes up")
    window, pads = _each(kernel, rank), _each(padding, rank)
    shared: dict[str, Attribute] = {"strides": _each(stride, rank) or window, "pads": [*pads, *pads]}
    return out.result(
        "AveragePool", [_with_batch(out, x, rank)], kernel_shape=window, count_include_pad=int(bool(counts)), **shared
    )


for _rank in (1, 2, 3):
    _of(f"aten::avg_pool{_rank}d")(partial(_averaged, _rank))


def _adaptive(rank: int, out: OnnxBuilder, x: object, sizes: object) -> Ref:
    wanted = _each(sizes, rank)
    if wanted == [1] * rank:
        return out.result("GlobalAveragePool", [_with_batch(out, x, rank)])
    given = out.given(x)
    found = out.cast(given, torch.float64)
    for axis, size in zip(range(given.rank - rank, given.rank), wanted, strict=True):
        found = _mean_of_parts(out, found, axis, size)
    return out.cast(found, given.dtype)


for _name in ("adaptive_avg_pool2d", "_adaptive_avg_pool2d"):
    _of(f"aten::{_name}")(partial(_adaptive, 2))
for _name in ("adaptive_avg_pool3d", "_adaptive_avg_pool3d"):
    _of(f"aten::{_name}")(partial(_adaptive, 3))


def _mean_of_parts(out: OnnxBuilder, x: Ref, axis: int, count: int) -> Ref:
    """The means of parts of a dimension, which may overlap: differences of sums from its beginning on."""
    length = length_of(out, x, axis)
    numbers = count_up(out, out.operand(count, torch.int64))
    scaled = int_binary(out, "Mul", numbers, length)
    starts = int_binary(out, "Div", scaled, count)
    ends = int_binary(out, "Div", int_binary(out, "Add", int_binary(out, "Add", scaled, length), count - 1), count)
    pads = [0] * (2 * x.rank)
    pads[axis] = 1
    wide = out.node("Pad", [x, out.ints(pads)], x.dtype, x.rank, mode="constant")
    sums = out.node("CumSum", [wide, out.tensor(torch.tensor(axis))], x.dtype, x.rank)
    last, first = (out.node("Gather", [sums, at], x.dtype, x.rank, axis=axis) for at in (ends, starts))
    total = out.node("Sub", [last, first], x.dtype, x.rank)
    widths = out.cast(int_binary(out, "Sub", ends, starts), x.dtype)
    shape = out.ints([count if d == axis else 1 for d in range(x.rank)])
    return out.node("Div", [total, out.node("Reshape", [widths, shape], x.dtype, x.rank)], x.dtype, x.rank)


# -- normalization by statistics of the input


def _reduced(out: OnnxBuilder, op: str, x: Ref, axes: Sequence[int], keep: bool = True) -> Ref:
    rank = x.rank if keep else x.rank - len(axes)
    return out.node(op, [x, out.ints(axes)], x.dtype, rank, keepdims=int(keep))


def _centered(out: OnnxBuilder, x: Ref, axes: Sequence[int]) -> Ref:
    return out.node("Sub", [x, _reduced(out, "ReduceMean", x, axes)], x.dtype, x.rank)


def _normalized(out: OnnxBuilder, x: Ref, axes: Sequence[int], epsilon: object) -> Ref:
    """With the mean 0 and the variance 1 over some dimensions."""
    centered = _centered(out, x, axes)
    spread = _reduced(out, "ReduceMean", out.node("Mul", [centered, centered], x.dtype, x.rank), axes)
    more = out.node("Add", [spread, out.operand(number(epsilon), x.dtype)], x.dtype, x.rank)
    return out.node("Div", [centered, out.like("Sqrt", more)], x.dtype, x.rank)


def _weighted(out: OnnxBuilder, x: Ref, weight: object, bias: object) -> Ref:
    """Times a weight, plus a bias, of each channel."""
    for op, factor in (("Mul", weight), ("Add", bias)):
        if factor is not None:
            shape = out.ints([1, -1, *[1] * (x.rank - 2)])
            given = out.node("Reshape", [out.operand(factor, x.dtype), shape], x.dtype, x.rank)
            x = out.node(op, [x, given], x.dtype, x.rank)
    return x


@_of("aten::native_group_norm")
def group_norm(out: OnnxBuilder, x: object, weight: object, bias: object, *numbers: object) -> Ref:
    """Behind the bias are the sizes of the input, the number of groups and epsilon."""
    groups, epsilon = numbers[-2:]
    given = out.given(x)
    parts = out.node("Reshape", [given, out.ints([0, *constants(groups), -1])], given.dtype, 3)
    found = out.node("Reshape", [_normalized(out, parts, [2], epsilon), out.shape(given)], given.dtype, given.rank)
    return _weighted(out, found, weight, bias)


@_of("aten::_native_batch_norm_legit")
def batch_norm_of_input(
    out: OnnxBuilder, x: object, weight: object, bias: object, training: object, momentum: object, epsilon: object
) -> Ref:
    """With statistics of the input, and none that are kept."""
    given = out.given(x)
    if training is not True:
        raise EngineRefusal("it has statistics of its own")
    axes = [d for d in range(given.rank) if d != 1]
    return _weighted(out, _normalized(out, given, axes, epsilon), weight, bias)


@_of("aten::var")
def var(out: OnnxBuilder, x: object, dims: object = None, correction: object = 1, keep: object = False) -> Ref:
    given = out.operand(x, out.results[0].dtype)
    if isinstance(dims, bool) or isinstance(correction, bool) or given.rank == 0:
        raise EngineRefusal("it says by a bool what it divides by, or its input has no dimensions")
    wanted = list(range(given.rank)) if dims is None or dims == [] else constants(dims)
    axes = sorted({d % given.rank for d in wanted})
    centered = _centered(out, given, axes)
    total = _reduced(out, "ReduceSum", out.node("Mul", [centered, centered], given.dtype, given.rank), axes, bool(keep))
    sizes = out.node("Gather", [out.shape(given), out.ints(axes)], torch.int64, 1, axis=0)
    count = out.cast(out.node("ReduceProd", [sizes], torch.int64, 0, keepdims=0), given.dtype)
    less = out.operand(1.0 if correction is None else number(correction), given.dtype)
    freedom = out.node("Max", [out.node("Sub", [count, less], given.dtype, 0), out.operand(0, given.dtype)],
                       given.dtype, 0)  # fmt: skip
    return out.result("Div", [total, freedom])
