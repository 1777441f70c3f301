"""Lanes as trees: what they are made of."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.kernels.loop_ir import Gather, Lane, LaneCast, LaneOperator


def operands_of(lane: Lane) -> tuple[Lane, ...]:
    """The lanes that a lane is computed from."""
    if isinstance(lane, LaneCast):
        return (lane.operand,)
    if isinstance(lane, LaneOperator):
        return lane.operands
    if isinstance(lane, Gather):
        return tuple(i for i in lane.indices if isinstance(i, Lane))
    return ()


def operands_first(roots: Sequence[Lane]) -> list[Lane]:
    """All lanes that the roots are made of, each once, behind its operands."""
    found: dict[Lane, None] = {}
    waiting = [(root, False) for root in reversed(roots)]
    while waiting:
        lane, is_ready = waiting.pop()
        if lane in found:
            continue
        if is_ready:
            found[lane] = None
        else:
            waiting.append((lane, True))
            waiting.extend((o, False) for o in reversed(operands_of(lane)))
    return list(found)
