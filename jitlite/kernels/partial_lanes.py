"""Which lanes are not defined everywhere: a kernel gives up where one of them is not."""

from __future__ import annotations

from collections.abc import Iterable

from jitlite.ir import types as T
from jitlite.kernels.lane_trees import operands_of
from jitlite.kernels.loop_ir import BF16, BOOL, F32, F64, I64, Fill, Gather, Lane, LaneOperator, Scalar
from jitlite.kernels.vectors import number_text
from jitlite.native.code import NotNative

_PARTIAL_ON_INTS = frozenset({"div_floor", "div_trunc", "fmod", "remainder", "pow"})
"""Divisions by zero, or with a quotient that does not fit; powers with a negative exponent."""


def may_give_up(lanes: Iterable[Lane]) -> bool:
    """May a kernel give up when it computes lanes, and what they are computed from?"""
    pending = list(lanes)
    seen = set(pending)
    while pending:
        lane = pending.pop()
        if _is_partial(lane):
            return True
        new = [operand for operand in operands_of(lane) if operand not in seen]
        seen.update(new)
        pending += new
    return False


def _is_partial(lane: Lane) -> bool:
    if isinstance(lane, Fill):
        return not _fits(lane)
    if isinstance(lane, LaneOperator):
        return lane.op in _PARTIAL_ON_INTS and not lane.dtype.is_float
    return isinstance(lane, Gather)


def _fits(lane: Fill) -> bool:
    """Is it certain that a scalar has the type of the lane?"""
    value = lane.value
    if isinstance(value, Scalar):
        if value.type is T.FLOAT:
            return lane.dtype is F64
        return value.type is T.BOOL or lane.dtype in (F64, F32, BF16, I64, BOOL)
    try:
        number_text(lane.dtype, value)
    except NotNative:
        return False
    return True
