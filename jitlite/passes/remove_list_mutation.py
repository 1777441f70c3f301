"""Let a list that is changed after it was made be made with its final elements.

    %l : int[] = prim::ListConstruct(%a)
    %0 : int[] = aten::append(%l, %b)          %n : int = aten::len(%k)
    %n : int = aten::len(%l)             =>    ...
    %1 : int[] = aten::_set_item(%l, %zero, %c)
    return (%l, %n)                            %l : int[] = prim::ListConstruct(%c, %b)

A display is followed through the nodes of its block, as `passes/contents.py` describes. Appending, inserting, extending
by a display, and setting, removing and deleting at constant positions inside of the list are replaced, up to the first
node that keeps the list (a return, a call, another container) or does anything else to it. Readers between, which may
be nested, are given a list with the elements of that moment. What raises (`[1, 2][4] = 3`) stays and raises.
"""

from __future__ import annotations

from jitlite.analysis.contents import follow
from jitlite.ir.graph import Graph
from jitlite.passes.registry import graph_pass
from jitlite.passes.rules.container_steps import LIST_WRITES


@graph_pass
def remove_list_mutation(graph: Graph) -> bool:
    """Make lists with their final elements."""
    made = [node for node in graph.all_nodes() if node.kind == "prim::ListConstruct"]
    return bool([node for node in made if node.block is not None and follow(node, LIST_WRITES)])
