"""What is computed along a dimension one element after the other: running sums, products and extremes."""

from __future__ import annotations

import math

from jitlite.ir import types as T
from jitlite.kernels.building import NestBuilder
from jitlite.kernels.elementwise import cast, floating
from jitlite.kernels.factories import dtype_argument
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
from jitlite.kernels.rearranging import in_order
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.values import Value, identity
from jitlite.native.code import NotNative


@rule("aten::cumsum", "aten::cumprod")
def running(call: Call) -> Value:
    """One step along the dimension after the other; those of f32 are in f64, as torch's are, those of halves in f32."""
    value, lowering = in_order(call), call.lowering
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


@rule("aten::cummax", "aten::cummin", narrow=Narrow.PROMOTED)
def running_extremes(call: Call) -> Value:
    """The largest or smallest element so far, and where the last one of those is. A NaN stays, the last one's place."""
    value, lowering = in_order(call), call.lowering
    if value.rank == 0:
        raise NotNative(f"{call.node.kind} of a tensor without dimensions")
    dim, op = call.dim("dim", value.rank), "ge" if call.name == "cummax" else "le"
    place = lowering.force(value)
    made, where = lowering.memory(value.dtype, value.sizes), lowering.memory(I64, value.sizes)
    others = tuple(size for d, size in enumerate(value.sizes) if d != dim)
    best, found = lowering.memory(value.dtype, others).place, lowering.memory(I64, others).place
    assert made.place is not None and where.place is not None and best is not None and found is not None
    start = NestBuilder(lowering, others, identity(others))
    start.write([(best, Fill(value.dtype, 0)), (found, Fill(I64, 0))])
    index = lowering.scalar(T.INT, "i")
    with lowering.block(is_loop=True) as body:
        nest = NestBuilder(lowering, others, identity(others))
        element, known = nest.load(_step(call, place, dim, index)), nest.load(best)
        takes: Lane = LaneOperator(BOOL, op, (element, known))
        for other in (
            LaneOperator(BOOL, "ne", (element, element)),
            LaneOperator(BOOL, "eq", (Fill(I64, index), Fill(I64, 0))),
        ):
            takes = LaneOperator(BOOL, "logical_or", (takes, other))
        new = LaneOperator(value.dtype, "where", (takes, element, known))
        at = LaneOperator(I64, "where", (takes, Fill(I64, index), nest.load(found)))
        steps = [(_step(call, p, dim, index), lane) for p, lane in ((made.place, new), (where.place, at))]
        stores = [Store(nest.strides(p), lane) for p, lane in (*steps, (best, new), (found, at))]
        lowering.write(Nest(stores[0].place.sizes, tuple(stores)))
        level = lowering.level
    lowering.write(Repeat(index, value.sizes[dim], None, body, level, polls=False))
    return [made, where]


@rule("aten::logcumsumexp")
def logcumsumexp(call: Call) -> Value:
    """`log(exp(x[0]) + ... + exp(x[i]))`, one step after the other; those of f32 are in f64, as torch's are."""
    value, lowering = in_order(call), call.lowering
    dtype, dim = floating(value.dtype), call.dim("dim", value.rank)
    if value.rank == 0:
        raise NotNative("logcumsumexp of a tensor without dimensions")
    place, made = lowering.force(value), lowering.memory(dtype, value.sizes)
    others = tuple(size for d, size in enumerate(value.sizes) if d != dim)
    total = lowering.memory(F64 if dtype is F32 and call.narrow is None else dtype, others).place
    assert made.place is not None and total is not None
    NestBuilder(lowering, others, identity(others)).write([(total, Fill(total.dtype, -math.inf))])
    index = lowering.scalar(T.INT, "i")
    with lowering.block(is_loop=True) as body:
        nest = NestBuilder(lowering, others, identity(others))
        element: Lane = nest.load(_step(call, place, dim, index))
        element = element if element.dtype is total.dtype else LaneCast(total.dtype, element)
        new = _added_exponents(element, nest.load(total))
        given = new if total.dtype is dtype else LaneCast(dtype, new)
        stores = [Store(nest.strides(total), new), Store(nest.strides(_step(call, made.place, dim, index)), given)]
        lowering.write(Nest(stores[0].place.sizes, tuple(stores)))
        level = lowering.level
    lowering.write(Repeat(index, value.sizes[dim], None, body, level, polls=False))
    return made


def _added_exponents(x: Lane, y: Lane) -> Lane:
    """`log(exp(x) + exp(y))`; of two infinities that are the same, that one."""
    dtype = x.dtype
    low, high = LaneOperator(dtype, "minimum", (x, y)), LaneOperator(dtype, "maximum", (x, y))
    away = LaneOperator(dtype, "exp", (LaneOperator(dtype, "sub", (low, high)),))
    joined = LaneOperator(dtype, "add", (LaneOperator(dtype, "log1p", (away,)), high))
    differ = LaneOperator(BOOL, "ne", (low, high))
    usual = LaneOperator(BOOL, "logical_or", (differ, LaneOperator(BOOL, "isfinite", (low,))))
    return LaneOperator(dtype, "where", (usual, joined, x))
