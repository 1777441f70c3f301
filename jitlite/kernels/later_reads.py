"""Who still reads what: nodes that are to come, and the memory of buffers."""

from __future__ import annotations

from jitlite.ir.graph import Node
from jitlite.kernels.loop_ir import Buffer, Owner
from jitlite.kernels.values import TensorValue


def is_read_later(node: Node, done: set[Node], pending: set[Node], known: dict[Node, bool]) -> bool:
    """Is what a node gives read by one that is still to come, or by an expression of which that is true?"""
    found = known.get(node)
    if found is None:
        users = [use.user for v in node.outputs for use in v.uses if use.user not in done]
        found = any(u not in pending or is_read_later(u, done, pending, known) for u in users)
        known[node] = found
    return found


def reads(value: TensorValue, buffer: Buffer) -> bool:
    """Does a tensor read the memory of a buffer, or may it?"""
    if value.place is not None:
        return value.place.buffer is buffer or value.place.buffer.owner is Owner.ALIAS
    return any(reads(part, buffer) for part in value.parts)
