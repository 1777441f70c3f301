"""The engine that needs nothing: a group runs as jitlite runs any graph. It is what the others are compared with."""

from __future__ import annotations

from jitlite.engines.engine import CompiledGroup, Engine, EngineRefusal, OperatorSet
from jitlite.ir.graph import Graph, Node
from jitlite.ir.ops import Effect
from jitlite.passes.cluster import is_display


class ReferenceEngine(Engine):
    """Takes all operators that neither write nor draw random numbers nor print."""

    name = "reference"
    operators = OperatorSet.ANY
    least = 1
    runs_graphs = True

    def supports(self, node: Node) -> str | None:
        if is_display(node):
            return None
        if node.blocks or "Subgraph" in node.attributes or node.op is None or node.op.fn is None:
            return "it is no operator"
        if node.op.schema.is_mutable:
            return "it writes"
        return None if node.op.effect is Effect.PURE else "it has effects"

    def compile(self, graph: Graph) -> CompiledGroup:
        raise EngineRefusal("groups of the reference engine are run as graphs")
