"""Operators that write elements where other tensors say: `scatter`, `index_add`, `x[i] = value`, counts.

Positions are read one by one, in order, so the last one of several writes to an element stays, and sums are added up in
the order of positions. That is what torch does in one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.ir import types as T
from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.elementwise import elementwise, sample_of
from jitlite.kernels.indexing import indexed, listed_indices
from jitlite.kernels.loop_ir import (
    BOOL,
    I32,
    I64,
    Fill,
    Lane,
    LaneCast,
    LaneOperator,
    Operand,
    Place,
    Read,
    Repeat,
    Scalar,
)
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.reading import read
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.totals import reduced
from jitlite.kernels.values import TensorValue, Value, identity, is_one
from jitlite.kernels.views import expanded
from jitlite.kernels.writing import store, writable
from jitlite.native.code import NotNative

Point = tuple[Operand, ...]


# -- loops over positions


def for_each(builder: KernelBuilder, sizes: Sequence[Operand], body: Callable[[Point], None], at: Point = ()) -> None:
    """Write a loop over the points of a space, in order."""
    if len(at) == len(sizes):
        body(at)
        return
    size = sizes[len(at)]
    if is_one(size):
        for_each(builder, sizes, body, (*at, 0))
        return
    index = builder.scalar(T.INT, "i")
    with builder.block(is_loop=True) as statements:
        for_each(builder, sizes, body, (*at, index))
        level = builder.level
    builder.write(Repeat(index, size, None, statements, level, polls=False))


def part(builder: KernelBuilder, place: Place, dims: Sequence[int], at: Sequence[Operand]) -> Place:
    """What is at positions along some dimensions; the others are left."""
    offset = place.offset
    for d, position in zip(dims, at, strict=True):
        offset = builder.index("add", offset, builder.index("mul", position, place.strides[d]))
    kept = [d for d in range(place.rank) if d not in dims]
    return Place(place.buffer, offset, tuple(place.sizes[d] for d in kept), tuple(place.strides[d] for d in kept))


def position(builder: KernelBuilder, index: Place, at: Point, size: Operand, *, wraps: bool) -> Operand:
    """A position that a tensor says; the kernel gives up where it is outside."""
    found: Operand = builder.scalar(T.INT)
    assert isinstance(found, Scalar)
    builder.write(Read(found, part(builder, index, range(index.rank), at)))
    if wraps:
        from_end = builder.index("add", found, size)
        found = builder.index("select", builder.index("lt", found, 0), from_end, found)
    is_inside = builder.index("and", builder.index("le", 0, found), builder.index("lt", found, size))
    builder.check(is_inside, "an index is out of range")
    return found


def put(builder: KernelBuilder, into: Place, value: Place | Operand, *, adds: bool, scale: Operand = 1) -> None:
    """Store elements, or add them to what is there."""
    nest = NestBuilder(builder, into.sizes, identity(into.sizes))
    lane: Lane = nest.load(value) if isinstance(value, Place) else Fill(into.dtype, value)
    if adds:
        if into.dtype.wide is not None:
            raise NotNative(f"sums of {into.dtype} at places that tensors say, which torch does in its own way")
        if isinstance(scale, Scalar) or scale != 1:
            lane = LaneOperator(into.dtype, "mul", (lane, Fill(into.dtype, scale)))
        lane = LaneOperator(into.dtype, "add", (nest.load(into), lane))
    nest.write([(into, lane)])


# -- what is written


def _target(call: Call) -> TensorValue:
    """The tensor that is written: the operand itself, or a copy of it."""
    value, lowering = call.first(), call.lowering
    if value.rank == 0:
        raise NotNative(f"{call.node.kind} of a tensor without dimensions")
    if call.name.endswith("_"):
        writable(lowering, value)
        return value
    if not value.in_order:
        raise NotNative(f"{call.node.kind} of a tensor that lies in another order")
    made = lowering.memory(value.dtype, value.sizes)
    assert made.place is not None
    lowering.copy(value, made.place)
    return made


def _apart(call: Call, target: TensorValue, value: TensorValue) -> Place:
    """Where an operand is, which has to be in other memory."""
    assert target.place is not None
    place = call.lowering.force(value)
    if place.buffer is target.place.buffer:
        raise NotNative(f"{call.node.kind} writes what it reads")
    return place


def _index(call: Call, target: TensorValue, name: str = "index") -> Place:
    value = call.tensor(name)
    if value.dtype not in (I64, I32):
        raise NotNative(f"{call.node.kind} with an index of {value.dtype}")
    return _apart(call, target, value)


def _source(call: Call, target: TensorValue, name: str) -> Place | Operand:
    """What is written: a number, or a tensor of the same type."""
    value = call.element(name)
    if not isinstance(value, TensorValue):
        _check_number(target, value)
        return value
    if value.dtype is not target.dtype:
        raise NotNative(f"{call.node.kind} of two dtypes")
    return _apart(call, target, value)


def _check_number(target: TensorValue, value: Operand) -> None:
    if isinstance(sample_of(value), float) and not target.dtype.is_float:
        raise NotNative("a float is written among ints")


@rule("aten::scatter", "aten::scatter_add", narrow=Narrow.AS_THEY_ARE)
def scatter(call: Call) -> Value:
    """Each element of the index says where one goes, along the dimension."""
    if call.has("reduce"):
        raise NotNative("scatter with a reduction")
    lowering, target = call.lowering, _target(call)
    index, dim = _index(call, target), call.dim("dim", target.rank)
    value = _source(call, target, "value" if call.has("value") else "src")
    into = target.place
    assert into is not None
    if index.rank != into.rank or index.dtype is not I64 or (isinstance(value, Place) and value.rank != into.rank):
        raise NotNative("scatter of such shapes")
    for d, size in enumerate(index.sizes):
        if d != dim:
            lowering.check(lowering.index("le", size, into.sizes[d]), "scatter with an index that is larger")
        if isinstance(value, Place):
            lowering.check(lowering.index("le", size, value.sizes[d]), "scatter of fewer elements")

    def one(at: Point) -> None:
        to = position(lowering, index, at, into.sizes[dim], wraps=False)
        element = part(lowering, into, range(into.rank), (*at[:dim], to, *at[dim + 1 :]))
        source = part(lowering, value, range(into.rank), at) if isinstance(value, Place) else value
        put(lowering, element, source, adds="add" in call.name)

    for_each(lowering, index.sizes, one)
    return target


@rule("aten::index_add", "aten::index_copy", "aten::index_fill", narrow=Narrow.AS_THEY_ARE)
def index_rows(call: Call) -> Value:
    """Each element of the index says where a slice goes."""
    lowering, target = call.lowering, _target(call)
    index, dim = _index(call, target), call.dim("dim", target.rank)
    value = _source(call, target, "value" if call.name.startswith("index_fill") else "source")
    into = target.place
    assert into is not None
    if index.rank != 1 or (isinstance(value, Place) and value.rank not in (0, into.rank)):
        raise NotNative(f"{call.node.kind} of such shapes")
    is_rows = isinstance(value, Place) and value.rank
    if isinstance(value, Place) and is_rows:
        wanted = [index.sizes[0] if d == dim else size for d, size in enumerate(into.sizes)]
        for size, own in zip(wanted, value.sizes, strict=True):
            lowering.require_equal(size, own, "rows of other sizes")
    scale = call.number("alpha") if call.has("alpha") else 1

    def one(at: Point) -> None:
        to = position(lowering, index, at, into.sizes[dim], wraps=call.name.startswith("index_fill"))
        source = part(lowering, value, [dim], at) if isinstance(value, Place) and is_rows else value
        put(lowering, part(lowering, into, [dim], [to]), source, adds="add" in call.name, scale=scale)

    for_each(lowering, index.sizes, one)
    return target


rule("aten::scatter_", "aten::scatter_add_", writes=True)(scatter)
rule("aten::index_add_", "aten::index_copy_", "aten::index_fill_", writes=True)(index_rows)


# -- x[i] = value


@rule("prim::SetTensorItem", writes=True)
def set_item(call: Call) -> Value:
    lowering = call.lowering
    writable(lowering, call.first())
    target, tensors = indexed(call, call.node.inputs[2:])
    value = lowering.value(call.node.inputs[1])
    if not isinstance(value, TensorValue | Scalar | bool | int | float):
        raise NotNative("what is written is no tensor or number")
    if isinstance(value, TensorValue) and value.dtype is not target.dtype:
        raise NotNative("a tensor of another dtype is written")
    if not isinstance(value, TensorValue):
        _check_number(target, value)
    if not tensors:
        store(lowering, target, value)
    elif tensors[0][1].dtype is BOOL:
        _fill_masked(call, target, tensors[0][1], value)
    else:
        _put_rows(call, target, tensors, value)
    return []


def _fill_masked(call: Call, target: TensorValue, mask: TensorValue, value: TensorValue | Operand) -> None:
    lowering, into = call.lowering, target.place
    assert into is not None
    if isinstance(value, TensorValue) or mask.rank > into.rank:
        raise NotNative("elements that a mask chooses are written with those of a tensor")
    place = _apart(call, target, mask)
    for size, own in zip(into.sizes, place.sizes, strict=False):
        lowering.require_equal(size, own, "a mask of another shape")
    behind = into.rank - place.rank
    nest = NestBuilder(lowering, into.sizes, identity(into.sizes))
    is_chosen = nest.load(Place(place.buffer, place.offset, place.sizes + (1,) * behind, place.strides + (0,) * behind))
    lanes = (is_chosen, Fill(into.dtype, value), nest.load(into))
    nest.write([(into, LaneOperator(into.dtype, "where", lanes))])


def _put_rows(
    call: Call,
    target: TensorValue,
    tensors: Sequence[tuple[int, TensorValue]],
    value: TensorValue | Operand,
    *,
    adds: bool = False,
) -> None:
    """`x[..., i, j, ...] = value`, or `+=` for each element of the indices."""
    lowering, into = call.lowering, target.place
    assert into is not None
    dims = [d for d, _ in tensors]
    shape = lowering.broadcast(*[index.sizes for _, index in tensors])
    indices = [_apart(call, target, expanded(lowering, index, shape)) for _, index in tensors]
    source: Place | Operand
    inside = range(dims[0], dims[0] + len(shape))
    if isinstance(value, TensorValue):
        whole = (*into.sizes[: dims[0]], *shape, *into.sizes[dims[-1] + 1 :])
        source = _apart(call, target, expanded(lowering, value, whole))
    else:
        source = value

    def one(at: Point) -> None:
        to = [position(lowering, p, at, into.sizes[d], wraps=True) for p, d in zip(indices, dims, strict=True)]
        row = part(lowering, source, inside, at) if isinstance(source, Place) else source
        put(lowering, part(lowering, into, dims, to), row, adds=adds)

    for_each(lowering, shape, one)


@rule("aten::index_put", narrow=Narrow.AS_THEY_ARE)
def index_put(call: Call) -> Value:
    target, value = _target(call), call.tensor("values")
    tensors = listed_indices(call, target)
    if value.dtype is not target.dtype:
        raise NotNative("a tensor of another dtype is written")
    _put_rows(call, target, tensors, value, adds=bool(call.constant("accumulate")))
    return target


# -- counts


@rule("aten::one_hot")
def one_hot(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    count = call.number("num_classes")
    if value.dtype is not I64 or not value.in_order:
        raise NotNative("one_hot of such a tensor")
    lowering.force(value)
    if isinstance(count, Scalar) or count >= 0:
        _check_range(lowering, value, count)
    elif count == -1:
        count = lowering.index("add", _largest(lowering, value), 1)
        _check_range(lowering, value, count)
    else:
        raise NotNative("one_hot of a negative number of classes")
    sizes, inner = (*value.sizes, count), value.rank

    def build(nest: NestBuilder) -> Lane:
        assert value.place is not None
        own = value.place
        index = nest.load(Place(own.buffer, own.offset, (*own.sizes, 1), (*own.strides, 0)))
        at = nest.position(inner) or Fill(I64, 0)
        return LaneCast(I64, LaneOperator(BOOL, "eq", (index, at)))

    return lowering.lazy(TensorValue(I64, sizes, identity(sizes), build=build, parts=(value,)))


def _largest(builder: KernelBuilder, value: TensorValue) -> Operand:
    builder.check(builder.index("lt", 0, builder.numel(value.sizes)), "the largest one of no elements")
    return read(builder, reduced(builder, "amax", value, range(value.rank), False))


def _check_range(builder: KernelBuilder, value: TensorValue, count: Operand) -> None:
    """Go on only where all elements are positions of so many."""
    below = elementwise(builder, "lt", [value, 0], I64, BOOL)
    above = elementwise(builder, "ge", [value, count], I64, BOOL)
    outside = elementwise(builder, "logical_or", [below, above], BOOL)
    found = read(builder, reduced(builder, "any", outside, range(value.rank), False))
    builder.check(builder.index("not", found), "an index is out of range")


@rule("aten::bincount")
def bincount(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    call.default("weights", None)
    least = call.number("minlength")
    if value.rank != 1 or value.dtype not in (I64, I32):
        raise NotNative("bincount of such a tensor")
    lowering.force(value)
    lowering.check(lowering.index("le", 0, least), "bincount of a negative length")
    count = lowering.index("max", least, lowering.index("add", _largest(lowering, value), 1))
    made = lowering.memory(I64, [count])
    assert value.place is not None and made.place is not None
    index, into = value.place, made.place
    put(lowering, into, 0, adds=False)

    def one(at: Point) -> None:
        to = position(lowering, index, at, count, wraps=False)
        put(lowering, part(lowering, into, [0], [to]), 1, adds=True)

    for_each(lowering, index.sizes, one)
    return made
