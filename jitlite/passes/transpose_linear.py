"""Transpose the constant weights of linear layers beforehand.

    %4 : Tensor = aten::linear(%x, %w, %b)           %5 : Tensor = aten::matmul(%x, %w2)
    return (%4)                               =>     %6 : Tensor = aten::add(%5, %b, %1)
                                                     return (%6)

Results differ by rounding. A layer stays if its weight or bias is no constant, is written in the graph or needs a
gradient, and if it computes in less than single precision, where the sum with the bias would be rounded twice.
"""

from __future__ import annotations

import torch

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.constant_weight_layers import layer_of
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.passes.registry import inexact_pass


@inexact_pass
def transpose_linear(graph: Graph) -> bool:
    """Transpose the weight of every linear layer."""
    layers = [node for node in graph.all_nodes() if node.kind == "aten::linear"]
    db = AliasDb(graph) if layers else None
    changed = False
    for node in layers:
        layer = layer_of(node, db) if db is not None else None
        if layer is None or layer.weight.dtype not in (torch.float32, torch.float64) or layer.weight.dim() != 2:
            continue
        with graph.inserting_before(node):
            weight = graph.insert_constant(layer.weight.t().contiguous(), range=node.range)
            result = graph.insert("aten::matmul", (node.inputs[0], weight), (T.TENSOR,), range=node.range).output
            if layer.bias is not None:
                terms = (result, node.inputs[2], graph.insert_constant(1))
                result = graph.insert("aten::add", terms, (T.TENSOR,), range=node.range).output
        result.copy_metadata(node.output)
        node.output.replace_all_uses_with(result)
        node.destroy()
        changed = True
    return changed
