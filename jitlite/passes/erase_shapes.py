"""Forget what is known about tensors: every tensor type becomes plain `Tensor`.

    %1 : Float(2, 3) = aten::neg(%x)      =>    %1 : Tensor = aten::neg(%x)

Only types change, to less precise ones, so no run changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitlite.ir.graph import Block, Graph, Value
from jitlite.ir.types import unshaped
from jitlite.passes.registry import graph_pass


@graph_pass
def erase_shapes(graph: Graph) -> bool:
    """Make the type of every value one without shapes, also in the graphs of group nodes."""
    changed = False
    for value in _values(graph.block):
        bare = unshaped(value.type)
        changed = changed or bare is not value.type or value.example_type is not None
        value.type, value.example_type = bare, None
    for node in graph.all_nodes():
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                changed = erase_shapes(attribute) or changed
    return changed


def _values(block: Block) -> Iterator[Value]:
    yield from block.inputs
    for node in block.nodes:
        yield from node.outputs
        for inner in node.blocks:
            yield from _values(inner)
