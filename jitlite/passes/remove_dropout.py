"""Remove dropout that is off.

    %y : Tensor = aten::dropout(%x, %p, %false)     =>    return (%x)
    return (%y)

Dropout gives the tensor itself, and draws no random numbers, when not training or with probability 0. One that trains,
or of which it is not known, stays. `remove_noops` does this and more.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph
from jitlite.passes.registry import graph_pass
from jitlite.passes.remove_noops import DROPOUTS, remove_where


@graph_pass
def remove_dropout(graph: Graph) -> bool:
    """Let users of dropout that is off use its input."""
    return remove_where(graph, DROPOUTS)
