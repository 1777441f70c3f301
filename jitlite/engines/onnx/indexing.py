"""Operators that take and put elements at indices, and order them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from jitlite.base.records import Record
from jitlite.engines.converters import Ref, RefList, constants
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.onnx.builder import CONVERTERS, OnnxBuilder

_of = CONVERTERS.of
_END = 2**63 - 1


def axis_of(dim: object, x: Ref) -> int:
    """A dimension, from the first."""
    return constants(dim)[0] % max(x.rank, 1)


def sizes_at(out: OnnxBuilder, x: Ref, start: int, stop: int) -> Ref:
    """The sizes of some dimensions as a list."""
    return out.node("Shape", [x], torch.int64, 1, start=start, end=stop)


def length_of(out: OnnxBuilder, x: Ref, axis: int) -> Ref:
    """The size of a dimension, without dimensions."""
    at = out.tensor(torch.tensor(axis))
    return out.node("Gather", [out.shape(x), at], torch.int64, 0, axis=0)


def int_binary(out: OnnxBuilder, op: str, a: object, b: object) -> Ref:
    """Two int64 joined by an operator, with the greater number of dimensions."""
    left, right = out.operand(a, torch.int64), out.operand(b, torch.int64)
    return out.node(op, [left, right], torch.int64, max(left.rank, right.rank))


def count_up(out: OnnxBuilder, length: Ref) -> Ref:
    """0, 1, 2 and so on."""
    zero, one = out.operand(0, torch.int64), out.operand(1, torch.int64)
    return out.node("Range", [zero, length, one], torch.int64, 1)


def sliced(out: OnnxBuilder, x: Ref, axis: int, start: int | Ref, stop: int | Ref, step: int = 1) -> Ref:
    """A part of one dimension."""
    numbers = [out.ints([value]) for value in (start, stop, axis, step)]
    return out.node("Slice", [x, *numbers], x.dtype, x.rank)


def transposed(out: OnnxBuilder, x: Ref, order: Sequence[int]) -> Ref:
    """The dimensions in another order."""
    return x if list(order) == list(range(x.rank)) else out.like("Transpose", x, perm=list(order))


def _back(order: Sequence[int]) -> list[int]:
    return [list(order).index(d) for d in range(len(order))]


# -- several indices


class _IndexPlaces(Record):
    """Where elements are taken from or put.

    Attributes:
        axes: the dimensions that have an index.
        indices: stacked, an index for each of the dimensions in the last one.
        rank: how many dimensions the indices have together.
    """

    axes: list[int]
    indices: Ref
    rank: int

    def order(self, x: Ref) -> list[int]:
        """The dimensions of `x`, those with an index first."""
        return [*self.axes, *(d for d in range(x.rank) if d not in self.axes)]

    def first(self) -> int:
        """Where the dimensions of the indices are in the result: in place of theirs if these are neighbours."""
        are_neighbours = self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        return self.axes[0] if are_neighbours else 0

    def result_order(self, rank: int) -> list[int]:
        """The order that brings the dimensions of the indices, which are the first, to their place."""
        behind = list(range(self.rank, rank))
        return [*behind[: self.first()], *range(self.rank), *behind[self.first() :]]


def _places(out: OnnxBuilder, indices: object) -> _IndexPlaces:
    if not isinstance(indices, list):
        raise EngineRefusal("its indices are not written out")
    axes = [d for d, value in enumerate(indices) if value is not None]
    given = [out.given(indices[d]) for d in axes]
    if not axes or any(x.dtype.is_floating_point or x.dtype in (torch.bool, torch.uint8) for x in given):
        raise EngineRefusal("its index is a mask, or there is none")
    given = [out.cast(x, torch.int64) for x in given]
    rank = max(x.rank for x in given)
    if len(given) > 1:
        total = given[0]
        for x in given[1:]:
            total = int_binary(out, "Add", total, x)
        nothing = int_binary(out, "Sub", total, total)
        given = [int_binary(out, "Add", x, nothing) for x in given]
    last = out.ints([rank])
    parts = [out.node("Unsqueeze", [x, last], torch.int64, rank + 1) for x in given]
    stacked = out.node("Concat", parts, torch.int64, rank + 1, axis=rank) if len(parts) > 1 else parts[0]
    return _IndexPlaces(axes, stacked, rank)


def _taken(out: OnnxBuilder, x: Ref, places: _IndexPlaces) -> Ref:
    moved = transposed(out, x, places.order(x))
    rank = places.rank + x.rank - len(places.axes)
    found = out.node("GatherND", [moved, places.indices], x.dtype, rank)
    return transposed(out, found, places.result_order(rank))


def _put(out: OnnxBuilder, x: Ref, places: _IndexPlaces, values: Ref, reduction: str) -> Ref:
    """`x` with values at these places; the dimensions of the places are the first ones of the values."""
    order = places.order(x)
    inputs = [transposed(out, x, order), places.indices, values]
    made = out.node("ScatterND", inputs, x.dtype, x.rank, reduction=reduction)
    return transposed(out, made, _back(order))


@_of("aten::index", "aten::_unsafe_index")
def index(out: OnnxBuilder, x: object, indices: object) -> Ref:
    """A negative index counts from the end."""
    return _taken(out, out.given(x), _places(out, indices))


@_of("aten::index_put", "aten::_unsafe_index_put")
def index_put(out: OnnxBuilder, x: object, indices: object, values: object, accumulate: object = False) -> Ref:
    given, places = out.given(x), _places(out, indices)
    if not isinstance(accumulate, bool):
        raise EngineRefusal("it is not known whether it adds")
    if accumulate and given.dtype is torch.bool:
        raise EngineRefusal("it adds bools")
    others = [d for d in range(given.rank) if d not in places.axes]
    front = places.first()
    shapes = [sizes_at(out, given, d, d + 1) for d in others]
    shape = [*shapes[:front], sizes_at(out, places.indices, 0, places.rank), *shapes[front:]]
    joined = out.node("Concat", shape, torch.int64, 1, axis=0)
    rank = places.rank + len(others)
    spread = out.node("Expand", [out.operand(values, given.dtype), joined], given.dtype, rank)
    return _put(
        out, given, places, transposed(out, spread, _back(places.result_order(rank))), "add" if accumulate else "none"
    )


@_of("aten::diagonal", "aten::diagonal_copy")
def diagonal(out: OnnxBuilder, x: object, offset: object = 0, first: object = 0, second: object = 1) -> Ref:
    given, shift = out.given(x), constants(offset)[0]
    axes = [axis_of(first, given), axis_of(second, given)]
    lengths = [
        int_binary(out, "Sub", length_of(out, given, d), before)
        for d, before in zip(axes, (max(-shift, 0), max(shift, 0)), strict=True)
    ]
    length = int_binary(out, "Max", int_binary(out, "Min", *lengths), 0)
    counted = count_up(out, length)
    last = out.ints([1])
    parts = [
        out.node("Unsqueeze", [int_binary(out, "Add", counted, n), last], torch.int64, 2)
        for n in (max(-shift, 0), max(shift, 0))
    ]
    order = [*axes, *(d for d in range(given.rank) if d not in axes)]
    places = out.node("Concat", parts, torch.int64, 2, axis=1)
    found = out.node("GatherND", [transposed(out, given, order), places], given.dtype, given.rank - 1)
    return transposed(out, found, [*range(1, given.rank - 1), 0])


# -- scattered elements


def _scattered(
    out: OnnxBuilder, x: object, dim: object, index: object, values: object, reduction: str
) -> Ref:  # fmt: skip
    given, at = out.given(x), out.given(index)
    if given.rank == 0 or at.rank != given.rank:
        raise EngineRefusal("a tensor without dimensions is scattered to")
    if reduction != "none" and given.dtype is torch.bool:
        raise EngineRefusal("it adds bools")
    shape = out.shape(at)
    if isinstance(values, Ref) and values.rank == given.rank:
        zeros, axes = out.ints([0] * given.rank), out.ints(list(range(given.rank)))
        part = out.node("Slice", [out.cast(values, given.dtype), zeros, shape, axes], given.dtype, given.rank)
    else:
        part = out.node("Expand", [out.operand(values, given.dtype), shape], given.dtype, given.rank)
    return out.result("ScatterElements", [given, at, part], axis=axis_of(dim, given), reduction=reduction)


@_of("aten::scatter")
def scatter(out: OnnxBuilder, x: object, dim: object, index: object, values: object) -> Ref:
    return _scattered(out, x, dim, index, values, "none")


@_of("aten::scatter_add")
def scatter_add(out: OnnxBuilder, x: object, dim: object, index: object, values: object) -> Ref:
    return _scattered(out, x, dim, index, values, "add")


@_of("aten::scatter_reduce")
def scatter_reduce(
    out: OnnxBuilder, x: object, dim: object, index: object, values: object, reduce: object,
    include_self: object = True,
) -> Ref:  # fmt: skip
    given = out.given(x)
    found = {"sum": "add", "prod": "mul"}.get(str(reduce))
    if found is None and not given.dtype.is_floating_point:  # of floats, onnxruntime loses nan
        found = {"amax": "max", "amin": "min"}.get(str(reduce))
    if found is None or include_self is not True:
        raise EngineRefusal("it joins elements otherwise than ONNX does")
    return _scattered(out, x, dim, index, values, found)


def _put_along(out: OnnxBuilder, x: Ref, axis: int, places: Ref, values: Ref) -> Ref:
    """`x` with values at places along one dimension."""
    at = out.node("Unsqueeze", [places, out.ints([1])], torch.int64, 2)
    order = [axis, *(d for d in range(x.rank) if d != axis)]
    return _put(out, x, _IndexPlaces([axis], at, 1), transposed(out, values, order), "none")


@_of("aten::slice_scatter")
def slice_scatter(
    out: OnnxBuilder, x: object, source: object, dim: object = 0, start: object = None, end: object = None,
    step: object = 1,
) -> Ref:  # fmt: skip
    given, part = out.given(x), out.operand(source, out.results[0].dtype)
    axis, pace = axis_of(dim, given), constants(step)[0]
    first, last = 0 if start is None else start, _END if end is None else end
    if not isinstance(first, int | Ref) or not isinstance(last, int | Ref):
        raise EngineRefusal("its bounds are no numbers")
    if isinstance(first, int) and isinstance(last, int) and 0 <= first <= last and pace == 1:
        parts = [part] if first == 0 else [sliced(out, given, axis, 0, first), part]
        parts += [] if last == _END else [sliced(out, given, axis, last, _END)]
        return out.result("Concat", parts, axis=axis) if len(parts) > 1 else part
    places = sliced(out, count_up(out, length_of(out, given, axis)), 0, first, last, pace)
    return _put_along(out, given, axis, places, part)


@_of("aten::select_scatter")
def select_scatter(out: OnnxBuilder, x: object, source: object, dim: object, index: object) -> Ref:
    given, axis = out.given(x), axis_of(dim, out.given(x))
    if not isinstance(index, int | Ref):
        raise EngineRefusal("its index is no number")
    part = out.operand(source, given.dtype)
    part = out.node("Unsqueeze", [part, out.ints([axis])], given.dtype, given.rank)
    return _put_along(out, given, axis, out.ints([index]), part)


# -- parts of dimensions


@_of("aten::split_with_sizes", "aten::split_with_sizes_copy")
def split_with_sizes(out: OnnxBuilder, x: object, sizes: object, dim: object = 0) -> RefList:
    given = out.given(x)
    if not isinstance(sizes, list):
        raise EngineRefusal("its sizes are not written out")
    results = [(given.dtype, given.rank)] * len(sizes)
    parts = out.nodes_of("Split", [given, out.ints(sizes)], results, axis=axis_of(dim, given))
    return RefList("", given.dtype, given.rank, parts=tuple(parts))


@_of("aten::flip")
def flip(out: OnnxBuilder, x: object, dims: object) -> Ref:
    found = out.given(x)
    for d in constants(dims):
        found = sliced(out, found, axis_of(d, found), -1, -_END, -1) if found.rank else found
    return found


@_of("aten::roll")
def roll(out: OnnxBuilder, x: object, shifts: object, dims: object = ()) -> Ref:
    given = out.given(x)
    numbers, axes = constants(shifts), constants(dims)
    if not axes and given.rank:
        flat = out.node("Reshape", [given, out.ints([-1])], given.dtype, 1)
        return out.result("Reshape", [_rolled(out, flat, 0, numbers[0]), out.shape(given)])
    for number, d in zip(numbers, axes if given.rank else (), strict=False):
        given = _rolled(out, given, axis_of(d, given), number)
    return given


def _rolled(out: OnnxBuilder, x: Ref, axis: int, shift: int) -> Ref:
    length = int_binary(out, "Max", length_of(out, x, axis), 1)
    start = int_binary(out, "Mod", -shift, length)
    parts = [sliced(out, x, axis, start, _END), sliced(out, x, axis, 0, start)]
    return out.node("Concat", parts, x.dtype, x.rank, axis=axis)


# -- order


def _order_key(out: OnnxBuilder, x: Ref) -> Ref:
    """Numbers in the same order, of a dtype that onnxruntime orders; nan is the greatest, as in torch."""
    if not x.dtype.is_floating_point:
        return out.cast(x, torch.int64)
    if x.dtype is torch.float64:
        raise EngineRefusal("it orders float64, for which ONNX leaves open where nan is")
    wide = out.cast(x, torch.float64)
    large = out.operand(1e300, torch.float64)  # beyond every other number of a smaller dtype
    finite = out.node("Min", [wide, large], torch.float64, x.rank)
    is_nan = out.node("IsNaN", [wide], torch.bool, x.rank)
    return out.node("Where", [is_nan, out.operand(float("inf"), torch.float64), finite], torch.float64, x.rank)


def _first_places(out: OnnxBuilder, x: Ref, axis: int, count: Ref, largest: bool) -> Ref:
    """Where the greatest elements are, or the smallest; of equal ones the first come first."""
    key = _order_key(out, x)
    results = [(key.dtype, x.rank), (torch.int64, x.rank)]
    return out.nodes_of("TopK", [key, count], results, axis=axis, largest=int(largest), sorted=1)[1]


def _ordered(
    out: OnnxBuilder, x: object, dim: object, descending: object, count: Ref | None = None
) -> list[Ref]:  # fmt: skip
    given = out.given(x)
    if given.rank == 0 or not isinstance(descending, bool):
        raise EngineRefusal("it orders a tensor without dimensions, or in an order that is not known")
    axis = axis_of(dim, given)
    number = sizes_at(out, given, axis, axis + 1) if count is None else count
    places = _first_places(out, given, axis, number, descending)
    return [out.node("GatherElements", [given, places], given.dtype, given.rank, axis=axis), places]


@_of("aten::sort")
def sort(out: OnnxBuilder, x: object, *options: object) -> list[Ref]:
    """With `stable`, it stands before the dimension."""
    dim, descending = options[-2:]
    return _ordered(out, x, dim, descending)


@_of("aten::topk")
def topk(
    out: OnnxBuilder, x: object, k: object, dim: object = -1, largest: object = True, is_sorted: object = True
) -> list[Ref]:
    if not isinstance(k, int | Ref):
        raise EngineRefusal("how many it gives is no number")
    return _ordered(out, x, dim, largest, out.ints([k]))


def _extreme_place(out: OnnxBuilder, x: Ref, axis: int, largest: bool) -> Ref:
    """Where the extremum is; nan counts as it, for the smallest too."""
    if not largest and x.dtype.is_floating_point:
        return _first_places(out, out.like("Neg", x), axis, out.ints([1]), True)
    return _first_places(out, x, axis, out.ints([1]), largest)


def _place_of_extremum(largest: bool, out: OnnxBuilder, x: object, dim: object = None, keep: object = False) -> Ref:
    given = out.given(x)
    if given.rank == 0:
        return out.operand(0, torch.int64)
    if dim is None:
        flat = out.node("Reshape", [given, out.ints([-1])], given.dtype, 1)
        shape = out.ints([1] * given.rank if keep else [])
        place = _extreme_place(out, flat, 0, largest)
        return out.node("Reshape", [place, shape], torch.int64, given.rank if keep else 0)
    axis = axis_of(dim, given)
    place = _extreme_place(out, given, axis, largest)
    return place if keep else out.node("Squeeze", [place, out.ints([axis])], torch.int64, given.rank - 1)


_of("aten::argmax")(partial(_place_of_extremum, True))
_of("aten::argmin")(partial(_place_of_extremum, False))


def _extremum(largest: bool, out: OnnxBuilder, x: object, dim: object, keep: object = False) -> list[Ref]:
    given = out.given(x)
    if not isinstance(dim, int) or given.rank == 0:
        raise EngineRefusal("it has no dimension that it goes along")
    axis = axis_of(dim, given)
    place = _extreme_place(out, given, axis, largest)
    value = out.node("GatherElements", [given, place], given.dtype, given.rank, axis=axis)
    if keep:
        return [value, place]
    at = out.ints([axis])
    return [out.node("Squeeze", [v, at], v.dtype, given.rank - 1) for v in (value, place)]


_of("aten::max")(partial(_extremum, True))
_of("aten::min")(partial(_extremum, False))


@_of("aten::cumsum")
def cumsum(out: OnnxBuilder, x: object, dim: object, dtype: object = None) -> Ref:
    given = out.operand(out.given(x), out.results[0].dtype)
    if given.rank == 0:
        return given
    if given.dtype not in (torch.float32, torch.float64, torch.int32, torch.int64):
        raise EngineRefusal(f"onnxruntime has no cumulative sum of {given.dtype}")
    return out.result("CumSum", [given, out.tensor(torch.tensor(axis_of(dim, given)))])
