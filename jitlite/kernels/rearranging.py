"""Tensors whose elements are those of another one in other places."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.elementwise import cast, filled, require_like, sample_of
from jitlite.kernels.factories import dtype_argument
from jitlite.kernels.indexing import joined
from jitlite.kernels.loop_ir import (
    BOOL,
    F32,
    F64,
    I64,
    Fill,
    Lane,
    LaneCast,
    LaneOperator,
    Nest,
    Operand,
    Place,
    Repeat,
    Store,
)
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, normalized, rule
from jitlite.kernels.values import TensorValue, Value, identity, is_one
from jitlite.kernels.views import piece
from jitlite.native.code import NotNative


def _in_order(call: Call) -> TensorValue:
    value = call.first()
    if not value.in_order:
        raise NotNative(f"{call.node.kind} of a tensor that lies in another order")
    return value


@rule("aten::tril", "aten::triu", narrow=Narrow.AS_THEY_ARE)
def triangle(call: Call) -> Value:
    value, diagonal = _in_order(call), call.number("diagonal")
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
    value, lowering = _in_order(call), call.lowering
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
    value, lowering = _in_order(call), call.lowering
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
    value, lowering = _in_order(call), call.lowering
    widths = call.numbers("pad")
    call.default("mode", "constant")
    given = call.get("value")
    number = 0 if given is None else call.number("value")
    if len(widths) % 2 or len(widths) > 2 * value.rank:
        raise NotNative("pad of such widths")
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


@rule("aten::cumsum", "aten::cumprod")
def running(call: Call) -> Value:
    """One step along the dimension after the other; those of f32 are in f64, as torch's are, those of halves in f32."""
    value, lowering = _in_order(call), call.lowering
    dtype = dtype_argument(call) or (value.dtype if value.dtype.is_float else I64)
    dim, op = call.dim("dim", value.rank), "add" if call.name == "cumsum" else "mul"
    if value.rank == 0 or not (dtype.is_float or dtype is I64):
        raise NotNative(f"{call.node.kind} of such a tensor")
    place = lowering.force(cast(lowering, value, dtype))
    made = lowering.memory(dtype, value.sizes)
    others = tuple(size for d, size in enumerate(value.sizes) if d != dim)
    sums = lowering.memory(F64 if dtype is F32 and call.narrow is None else dtype, others)
    assert made.place is not None and sums.place is not None
    total = sums.place
    start = NestBuilder(lowering, others, identity(others))
    start.write([(total, Fill(total.dtype, 0 if call.name == "cumsum" else 1))])
    index = lowering.scalar(T.INT, "i")
    with lowering.block(is_loop=True) as body:
        nest = NestBuilder(lowering, others, identity(others))
        element: Lane = nest.load(_step(call, place, dim, index))
        if element.dtype is not total.dtype:
            element = LaneCast(total.dtype, element)
        new: Lane = LaneOperator(total.dtype, op, (nest.load(total), element))
        given = new if total.dtype is dtype else LaneCast(dtype, new)
        stores = [Store(nest.strides(total), new), Store(nest.strides(_step(call, made.place, dim, index)), given)]
        lowering.write(Nest(stores[0].place.sizes, tuple(stores)))
        level = lowering.level
    lowering.write(Repeat(index, value.sizes[dim], None, body, level, polls=False))
    return made


def _step(call: Call, place: Place, dim: int, index: Operand) -> Place:
    """What is at a position of a dimension."""
    kept = [d for d in range(place.rank) if d != dim]
    offset = call.lowering.index("add", place.offset, call.lowering.index("mul", index, place.strides[dim]))
    return Place(place.buffer, offset, tuple(place.sizes[d] for d in kept), tuple(place.strides[d] for d in kept))
