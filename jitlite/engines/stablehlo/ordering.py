"""Operators that order elements, or go over them in order."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder, accumulated_in, axis_of
from jitlite.engines.stablehlo.indexing import MOST_COMPARED, numbers_along, taken
from jitlite.engines.stablehlo.literals import tensor_type
from jitlite.engines.stablehlo.reductions import comparison_text
from jitlite.engines.stablehlo.sizes import product

_of = CONVERTERS.of


def _ordered(out: StableHloBuilder, x: object, dim: object, descending: object) -> tuple[Array, Array, int]:
    """The elements in order, where they were, and the dimension. Equal ones stay in order; nan is the greatest."""
    given = out.given(x)
    if given.rank == 0 or not isinstance(descending, bool):
        raise EngineRefusal("it orders a tensor without dimensions, or in an order that is not known")
    axis = axis_of(dim, given.rank)
    if product(given.dims) == 0:
        raise EngineRefusal("it orders nothing")
    ordered = _ordered_by_ranks if out.for_iree else _sorted
    return *ordered(out, given, axis, descending), axis


def _sorted(out: StableHloBuilder, x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    places = out.iota(torch.int64, x.dims, axis)
    element = tensor_type(x.dtype, ())
    body = comparison_text("GT" if descending else "LT", x.dtype, is_nan_first=descending)
    types, name = f"{x.type}, {places.type}", out.new_name()
    out.lines.append(
        f'{name}:2 = "stablehlo.sort"({x.name}, {places.name}) ({{\n'
        f"  ^bb0(%a: {element}, %b: {element}, %i: tensor<i64>, %j: tensor<i64>):\n"
        + "".join(f"    {line}\n" for line in [*body, "stablehlo.return %taken : tensor<i1>"])
        + f"  }}) {{dimension = {axis} : i64, is_stable = true}} : ({types}) -> ({types})"
    )
    values = Array(f"{name}#0", x.dtype, x.rank, dims=x.dims)
    return values, Array(f"{name}#1", torch.int64, x.rank, dims=x.dims)


def _ordered_by_ranks(out: StableHloBuilder, x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    """How many elements come before each is its place. IREE computes a sort of sizes that vary wrongly."""
    one, other = _beside_each_other(out, x, axis)
    before = out.compare("GT" if descending else "LT", other, one)
    same = out.compare("EQ", other, one)
    if x.dtype.is_floating_point:
        is_nan, is_other_nan = out.compare("NE", one, one), out.compare("NE", other, other)
        first, second = (is_other_nan, is_nan) if descending else (is_nan, is_other_nan)
        before = out.binary("or", before, out.binary("and", first, out.unary("not", second)))
        same = out.binary("or", same, out.binary("and", is_nan, is_other_nan))
    place, other_place = _places_beside_each_other(out, x, axis)
    before = out.binary("or", before, out.binary("and", same, out.compare("GT", place, other_place)))
    ranks = out.reduce("add", out.cast(before, torch.int64), [axis + 1], 0)
    _, rank = _beside_each_other(out, ranks, axis)
    is_here = out.compare("EQ", place, rank)
    places = out.reduce("add", out.select(is_here, other_place, out.full(0, torch.int64)), [axis + 1], 0)
    flat = out.reshape(x, [product(x.dims)])
    return taken(out, flat, 0, numbers_along(out, x, axis, places)), places


def _beside_each_other(out: StableHloBuilder, x: Array, axis: int) -> tuple[Array, Array]:
    """The elements, and those that each is compared with, which one more dimension behind `axis` counts."""
    length = x.dims[axis]
    if out.for_iree:
        out.need(length, "<=", MOST_COMPARED)
    dims = [*x.dims[: axis + 1], length, *x.dims[axis + 1 :]]
    before, behind = list(range(axis)), list(range(axis + 2, x.rank + 1))
    first = out.broadcast_to(x, dims, [*before, axis, *behind])
    return first, out.broadcast_to(x, dims, [*before, axis + 1, *behind])


def _places_beside_each_other(out: StableHloBuilder, x: Array, axis: int) -> tuple[Array, Array]:
    dims = [*x.dims[: axis + 1], x.dims[axis], *x.dims[axis + 1 :]]
    return out.iota(torch.int64, dims, axis), out.iota(torch.int64, dims, axis + 1)


@_of("aten::sort")
def sort(out: StableHloBuilder, x: object, *options: object) -> Sequence[Array]:
    """With `stable`, it stands before the dimension."""
    dim, descending = options[-2:]
    return _ordered(out, x, dim, descending)[:2]


@_of("aten::topk")
def topk(
    out: StableHloBuilder, x: object, k: object, dim: object = -1, largest: object = True, is_sorted: object = True
) -> Sequence[Array]:
    count = out.dim_of(k)
    values, places, axis = _ordered(out, x, dim, largest)
    out.need(count, "<=", values.dims[axis])
    return [out.slice(part, axis, 0, count) for part in (values, places)]


@_of("aten::cumsum")
def cumsum(out: StableHloBuilder, x: object, dim: object, dtype: object = None) -> Array:
    """A sum for each element: in each step of those of twice as many elements as before."""
    result = out.results[0].dtype
    given = out.operand(out.given(x), accumulated_in(result))
    if given.rank == 0:
        return out.cast(given, result)
    axis = axis_of(dim, given.rank)
    length = given.dims[axis]
    if not isinstance(length, int):
        return out.cast(_sums_of_all_before(out, given, axis), result)
    reach = 1
    while reach < length:
        before, after = [0] * given.rank, [0] * given.rank
        before[axis] = reach
        shifted = out.pad(out.slice(given, axis, 0, length - reach), out.full(0, given.dtype), before, after)
        given = out.binary("add", given, shifted)
        reach *= 2
    return out.cast(given, result)


def _sums_of_all_before(out: StableHloBuilder, x: Array, axis: int) -> Array:
    """The same where the number of steps is not known."""
    _, other = _beside_each_other(out, x, axis)
    is_before = out.compare("GE", *_places_beside_each_other(out, x, axis))
    return out.reduce("add", out.select(is_before, other, out.full(0, x.dtype)), [axis + 1], 0)
