"""Refine integer values: where a condition says that an int is a constant, it is that constant.

    %c : bool = aten::eq(%x, %3)                %c : bool = aten::eq(%x, %3)
    %r : int = prim::If(%c)                     %r : int = prim::If(%c)
      block0():                                   block0():
        %a : int = aten::mul(%x, %y)      =>        %4 : int = prim::Constant[value=3]()
        -> (%a)                                     %a : int = aten::mul(%4, %y)
      block1():                                     -> (%a)
        -> (%y)                                   block1():
                                                    -> (%y)

`3 if x == 3 else x` is `x`. What conditions tell, and where it holds, is in `analysis/condition_facts.py`. Floats are
left alone: `0.0 == -0.0`, and they are two values. A value that may be an object such as a dtype is the constant where
operators compute with it; where it is returned, kept or printed it stays what it is.
"""

from __future__ import annotations

from jitlite.analysis.condition_facts import Refiner
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.passes.registry import graph_pass


@graph_pass
def refine_integer_values(graph: Graph) -> bool:
    """Replace ints that are known to be a constant."""
    return Refiner(graph, lambda value: value.type is T.INT).run()
