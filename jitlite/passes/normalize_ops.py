"""Call operators by one name of several.

    %2 : Tensor = aten::multiply(%x, %y)        %2 : Tensor = aten::mul(%x, %y)
    %3 : Tensor = aten::absolute_(%2)      =>   %3 : Tensor = aten::abs_(%2)

`operators/aliases.py` lists the names. A node is renamed if the operator of the other name has an overload with the
same types of arguments, so that it does the same. Nothing else changes.
"""

from __future__ import annotations

from jitlite.ir import ops
from jitlite.ir.graph import Graph, Node
from jitlite.ir.ops import Op
from jitlite.ir.traits import Link, Trait
from jitlite.passes.registry import graph_pass


@graph_pass
def normalize_ops(graph: Graph) -> bool:
    """Give operators their canonical names."""
    return bool([node for node in graph.all_nodes() if _has_canonical_name(node) and _rename(node)])


def _has_canonical_name(node: Node) -> bool:
    return node.kind in Link.USUAL_NAME.by_kind and not node.has(Trait.RENAMED_IN_SOURCE)


def _rename(node: Node) -> bool:
    resolved = node.op
    found = None if resolved is None else _same_under(Link.USUAL_NAME.by_kind[node.kind], resolved)
    if found is None:
        return False
    node.change_kind(found.name)
    node.set_op(found)
    return True


def _same_under(name: str, op: Op) -> Op | None:
    """The overload of the operator `name` that takes and gives the same as `op`."""
    wanted = [a.type for a in op.schema.arguments], [r.type for r in op.schema.returns]
    for candidate in ops.lookup(name):
        if ([a.type for a in candidate.schema.arguments], [r.type for r in candidate.schema.returns]) == wanted:
            return candidate
    return None
