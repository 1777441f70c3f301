"""May a call be made twice, with nobody noticing?"""

from __future__ import annotations

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.effects import effect_of
from jitlite.analysis.propagation import is_of_grad_mode
from jitlite.ir.graph import Graph, Node
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
        if is_of_grad_mode(node):  # it is set back by the end
            continue
        if node.has(Trait.DEFERS_CALL) or node.has(Trait.CALL) or node.has(Trait.PYTHON_CALL):
            return f"{node.kind} may do anything"
        effect = effect_of(node)
        if effect is Effect.RANDOM:
            return f"{node.kind} draws random numbers"
        if effect is Effect.SIDE and not _is_of_exceptions(node):
            return f"{node.kind} is seen from outside"
        if not node.blocks and db.writes(node) & seen_outside:
            return f"{node.kind} writes what was there before the call"
    return None


def _is_of_exceptions(node: Node) -> bool:
    """Does the node make or raise an exception? What is raised is seen once, however often the graph runs."""
    name = node.kind.partition("::")[2]
    return name in ("RaiseException", "_assert", "Raise", "RaiseFrom", "NewException")
