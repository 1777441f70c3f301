"""Take profiling out again.

    %3 : Tensor = prim::profile(%x)            %2 : Tensor = aten::mul(%x, %x)
    %2 : Tensor = aten::mul(%3, %3)     =>     return (%2)
    return (%2)

A profile hands on its input, so users of the output may use the input. A profile without an input, which counts
runs, just goes.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph
from jitlite.ir.traits import Trait
from jitlite.passes.registry import graph_pass


@graph_pass
def remove_profiles(graph: Graph) -> bool:
    """Let the users of every profile use what it sees."""
    changed = False
    for node in list(graph.all_nodes()):
        if not node.has(Trait.PROFILES) or len(node.inputs) > 1 or len(node.outputs) != len(node.inputs):
            continue
        if node.inputs:
            node.output.replace_all_uses_with(node.input)
        node.destroy()
        changed = True
    return changed
