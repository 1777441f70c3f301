"""Lists of tensors that grow, and elements that a mask chooses: what has a size that is only known at the end."""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.loop_ir import (
    BOOL,
    Alloc,
    Bind,
    Branch,
    Buffer,
    DType,
    Operand,
    Owner,
    Place,
    Read,
    Repeat,
    Scalar,
    Set,
    Statement,
)
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.values import MemorySource, TensorList, TensorValue, Value, identity
from jitlite.kernels.views import wrapped
from jitlite.native.code import NotNative

_FIRST = 8
"""For how many elements there is memory at first."""


def makes_longer(node: Node) -> bool:
    """Does a node make a list longer?"""
    return node.kind in ("aten::append", "prim::AutogradKeep")


def new_list(builder: KernelBuilder) -> TensorList:
    """An empty list."""
    count = builder.variable(T.INT)
    start: list[Statement] = [Set(count, 0)]
    builder.write(Branch(True, start, ()))
    return TensorList(count, builder.level, start, moment=builder.moment)


@rule("aten::append", narrow=Narrow.AS_THEY_ARE)
def append(call: Call) -> Value:
    lowering = call.lowering
    found, value = call.at(0), call.as_tensor(call.at(1))
    if not isinstance(found, TensorList):
        raise NotNative("a list that is known grows")
    if not value.in_order or (value.place is not None and not lowering.is_contiguous(value.place)):
        raise NotNative("an element of a list is laid out in another way")
    _append(lowering, found, value)
    return found


def _append(builder: KernelBuilder, found: TensorList, value: TensorValue) -> None:
    count = builder.get(found.count)
    _same_shape(builder, found, value, count)
    _put(builder, value, _room(builder, found, value, count))
    builder.write(Set(found.count, builder.index("add", count, 1)))


def _put(builder: KernelBuilder, value: TensorValue, place: Place) -> None:
    """Store a tensor in a place, an expression without a detour."""
    if value.is_lazy:
        builder.force_all([value], [place])
    else:
        builder.copy(value, place)


@rule("prim::AutogradKeep", narrow=Narrow.AS_THEY_ARE)
def keep(call: Call) -> Value:
    """Appending, but how the value lies in memory does not matter."""
    lowering = call.lowering
    found, value = call.at(0), call.as_tensor(call.at(1))
    if not isinstance(found, TensorList):
        raise NotNative("a list that is known grows")
    if value.is_lazy and not value.in_order:
        lowering.force(value)
    place = _row_of_whole(call, found, value)
    if place is not None:
        _put(lowering, value, place)
        return found
    _append(lowering, found, value)
    return found


def _row_of_whole(call: Call, found: TensorList, value: TensorValue) -> Place | None:
    """Where the value of an iteration is kept, where it is known beforehand how many there are, of which size."""
    lowering = call.lowering
    if found.storage is not None or found.whole is not None or not lowering.loops:
        return None
    frame = lowering.loops[-1]
    if frame.count is None or frame.node.blocks[0] is not call.node.block or lowering.level != found.level + 1:
        return None
    wanted = [lowering.canonical(size) for size in (frame.count, *value.sizes)]
    with lowering.earlier(found.start, found.level):
        sizes = [lowering.known_at(size, found.moment) for size in wanted]
        if any(size is None for size in sizes):
            return None
        found.whole = lowering.alloc(value.dtype, [size for size in sizes if size is not None])
    whole = found.whole
    offset = lowering.index("mul", frame.index, whole.strides[0])
    return Place(whole.buffer, offset, value.sizes, whole.strides[1:])


@rule("prim::AutogradKept", narrow=Narrow.AS_THEY_ARE)
def kept(call: Call) -> Value:
    lowering, found = call.lowering, call.at(0)
    if not isinstance(found, TensorList):
        raise NotNative("a list that is known is kept")
    if found.whole is not None:
        return TensorValue(found.whole.dtype, found.whole.sizes, identity(found.whole.sizes), found.whole)
    whole = stacked(lowering, found)
    made = lowering.memory(whole.dtype, whole.sizes)
    assert made.place is not None
    lowering.copy(whole, made.place)
    return made


def _same_shape(builder: KernelBuilder, found: TensorList, value: TensorValue, count: Operand) -> None:
    if found.storage is None:
        found.storage = Buffer(builder.fresh_name("list"), value.dtype, Owner.ALIAS)
        found.sizes = tuple(builder.variable(T.INT) for _ in value.sizes)
        found.capacity = builder.variable(T.INT)
        nothing = Buffer(builder.fresh_name("b"), value.dtype, Owner.ARENA)
        found.start += [Set(variable, 0) for variable in (*found.sizes, found.capacity)]
        found.start += [Alloc(nothing, (0,), (1,), found.level), Bind(found.storage, nothing)]
    if found.storage.dtype is not value.dtype or len(found.sizes) != value.rank:
        raise NotNative("the elements of a list have different dtypes or ranks")
    is_first = builder.index("eq", count, 0)
    for variable, size in zip(found.sizes, value.sizes, strict=True):
        same = builder.index("eq", builder.get(variable), size)
        builder.check(builder.index("or", is_first, same), "the elements of a list have different sizes")
        builder.write(Set(variable, size))


