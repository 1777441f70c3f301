"""Fold the addition of a constant into the bias of the convolution before it.

    %4 : Tensor = aten::conv2d(%x, %w, %b, ...)
    %5 : Tensor = aten::add(%4, %c, %1)              =>    %4 : Tensor = aten::conv2d(%x, %w, %b2, ...)
    return (%5)                                            return (%4)

The constant is a number, or a tensor with one element or one for each output channel; for `aten::sub` it is
subtracted, and both have a constant factor `alpha`. Results differ by rounding.

It stays if the weight or bias is no constant, is written in the graph or needs a gradient, if somebody else sees the
convolution's result (asking for its shape before does not count), if the constant would be broadcast over other
dimensions, or if the sum has another dtype. A constant with a batch dimension adds that dimension to a result without
one: unless that is ruled out by a check or by the type of the tensor, a `prim::If` does so.
"""

from __future__ import annotations

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.constant_weight_layers import exact, foldable_operand, with_batch_dimension
from jitlite.ir.graph import Graph, constant_of
from jitlite.passes.registry import inexact_pass


@inexact_pass
def fold_conv_add_sub(graph: Graph) -> bool:
    """Let convolutions add constants that are added to their results."""
    changed = False
    db: AliasDb | None = None
    for node in list(graph.all_nodes()):
        if node.kind not in ("aten::add", "aten::sub") or len(node.inputs) != 3:
            continue
        db = db or AliasDb(graph)
        found = foldable_operand(node, db)
        alpha = constant_of(node.inputs[2], None)
        if found is None or type(alpha) not in (int, float):
            continue
        layer, constant = found
        added = constant * (alpha if node.kind == "aten::add" else -alpha)
        bias = added.expand(layer.channels) if layer.bias is None else exact(layer.bias) + added
        layer.change(graph, None, bias.to(layer.weight), node.kind.removeprefix("aten::"))
        node.output.replace_all_uses_with(with_batch_dimension(graph, node, layer))
        node.destroy()
        changed = True
    return changed
