"""Tensors whose elements are those of another one in other places."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.elementwise import filled, require_like, sample_of
from jitlite.kernels.indexing import joined
from jitlite.kernels.loop_ir import (
    BOOL,
    I64,
    Fill,
    Lane,
    LaneOperator,
    Operand,
    Place,
)
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, normalized, rule
from jitlite.kernels.values import TensorValue, Value, identity, is_one
from jitlite.kernels.views import piece
from jitlite.native.code import NotNative


def in_order(call: Call) -> TensorValue:
    """The first operand, whose dimensions have to lie in memory from the first to the last."""
    value = call.first()
    if not value.in_order:
        raise NotNative(f"{call.node.kind} of a tensor that lies in another order")
    return value


@rule("aten::tril", "aten::triu", narrow=Narrow.AS_THEY_ARE)
def triangle(call: Call) -> Value:
    value, diagonal = in_order(call), call.number("diagonal")
    if value.rank < 2:
        raise NotNative("a triangle of a vector")
    op = "le" if call.name == "tril" else "ge"

    def build(nest: NestBuilder) -> Lane:
        row, column = (nest.position(value.rank - d) or Fill(I64, 0) for d in (2, 1))
        is_kept = LaneOperator(BOOL, op, (LaneOperator(I64, "sub", (column, row)), Fill(I64, diagonal)))
        return LaneOperator(value.dtype, "where", (is_kept, nest.lane(value), Fill(value.dtype, 0)))

    made = TensorValue(value.dtype, value.sizes, identity(value.sizes), build=build, parts=(value,))
    return call.lowering.lazy(made)


@rule("aten::flip", narrow=Narrow.AS_THEY_ARE)
def flip(call: Call) -> Value:
    value, lowering = in_order(call), call.lowering
    dims = {normalized(d, value.rank) for d in call.constant("dims")}
    if value.rank == 0 or len(dims) != len(call.constant("dims")):
        raise NotNative("flip of such dimensions")
    require_like(lowering, value)
    place = lowering.force(value)

    def build(nest: NestBuilder) -> Lane:
        at: list[int | Lane] = list(range(value.rank))
        for d in dims:
            position = nest.position(d)
            if position is not None:
                at[d] = LaneOperator(I64, "sub", (Fill(I64, lowering.index("sub", value.sizes[d], 1)), position))
        return nest.gather(place, at, wraps=False)

    return lowering.lazy(TensorValue(value.dtype, value.sizes, identity(value.sizes), build=build, parts=(value,)))


@rule("aten::roll", narrow=Narrow.AS_THEY_ARE)
def roll(call: Call) -> Value:
    value, lowering = in_order(call), call.lowering
    shifts, dims = call.constant("shifts"), call.constant("dims")
    shifts, dims = ([v] if isinstance(v, int) else v for v in (shifts, dims))
    if len(shifts) != 1 or len(dims) != 1 or value.rank == 0:
        raise NotNative("roll of several dimensions")
    dim = normalized(dims[0], value.rank)
    size = value.sizes[dim]
    lowering.check(lowering.index("lt", 0, size), "roll of no elements")
    turns = lowering.index("floordiv", abs(shifts[0]), size)
    far = lowering.index("sub", abs(shifts[0]), lowering.index("mul", turns, size))
    start = far if shifts[0] < 0 else lowering.index("sub", size, far)
    rest = lowering.index("sub", size, start)
    return joined(lowering, [piece(lowering, value, dim, start, rest), piece(lowering, value, dim, 0, start)], dim)


@rule("aten::repeat", "aten::tile", narrow=Narrow.AS_THEY_ARE)
def repeat(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    times = call.numbers("repeats" if call.has("repeats") else "dims")
    if call.name == "tile":
        times = [1] * (value.rank - len(times)) + times
    new = len(times) - value.rank
    if new < 0 or not times:
        raise NotNative("repeat of fewer dimensions")
    place = lowering.force(value)
    own: list[Operand] = [*[1] * new, *place.sizes]
    for count in times:
        lowering.check(lowering.index("le", 0, count), "a tensor is repeated a negative number of times")
    made = lowering.memory(value.dtype, [lowering.index("mul", a, b) for a, b in zip(times, own, strict=True)])
    assert made.place is not None
    sizes: list[Operand] = []
    into: list[Operand] = []
    source: list[Operand] = []
    for d, (count, size) in enumerate(zip(times, own, strict=True)):
        stride = made.place.strides[d]
        sizes += [count, size]
        into += [0 if is_one(count) else lowering.index("mul", size, stride), 0 if is_one(size) else stride]
        source += [0, 0 if d < new or is_one(size) else place.strides[d - new]]
    window = Place(place.buffer, place.offset, tuple(sizes), tuple(source))
    repeated = TensorValue(value.dtype, window.sizes, identity(window.sizes), window, source=value.source)
    lowering.copy(repeated, Place(made.place.buffer, 0, tuple(sizes), tuple(into)))
    return made


@rule("aten::pad", "aten::constant_pad_nd", narrow=Narrow.AS_THEY_ARE)
def pad(call: Call) -> Value:
    """A constant around the elements; the last dimension comes first in the list of widths."""
    value, lowering = in_order(call), call.lowering
    widths = call.numbers("pad")
    given = call.get("value")
    if len(widths) % 2 or len(widths) > 2 * value.rank:
        raise NotNative("pad of such widths")
    mode = call.constant("mode") if call.has("mode") else "constant"
    if mode != "constant":
        if given is not None or not isinstance(mode, str):
            raise NotNative("pad in such a mode")
        return padded_from_within(call, value, widths, mode)
    number = 0 if given is None else call.number("value")
    if isinstance(sample_of(number), float) and not value.dtype.is_float:
        raise NotNative("a float is put around ints")
    for width in widths:
        lowering.check(lowering.index("le", 0, width), "pad by a negative width")
    return padded(lowering, value, widths, number)


def padded(lowering: KernelBuilder, value: TensorValue, widths: Sequence[Operand], number: Operand) -> TensorValue:
    """The elements with a number around them, as `pad` takes the widths."""
    sizes = list(value.sizes)
    starts: list[Operand] = [0] * value.rank
    for i in range(len(widths) // 2):
        dim = value.rank - 1 - i
        starts[dim] = widths[2 * i]
        sizes[dim] = lowering.index("add", lowering.index("add", widths[2 * i], sizes[dim]), widths[2 * i + 1])
    made = lowering.memory(value.dtype, sizes)
    assert made.place is not None
    lowering.copy(filled(lowering, value.dtype, sizes, number), made.place)
    inside = made.place
    for dim, (start, size) in enumerate(zip(starts, value.sizes, strict=True)):
        offset = lowering.index("add", inside.offset, lowering.index("mul", start, inside.strides[dim]))
        kept = (*inside.sizes[:dim], size, *inside.sizes[dim + 1 :])
        inside = Place(inside.buffer, offset, kept, inside.strides)
    lowering.copy(value, inside)
    return made


@rule("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d", narrow=Narrow.AS_THEY_ARE)
def reflection_pad(call: Call) -> Value:
    return padded_from_within(call, in_order(call), call.numbers("padding"), "reflect")


@rule("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d", narrow=Narrow.AS_THEY_ARE)
def replication_pad(call: Call) -> Value:
    return padded_from_within(call, in_order(call), call.numbers("padding"), "replicate")


def padded_from_within(call: Call, value: TensorValue, widths: Sequence[Operand], mode: str) -> TensorValue:
    """Elements around a tensor that are elements of it: those behind the edge, the one at it, or those at the other."""
    lowering, dims = call.lowering, len(widths) // 2
    if (
        dims not in (1, 2, 3)
        or value.rank not in (dims + 1, dims + 2)
        or mode not in ("reflect", "replicate", "circular")
    ):
        raise NotNative(f"pad of so many dimensions, or in the mode {mode}")
    sizes = list(value.sizes)
    starts: dict[int, Operand] = {}
    for size in value.sizes:
        lowering.check(lowering.index("lt", 0, size), "pad of no elements, of which torch says more")
    for i in range(dims):
        dim = value.rank - 1 - i
        starts[dim] = widths[2 * i]
        for width in widths[2 * i : 2 * i + 2]:
            lowering.check(lowering.index("le", 0, width), "pad by a negative width")
            if mode != "replicate":
                most = value.sizes[dim] if mode == "circular" else lowering.index("sub", value.sizes[dim], 1)
                lowering.check(lowering.index("le", width, most), "pad by more than there is")
        sizes[dim] = lowering.index("add", lowering.index("add", widths[2 * i], sizes[dim]), widths[2 * i + 1])
    place = lowering.force(value)

    def build(nest: NestBuilder) -> Lane:
        at: list[int | Lane] = list(range(value.rank))
        for dim, start in starts.items():
            position = nest.position(dim) or Fill(I64, 0)
            at[dim] = _within(lowering, LaneOperator(I64, "sub", (position, Fill(I64, start))), value.sizes[dim], mode)
        return nest.gather(place, at, wraps=False)

    return lowering.lazy(TensorValue(value.dtype, tuple(sizes), identity(sizes), build=build, parts=(value,)))


def _within(builder: KernelBuilder, position: Lane, size: Operand, mode: str) -> Lane:
    """Which element stands at a position that may be outside of a dimension."""
    last = Fill(I64, builder.index("sub", size, 1))
    if mode == "replicate":
        return LaneOperator(I64, "clamp", (position, Fill(I64, 0), last))
    if mode == "circular":
        return LaneOperator(I64, "remainder", (position, Fill(I64, size)))
    inside = LaneOperator(I64, "abs", (position,))
    return LaneOperator(I64, "sub", (last, LaneOperator(I64, "abs", (LaneOperator(I64, "sub", (last, inside)),))))
