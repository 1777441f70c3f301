"""Loops: from the emitter's form to the final one.

The emitter leaves

    prim::Loop(%max_trip_count)
      block0():                     # the condition
        -> (%condition)
      block1(%trip_number : int):   # the body
        -> (carried...)

`inline_loop_conditions` makes it

    %carried... = prim::Loop(%max_trip_count, %start_condition, carried...)
      block0(%trip_number : int, carried...):
        -> (%continue_condition, carried...)
"""

from __future__ import annotations

from jitlite.ir.graph import Block, Graph, Node


def move_nodes_before(block: Block, place: Node) -> None:
    """Move all nodes of `block` in front of `place`."""
    for node in block.nodes:
        node.move_before(place)


def inline_loop_conditions(graph: Graph) -> None:
    """Evaluate each loop's condition before the loop and at the end of its body instead of in a block of its own."""
    _inline_conditions(graph.block)


def _inline_conditions(block: Block) -> None:
    for node in block.nodes:
        for inner in node.blocks:
            _inline_conditions(inner)
        if node.kind == "prim::Loop":
            _inline_condition(node)


def _inline_condition(loop: Node) -> None:
    condition, body = loop.blocks
    start = loop.add_block()
    start.clone_from(condition, {})
    move_nodes_before(start, loop)
    loop.insert_input(1, start.outputs[0])
    loop.erase_block(2)

    move_nodes_before(condition, body.return_node)
    body.insert_output(0, condition.outputs[0])
    loop.erase_block(0)
