"""Put the nodes of functional graphs back where they came from.

    %5 : Tensor = prim::FunctionalGraph_0(%x)
    return (%5)                                      =>    %4 : Tensor = aten::mul(%x, %x)
    with prim::FunctionalGraph_0 = graph(%p : Tensor):     %5 : Tensor = aten::relu(%4)
      ...                                                  return (%5)

The inverse of `create_functional_graphs`, up to the order of nodes.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph
from jitlite.passes.create_functional_graphs import KIND
from jitlite.passes.registry import graph_pass


@graph_pass
def inline_functional_graphs(graph: Graph) -> bool:
    """Replace every `prim::FunctionalGraph` by its nodes."""
    groups = [node for node in graph.all_nodes() if node.kind == KIND]
    for group in groups:
        with graph.inserting_before(group):
            results = graph.inline_call(group.attributes["Subgraph"], group.inputs)
        for old, new in zip(group.outputs, results, strict=True):
            old.replace_all_uses_with(new)
        group.destroy()
    return bool(groups)
