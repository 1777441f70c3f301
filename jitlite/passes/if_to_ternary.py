"""Write an `if` that only chooses between values as a choice, a node without blocks.

    %r : Tensor = prim::If(%c)
      block0():
        -> (%x)                         =>      %r : Tensor = prim::IfThenElse(%c, %x, %y)
      block1():
        -> (%y)

Both values are there before the `if`, so nothing is computed that was not computed before, and the result is the very
object that it was. Each result becomes a choice of its own. Runtimes that have no blocks want this form (torch.jit's
static runtime does); it is in no pipeline here, for generated Python writes such an `if` as a conditional expression
anyway, and constant propagation and `refine_conditions` see through `prim::If`.

Left alone:

- blocks that compute something: it may raise, print or write, and takes time where only one side needs it;
- an `if` without results, which dead code elimination removes;
- results that may be `prim::Uninitialized` on one side: nobody may look at those, not even to choose.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph, Node
from jitlite.passes.loop_copies import may_be_uninitialized
from jitlite.passes.registry import graph_pass

KIND = "prim::IfThenElse"


@graph_pass
def if_to_ternary(graph: Graph) -> bool:
    """Replace every `if` whose blocks are empty by choices."""
    chosen = [node for node in graph.all_nodes() if node.kind == "prim::If" and _only_chooses(node)]
    for node in chosen:
        _choose(graph, node)
    return bool(chosen)


def _only_chooses(node: Node) -> bool:
    if not node.outputs or not all(block.is_empty for block in node.blocks):
        return False
    return not any(may_be_uninitialized(value) for block in node.blocks for value in block.outputs)


def _choose(graph: Graph, node: Node) -> None:
    first, second = node.blocks
    with graph.inserting_before(node):
        for output, value, other in zip(node.outputs, first.outputs, second.outputs, strict=True):
            choice = graph.insert(KIND, (node.input, value, other), (output.type,), range=node.range)
            choice.call_stack = node.call_stack
            name = output.name if output.has_name else None
            output.replace_all_uses_with(choice.output)
            if name is not None:
                output.set_name(None)
                choice.output.set_name(name)
    node.destroy()
