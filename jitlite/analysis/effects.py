"""What running a node does, with what is inside it: the questions that decide whether it may go, merge or move."""

from __future__ import annotations

from collections.abc import Callable

from jitlite.ir.graph import Node, constant_of
from jitlite.ir.ops import Effect
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait


def effect_of(node: Node) -> Effect:
    """The effect of the node itself; a node of an unknown operator may do anything.

    `prim::If`, `prim::Loop`, `prim::Try` and regions are pure themselves: ask `any_inside` about what is in them.
    """
    resolved = node.op
    if resolved is not None:
        return resolved.effect
    structured = "prim::If", "prim::Loop", "prim::Try", "prim::Region"
    return Effect.PURE if node.blocks and node.kind in structured else Effect.SIDE


def writes_nothing(node: Node) -> bool:
    """Is it known of a node with effects that it writes nothing that others have, and sets no mode?"""
    return bool(node.attributes.get("writes_nothing"))


def any_inside(node: Node, holds: Callable[[Node], bool]) -> bool:
    """Does `holds` hold for the node or one nested in it?"""
    if holds(node):
        return True
    return bool(node.blocks) and any(any_inside(inner, holds) for block in node.blocks for inner in block.nodes)


def changes_modes(node: Node) -> bool:
    """Might equal tensor computations before and after the node differ, because it sets a mode?"""
    return any_inside(node, lambda n: effect_of(n) is Effect.SIDE and not n.has(Trait.KEEPS_MODES))


def may_raise(node: Node) -> bool:
    """Could the node, or one in it, raise (or never end)?"""
    return any_inside(node, raises_itself)


def raises_itself(node: Node) -> bool:
    """Could the node raise by itself (not what is nested in it), or never end?"""
    if node.kind in ("prim::If", "prim::Try", "prim::Region"):
        return False
    if node.kind == "prim::Loop":
        return not _ends(node)
    if node.kind == "prim::TupleIndex":
        index = constant_of(node.inputs[1], None)
        length = len(node.inputs[0].type.contained)
        return type(index) is not int or not -length <= index < length
    if node.kind == "aten::clone" and constant_of(node.inputs[1], ...) is not None:
        return True  # a memory format may be one that the tensor cannot have
    resolved = node.op
    return resolved is None or not resolved.total


def _ends(loop: Node) -> bool:
    """Is it certain that the loop ends? It is if its iteration count is a bound, and its condition True."""
    going_on = constant_of(Loop(loop).condition, None)
    return going_on is False or (going_on is True and Loop(loop).is_bounded)


def is_protected(node: Node) -> bool:
    """Is the node in the body of a `prim::Try`? What has been written when it raises is then seen in the graph."""
    block = node.block
    while block is not None and block.owner is not None:
        if block.owner.kind == "prim::Try" and block is block.owner.blocks[0]:
            return True
        block = block.owner.block
    return False
