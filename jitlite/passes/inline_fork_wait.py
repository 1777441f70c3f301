"""Run forked calls where they are forked.

    %f : Future(Tensor) = prim::fork_0(%x)
    %a : Tensor = aten::wait(%f)              =>    %a : Tensor = aten::relu(%x)
    return (%a)                                     return (%a)
    with prim::fork_0 = graph(%p : Tensor): ...

The body of a fork takes the place of the first wait, if that runs whenever the fork has run and every other use of the
future is a wait that runs after it. There the body raises what the wait would have raised. So that nobody can tell that
it runs later than it might have, there are only constants between the two; or neither the body nor what is between
writes anything, draws random numbers, prints or calls. A future that is returned, put into a container or waited for
in a branch stays, and so does its fork.
"""

from __future__ import annotations

from jitlite.analysis.effects import effect_of
from jitlite.ir.analysis import dominates
from jitlite.ir.graph import Graph, Node
from jitlite.ir.ops import Effect
from jitlite.passes.registry import graph_pass


@graph_pass
def inline_fork_wait(graph: Graph) -> bool:
    """Replace forks that are waited for by their bodies."""
    forks = [node for node in graph.all_nodes() if node.kind == "prim::fork"]
    return bool([fork for fork in forks if _inline(graph, fork)])


def _inline(graph: Graph, fork: Node) -> bool:
    waits = [use.user for use in fork.output.uses]
    if not waits or any(w.kind != "aten::wait" for w in waits):
        return False
    first = next((w for w in waits if w.block is fork.block and all(w is o or dominates(w, o) for o in waits)), None)
    if first is None or not _may_wait(fork, first):
        return False
    with graph.inserting_before(first):
        (result,) = graph.inline_call(fork.attributes["Subgraph"], fork.inputs)
    for wait in waits:
        wait.output.replace_all_uses_with(result)
        wait.destroy()
    fork.destroy()
    return True


def _may_wait(fork: Node, wait: Node) -> bool:
    """Can nobody tell whether the forked body runs at once or right before the wait?"""
    between: list[Node] = []
    at = fork.next
    while at is not None and at is not wait:
        between += [at] if at.kind != "prim::Constant" else []
        at = at.next
    return not between or all(map(_is_quiet, [fork, *between]))


def _is_quiet(node: Node) -> bool:
    """Does the node, with what is in it, compute its outputs and nothing else?"""
    body = node.attributes.get("Subgraph")
    if node.kind == "prim::fork" and isinstance(body, Graph):
        return all(map(_is_quiet, body.nodes))
    if effect_of(node) not in (Effect.PURE, Effect.STATE) and node.kind != "aten::wait":
        return False
    return all(_is_quiet(inner) for block in node.blocks for inner in block.nodes)
