"""Read attributes in front of the operators between which they are read, so that these are neighbours.

    %h : Tensor = aten::linear(%x, %w0, %b0)        %w1 : Tensor = prim::GetAttr[name="weight"](%layer)
    %w1 : Tensor = prim::GetAttr[name="weight"](%layer)  =>  %h : Tensor = aten::linear(%x, %w0, %b0)
    %y : Tensor = aten::linear(%h, %w1, %b1)        %y : Tensor = aten::linear(%h, %w1, %b1)

A module that is not frozen reads each weight where it is used, and a region is a run of operators with nothing between
them. An attribute gives the same object a little earlier: a read passes only nodes that neither set attributes nor call
what might. What they write is memory of tensors and lists, which is another thing than what an attribute refers to.
"""

from __future__ import annotations

from jitlite.ir.graph import Block, Graph, Node
from jitlite.ir.ops import Effect

_KEEPS = frozenset({Effect.PURE, Effect.RANDOM, Effect.WRITE})


def read_attributes_early(graph: Graph) -> None:
    """Move reads of attributes, in each block, to behind the last node that they may not pass."""
    _move_in(graph.block)


def _move_in(block: Block) -> bool:
    """Move the reads of a block and of those in it; may reads of others pass all of its nodes?"""
    front: Node | None = None  # what a read is put behind; None is the start
    passed: set[Node] = set()
    keeps_all = True
    for node in list(block.nodes):
        kept = [_move_in(inner) for inner in node.blocks]
        if node.kind == "prim::GetAttr":
            if node.inputs[0].node in passed:
                passed.add(node)  # of an object that is made here
                continue
            if passed:
                _put_behind(node, front, block)
            front = node
        elif all(kept) and _keeps_attributes(node):
            passed.add(node)
        else:
            front, keeps_all = node, False
            passed.clear()
    return keeps_all


def _put_behind(node: Node, front: Node | None, block: Block) -> None:
    if front is not None:
        node.move_after(front)
    else:
        node.move_before(next(iter(block.nodes)))


def _keeps_attributes(node: Node) -> bool:
    """Does it set no attribute, and call nothing that might?"""
    if node.blocks:
        return True  # but for what is in them
    if node.kind.startswith("prim::"):
        return node.kind in ("prim::Constant", "prim::ListConstruct", "prim::TupleConstruct")
    return node.op is not None and node.op.fn is not None and node.op.effect in _KEEPS
