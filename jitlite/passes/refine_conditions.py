"""Refine conditions: in the branch that a condition has chosen, the condition is known.

     = prim::If(%c)                         = prim::If(%c)
      block0():                              block0():
        %d : bool = aten::__not__(%c)          %1 : bool = prim::Constant[value=1]()
         = prim::If(%d)              =>        %d : bool = aten::__not__(%1)
          ...                                   = prim::If(%d)
        -> ()                                    ...

The same holds for the bools that the condition is made of, and behind an `if` of which one branch always raises. What
conditions tell, and where it holds, is in `analysis/condition_facts.py`. `constant_propagation` then drops
what is never run.
"""

from __future__ import annotations

from jitlite.analysis.condition_facts import Refiner
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.passes.registry import graph_pass


@graph_pass
def refine_conditions(graph: Graph) -> bool:
    """Replace bools that are known to be True or False."""
    return Refiner(graph, lambda value: value.type is T.BOOL).run()
