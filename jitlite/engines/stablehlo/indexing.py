"""Operators that take and put elements at indices.

Elements are put into the flat tensor, each at the number of its place, so that one form of scatter is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from jitlite.base.records import Record
from jitlite.engines.converters import constants
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder, axis_of, is_static
from jitlite.engines.stablehlo.literals import array, ints, tensor_type
from jitlite.engines.stablehlo.reductions import lowest
from jitlite.engines.stablehlo.sizes import Dim, maximum, minimum, product
from jitlite.engines.stablehlo.views import bound_of

_of = CONVERTERS.of
_END = 2**63 - 1
MOST_COMPARED = 1024
"""Where elements are compared with each other for IREE, more than so many are left to torch."""


# -- parts that an index names


def taken(out: StableHloBuilder, x: Array, axis: int, index: Array) -> Array:
    """The parts of `x` that an index of any rank names along a dimension. It has to be in range."""
    if x.dims[axis] == 0:
        raise EngineRefusal("it takes elements of an empty tensor")
    dims = [*x.dims[:axis], *index.dims, *x.dims[axis + 1 :]]
    offsets = [d for d in range(len(dims)) if not axis <= d < axis + index.rank]
    numbers = (
        f"#stablehlo.gather<offset_dims = {ints(offsets)}, collapsed_slice_dims = [{axis}], "
        f"start_index_map = [{axis}], index_vector_dim = {index.rank}>"
    )
    sizes: list[Dim] = [*x.dims[:axis], 1, *x.dims[axis + 1 :]]
    made = tensor_type(x.dtype, dims)
    if is_static(sizes):
        known = array([n for n in sizes if isinstance(n, int)])
        text = (
            f'"stablehlo.gather"({x.name}, {index.name}) {{dimension_numbers = {numbers}, slice_sizes = {known}, '
            f"indices_are_sorted = false}} : ({x.type}, {index.type}) -> {made}"
        )
        return out.line(text, x.dtype, dims)
    text = (
        f'"stablehlo.torch_index_select"({x.name}, {index.name}) {{dim = {axis} : i64, batch_dims = 0 : i64}} : '
        f"({x.type}, {index.type}) -> {made}"
    )
    return out.line(text, x.dtype, dims)


def _in_range(out: StableHloBuilder, index: Array, length: Dim) -> None:
    """Have calls refused in which an index is negative or too large."""
    if index.dtype.is_floating_point or index.dtype is torch.bool:
        raise EngineRefusal("its index is no tensor of ints")
    inside = out.binary(
        "and",
        out.compare("GE", index, out.full(0, index.dtype)),
        out.compare("LT", index, out.cast(out.scalar(length), index.dtype)),
    )
    out.all_true(inside, "an index is out of range")


def _from_the_start(out: StableHloBuilder, index: Array, length: Dim) -> Array:
    """An index, of which a negative one counts from the end."""
    if index.dtype.is_floating_point or index.dtype in (torch.bool, torch.uint8):
        raise EngineRefusal("its index is a mask")
    at = out.cast(index, torch.int64)
    is_negative = out.compare("LT", at, out.full(0, at.dtype))
    found = out.select(is_negative, out.binary("add", at, out.scalar(length)), at)
    _in_range(out, found, length)
    return found


@_of("aten::index_select")
def index_select(out: StableHloBuilder, x: object, dim: object, index: object) -> Array:
    given, at = out.given(x), out.given(index)
    if given.rank == 0:
        raise EngineRefusal("a tensor without dimensions is selected from")
    if at.rank == 0:
        at = out.reshape(at, [1])
    axis = axis_of(dim, given.rank)
    _in_range(out, at, given.dims[axis])
    return taken(out, given, axis, at)


@_of("aten::embedding")
def embedding(out: StableHloBuilder, weight: object, indices: object, *options: object) -> Array:
    table, at = out.given(weight), out.given(indices)
    _in_range(out, at, table.dims[0])
    return taken(out, table, 0, at)


@_of("aten::gather")
def gather(out: StableHloBuilder, x: object, dim: object, index: object, sparse_grad: object = False) -> Array:
    given, at = out.given(x), out.given(index)
    if given.rank == 0 or at.rank != given.rank:
        raise EngineRefusal("a tensor without dimensions is gathered from")
    axis = axis_of(dim, given.rank)
    _in_range(out, at, given.dims[axis])
    for d, (n, m) in enumerate(zip(at.dims, given.dims, strict=True)):
        if d != axis:
            out.need(n, "<=", m)
    if product(given.dims) == 0:
        raise EngineRefusal("it takes elements of an empty tensor")
    parts = [at if d == axis else out.iota(at.dtype, at.dims, d) for d in range(at.rank)]
    places = out.concatenate([out.reshape(p, [*p.dims, 1]) for p in parts], at.rank)
    axes = list(range(at.rank))
    numbers = (
        f"#stablehlo.gather<collapsed_slice_dims = {ints(axes)}, start_index_map = {ints(axes)}, "
        f"index_vector_dim = {at.rank}>"
    )
    text = (
        f'"stablehlo.gather"({given.name}, {places.name}) {{dimension_numbers = {numbers}, '
        f"slice_sizes = {array([1] * at.rank)}, indices_are_sorted = false}} : "
        f"({given.type}, {places.type}) -> {tensor_type(given.dtype, at.dims)}"
    )
    return out.line(text, given.dtype, at.dims)


# -- several indices


class _NumberedPlaces(Record):
    """Where elements are taken from or put.

    Attributes:
        axes: the dimensions that have an index.
        numbers: of the places, counted over these dimensions.
    """

    axes: list[int]
    numbers: Array

    def order(self, x: Array) -> list[int]:
        """The dimensions of `x`, those with an index first."""
        return [*self.axes, *(d for d in range(x.rank) if d not in self.axes)]

    def result_order(self, rank: int) -> list[int]:
        """The order that brings the dimensions of the indices, which are the first, to their place in the result.

        That is the place of those that have an index if these are neighbours, else the front.
        """
        are_neighbours = self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        first = self.axes[0] if are_neighbours else 0
        behind = list(range(self.numbers.rank, rank))
        return [*behind[:first], *range(self.numbers.rank), *behind[first:]]


def _places(out: StableHloBuilder, x: Array, indices: object) -> _NumberedPlaces:
    if not isinstance(indices, list):
        raise EngineRefusal("its indices are not written out")
    axes = [d for d, value in enumerate(indices) if value is not None]
    if not axes:
        raise EngineRefusal("it has no index")
    given = [_from_the_start(out, out.given(indices[d]), x.dims[d]) for d in axes]
    number = given[0]
    for d, index in zip(axes[1:], given[1:], strict=True):
        number = out.binary("add", out.binary("multiply", number, out.scalar(x.dims[d])), index)
    return _NumberedPlaces(axes, number)


def _inverse(order: Sequence[int]) -> list[int]:
    return [list(order).index(d) for d in range(len(order))]


@_of("aten::index", "aten::_unsafe_index")
def index(out: StableHloBuilder, x: object, indices: object) -> Array:
    given = out.given(x)
    places = _places(out, given, indices)
    if len(places.axes) == 1:
        return taken(out, given, places.axes[0], places.numbers)
    order = places.order(given)
    moved = out.transpose(given, order)
    count, rest = len(places.axes), moved.dims[len(places.axes) :]
    found = taken(out, out.reshape(moved, [product(moved.dims[:count]), *rest]), 0, places.numbers)
    return out.transpose(found, places.result_order(found.rank))


@_of("aten::diagonal", "aten::diagonal_copy")
def diagonal(out: StableHloBuilder, x: object, offset: object = 0, first: object = 0, second: object = 1) -> Array:
    given, shift = out.given(x), constants(offset)[0]
    axes = [axis_of(first, given.rank), axis_of(second, given.rank)]
    others = [d for d in range(given.rank) if d not in axes]
    below, beside = max(-shift, 0), max(shift, 0)
    rows, columns = (given.dims[d] for d in axes)
    length = maximum(minimum(rows - below, columns - beside), 0)
    if length == 0:
        return out.full(0, given.dtype, [*(given.dims[d] for d in others), 0])
    moved = out.transpose(given, [*axes, *others])
    flat = out.reshape(moved, [rows * columns, *moved.dims[2:]])
    counted = out.iota(torch.int64, [length], 0)
    numbers = out.binary(
        "add", out.binary("multiply", counted, out.scalar(columns + 1)), out.scalar(columns * below + beside)
    )
    found = taken(out, flat, 0, numbers)
    return out.transpose(found, [*range(1, found.rank), 0])


# -- elements that are put


def _put(out: StableHloBuilder, x: Array, axis: int, index: Array, values: Array, op: str) -> Array:
    """`x` with values at places along a dimension.

    Args:
        index, values: of the same sizes, none of which but that of the dimension is greater than that of `x`.
        op: joins an element that is there and one that is put; the latter alone if empty.
    """
    if product(values.dims) == 0:
        return x
    if product(x.dims) == 0:
        raise EngineRefusal("it puts elements into an empty tensor")
    if out.for_iree:
        return _put_by_comparing(out, x, axis, _as_wide(out, index, x, axis, -1), _as_wide(out, values, x, axis, 0), op)
    return _scattered(out, x, numbers_along(out, x, axis, index), values, op)


def _scattered(out: StableHloBuilder, x: Array, numbers: Array, values: Array, op: str) -> Array:
    """The places are numbered as the elements of `x` are, in order."""
    flat, count = out.reshape(x, [product(x.dims)]), product(values.dims)
    at, put = out.reshape(numbers, [count, 1]), out.reshape(values, [count])
    element, name = tensor_type(x.dtype, ()), out.new_name()
    joined = "%joined" if op else "%new"
    body = [f"%joined = stablehlo.{op} %old, %new : {element}"] if op else []
    text = (
        f'"stablehlo.scatter"({flat.name}, {at.name}, {put.name}) ({{\n  ^bb0(%old: {element}, %new: {element}):\n'
        + "".join(f"    {line}\n" for line in [*body, f"stablehlo.return {joined} : {element}"])
        + "  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, "
        f"unique_indices = false}} : ({flat.type}, {at.type}, {put.type}) -> {flat.type}"
    )
    out.lines.append(f"{name} = {text}")
    return out.reshape(Array(name, x.dtype, 1, dims=flat.dims), x.dims)


def _as_wide(out: StableHloBuilder, given: Array, x: Array, axis: int, filler: int) -> Array:
    """A tensor with the sizes of `x` but for one dimension; what it has not is filled."""
    after = [0] * x.rank
    for d, (n, m) in enumerate(zip(given.dims, x.dims, strict=True)):
        if d != axis and isinstance(n, int) and isinstance(m, int):
            after[d] = m - n
        elif d != axis:
            out.need(n, "==", m)
    wide = out.pad(given, out.full(filler, given.dtype), [0] * x.rank, after)
    return out.broadcast_to(wide, [*x.dims[:axis], given.dims[axis], *x.dims[axis + 1 :]])


def _put_by_comparing(out: StableHloBuilder, x: Array, axis: int, index: Array, values: Array, op: str) -> Array:
    """Each place is compared with each index. IREE has scatter, but writes into tensors that others still read."""
    count = index.dims[axis]
    out.need(count, "<=", MOST_COMPARED)
    dims = [*x.dims[: axis + 1], count, *x.dims[axis + 1 :]]
    beside = [*range(axis), *range(axis + 1, x.rank + 1)]
    is_here = out.compare("EQ", out.broadcast_to(index, dims, beside), out.iota(torch.int64, dims, axis))
    if op:
        neutral = _neutral(op, x.dtype)
        chosen = out.select(is_here, out.broadcast_to(values, dims, beside), out.full(neutral, x.dtype))
        return out.binary(op, x, out.reduce(op, chosen, [axis + 1], neutral))
    numbers = out.select(is_here, out.iota(torch.int64, dims, axis + 1), out.full(-1, torch.int64))
    last, zero = out.reduce("maximum", numbers, [axis + 1], -1), out.full(0, torch.int64)
    at = numbers_along(out, values, axis, out.binary("maximum", last, zero))
    found = taken(out, out.reshape(values, [product(values.dims)]), 0, at)
    return out.select(out.compare("GE", last, zero), found, x)


def _neutral(op: str, dtype: torch.dtype) -> float:
    """What changes nothing if it is joined."""
    if op in ("maximum", "minimum"):
        return lowest(dtype, of_minimum=op == "minimum")
    return 1 if op == "multiply" else 0


def numbers_along(out: StableHloBuilder, x: Array, axis: int, index: Array) -> Array:
    """The numbers of the elements of `x` that an index names along a dimension; the other dimensions are its own."""
    found: Array | None = None
    for d in range(x.rank):
        part = index if d == axis else out.iota(torch.int64, index.dims, d)
        stride = product(x.dims[d + 1 :])
        scaled = part if stride == 1 else out.binary("multiply", part, out.scalar(stride))
        found = scaled if found is None else out.binary("add", found, scaled)
    return index if found is None else found


def _scatter_operands(
    out: StableHloBuilder, x: object, dim: object, index: object, values: object
) -> tuple[Array, int, Array, Array]:
    """What is put into, along which dimension, at which places, and what is put."""
    given, at = out.given(x), out.given(index)
    if given.rank == 0 or at.rank != given.rank:
        raise EngineRefusal("a tensor without dimensions is scattered to")
    axis = axis_of(dim, given.rank)
    _in_range(out, at, given.dims[axis])
    for d, (n, m) in enumerate(zip(at.dims, given.dims, strict=True)):
        if d != axis:
            out.need(n, "<=", m)
    part = out.operand(values, given.dtype)
    if part.rank == given.rank:
        for d, (n, m) in enumerate(zip(at.dims, part.dims, strict=True)):
            out.need(n, "<=", m)
            part = out.slice(part, d, 0, n)
    return given, axis, out.cast(at, torch.int64), out.broadcast_to(part, at.dims)


_JOINED_BY = {"add": "add", "sum": "add", "multiply": "multiply", "prod": "multiply", "amax": "maximum",
              "amin": "minimum", "mean": "add"}  # fmt: skip


@_of("aten::scatter")
def scatter(
    out: StableHloBuilder, x: object, dim: object, index: object, values: object, reduce: object = None
) -> Array:
    op = "" if reduce is None else _JOINED_BY[str(reduce)]
    operands = _scatter_operands(out, x, dim, index, values)
    _no_bools(operands[0], op)
    return _put(out, *operands, op)


@_of("aten::scatter_add")
def scatter_add(out: StableHloBuilder, x: object, dim: object, index: object, values: object) -> Array:
    return scatter(out, x, dim, index, values, "add")


def _no_bools(x: Array, op: str) -> None:
    if op and x.dtype is torch.bool:
        raise EngineRefusal("it joins bools")
    if op and x.dtype in (torch.float16, torch.bfloat16):
        raise EngineRefusal("it joins halves, whose sums torch rounds otherwise")


@_of("aten::scatter_reduce")
def scatter_reduce(
    out: StableHloBuilder, x: object, dim: object, index: object, values: object, reduce: object,
    include_self: object = True,
) -> Array:  # fmt: skip
    given, axis, at, part = _scatter_operands(out, x, dim, index, values)
    op, dtype = _JOINED_BY[str(reduce)], given.dtype
    _no_bools(given, op)
    if reduce == "mean" and not dtype.is_floating_point:
        raise EngineRefusal("it averages ints")
    if reduce != "mean" and include_self:
        return _put(out, given, axis, at, part, op)
    nothing, ones = out.full(0, torch.int64, given.dims), out.full(1, torch.int64, part.dims)
    counts = _put(out, nothing, axis, at, ones, "add")
    is_touched = out.compare("GT", counts, out.full(0, torch.int64))
    start = given if include_self else out.select(is_touched, out.full(_neutral(op, dtype), dtype), given)
    found = _put(out, start, axis, at, part, op)
    if reduce != "mean":
        return found
    total = out.binary("add", counts, out.full(1 if include_self else 0, torch.int64))
    return out.select(is_touched, out.binary("divide", found, out.cast(total, dtype)), given)


@_of("aten::index_put", "aten::_unsafe_index_put")
def index_put(out: StableHloBuilder, x: object, indices: object, values: object, accumulate: object = False) -> Array:
    given = out.given(x)
    if not isinstance(accumulate, bool):
        raise EngineRefusal("it is not known whether it adds")
    op = "add" if accumulate else ""
    _no_bools(given, op)
    places = _places(out, given, indices)
    order = places.order(given)
    moved = out.transpose(given, order)
    there, rest = moved.dims[: len(places.axes)], moved.dims[len(places.axes) :]
    result_order = places.result_order(places.numbers.rank + len(rest))
    dims = [[*places.numbers.dims, *rest][d] for d in result_order]
    part = out.operand(values, given.dtype)
    for n, m in zip(part.dims, dims[len(dims) - part.rank :], strict=True):
        if n != 1:
            out.need(n, "==", m)
    count = product(places.numbers.dims)
    spread = out.transpose(out.broadcast_to(part, dims), _inverse(result_order))
    at = out.broadcast_to(out.reshape(places.numbers, [count]), [count, *rest], [0])
    found = _put(out, out.reshape(moved, [product(there), *rest]), 0, at, out.reshape(spread, [count, *rest]), op)
    return out.transpose(out.reshape(found, moved.dims), _inverse(order))


@_of("aten::slice_scatter")
def slice_scatter(
    out: StableHloBuilder, x: object, source: object, dim: object = 0, start: object = None, end: object = None,
    step: object = 1,
) -> Array:  # fmt: skip
    given, part = out.given(x), out.operand(source, out.results[0].dtype)
    axis, pace = axis_of(dim, given.rank), constants(step)[0]
    length = given.dims[axis]
    first = bound_of(out, 0 if start is None else start, length)
    last = maximum(bound_of(out, _END if end is None else end, length), first)
    return _put_between(out, given, part, axis, first, last, pace)


def _put_between(out: StableHloBuilder, x: Array, part: Array, axis: int, first: Dim, last: Dim, step: int) -> Array:
    """A tensor with another in every step-th place of a part of a dimension."""
    count = (last - first + (step - 1)) // step
    out.need(part.dims[axis], "==", count)
    part = out.broadcast_to(part, [*x.dims[:axis], count, *x.dims[axis + 1 :]])
    if count == 0:
        return x
    if step == 1:
        around = [out.slice(x, axis, 0, first), part, out.slice(x, axis, last, x.dims[axis])]
        return out.concatenate([p for p in around if p.dims[axis] != 0], axis)
    places = out.binary("subtract", out.iota(torch.int64, [x.dims[axis]], 0), out.scalar(first))
    pace, zero = out.full(step, torch.int64), out.full(0, torch.int64)
    here = out.binary("and", out.compare("GE", places, zero), out.compare("LT", places, out.scalar(last - first)))
    here = out.binary("and", here, out.compare("EQ", out.binary("remainder", places, pace), zero))
    at = out.select(here, out.binary("divide", places, pace), zero)
    return out.select(out.broadcast_to(here, x.dims, [axis]), taken(out, part, axis, at), x)


@_of("aten::select_scatter")
def select_scatter(out: StableHloBuilder, x: object, source: object, dim: object, index: object) -> Array:
    given = out.given(x)
    axis, at = axis_of(dim, given.rank), out.dim_of(index)
    length = given.dims[axis]
    at = length + at if isinstance(at, int) and at < 0 else at
    out.need(0, "<=", at)
    out.need(at + 1, "<=", length)
    part = out.operand(source, given.dtype)
    part = out.reshape(part, [*part.dims[:axis], 1, *part.dims[axis:]])
    return _put_between(out, given, part, axis, at, at + 1, 1)


# -- padding with elements of the image


def _padded(mode: str, rank: int, out: StableHloBuilder, x: object, pads: object) -> Array:
    """Elements of an image beyond its ends: of the last dimension first, as torch has it."""
    found, widths = out.given(x), constants(pads)
    for i in range(rank):
        axis = found.rank - 1 - i
        length, (before, after) = found.dims[axis], widths[2 * i : 2 * i + 2]
        if mode == "reflect":
            out.need(before + 1, "<=", length)
            out.need(after + 1, "<=", length)
        out.need(1, "<=", length)
        out.need(1, "<=", length + before + after)
        last = out.binary("subtract", out.scalar(length), out.full(1, torch.int64))
        counted = out.iota(torch.int64, [length + before + after], 0)
        at = out.binary("subtract", counted, out.full(before, torch.int64))
        if mode == "reflect":
            from_start = out.unary("abs", at)
            from_end = out.unary("abs", out.binary("subtract", last, from_start))
            at = out.binary("subtract", last, from_end)
        else:
            at = out.binary("maximum", out.binary("minimum", at, last), out.full(0, torch.int64))
        found = taken(out, found, axis, at)
    return found


for _rank in (1, 2, 3):
    _of(f"aten::reflection_pad{_rank}d")(partial(_padded, "reflect", _rank))
    _of(f"aten::replication_pad{_rank}d")(partial(_padded, "edge", _rank))
