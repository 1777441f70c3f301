"""Drop expansions that broadcasting does anyway.

    %s : int[] = prim::ListConstruct(%2, %3)
    %a : Float(2, 3) = aten::expand(%x, %s, %implicit)
    %b : Tensor = aten::mul(%a, %y)                        =>    %b : Tensor = aten::mul(%x, %y)

Tracing writes down the broadcasting of operands as `aten::expand` with `implicit` set. A use of one takes the tensor
itself where the user is an elementwise operator with another operand that has the expanded shape, so that the result
has it too. Types must tell both shapes. Other uses keep the expansion, and so do all where somebody writes the tensor.
"""

from __future__ import annotations

from jitlite.analysis import promotion
from jitlite.analysis.alias import AliasDb
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Use, constant_of
from jitlite.passes.registry import graph_pass


@graph_pass
def remove_expands(graph: Graph) -> bool:
    """Let elementwise operators broadcast."""
    expands = [n for n in graph.all_nodes() if _is_implicit(n)]
    if not expands:
        return False
    db = AliasDb(graph)
    return bool([n for n in expands if not db.has_writers((n.output, n.inputs[0])) and _drop(n)])


def _is_implicit(node: Node) -> bool:
    return node.kind == "aten::expand" and len(node.inputs) == 3 and constant_of(node.inputs[2], None) is True


def _drop(node: Node) -> bool:
    given, expanded = promotion.sizes_of(node.inputs[0]), promotion.sizes_of(node.output)
    if given is None or expanded is None or None in given or None in expanded:
        return False
    if not promotion.absorbs_shape(node.output, node.inputs[0]):
        return False
    found = [use for use in node.output.uses if _broadcasts(use, expanded)]
    for user, offset in found:
        user.replace_input(offset, node.inputs[0])
    if found and not node.output.has_uses:
        node.destroy()
    return bool(found)


def _broadcasts(use: Use, expanded: list[int | None]) -> bool:
    """Does another operand of an elementwise operator have the shape?"""
    user = use.user
    if user.op is None or not user.op.is_pointwise or user.op.schema.is_mutable:
        return False
    others = [v for i, v in enumerate(user.inputs) if i != use.offset and isinstance(v.type, T.TensorType)]
    return any(v is not user.inputs[use.offset] and promotion.sizes_of(v) == expanded for v in others)
