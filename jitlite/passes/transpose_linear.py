"""Transpose the constant weights of linear layers beforehand.

    %4 : Tensor = aten::linear(%x, %w, %b)           %5 : Tensor = aten::matmul(%x, %w2)
    return (%4)                               =>     %6 : Tensor = aten::add(%5, %b, %1)
                                                     return (%6)

Results differ by rounding. A layer stays if its weight or bias is no constant, is written in the graph or needs a
gradient, and if it computes in less than single precision, where the sum with the bias would be rounded twice.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.constant_weight_layers import Layer, layer_of
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.passes.registry import inexact_pass

LARGEST_WEIGHT = 65_536
"""Elements of a weight up to which it is worth it. Measured with one thread (torch 2.13, CPU), against `aten::linear`:
1 x 64 by 64 x 64 1.4x, 1 x 256 by 256 x 256 1.2x, 32 x 256 by 256 x 256 1.2x, larger ones 0.8x to 1.06x."""


@inexact_pass
def transpose_linear(graph: Graph) -> bool:
    """Transpose the weight of every linear layer."""
    return transpose(graph, lambda layer: True)


def transpose_where_faster(graph: Graph) -> bool:
    """Transpose those weights for which that has been measured to be faster."""
    return transpose(graph, lambda layer: layer.weight.numel() <= LARGEST_WEIGHT and layer.weight.device.type == "cpu")


def transpose(graph: Graph, wanted: Callable[[Layer], bool]) -> bool:
    """Transpose the weights of the layers that are wanted."""
    layers = [node for node in graph.all_nodes() if node.kind == "aten::linear"]
    db = AliasDb(graph) if layers else None
    changed = False
    for node in layers:
        layer = layer_of(node, db) if db is not None else None
        if layer is None or layer.weight.dtype not in (torch.float32, torch.float64) or layer.weight.dim() != 2:
            continue
        if not wanted(layer):
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
