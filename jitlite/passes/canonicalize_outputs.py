"""Order the outputs of `prim::If` and `prim::Try` and the values carried by `prim::Loop` by their first use.

    %a : int, %b : int = prim::If(%c) ...           %b : int, %a : int = prim::If(%c) ...
    %d : int = aten::neg(%b)                  =>    %d : int = aten::neg(%b)
    %e : int = aten::neg(%a)                        %e : int = aten::neg(%a)

Outputs that nobody uses come last. What runs, and in which order, does not change.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.passes.registry import graph_pass


@graph_pass
def canonicalize_outputs(graph: Graph) -> bool:
    """Sort outputs, from the last node to the first: the order of a node's outputs decides what is used first above."""
    return _block(graph.block)


def _block(block: Block) -> bool:
    changed = False
    for node in block.reversed_nodes:
        if node.kind in ("prim::If", "prim::Loop", "prim::Try"):
            changed = _sort(node) or changed
        for inner in node.blocks:
            changed = _block(inner) or changed
    return changed


def _sort(node: Node) -> bool:
    order = sorted(range(len(node.outputs)), key=lambda i: _first_use(node.outputs[i]))
    if order == list(range(len(order))):
        return False
    node.permute_outputs(order)
    is_loop = node.kind == "prim::Loop"
    for block in node.blocks:
        _permute_inputs(block.return_node, order, 1 if is_loop else 0)
        if is_loop:
            block.param_node.permute_outputs([0, *(i + 1 for i in order)])
    if is_loop:
        _permute_inputs(node, order, 2)
    return True


def _permute_inputs(node: Node, order: Sequence[int], first: int) -> None:
    inputs = list(node.inputs)
    for position, source in enumerate(order, first):
        node.replace_input(position, inputs[first + source])


def _first_use(value: Value) -> tuple[bool, tuple[int, ...]]:
    """Where the first use stands in the text of the graph; a value without uses comes after all others."""
    uses = [(*_place(use.user), use.offset) for use in value.uses]
    return not uses, min(uses, default=())


def _place(node: Node) -> tuple[int, ...]:
    """Position of the node in its block, behind the places of the nodes and blocks around it."""
    found = [node._position]
    block = node.block
    while block is not None and block.owner is not None:
        found += [block.owner.blocks.index(block), block.owner._position]
        block = block.owner.block
    return tuple(reversed(found))
