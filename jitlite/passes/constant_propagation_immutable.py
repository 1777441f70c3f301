"""Constant propagation of numbers, strings and tuples of them only.

    %2 : int = aten::add(%1, %1)                    %2 : int = prim::Constant[value=2]()
    %l : int[] = prim::ListConstruct(%1, %2)  =>    %l : int[] = prim::ListConstruct(%1, %2)

As `constant_propagation`, but nodes that read or make an object that can be written stay. It needs no alias analysis,
and running it again on its own result changes nothing; that is why it is the one that cleans up after the front end.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph
from jitlite.passes.constant_propagation import propagate
from jitlite.passes.registry import graph_pass


@graph_pass
def propagate_immutable_constants(graph: Graph) -> bool:
    """Fold nodes over values that cannot be written, prune branches and loops."""
    return propagate(graph, immutable_only=True)
