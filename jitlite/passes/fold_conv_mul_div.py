"""Fold the multiplication by a constant into the weight and bias of the convolution before it.

    %4 : Tensor = aten::conv2d(%x, %w, %b, ...)
    %5 : Tensor = aten::mul(%4, %c)                  =>    %4 : Tensor = aten::conv2d(%x, %w2, %b2, ...)
    return (%5)                                            return (%4)

The constant is a number, or a tensor with one element or one for each output channel; `aten::div` divides by it. The
results differ by rounding. A constant that is zero or not finite stays, as a sum multiplied by it may differ from the
sum of its terms multiplied by it; so do the cases that `fold_conv_add_sub` leaves.
"""

from __future__ import annotations

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.constant_weight_layers import exact, foldable_operand, with_batch_dimension
from jitlite.ir.graph import Graph
from jitlite.passes.registry import inexact_pass


@inexact_pass
def fold_conv_mul_div(graph: Graph) -> bool:
    """Let convolutions multiply by constants that their results are multiplied by."""
    changed = False
    db: AliasDb | None = None
    for node in list(graph.all_nodes()):
        if node.kind not in ("aten::mul", "aten::div") or len(node.inputs) != 2:
            continue
        db = db or AliasDb(graph)
        found = foldable_operand(node, db)
        if found is None:
            continue
        layer, constant = found
        factor = constant if node.kind == "aten::mul" else constant.reciprocal()
        if not bool((factor.isfinite() & (factor != 0)).all()):
            continue
        factor = factor.expand(layer.channels)
        bias = None if layer.bias is None else (exact(layer.bias) * factor).to(layer.weight.dtype)
        layer.change(graph, layer.scaled_weight(factor), bias, node.kind.removeprefix("aten::"))
        node.output.replace_all_uses_with(with_batch_dimension(graph, node, layer))
        node.destroy()
        changed = True
    return changed
