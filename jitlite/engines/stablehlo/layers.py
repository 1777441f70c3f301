"""Products and convolutions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

import torch

from jitlite.base.records import Record
from jitlite.engines.converters import constants, number
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder, accumulated_in, is_static
from jitlite.engines.stablehlo.literals import ints, tensor_type
from jitlite.engines.stablehlo.sizes import Dim, product

_of = CONVERTERS.of


def dot(out: StableHloBuilder, a: Array, b: Array, batch: int, over: tuple[int, int]) -> Array:
    """The product of two tensors over a dimension of each; the first ones of both are a batch."""
    if a.dtype is torch.bool:
        raise EngineRefusal("it multiplies bools")
    dtype = a.dtype
    a, b = (out.cast(x, accumulated_in(dtype)) for x in (a, b))
    for d in range(batch):
        out.need(a.dims[d], "==", b.dims[d])
    out.need(a.dims[over[0]], "==", b.dims[over[1]])
    if 0 in (*a.dims, *b.dims):  # IREE compiles no product of nothing
        free = [n for d, n in enumerate(a.dims) if d != over[0]]
        return out.full(0, dtype, [*free, *(n for d, n in enumerate(b.dims) if d >= batch and d != over[1])])
    if out.for_iree and not is_static([*a.dims, *b.dims]):
        return out.cast(_matrix_product(out, a, b, batch, over), dtype)
    return out.cast(_dot_general(out, a, b, batch, over), dtype)


def _dot_general(out: StableHloBuilder, a: Array, b: Array, batch: int, over: tuple[int, int]) -> Array:
    free = [n for d, n in enumerate(a.dims) if d != over[0]]
    dims = [*free, *(n for d, n in enumerate(b.dims) if d >= batch and d != over[1])]
    batched = f"batching_dims = {ints(range(batch))} x {ints(range(batch))}, " if batch else ""
    text = (
        f"stablehlo.dot_general {a.name}, {b.name}, {batched}contracting_dims = [{over[0]}] x [{over[1]}] : "
        f"({a.type}, {b.type}) -> {tensor_type(a.dtype, dims)}"
    )
    return out.line(text, a.dtype, dims)


def _matrix_product(out: StableHloBuilder, a: Array, b: Array, batch: int, over: tuple[int, int]) -> Array:
    """A product that IREE reads where sizes are not known: one batch, of two matrices."""
    left, rows = _as_matrices(out, a, batch, over[0], is_last=True)
    right, columns = _as_matrices(out, b, batch, over[1], is_last=False)
    lead = min(batch, 1)
    made = _dot_general(out, left, right, lead, (lead + 1, lead))
    return out.reshape(made, [*a.dims[:batch], *rows, *columns])


def _as_matrices(out: StableHloBuilder, x: Array, batch: int, over: int, *, is_last: bool) -> tuple[Array, list[Dim]]:
    """The tensor with one dimension for those of the batch, one that is summed over, and one for the others."""
    others = [d for d in range(batch, x.rank) if d != over]
    order = [*range(batch), *others, over] if is_last else [*range(batch), over, *others]
    free = [x.dims[d] for d in others]
    lead = [product(x.dims[:batch])] if batch else []
    parts = [product(free), x.dims[over]] if is_last else [x.dims[over], product(free)]
    return out.reshape(out.transpose(x, order), [*lead, *parts]), free


@_of("aten::mm", "aten::mv", "aten::dot")
def mm(out: StableHloBuilder, a: object, b: object) -> Array:
    left, right = out.given(a), out.given(b)
    return dot(out, left, right, 0, (left.rank - 1, 0))


@_of("aten::bmm")
def bmm(out: StableHloBuilder, a: object, b: object) -> Array:
    return dot(out, out.given(a), out.given(b), 1, (2, 1))


@_of("aten::matmul")
def matmul(out: StableHloBuilder, a: object, b: object) -> Array:
    left, right = out.given(a), out.given(b)
    if right.rank <= 2 and left.rank > 0 and right.rank > 0:
        return dot(out, left, right, 0, (left.rank - 1, 0))
    if left.rank < 2:
        raise EngineRefusal("it multiplies a vector with a batch of matrices")
    batch = out.joined_dims(left.dims[:-2], right.dims[:-2])
    left = out.broadcast_to(left, [*batch, *left.dims[-2:]])
    right = out.broadcast_to(right, [*batch, *right.dims[-2:]])
    return dot(out, left, right, len(batch), (len(batch) + 1, len(batch)))


@_of("aten::addmm")
def addmm(out: StableHloBuilder, bias: object, a: object, b: object, beta: object = 1, alpha: object = 1) -> Array:
    return _sum_of(out, bias, dot(out, out.given(a), out.given(b), 0, (1, 0)), beta, alpha)


@_of("aten::baddbmm")
def baddbmm(out: StableHloBuilder, bias: object, a: object, b: object, beta: object = 1, alpha: object = 1) -> Array:
    return _sum_of(out, bias, dot(out, out.given(a), out.given(b), 1, (2, 1)), beta, alpha)


def _sum_of(out: StableHloBuilder, bias: object, made: Array, beta: object, alpha: object) -> Array:
    """`beta * bias + alpha * made`; a bias times 0 does not count, not even one that is nan."""
    if number(alpha) != 1:
        made = out.binary("multiply", made, out.full(number(alpha), made.dtype))
    if number(beta) == 0:
        return made
    given = out.operand(out.given(bias), made.dtype)
    if number(beta) != 1:
        given = out.binary("multiply", given, out.full(number(beta), made.dtype))
    for n, m in zip(given.dims, made.dims[made.rank - given.rank :], strict=True):
        if n != 1:
            out.need(n, "==", m)
    return out.binary("add", made, out.broadcast_to(given, made.dims))


@_of("aten::linear")
def linear(out: StableHloBuilder, x: object, weight: object, bias: object = None) -> Array:
    given, factor = out.given(x), out.given(weight)
    if factor.rank != 2 or given.rank == 0:
        raise EngineRefusal("its weight is no matrix")
    made = dot(out, given, factor, 0, (given.rank - 1, 1))
    return made if bias is None else _sum_of(out, bias, made, 1, 1)


# -- convolution


class SlidingWindow(Record):
    """How a window goes over an image, a number for each dimension of it."""

    size: Sequence[Dim]
    stride: Sequence[int]
    padding: Sequence[tuple[int, int]]
    dilation: Sequence[int]

    def places(self, image: Sequence[Dim]) -> list[Dim]:
        """How often it fits."""
        return [
            (n + before + after - 1 - (k - 1) * dilation) // stride + 1
            for n, k, stride, (before, after), dilation in zip(
                image, self.size, self.stride, self.padding, self.dilation, strict=True
            )
        ]


@_of("aten::convolution")
def convolution(
    out: StableHloBuilder, x: object, weight: object, bias: object, stride: object, padding: object, dilation: object,
    transposed: object, output_padding: object, groups: object,
) -> Array:  # fmt: skip
    given, kernel = out.given(x), out.given(weight)
    dtype, rank = given.dtype, kernel.rank - 2
    if given.rank != kernel.rank or not dtype.is_floating_point:
        raise EngineRefusal("its input has no batch dimension, or is of ints")
    given, kernel = (out.cast(v, accumulated_in(dtype)) for v in (given, kernel))
    strides, around, dilations = (each(v, rank) for v in (stride, padding, dilation))
    count = constants(groups)[0]
    if transposed:
        made = _transposed(out, given, kernel, strides, around, dilations, each(output_padding, rank), count)
    else:
        window = SlidingWindow(kernel.dims[2:], strides, [(p, p) for p in around], dilations)
        made = _convolved(out, given, kernel, window, [1] * rank, count)
    if bias is not None:
        shift = out.operand(out.given(bias), made.dtype)
        made = out.binary("add", made, out.broadcast_to(shift, made.dims, [1]))
    return out.cast(made, dtype)


def _transposed(
    out: StableHloBuilder, x: Array, kernel: Array, strides: Sequence[int], around: Sequence[int],
    dilations: Sequence[int], more: Sequence[int], groups: int,
) -> Array:  # fmt: skip
    """A convolution with the kernel turned around over an image with gaps."""
    sizes = kernel.dims[2:]
    if not all(isinstance(n, int) for n in sizes):
        raise EngineRefusal("it is transposed, and the size of its kernel is not known")
    if groups > 1:
        parts = _parts_of_groups(out, x, kernel, kernel.dims[0] // groups, groups)
        made = [_transposed(out, part, weights, strides, around, dilations, more, 1) for part, weights in parts]
        return out.concatenate(made, 1)
    turned = out.line(
        f"stablehlo.reverse {kernel.name}, dims = {ints(range(2, kernel.rank))} : {kernel.type}",
        kernel.dtype, kernel.dims,
    )  # fmt: skip
    turned = out.transpose(turned, [1, 0, *range(2, kernel.rank)])
    reach = [d * (int(n) - 1) for d, n in zip(dilations, sizes, strict=True) if isinstance(n, int)]
    padding = [(r - p, r - p + m) for r, p, m in zip(reach, around, more, strict=True)]
    if min(min(pair) for pair in padding) < 0:
        raise EngineRefusal("its padding is greater than its kernel")
    window = SlidingWindow(turned.dims[2:], [1] * len(reach), padding, dilations)
    return _convolved(out, x, turned, window, strides, 1)


def _convolved(
    out: StableHloBuilder, x: Array, kernel: Array, window: SlidingWindow, gaps: Sequence[int], groups: int
) -> Array:
    out.need(x.dims[1], "==", kernel.dims[1] * groups)
    if out.for_iree:
        x, window = _without_unread_rows(out, x, window, gaps)
    if out.for_iree and not is_static(x.dims):
        x, window, gaps = padded(out, x, window, gaps)
        if groups > 1:
            return _in_groups(out, x, kernel, window, groups)
    image = [(n - 1) * gap + 1 if gap > 1 else n for n, gap in zip(x.dims[2:], gaps, strict=True)]
    places = window.places(image)
    for n in places:
        out.need(1, "<=", n)
    dims = [x.dims[0], kernel.dims[0], *places]
    axes = ", ".join(map(str, range(len(places))))
    padding = ", ".join(ints(pair) for pair in window.padding)
    text = (
        f"stablehlo.convolution({x.name}, {kernel.name}) dim_numbers = [b, f, {axes}]x[o, i, {axes}]->[b, f, {axes}], "
        f"window = {{stride = {ints(window.stride)}, pad = [{padding}], lhs_dilate = {ints(gaps)}, "
        f"rhs_dilate = {ints(window.dilation)}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} "
        f": ({x.type}, {kernel.type}) -> {tensor_type(x.dtype, dims)}"
    )
    return out.line(text, x.dtype, dims)


def _without_unread_rows(
    out: StableHloBuilder, x: Array, window: SlidingWindow, gaps: Sequence[int]
) -> tuple[Array, SlidingWindow]:
    """The image without what a window that fits once does not reach: IREE does not compile what has some."""
    places, padding = window.places(x.dims[2:]), list(window.padding)
    for d, (n, k, (before, after)) in enumerate(zip(x.dims[2:], window.size, window.padding, strict=True)):
        if places[d] != 1 or gaps[d] != 1 or not isinstance(n, int) or not isinstance(k, int):
            continue
        rest = (k - 1) * window.dilation[d] + 1 - before - n
        if rest < after and n + rest > 0:
            x = out.slice(x, d + 2, 0, n + min(rest, 0))
            padding[d] = before, max(rest, 0)
    return x, SlidingWindow(window.size, window.stride, padding, window.dilation)


def padded(
    out: StableHloBuilder, x: Array, window: SlidingWindow, gaps: Sequence[int], filler: float = 0
) -> tuple[Array, SlidingWindow, list[int]]:
    """The image with its padding and its gaps, and the window without."""
    lead = [0] * (x.rank - len(window.padding))
    before, after = ([*lead, *(pair[i] for pair in window.padding)] for i in (0, 1))
    wide = out.pad(x, out.full(filler, x.dtype), before, after, [*lead, *(gap - 1 for gap in gaps)])
    none = [(0, 0)] * len(window.padding)
    return wide, SlidingWindow(window.size, window.stride, none, window.dilation), [1] * len(none)


_MOST_GROUPS = 64
"""A convolution with more groups, and more than one channel in each, is refused for IREE."""


def _in_groups(out: StableHloBuilder, x: Array, kernel: Array, window: SlidingWindow, groups: int) -> Array:
    """A convolution in groups that IREE reads where sizes are not known."""
    if kernel.dims[1] == 1:
        return _of_single_channels(out, x, kernel, window, groups)
    parts = _parts_of_groups(out, x, kernel, kernel.dims[1], groups)
    made = [_convolved(out, part, weights, window, [1] * len(window.stride), 1) for part, weights in parts]
    return out.concatenate(made, 1)


def _parts_of_groups(
    out: StableHloBuilder, x: Array, kernel: Array, channels: Dim, groups: int
) -> Iterator[tuple[Array, Array]]:
    """The channels of the image and the part of the kernel of each group.

    Raises:
        EngineRefusal: there are too many.
    """
    if groups > _MOST_GROUPS:
        raise EngineRefusal("it has many groups, and is transposed or has sizes that vary")
    rows = kernel.dims[0] // groups
    for i in range(groups):
        part = out.slice(x, 1, channels * i, channels * (i + 1))
        yield part, out.slice(kernel, 0, rows * i, rows * (i + 1))


def _of_single_channels(out: StableHloBuilder, x: Array, kernel: Array, window: SlidingWindow, groups: int) -> Array:
    """A sum over the elements of the kernel, each times a part of the image."""
    features = kernel.dims[0]
    times = features // groups
    if times != 1:
        between = out.broadcast_to(x, [*x.dims[:2], times, *x.dims[2:]], [0, 1, *range(3, x.rank + 1)])
        x = out.reshape(between, [x.dims[0], features, *x.dims[2:]])
    weights = out.reshape(kernel, [features, *window.size])
    terms = []
    for at, part in window_parts(out, x, window):
        weight = weights
        for d, i in enumerate(at):
            weight = out.slice(weight, d + 1, i, i + 1)
        factor = out.broadcast_to(out.reshape(weight, [features]), part.dims, [1])
        terms.append(out.binary("multiply", part, factor))
    return functools.reduce(functools.partial(out.binary, "add"), terms)


def window_parts(out: StableHloBuilder, x: Array, window: SlidingWindow) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For each place in the window, the elements that are there as it goes over an image without padding.

    Raises:
        EngineRefusal: the size of the window is not known, or it is empty.
    """
    size = [n for n in window.size if isinstance(n, int)]
    if len(size) != len(window.size) or 0 in size:
        raise EngineRefusal("the size of its kernel is not known, or 0")
    lead, places = x.rank - len(size), window.places(x.dims[x.rank - len(size) :])
    for n in places:
        out.need(1, "<=", n)
    for at in itertools.product(*map(range, size)):
        part = x
        for d, (i, n) in enumerate(zip(at, places, strict=True)):
            start, step = i * window.dilation[d], window.stride[d]
            part = out.slice(part, d + lead, start, start + (n - 1) * step + 1, step)
        yield at, part


def each(values: object, rank: int) -> list[int]:
    """A number for each dimension of an image."""
    found = list(constants(values))
    return found * (rank if len(found) == 1 else 1)
