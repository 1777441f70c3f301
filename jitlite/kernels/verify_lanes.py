"""What holds for lanes, places and operands of kernels that are well formed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from jitlite.ir import types as T
from jitlite.kernels import loop_ir as L
from jitlite.kernels.lane_trees import operands_of
from jitlite.kernels.lanes import result_of
from jitlite.kernels.loop_ir import Lane, Operand, Place, Scalar
from jitlite.native.code import NotNative


class Fault(Exception):
    """What is wrong."""


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Fault(otherwise)


def type_of(operand: Operand) -> T.Type:
    """The type of a scalar, or of a number that is known."""
    if isinstance(operand, Scalar):
        return operand.type
    return T.BOOL if isinstance(operand, bool) else T.INT if isinstance(operand, int) else T.FLOAT


def check_operand(operand: Operand, wanted: T.Type) -> None:
    found = type_of(operand)
    require(found == wanted, f"{operand!r} is {found}, not {wanted}")


def check_place(place: Place) -> None:
    sizes, strides = len(place.sizes), len(place.strides)
    require(sizes == strides, f"a place in {place.buffer} has {sizes} sizes and {strides} strides")


def check_lane(lane: Lane, rank: int) -> Iterator[Lane]:
    """Look at a lane, and at all that it is computed from; gives each of them."""
    seen = {lane}
    pending = [lane]
    while pending:
        each = pending.pop()
        _check(each, rank)
        yield each
        for operand in operands_of(each):
            if operand not in seen:
                seen.add(operand)
                pending.append(operand)


@singledispatch
def _check(lane: Lane, rank: int) -> None:
    raise Fault(f"{type(lane).__name__} is no lane")


@_check.register
def _load(lane: L.Load, rank: int) -> None:
    place = lane.place
    require(place.dtype is lane.dtype, f"{place.buffer} has elements of {place.dtype}, not {lane.dtype}")
    require(place.rank == rank, f"{place.buffer} has {place.rank} dimensions here and not {rank}")


@_check.register
def _fill(lane: L.Fill, rank: int) -> None:
    found = type_of(lane.value)
    require(found in (T.INT, T.FLOAT, T.BOOL), f"{lane.value!r} is {found}, and no number")


@_check.register
def _position(lane: L.Position, rank: int) -> None:
    require(0 <= lane.dim < rank, f"there is no i{lane.dim} here")
    require(lane.dtype is L.I64, f"i{lane.dim} is no {lane.dtype}")


@_check.register
def _cast(lane: L.LaneCast, rank: int) -> None:
    """Any type becomes any other one."""


@_check.register
def _apply(lane: L.LaneOperator, rank: int) -> None:
    try:
        found = result_of(lane.op, tuple(operand.dtype for operand in lane.operands))
    except NotNative as error:
        raise Fault(str(error)) from None
    require(found is lane.dtype, f"{lane.op} gives {found}, not {lane.dtype}")


@_check.register
def _gather(lane: L.Gather, rank: int) -> None:
    place = lane.place
    require(place.dtype is lane.dtype, f"{place.buffer} has elements of {place.dtype}, not {lane.dtype}")
    require(
        place.rank == len(lane.indices), f"{place.buffer} has {place.rank} dimensions and {len(lane.indices)} indices"
    )
    for index in lane.indices:
        if isinstance(index, Lane):
            require(index.dtype is L.I64, f"an index is {index.dtype}, not i64")
        else:
            require(0 <= index < rank, f"there is no i{index} here")
