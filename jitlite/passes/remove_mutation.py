"""Remove what changes lists and tensors of the graph's own: `remove_list_mutation`, then `remove_tensor_mutation`.

    %l : Tensor[] = prim::ListConstruct(%x)
    %0 : Tensor[] = aten::append(%l, %y)             %l : Tensor[] = prim::ListConstruct(%x, %y)
    %a : Tensor = aten::cat(%l, %zero)         =>    %a : Tensor = aten::cat(%l, %zero)
    %b : Tensor = aten::relu_(%a)                    %b : Tensor = aten::relu(%a)
    return (%a)                                      return (%b)

What these two leave, this leaves.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph
from jitlite.passes.registry import graph_pass
from jitlite.passes.remove_list_mutation import remove_list_mutation
from jitlite.passes.remove_tensor_mutation import remove_tensor_mutation


@graph_pass
def remove_mutation(graph: Graph) -> bool:
    """Remove mutation of lists, then of tensors."""
    changed = remove_list_mutation(graph)
    return remove_tensor_mutation(graph) or changed
