"""Unroll the loops whose iteration count is a constant, whatever the size of their bodies.

As `loop_unrolling`, for passes that want to see every round by itself: a count below 64 leaves no loop, a larger one a
loop of eight copies and one for the rest. Nothing is unrolled to more than ten thousand nodes.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph
from jitlite.passes.loop_unrolling import unroll
from jitlite.passes.registry import graph_pass


@graph_pass
def unroll_constant_loops(graph: Graph) -> bool:
    """Unroll loops with constant iteration counts."""
    return unroll(graph, constant_only=True)
