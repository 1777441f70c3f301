"""Number values in order of appearance and drop their names, so that graphs of equal structure have equal text.

    graph(%x.1 : Tensor):                    graph(%0 : Tensor):
      %y.7 : Tensor = aten::neg(%x.1)   =>     %1 : Tensor = aten::neg(%0)
      return (%y.7)                            return (%1)

Only names change.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitlite.ir.graph import Block, Graph, Value
from jitlite.passes.registry import graph_pass


@graph_pass
def canonicalize(graph: Graph) -> bool:
    """Renumber all values, also in the graphs of group nodes."""
    changed = False
    number = -1
    for number, value in enumerate(_values(graph.block)):
        changed = changed or value.has_name or value.id != number
        value.set_name(None)
        value.id = number
    graph._id = number + 1
    for node in graph.all_nodes():
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                changed = canonicalize(attribute) or changed
    return changed


def _values(block: Block) -> Iterator[Value]:
    yield from block.inputs
    for node in block.nodes:
        yield from node.outputs
        for inner in node.blocks:
            yield from _values(inner)
