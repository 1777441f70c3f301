"""Pooling of images: greatest elements and averages of windows."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from functools import partial

import torch

from jitlite.engines.converters import number
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder, accumulated_in, is_static
from jitlite.engines.stablehlo.layers import SlidingWindow, dot, each, padded, window_parts
from jitlite.engines.stablehlo.literals import array, ints, tensor_type
from jitlite.engines.stablehlo.reductions import lowest

_of = CONVERTERS.of


def _image_window(
    x: Array, kernel: object, stride: object, padding: object, dilation: object, ceil: object, rank: int
) -> SlidingWindow:
    """The window, with more padding behind where sizes are rounded up."""
    size = each(kernel, rank)
    strides = each(stride, rank) or size
    around, dilations = each(padding, rank), each(dilation, rank)
    after = list(around)
    if ceil:
        for d, n in enumerate(x.dims[-rank:]):
            if not isinstance(n, int):
                raise EngineRefusal("it rounds up sizes that are not known")
            after[d] = _padding_behind(n, size[d], strides[d], around[d], dilations[d])
    return SlidingWindow(size, strides, list(zip(around, after, strict=True)), dilations)


def _padding_behind(n: int, size: int, stride: int, padding: int, dilation: int) -> int:
    reach = dilation * (size - 1) + 1
    places = math.ceil((n + 2 * padding - reach) / stride) + 1
    if (places - 1) * stride >= n + padding:  # a window may not begin behind the image
        places -= 1
    return max((places - 1) * stride + reach - n - padding, 0)


def _pooled(out: StableHloBuilder, op: str, x: Array, window: SlidingWindow, start: float) -> Array:
    rank = len(window.stride)
    lead = x.rank - rank
    if out.for_iree and not is_static(x.dims):
        x, window, _ = padded(out, x, window, [1] * rank, start)
        parts = [part for _, part in window_parts(out, x, window)]
        return functools.reduce(functools.partial(out.binary, op), parts)
    places = window.places(x.dims[lead:])
    for n in places:
        out.need(1, "<=", n)
    dims = [*x.dims[:lead], *places]
    begin, element = out.full(start, x.dtype), tensor_type(x.dtype, ())
    ones = [1] * lead
    size = [*ones, *(n for n in window.size if isinstance(n, int))]
    pads = ", ".join(ints(pair) for pair in [*[(0, 0)] * lead, *window.padding])
    text = (
        f'"stablehlo.reduce_window"({x.name}, {begin.name}) ({{\n'
        f"  ^bb0(%a: {element}, %b: {element}):\n"
        f"    %joined = stablehlo.{op} %a, %b : {element}\n"
        f"    stablehlo.return %joined : {element}\n"
        f"  }}) {{window_dimensions = {array(size)}, window_strides = {array([*ones, *window.stride])}, "
        f"window_dilations = {array([*ones, *window.dilation])}, "
        f"padding = dense<[{pads}]> : tensor<{x.rank}x2xi64>}} : ({x.type}, {element}) -> {tensor_type(x.dtype, dims)}"
    )
    return out.line(text, x.dtype, dims)


def _max_pooled(
    rank: int, out: StableHloBuilder, x: object, kernel: object, stride: object = (), padding: object = 0,
    dilation: object = 1, ceil: object = False,
) -> Array:  # fmt: skip
    given = out.given(x)
    window = _image_window(given, kernel, stride, padding, dilation, ceil, rank)
    return _pooled(out, "maximum", given, window, lowest(given.dtype))


_of("aten::max_pool2d_with_indices", "aten::max_pool2d")(partial(_max_pooled, 2))
_of("aten::max_pool3d_with_indices", "aten::max_pool3d")(partial(_max_pooled, 3))


def _averaged(
    rank: int, out: StableHloBuilder, x: object, kernel: object, stride: object = (), padding: object = 0,
    *options: object,
) -> Array:  # fmt: skip
    """Options: are sizes rounded up, does padding count, what it is divided by instead."""
    defaults: tuple[object, ...] = (False, True, None)
    ceil, counts, divisor = (*options, *defaults[len(options) :])
    dtype = out.results[0].dtype
    given = out.cast(out.given(x), accumulated_in(dtype))
    if not dtype.is_floating_point:
        raise EngineRefusal("it averages ints")
    window = _image_window(given, kernel, stride, padding, 1, ceil, rank)
    total = _pooled(out, "add", given, window, 0)
    if divisor is not None:
        return out.cast(out.binary("divide", total, out.full(number(divisor), given.dtype)), dtype)
    count: Array
    if counts and not ceil:
        count = out.full(math.prod(n for n in window.size if isinstance(n, int)), given.dtype)
    else:
        count = _counted(out, given, window, each(padding, rank) if counts else [0] * rank)
    return out.cast(out.binary("divide", total, count), dtype)


for _rank in (1, 2, 3):
    _of(f"aten::avg_pool{_rank}d")(partial(_averaged, _rank))


def _counted(out: StableHloBuilder, x: Array, window: SlidingWindow, counted: Sequence[int]) -> Array:
    """How many elements each window has, those of so much padding on either side among them."""
    rank = len(counted)
    image = [n + 2 * p for n, p in zip(x.dims[-rank:], counted, strict=True)]
    ones = out.broadcast_to(out.full(1, x.dtype), [*[1] * (x.rank - rank), *image])
    padding = [(a - p, max(b - p, 0)) for (a, b), p in zip(window.padding, counted, strict=True)]
    return _pooled(out, "add", ones, SlidingWindow(window.size, window.stride, padding, window.dilation), 0)


def _adapted(rank: int, out: StableHloBuilder, x: object, sizes: object) -> Array:
    """An average over windows of different sizes is a product with a matrix of weights."""
    dtype = out.results[0].dtype
    found = out.cast(out.given(x), accumulated_in(dtype))
    for axis, size in zip(range(found.rank - rank, found.rank), each(sizes, rank), strict=True):
        length = found.dims[axis]
        if size == 1:
            found = _mean_of_axis(out, found, axis)
        elif not isinstance(length, int):
            raise EngineRefusal("it pools an image of a size that is not known to several pixels")
        else:
            weights = out.constant(_window_weights(length, size).to(found.dtype))
            made = dot(out, found, weights, 0, (axis, 0))
            order = [*range(axis), made.rank - 1, *range(axis, made.rank - 1)]
            found = out.transpose(made, order)
    return out.cast(found, dtype)


for _rank in (1, 2, 3):
    _of(f"aten::adaptive_avg_pool{_rank}d")(partial(_adapted, _rank))
for _rank in (2, 3):
    _of(f"aten::_adaptive_avg_pool{_rank}d")(partial(_adapted, _rank))


def _mean_of_axis(out: StableHloBuilder, x: Array, axis: int) -> Array:
    total = out.reduce("add", x, [axis], 0)
    length = out.cast(out.scalar(x.dims[axis]), x.dtype)
    mean = out.binary("divide", total, length)
    return out.reshape(mean, [*x.dims[:axis], 1, *x.dims[axis + 1 :]])


def _window_weights(length: int, size: int) -> torch.Tensor:
    """What each element of an image counts in each window, a column for each of these."""
    weights = torch.zeros(length, size, dtype=torch.float64)
    for i in range(size):
        start, stop = i * length // size, -(-(i + 1) * length // size)
        weights[start:stop, i] = 1 / (stop - start)
    return weights
