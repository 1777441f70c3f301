"""Lay the constant weights of linear layers out in memory as products read them fastest.

    %4 : Tensor = aten::linear(%x, %w, %b)     =>    %4 : Tensor = aten::linear(%x, %w2, %b)

`%w2` has the numbers of `%w`; what one input gives to all outputs lies side by side there. A layer stays if its weight
or bias is no constant, is written in the graph or needs a gradient. It stays, too, if anything else uses the weight:
both forms of it would be kept, and libtorch, which merges constants of equal numbers when it reads an archive, may give
either to all, also to a `view` that one of them cannot have. Results differ by rounding, for the library adds in
another order.
"""

from __future__ import annotations

import torch

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.constant_weight_layers import layer_of
from jitlite.ir.graph import Graph, Use, Value, constant_of

LARGEST_WEIGHT = 65_536
"""Elements of a weight up to which it is worth it. Measured with one thread (torch 2.13, CPU), against a weight as it
is: 1 x 64 by 64 x 64 1.4x, 1 x 256 by 256 x 256 1.2x, 32 x 256 by 256 x 256 1.2x, larger ones 0.8x to 1.06x."""


def lay_out_weights(graph: Graph) -> bool:
    """Lay out those weights for which that has been measured to be faster."""
    layers = [node for node in graph.all_nodes() if node.kind == "aten::linear"]
    if not layers:
        return False
    db, shared = AliasDb(graph), _used_otherwise(graph)
    laid_out: dict[Value, torch.Tensor] = {}
    for node in layers:
        layer = layer_of(node, db)
        if layer is None or not _is_faster_laid_out(layer.weight) or layer.weight.data_ptr() in shared:
            continue
        old = node.named_input("weight")
        if old not in laid_out:
            laid_out[old] = layer.weight.t().contiguous().t()
        with graph.inserting_before(node):
            node.replace_input(node.inputs.index(old), graph.insert_constant(laid_out[old], range=node.range))
    return bool(laid_out)


def _used_otherwise(graph: Graph) -> set[int]:
    """Where in memory the constants are that something uses for other than the weight of a linear layer."""
    found = set()
    for node in graph.all_nodes():
        constant = constant_of(node.output, None) if node.kind == "prim::Constant" else None
        if isinstance(constant, torch.Tensor) and not all(map(_is_weight, node.output.uses)):
            found.add(constant.data_ptr() if constant.layout is torch.strided else 0)
    return found


def _is_weight(use: Use) -> bool:
    return use.user.kind == "aten::linear" and use.offset == 1


def _is_faster_laid_out(weight: torch.Tensor) -> bool:
    return (
        weight.dtype in (torch.float32, torch.float64)
        and weight.dim() == 2
        and weight.device.type == "cpu"
        and weight.numel() <= LARGEST_WEIGHT
        and not weight.t().is_contiguous()
    )
