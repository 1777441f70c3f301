"""Let activation functions that write their argument make new tensors.

    %y : Tensor = aten::add(%x, %1, %1)            %y : Tensor = aten::add(%x, %1, %1)
    %z : Tensor = aten::sigmoid_(%y)         =>    %3 : Tensor = aten::sigmoid(%y)
    return (%y)                                    %z : Tensor = prim::AsStored(%y, %3)
                                                   return (%z)

This is `remove_tensor_mutation` for activation functions, which leaves what that leaves. But where the result might
have another dtype or layout than the tensor, `prim::AsStored` brings it into the tensor's, and raises where the
in-place operation would have raised.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph
from jitlite.operators import in_place
from jitlite.passes.registry import graph_pass
from jitlite.passes.remove_tensor_mutation import replace_writes


@graph_pass
def inplace_to_functional_activation(graph: Graph) -> bool:
    """Replace in-place activation functions whose memory belongs to their tensor alone."""
    return replace_writes(graph, lambda node: in_place.base_name(node.kind) in in_place.ACTIVATIONS, checked=True)
