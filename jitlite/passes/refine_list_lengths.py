"""Refine list lengths: where a condition says how long a list is, its length is that constant.

    %n : int = aten::len(%l)
    %c : bool = aten::ne(%n, %4)
     = prim::If(%c)
      block0():
         = prim::RaiseException(%text)     =>     the same, with 4 for %m
        -> ()
      block1():
        -> ()
    %m : int = aten::len(%l)

Only for lists that nobody writes. What conditions tell, and where it holds, is in `analysis/condition_facts.py`.
"""

from __future__ import annotations

from jitlite.analysis.condition_facts import Refiner
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.passes.registry import graph_pass


@graph_pass
def refine_list_lengths(graph: Graph) -> bool:
    """Replace lengths of lists that are known to be a constant."""
    return Refiner(graph, lambda value: isinstance(value.type, T.ListType)).run()
