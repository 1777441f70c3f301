"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from jitlite.engines.converters import RefList, constants
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder, axis_of
from jitlite.engines.stablehlo.literals import ints
from jitlite.engines.stablehlo.sizes import Dim, least, maximum, minimum, product

_of = CONVERTERS.of
_END = 2**63 - 1


@_of("aten::view", "aten::reshape", "aten::_unsafe_view", "aten::view_copy")
def view(out: StableHloBuilder, x: object, sizes: object) -> Array:
    given = out.given(x)
    dims = _sizes(out, sizes)
    if -1 in dims:
        rest = product([n for n in dims if n != -1])
        if least(rest) is None or rest == 0:
            raise EngineRefusal("a size of it is not known")
        dims[dims.index(-1)] = product(given.dims) // rest
    out.need(product(dims), "==", product(given.dims))
    return out.reshape(given, dims)


def _sizes(out: StableHloBuilder, sizes: object) -> list[Dim]:
    """The numbers of a list as sizes.

    Raises:
        EngineRefusal: it is no list, or one of them is no int.
    """
    if not isinstance(sizes, list | tuple):
        raise EngineRefusal("its sizes are not written out")
    return [out.dim_of(n) for n in sizes]


@_of("aten::permute", "aten::permute_copy")
def permute(out: StableHloBuilder, x: object, dims: object) -> Array:
    given = out.given(x)
    return out.transpose(given, [axis_of(d, given.rank) for d in constants(dims)])


@_of("aten::transpose", "aten::transpose_copy")
def transpose(out: StableHloBuilder, x: object, a: object, b: object) -> Array:
    given = out.given(x)
    order = list(range(given.rank))
    if order:
        first, second = axis_of(a, given.rank), axis_of(b, given.rank)
        order[first], order[second] = order[second], order[first]
    return out.transpose(given, order)


@_of("aten::t", "aten::t_copy")
def t(out: StableHloBuilder, x: object) -> Array:
    given = out.given(x)
    return out.transpose(given, list(reversed(range(given.rank))))


@_of("aten::unsqueeze", "aten::unsqueeze_copy")
def unsqueeze(out: StableHloBuilder, x: object, dim: object) -> Array:
    given = out.given(x)
    at = axis_of(dim, given.rank + 1)
    return out.reshape(given, [*given.dims[:at], 1, *given.dims[at:]])


@_of("aten::squeeze", "aten::squeeze_copy")
def squeeze(out: StableHloBuilder, x: object, dims: object = None) -> Array:
    given = out.given(x)
    wanted = [dims] if isinstance(dims, int) else dims
    if not isinstance(wanted, list) or given.rank - out.results[0].rank != len(wanted):
        raise EngineRefusal("which dimensions go depends on sizes")
    axes = [axis_of(d, given.rank) for d in wanted]
    for d in axes:
        out.need(given.dims[d], "==", 1)
    return out.reshape(given, [n for d, n in enumerate(given.dims) if d not in axes])


@_of("aten::expand", "aten::expand_copy")
def expand(out: StableHloBuilder, x: object, sizes: object, implicit: object = False) -> Array:
    given = out.given(x)
    wanted = _sizes(out, sizes)
    new = len(wanted) - given.rank
    dims = [given.dims[d - new] if n == -1 else n for d, n in enumerate(wanted)]
    for n, m in zip(given.dims, dims[new:], strict=True):
        if n != 1:
            out.need(n, "==", m)
    return out.broadcast_to(given, dims)


@_of("aten::select", "aten::select_copy")
def select(out: StableHloBuilder, x: object, dim: object, index: object) -> Array:
    given = out.given(x)
    axis = axis_of(dim, given.rank)
    length, at = given.dims[axis], out.dim_of(index)
    bound = least(at)
    if isinstance(at, int) and at < 0:
        at = length + at
    elif bound is None or bound < 0:
        out.need(0, "<=", at)  # one that is negative in a call counts from the end
    out.need(at + 1, "<=", length)
    out.need(0, "<=", at)
    part = out.slice(given, axis, at, at + 1)
    return out.reshape(part, [n for d, n in enumerate(given.dims) if d != axis])


@_of("aten::slice", "aten::slice_copy")
def slice(
    out: StableHloBuilder, x: object, dim: object = 0, start: object = None, end: object = None, step: object = 1
) -> Array:
    given = out.given(x)
    axis = axis_of(dim, given.rank)
    length = given.dims[axis]
    first = bound_of(out, 0 if start is None else start, length)
    last = maximum(bound_of(out, _END if end is None else end, length), first)
    return out.slice(given, axis, first, last, constants(step)[0])


def bound_of(out: StableHloBuilder, value: object, length: Dim) -> Dim:
    """Where a part of a dimension begins or ends: counted from the end if negative, and in it."""
    at = out.dim_of(value)
    if at == _END:
        return length
    if isinstance(at, int):
        return minimum(at, length) if at >= 0 else maximum(length + at, 0)
    out.need(0, "<=", at)
    return minimum(at, length)