def _room(builder: KernelBuilder, found: TensorList, value: TensorValue, count: Operand) -> Place:
    """Where the next element is stored."""
    assert found.storage is not None and found.capacity is not None
    each = builder.numel(value.sizes)
    capacity = builder.get(found.capacity)
    used = builder.index("mul", count, each)
    with builder.block() as grows:
        larger = builder.index("max", _FIRST, builder.index("mul", capacity, 2))
        fresh = builder.alloc(value.dtype, (builder.index("mul", larger, each),), level=found.level)
        with builder.block() as copies:
            kept = _row(found.storage, value.dtype, used)
            builder.copy(kept, Place(fresh.buffer, 0, (used,), (1,)))
        builder.write(Branch(builder.index("lt", 0, count), copies, ()))
        builder.write(Bind(found.storage, fresh.buffer))
        builder.write(Set(found.capacity, larger))
    builder.write(Branch(builder.index("eq", count, capacity), grows, ()))
    return Place(found.storage, used, value.sizes, builder.strides_of(value.sizes))


def _row(buffer: Buffer, dtype: DType, count: Operand) -> TensorValue:
    place = Place(buffer, 0, (count,), (1,))
    return TensorValue(dtype, (count,), (0,), place, source=MemorySource.MIXED)


def length(builder: KernelBuilder, found: TensorList) -> Operand:
    """How many elements a list has."""
    return builder.get(found.count)


def element(builder: KernelBuilder, found: TensorList, index: Operand) -> TensorValue:
    """An element of a list."""
    if found.storage is None:
        raise NotNative("an element of an empty list")
    at = wrapped(builder, index, length(builder, found))
    sizes = tuple(map(builder.get, found.sizes))
    place = Place(found.storage, builder.index("mul", at, builder.numel(sizes)), sizes, builder.strides_of(sizes))
    return TensorValue(found.storage.dtype, sizes, identity(sizes), place, source=MemorySource.MIXED)


def stacked(builder: KernelBuilder, found: TensorList) -> TensorValue:
    """All elements as one tensor, along a new first dimension."""
    if found.storage is None:
        raise NotNative("an empty list is put together")
    count = length(builder, found)
    builder.check(builder.index("lt", 0, count), "an empty list is put together")
    sizes = (count, *map(builder.get, found.sizes))
    place = Place(found.storage, 0, sizes, builder.strides_of(sizes))
    return TensorValue(found.storage.dtype, sizes, identity(sizes), place, source=MemorySource.MIXED)


@rule("aten::len", narrow=Narrow.AS_THEY_ARE)
def len_(call: Call) -> Value:
    found = call.at(0)
    if isinstance(found, TensorList):
        return length(call.lowering, found)
    if isinstance(found, list):
        return len(found)
    value = call.as_tensor(found)
    if value.rank == 0:
        raise NotNative("len of a tensor without dimensions")
    return value.sizes[0]


@rule("aten::list", of_sizes=True, narrow=Narrow.AS_THEY_ARE)
def list_(call: Call) -> Value:
    return list(call.as_numbers(call.at(0)))


@rule("aten::__getitem__", narrow=Narrow.AS_THEY_ARE)
def get_item(call: Call) -> Value:
    found, index = call.at(0), call.at(1)
    if isinstance(found, TensorList) and isinstance(index, Scalar | int):
        return element(call.lowering, found, index)
    if isinstance(found, list) and isinstance(index, Scalar):
        return _size_at(call, found, index)
    if not isinstance(found, list) or type(index) is not int or not -len(found) <= index < len(found):
        raise NotNative("an element of a list that is not known")
    return found[index]


def _size_at(call: Call, found: list[Value], index: Scalar) -> Operand:
    """An element of a short list of ints, of which only the kernel knows which one."""
    sizes, lowering = call.as_numbers(found), call.lowering
    if not sizes or call.node.output.type is not T.INT:
        raise NotNative("an element of a list that is not known")
    at = wrapped(lowering, index, len(sizes))
    element = sizes[-1]
    for i, size in enumerate(sizes[:-1]):
        element = lowering.index("select", lowering.index("eq", at, i), size, element)
    return element


# -- masks


def chosen(builder: KernelBuilder, value: TensorValue, mask: TensorValue) -> TensorValue:
    """`value[mask]` of one dimension: the elements where the mask is true, in order."""
    if value.rank != 1 or mask.rank != 1 or mask.dtype is not BOOL:
        raise NotNative("a mask of several dimensions")
    builder.require_equal(value.sizes[0], mask.sizes[0], "a mask of another size")
    builder.force_all([value, mask])
    assert value.place is not None and mask.place is not None
    count = builder.variable(T.INT)
    builder.write(Set(count, 0))
    made = builder.alloc(value.dtype, value.sizes)
    index = builder.scalar(T.INT, "i")
    with builder.block(is_loop=True) as body:
        condition = builder.scalar(T.BOOL)
        builder.write(Read(condition, _at(builder, mask.place, index)))
        with builder.block() as takes:
            at = builder.get(count)
            source = TensorValue(value.dtype, (), (), _at(builder, value.place, index))
            builder.copy(source, Place(made.buffer, at, (), ()))
            builder.write(Set(count, builder.index("add", at, 1)))
        builder.write(Branch(condition, takes, ()))
        level = builder.level
    builder.write(Repeat(index, value.sizes[0], None, body, level, polls=False))
    size = builder.get(count)
    return TensorValue(value.dtype, (size,), (0,), Place(made.buffer, 0, (size,), (1,)))


def _at(builder: KernelBuilder, place: Place, index: Scalar) -> Place:
    offset = builder.index("add", place.offset, builder.index("mul", index, place.strides[0]))
    return Place(place.buffer, offset, (), ())
