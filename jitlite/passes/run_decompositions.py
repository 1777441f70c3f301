"""Write operators as the simpler ones they are made of.

    %2 : Tensor = aten::std(%x, %true)      =>    ... mean, sub, abs, pow, sum, div, sqrt

The table is in `rules/decompositions.py`, and `register` there adds to it. A graph found there takes the operator's
arguments in order. Numbers may be rounded otherwise. Results are new tensors as before. What a table's graph is made of
is decomposed, too.

The graph takes the operator's place, so whatever is written before or after makes no difference.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph, Node
from jitlite.passes.registry import inexact_pass
from jitlite.passes.rules.decompositions import decomposition_of

_DEPTH = 8
"""How often what was put in is looked at again: a table may send operators in a circle."""


@inexact_pass
def run_decompositions(graph: Graph) -> bool:
    """Put in the graphs that operators stand for."""
    changed = False
    for _ in range(_DEPTH):
        found = [node for node in graph.all_nodes() if node.op is not None and decomposition_of(node.op) is not None]
        if not [node for node in found if _decompose(graph, node)]:
            break
        changed = True
    return changed


def _decompose(graph: Graph, node: Node) -> bool:
    body = None if node.op is None else decomposition_of(node.op)
    if body is None or len(body.inputs) != len(node.inputs) or len(body.outputs) != len(node.outputs):
        return False

    def place(made: Node) -> None:
        made.range, made.scope, made.call_stack = node.range, node.scope, node.call_stack
        for output in made.outputs:
            output.set_name(None)

    with graph.inserting_before(node):
        results = graph.inline_call(body, node.inputs, place)
    for old, new in zip(node.outputs, results, strict=True):
        new.type = old.type
        old.replace_all_uses_with(new)
    node.destroy()
    return True