@_of("aten::cat")
def cat(out: StableHloBuilder, tensors: object, dim: object = 0) -> Array:
    result = out.results[0]
    if not isinstance(tensors, list):
        raise EngineRefusal("its tensors are not written out")
    parts = [out.operand(v, result.dtype) for v in tensors]
    if any(part.rank != result.rank for part in parts):
        raise EngineRefusal("an operand has another rank")
    axis = axis_of(dim, result.rank)
    return out.concatenate(_of_equal_sizes(out, parts, axis), axis)


def _of_equal_sizes(out: StableHloBuilder, parts: Sequence[Array], axis: int) -> list[Array]:
    """The tensors, whose sizes have to be equal but for one dimension, with the same text for them."""
    dims = list(parts[0].dims) if parts else []
    for part in parts[1:]:
        for d, n in enumerate(part.dims):
            if d != axis:
                out.need(dims[d], "==", n)
                dims[d] = n if isinstance(n, int) else dims[d]
    return [out.broadcast_to(p, [*dims[:axis], p.dims[axis], *dims[axis + 1 :]]) for p in parts]


@_of("aten::stack")
def stack(out: StableHloBuilder, tensors: object, dim: object = 0) -> Array:
    result = out.results[0]
    if not isinstance(tensors, list):
        raise EngineRefusal("its tensors are not written out")
    axis = axis_of(dim, result.rank)
    given = _of_equal_sizes(out, [out.operand(v, result.dtype) for v in tensors], -1)
    parts = [out.reshape(p, [*p.dims[:axis], 1, *p.dims[axis:]]) for p in given]
    return out.concatenate(parts, axis)


@_of("aten::repeat")
def repeat(out: StableHloBuilder, x: object, times: object) -> Array:
    given, counts = out.given(x), _sizes(out, times)
    dims: list[Dim] = [*[1] * (len(counts) - given.rank), *given.dims]
    between = [n for pair in zip(counts, dims, strict=True) for n in pair]
    spread = out.broadcast_to(given, between, [2 * d + 1 for d in range(len(counts) - given.rank, len(counts))])
    return out.reshape(spread, [a * b for a, b in zip(counts, dims, strict=True)])


@_of("aten::flip")
def flip(out: StableHloBuilder, x: object, dims: object) -> Array:
    given = out.given(x)
    axes = [axis_of(d, given.rank) for d in constants(dims)]
    return out.line(f"stablehlo.reverse {given.name}, dims = {ints(axes)} : {given.type}", given.dtype, given.dims)


@_of("aten::constant_pad_nd")
def constant_pad_nd(out: StableHloBuilder, x: object, pads: object, value: object = 0) -> Array:
    given = out.given(x)
    filler, widths = out.operand(value, given.dtype), constants(pads)
    before, after = [0] * given.rank, [0] * given.rank
    for i in range(len(widths) // 2):
        axis = given.rank - 1 - i
        before[axis], after[axis] = widths[2 * i : 2 * i + 2]
        if min(before[axis], after[axis]) < 0:
            start, stop = max(-before[axis], 0), given.dims[axis] - max(-after[axis], 0)
            out.need(start, "<=", stop)
            given = out.slice(given, axis, start, stop)
    before, after = ([max(n, 0) for n in widths] for widths in (before, after))
    return out.pad(given, filler, before, after)


@_of("aten::split_with_sizes", "aten::split_with_sizes_copy")
def split_with_sizes(out: StableHloBuilder, x: object, sizes: object, dim: object = 0) -> RefList:
    given = out.given(x)
    axis, bounds = axis_of(dim, given.rank), list[Dim]([0])
    for n in _sizes(out, sizes):
        bounds.append(bounds[-1] + n)
    out.need(bounds[-1], "==", given.dims[axis])
    parts = [out.slice(given, axis, start, stop) for start, stop in pairwise(bounds)]
    return RefList("", given.dtype, given.rank, parts=tuple(parts))


@_of("aten::roll")
def roll(out: StableHloBuilder, x: object, shifts: object, dims: object = ()) -> Array:
    """Without dimensions, all elements are shifted as one row."""
    given, numbers = out.given(x), constants(shifts)
    axes = [axis_of(d, given.rank) for d in constants(dims)] if given.rank else []
    if given.rank and not axes:
        flat = out.reshape(given, [product(given.dims)])
        return out.reshape(_rolled(out, flat, 0, numbers[0]), given.dims)
    for shift, axis in zip(numbers, axes, strict=False):
        given = _rolled(out, given, axis, shift)
    return given


def _rolled(out: StableHloBuilder, x: Array, axis: int, shift: int) -> Array:
    length = x.dims[axis]
    if length == 0:
        return x
    start = -shift - (-shift // length) * length
    out.need(0, "<=", start)
    parts = [out.slice(x, axis, start, length), out.slice(x, axis, 0, start)]
    return out.concatenate([p for p in parts if p.dims[axis] != 0], axis)
