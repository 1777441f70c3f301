"""Turn blocks of gradient formulas into branches.

    %dx : Tensor = prim::GradOf(%dy)           %some : bool = prim::AutogradAnyNonZero(%dy)
      block0():                                %dx : Tensor = prim::If(%some)
        %1 : Tensor = aten::mul(%dy, %w)         block0():
        -> (%1)                          =>        %1 : Tensor = aten::mul(%dy, %w)
                                                   -> (%1)
                                                 block1():
                                                   %zero : Tensor = prim::AutogradZero()
                                                   -> (%zero)

A formula is linear in the gradients it takes, so of zeros it gives zeros. Before this, `specialize_autogradzero` may
have decided what is known to be zero or not to be.
"""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node
from jitlite.passes.registry import graph_pass


@graph_pass
def lower_grad_of(graph: Graph) -> bool:
    """Replace every `prim::GradOf` by a `prim::If`."""
    found = [node for node in graph.all_nodes() if node.kind == "prim::GradOf"]
    for node in found:
        _lower(graph, node)
    return bool(found)


def _lower(graph: Graph, node: Node) -> None:
    with graph.inserting_before(node):
        test = graph.insert("prim::AutogradAnyNonZero", node.inputs, (T.BOOL,), range=node.range)
        branch = graph.insert("prim::If", (test.output,), (), range=node.range)
    some, none = branch.add_block(), branch.add_block()
    some.clone_from(node.blocks[0], {})
    for output in node.outputs:
        with graph.inserting_at_end(none):
            zero = graph.insert("prim::AutogradZero", (), (output.type,), range=node.range)
        none.add_output(zero.output)
        output.replace_all_uses_with(branch.add_output(output.type))
    node.destroy()
