"""May a call be made twice, with nobody noticing?"""

from __future__ import annotations

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.effects import effect_of
from jitlite.ir.graph import Graph
from jitlite.ir.ops import Effect
from jitlite.ir.traits import Trait


def why_not_repeatable(graph: Graph) -> str | None:
    """What somebody would notice if the graph ran twice for a call, as a sentence; None where nobody would."""
    db = AliasDb(graph)
    outside = [*graph.inputs]
    for node in graph.all_nodes():
        if node.kind in ("prim::Constant", "prim::GetAttr"):
            outside += node.outputs
    seen_outside = db.all_reachable(outside)
    for node in graph.all_nodes():
        if node.has(Trait.DEFERS_CALL) or node.has(Trait.CALL) or node.has(Trait.PYTHON_CALL):
            return f"{node.kind} may do anything"
        effect = effect_of(node)
        if effect is Effect.RANDOM:
            return f"{node.kind} draws random numbers"
        ends = node.kind in ("prim::RaiseException", "aten::_assert")  # it is seen once, however often it is tried
        if effect is Effect.SIDE and not ends:
            return f"{node.kind} is seen from outside"
        if not node.blocks and db.writes(node) & seen_outside:
            return f"{node.kind} writes what was there before the call"
    return None
