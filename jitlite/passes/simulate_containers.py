"""Do without lists and dicts of which it is known what is in them.

    %d : Dict(str, Tensor) = prim::DictConstruct(%a, %x)
     = aten::_set_item(%d, %b, %y)
    %n : int = aten::len(%d)                                =>    %n : int = prim::Constant[value=2]()
    %v : Tensor = aten::__getitem__(%d, %a)                       return (%n, %x)
    return (%n, %v)

A display is followed through the nodes of its block, as `passes/contents.py` describes. What is read at constant
positions and keys is replaced by the value that was put there, what is written is remembered, lengths and membership of
constants become constants. Other readers are given a container with the contents of that moment. All ends at the first
node that keeps the container (a return, a call, another container) or whose effect on it is not known: one with a
position or key that is no constant, or that is in a branch or loop. What raises stays and raises.

`remove_list_mutation` is the part that touches writes to lists alone.
"""

from __future__ import annotations

from jitlite.analysis.contents import follow
from jitlite.ir.graph import Graph
from jitlite.passes.registry import graph_pass
from jitlite.passes.rules.container_steps import DICT_WRITES, LIST_WRITES, READS

_STEPS = {**LIST_WRITES, **DICT_WRITES, **READS}


@graph_pass
def simulate_containers(graph: Graph) -> bool:
    """Replace reads and writes of containers whose contents are known."""
    made = [node for node in graph.all_nodes() if node.kind in ("prim::ListConstruct", "prim::DictConstruct")]
    return bool([node for node in made if node.block is not None and follow(node, _STEPS)])
