"""Which nodes are written in place of their one use instead of in a line of their own.

Where text is read, an expression is evaluated from left to right, the parts before the whole. A node can be written
in place where reading brings it back to where it was: so nodes are looked at from the last to the first while the
inputs of the current node are taken from right to left, and as long as both agree a node may move into its use.
"""

from __future__ import annotations

from jitlite.ir.graph import Block, Node, Value
from jitlite.ir.traits import Trait


def inlined_nodes(block: Block) -> set[Node]:
    """The nodes of a block, and of those below it, that are written in place."""
    found: set[Node] = set()
    _scan_block(block, found)
    return found


def has_own_name(value: Value) -> bool:
    """Is the value a variable of the program? What an attribute is read into counts as one."""
    return value.has_name or value.node.kind == "prim::GetAttr"


def _scan_block(block: Block, found: set[Node]) -> None:
    _scan(block.return_node, found)
    for node in block.reversed_nodes:
        _scan(node, found)


def _scan(node: Node, found: set[Node]) -> Node:
    """Decide about the inputs of a node; gives the node that has to come next, backwards."""
    if node in found:
        return node
    for block in node.blocks:
        _scan_block(block, found)
    point = _before(node)
    for value in reversed(node.inputs):
        source = value.node
        if source is point and _can_inline(value):
            point = _scan(source, found)
            found.add(source)
        elif source.kind == "prim::Constant":
            found.add(source)
    return point


def _before(node: Node) -> Node:
    previous = node.prev
    while previous is not None and previous.kind == "prim::Constant":
        previous = previous.prev
    if previous is not None:
        return previous
    assert node.block is not None, "the node is in a block"
    return node.block.param_node


def _can_inline(value: Value) -> bool:
    node = value.node
    if node.kind in ("prim::Param", "prim::isinstance") or len(node.outputs) != 1 or node.blocks:
        return False  # a refinement by isinstance is in the graph already, and must not be made again by reading
    if value.use_count != 1:
        return False
    (use,) = value.uses
    if has_own_name(value) and use.user.kind != "prim::Return":
        return False
    if use.user.kind == "prim::Loop" and use.offset >= 2:
        return False  # an initial value is assigned before the condition is evaluated
    return not use.user.has(Trait.DEFERS_CALL)
