"""Are two graphs the same?

`canonical_text` is equal for graphs that differ only in the names and numbers of their values and in source ranges.
`isomorphic` also lets nodes without effects stand in another order.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import torch

from jitlite.ir.analysis import networkx, to_networkx
from jitlite.ir.graph import Block, Graph, Node
from jitlite.ir.ops import Effect
from jitlite.ir.printer import graph_text

if TYPE_CHECKING:
    import networkx as nx


def renumbered(graph: Graph, *, keep_names: bool = True) -> Graph:
    """A copy whose values are numbered 0, 1, ... in order of appearance; unless `keep_names`, no value has a name."""
    copied = graph.copy()
    if not keep_names:
        _drop_names(copied)
    return copied


def _drop_names(graph: Graph) -> None:
    for value in list(graph._names.values()):
        value.set_name(None)
    for node in graph.all_nodes():
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                _drop_names(attribute)


def canonical_text(graph: Graph, *, keep_names: bool = False) -> str:
    """The text of the renumbered graph, without source ranges."""
    return graph_text(renumbered(graph, keep_names=keep_names), ranges=False)


def constant_key(value: object) -> Hashable:
    """Equal for constants that no program can tell apart: `1`, `1.0` and `True` differ, `0.0` and `-0.0`, too.

    Tensors and other objects with an identity of their own compare by content, graphs by their canonical text.
    """
    if isinstance(value, float):
        return float, struct.pack("d", value)
    if isinstance(value, complex):
        return complex, struct.pack("dd", value.real, value.imag)
    if isinstance(value, enum.Enum):
        return type(value), value.name
    if isinstance(value, list | tuple):
        return type(value), tuple(map(constant_key, value))
    if isinstance(value, dict):
        return dict, tuple((constant_key(k), constant_key(v)) for k, v in value.items())
    if isinstance(value, torch.Tensor):
        return _tensor_key(value)
    if isinstance(value, Graph):
        return Graph, canonical_text(value)
    if isinstance(value, torch.Generator):
        return torch.Generator, id(value)
    return type(value), value


def _tensor_key(value: torch.Tensor) -> Hashable:
    description = (value.dtype, value.device, value.layout, value.requires_grad)
    plain = value.layout is torch.strided and not value.is_nested
    if not plain or value.is_quantized or value.device.type == "meta":
        return *description, id(value)
    content = value.detach().cpu().contiguous()
    return *description, tuple(value.shape), value.stride(), bytes(content.reshape(-1).view(torch.uint8).tolist())


def isomorphic(a: Graph, b: Graph) -> bool:
    """Do the graphs compute the same things from the same inputs in the same way?

    Nodes with effects (and operators that are not known) must come in the same order, other nodes need not. Names,
    numbers and source ranges do not count; types, attributes and the structure of blocks do. Meant for tests: the
    search takes long for large graphs of many equal nodes.
    """
    matcher = networkx().algorithms.isomorphism.MultiDiGraphMatcher(
        _labelled(a),
        _labelled(b),
        node_match=lambda x, y: x["label"] == y["label"],
        edge_match=lambda x, y: _edge_labels(x) == _edge_labels(y),
    )
    return bool(matcher.is_isomorphic())


def _edge_labels(edges: dict[Any, dict[str, Any]]) -> list[tuple[str, int, int]]:
    return sorted((e["label"], e.get("output", 0), e.get("input", 0)) for e in edges.values())


def _labelled(graph: Graph) -> nx.MultiDiGraph[Any]:
    """Data flow, with edges from a node to the ends of its blocks and along the order of effects in each block."""
    flow = to_networkx(graph)
    for _, _, data in flow.edges(data=True):
        data["label"] = "value"
    for node in list(flow):
        flow.nodes[node]["label"] = _node_label(node)
        for index, inner in enumerate(node.blocks):
            flow.add_edge(node, inner.param_node, label="block", input=index)
            _order_edges(flow, inner)
    _order_edges(flow, graph.block)
    return flow


def _order_edges(flow: nx.MultiDiGraph[Any], block: Block) -> None:
    previous = block.param_node
    for node in block.nodes:
        # what block a node is in shows through its block's param node
        flow.add_edge(block.param_node, node, label="inside")
        if _has_effect(node):
            flow.add_edge(previous, node, label="order")
            previous = node
    flow.add_edge(previous, block.return_node, label="order")


def _has_effect(node: Node) -> bool:
    if node.blocks:
        return any(_has_effect(inner) for block in node.blocks for inner in block.nodes)
    resolved = node.op
    return resolved is None or resolved.effect is not Effect.PURE


def _node_label(node: Node) -> Hashable:
    attributes = frozenset((name, constant_key(value)) for name, value in node.attributes.items())
    return node.kind, tuple(v.type for v in node.outputs), attributes, len(node.inputs), len(node.blocks)
