"""Fold batch norms into the convolutions before them.

    %4 : Tensor = aten::conv2d(%x, %w, %b, ...)                            %4 : Tensor = aten::conv2d(%x, %w2, %b2, ...)
    %5 : Tensor = aten::batch_norm(%4, %g, %h, %mean, %var, ...)     =>    return (%4)
    return (%5)

With `s = g / sqrt(var + eps)` the new weight is `w * s` for each output channel and the new bias `(b - mean) * s + h`.
They are computed in double precision and rounded once to the dtype of the weight. Results differ from the old ones by
rounding.

A batch norm stays if it is in training, if a weight or statistic is no constant, is written in the graph or needs a
gradient, if somebody else sees the convolution's result (asking for its shape before does not count), or if dtypes or
sizes differ. An input without batch dimension makes a result whose dimension 1 is no channel. Unless a check or the
type of the tensor rules that out, or the batch norm does the same to all channels, a `prim::If` on the number of
dimensions keeps the batch norm for that case. Where all channels are treated alike, the error that a batch norm raises
for such a result is not raised.
"""

from __future__ import annotations

from jitlite.analysis.constant_weight_layers import fold_batch_norms
from jitlite.ir.graph import Graph
from jitlite.passes.registry import inexact_pass


@inexact_pass
def fold_conv_bn(graph: Graph) -> bool:
    """Let convolutions do what a batch norm does to their results."""
    return fold_batch_norms(graph, linear=False)
