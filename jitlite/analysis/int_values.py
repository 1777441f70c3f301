"""Which values typed int are numbers: others may be a dtype, a layout or a memory format."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait


def is_number(value: Value) -> bool:
    """Is it certain that a value typed int is a number, and no dtype, layout or memory format?

    A value carried by a loop is one if it starts as one and every round makes one of it.
    """
    pending, seen = [value], set()
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        if at.type is not T.INT:
            return False
        sources = _sources(at)
        if sources is None:
            return False
        pending += sources
    return True


def _sources_of_parameter(node: Node, offset: int) -> Sequence[Value] | None:
    """The counter of a loop is a number; what it carries comes from its start and from each iteration."""
    loop = node.block.owner if node.block is not None else None
    if loop is None or loop.kind != "prim::Loop":
        return None
    return () if offset == 0 else Loop(loop).sources(offset - 1)


def _sources(value: Value) -> Sequence[Value] | None:
    """The values that have to be numbers for this one to be; None where nothing makes it certain."""
    node, offset = value.node, value.offset
    if is_constant(value):
        return () if type(constant_of(value)) is int else None
    if node.kind == "prim::If":
        return [block.outputs[offset] for block in node.blocks]
    if node.kind == "prim::Loop":
        return Loop(node).sources(offset)
    if node.kind == "prim::Param":
        return _sources_of_parameter(node, offset)
    return () if node.has(Trait.PLAIN_INT) or (node.kind == "aten::size" and len(node.inputs) == 2) else None
