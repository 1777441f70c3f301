"""Write loops with both a bound and a condition as loops with a condition alone, which Python spells `while`.

    %r : int = prim::Loop(%n, %true, %x)                %s : bool = aten::gt(%n, %0)
      block0(%i : int, %p : int):                       %r : int, %k : int = prim::Loop(%max, %s, %x, %0)
        %q : int = aten::add(%p, %i)               =>     block0(%u : int, %p : int, %i : int):
        %c : bool = aten::lt(%q, %y)                        %q : int = aten::add(%p, %i)
        -> (%c, %q)                                         %c : bool = aten::lt(%q, %y)
                                                            %j : int = aten::add(%i, %1)
                                                            %b : bool = aten::lt(%j, %n)
                                                            %d : bool = aten::__and__(%b, %c)
                                                            -> (%d, %q, %j)

Such loops come from `for` loops that may be left early; the front end ends with this step, and an archive or a tool
that writes Python needs it again after passes. `counted_loops` is the inverse.

The body runs as often as before, with the same iteration numbers: before each round the number is compared with the
bound, which was there before the loop and is an int that nobody can write, and the condition is asked no more and no
less often than before. Left alone: loops with an iteration count and the condition True, which are `for` loops; loops
without a bound that read no iteration number, which are `while` loops already.
"""

from __future__ import annotations

from jitlite.ir import loop_forms
from jitlite.ir.graph import Graph
from jitlite.passes.registry import graph_pass


@graph_pass
def canonicalize_modified_loops(graph: Graph) -> bool:
    """Give every loop that has both a bound and a condition a condition alone."""
    return loop_forms.canonicalize_modified_loops(graph)
