"""Let a product of matrices that is only read transposed be computed transposed.

    %a : Tensor = aten::mm(%x, %y)             %xt : Tensor = aten::t(%x)
    %b : Tensor = aten::t(%a)            =>    %yt : Tensor = aten::t(%y)
    %c : Tensor = aten::t(%b)                  %b : Tensor = aten::mm(%yt, %xt)
                                               # uses of %c use %a

Transposing is a view, so it costs nothing in front of a product; behind it, it leaves a tensor whose rows are not what
lies in a row in memory. Gradients of products with transposed weights have this form. A matrix that is transposed twice
for a product is the matrix itself. A library may add the terms in another order, and the result lies in memory in
another order than before, so this is for graphs that nobody asks for strides.
"""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.passes.registry import inexact_pass


@inexact_pass
def turn_products(graph: Graph) -> bool:
    """Compute products transposed that are only read that way, and drop what is transposed twice."""
    changed = False
    for node in list(graph.all_nodes()):
        if node.kind == "aten::t" and node.block is not None:
            changed = _once(node) or _turned(node) or changed
    return changed


def _once(node: Node) -> bool:
    inner = node.input.node
    if inner.kind != "aten::t" or any(use.user.kind != "aten::mm" for use in node.output.uses):
        return False  # others may write it, or hand it on, and would see that it is another object
    node.output.replace_all_uses_with(inner.input)
    node.destroy()
    return True


def _turned(node: Node) -> bool:
    product, graph = node.input.node, node.graph
    if product.kind != "aten::mm" or product.output.use_count != 1 or product.block is not node.block:
        return False
    t = node.output.type
    with graph.inserting_before(product):
        x, y = (_transposed(graph, v) for v in product.inputs)
        found = graph.insert("aten::mm", (y, x), (t,), range=product.range).output
    node.output.replace_all_uses_with(found)
    node.destroy()
    product.destroy()
    return True


def _transposed(graph: Graph, value: Value) -> Value:
    return value.node.input if value.node.kind == "aten::t" else graph.insert("aten::t", (value,), (T.TENSOR,)).output
