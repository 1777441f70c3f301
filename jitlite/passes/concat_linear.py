"""Multiply one tensor by several constant weights at once.

    %3 : Tensor = aten::linear(%x, %w1, %b1)         %5 : Tensor = aten::linear(%x, %w12, %b12)
    %4 : Tensor = aten::linear(%x, %w2, %b2)   =>    %3 : Tensor = aten::slice(%5, %-1, %0, %n1, %1)
    %5 : Tensor = aten::add(%3, %4, %1)              %4 : Tensor = aten::slice(%5, %-1, %n1, %n2, %1)

Weights and biases are constants that fit together: matrices of as many columns, vectors of as many numbers as those
have rows, one dtype, one device, none of which needs a gradient or is written. Numbers may be rounded otherwise.

The results become parts of one tensor. So every use of them must be an elementwise operator, which cannot tell; nobody
may write what they read, and what is between the products may not print, set a mode or do anything else that is seen
when one of them raises. They all raise for the same inputs.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.effects import changes_modes
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.passes.registry import inexact_pass


@inexact_pass
def concat_linear(graph: Graph) -> bool:
    """Join products of one tensor with constant weights."""
    db: list[AliasDb] = []
    changed = [_in_block(block, db) for block in _blocks(graph.block)]
    return any(changed)


def _blocks(block: Block) -> Iterable[Block]:
    yield block
    for node in block.nodes:
        for inner in node.blocks:
            yield from _blocks(inner)


def _in_block(block: Block, db: list[AliasDb]) -> bool:
    """`db` holds the analysis once it is needed."""
    groups: dict[object, list[Node]] = {}
    passed = 0
    for node in block.nodes:
        if changes_modes(node):
            passed += 1
        key = _key(node)
        if key is not None:
            groups.setdefault((key, passed), []).append(node)
    changed = False
    for nodes in groups.values():
        if len(nodes) > 1:
            db[:] = db or [AliasDb(block.graph)]
            joined = [node for node in nodes if _may_join(node, nodes[0], db[0])]
            if len(joined) > 1 and joined[0] is nodes[0]:
                _join(joined)
                changed = True
    return changed


def _key(node: Node) -> object | None:
    """What nodes that may be joined have in common; None for a node that may be joined with no other."""
    if node.kind != "aten::linear":
        return None
    _, weight, bias = (constant_of(v, ...) for v in node.inputs)
    if not _is_plain(weight, 2) or not (bias is None or _is_plain(bias, 1)):
        return None
    if bias is not None and (bias.shape[0] != weight.shape[0] or bias.dtype != weight.dtype):
        return None
    devices = weight.device, None if bias is None else bias.device
    return node.inputs[0], weight.shape[1], weight.dtype, bias is None, devices


def _is_plain(value: object, dimensions: int) -> bool:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    return value.dim() == dimensions and not value.requires_grad and type(value) is torch.Tensor


def _may_join(node: Node, first: Node, db: AliasDb) -> bool:
    if db.has_writers((*node.inputs, node.output)) or not all(_is_elementwise(use.user) for use in node.output.uses):
        return False
    at = node.prev
    while at is not None and at is not first and node is not first:
        if at.kind != "aten::linear" and not db.may_swap(at, node):
            return False
        at = at.prev
    return True


def _is_elementwise(user: Node) -> bool:
    return user.op is not None and user.op.is_pointwise and not user.op.schema.is_mutable


def _join(nodes: list[Node]) -> None:
    first, graph = nodes[0], nodes[0].graph
    with torch.no_grad():
        weights = torch.cat([constant_of(node.inputs[1]) for node in nodes])
        biases = [constant_of(node.inputs[2]) for node in nodes]
        bias = None if biases[0] is None else torch.cat(biases)
    with graph.inserting_before(first):
        constants = [graph.insert_constant(weights), graph.insert_constant(bias)]
        inputs = (first.inputs[0], *constants)
        joined = graph.insert("aten::linear", inputs, (T.TENSOR,), range=first.range).output
        dim, step, end, parts = graph.insert_constant(-1), graph.insert_constant(1), 0, []
        for node in nodes:
            start, end = end, end + constant_of(node.inputs[1]).shape[0]
            bounds = (graph.insert_constant(start), graph.insert_constant(end))
            part = graph.insert("aten::slice", (joined, dim, *bounds, step), (T.TENSOR,), range=node.range).output
            parts.append(part)
    for node, part in zip(nodes, parts, strict=True):
        _replace(node, part)


def _replace(node: Node, part: Value) -> None:
    part.copy_metadata(node.output)
    part.type = T.TENSOR  # its strides are others now
    node.output.replace_all_uses_with(part)
    node.destroy()
