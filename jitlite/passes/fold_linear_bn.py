"""Fold batch norms into the linear layers before them.

    %4 : Tensor = aten::linear(%x, %w, %b)                                  %4 : Tensor = aten::linear(%x, %w2, %b2)
    %5 : Tensor = aten::batch_norm(%4, %g, %h, %mean, %var, ...)     =>     return (%4)
    return (%5)

The numbers and the conditions are those of `fold_conv_bn`. The channels of a batch norm are dimension 1, those of a
linear layer the last one, which is the same for two dimensions only. Where that is not certain, and the batch norm does
not do the same to all channels, a `prim::If` on the number of dimensions keeps the batch norm for other inputs.
"""

from __future__ import annotations

from jitlite.analysis.constant_weight_layers import fold_batch_norms
from jitlite.ir.graph import Graph
from jitlite.passes.registry import inexact_pass


@inexact_pass
def fold_linear_bn(graph: Graph) -> bool:
    """Let linear layers do what a batch norm does to their results."""
    return fold_batch_norms(graph, linear=True)
