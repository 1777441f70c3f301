"""A solution of exercise 4."""

from __future__ import annotations

from ch4_passes import replace
from graphs import Graph, Node, Value, all_nodes


def simplify(graph: Graph) -> bool:
    known = {node.outputs[0]: node.attribute for node in all_nodes(graph) if node.kind == "prim::Constant"}
    new: dict[Value, Value] = {}
    for node in all_nodes(graph):
        node.inputs = [new.get(value, value) for value in node.inputs]
        same = unchanged(node, known)
        if same is not None:
            new[node.outputs[0]] = same
    replace(graph, new)
    used = [node for node in all_nodes(graph) if any(output in new for output in node.outputs)]
    for block in [graph, *(inner for node in list(all_nodes(graph)) for inner in node.blocks)]:
        block.nodes = [node for node in block.nodes if node not in used]
    return bool(new)


def unchanged(node: Node, known: dict[Value, object]) -> Value | None:
    """The operand that is the result of a node, if one is."""
    if node.kind not in ("aten::add", "aten::sub", "aten::mul"):
        return None
    neutral = 1 if node.kind == "aten::mul" else 0
    left, right = node.inputs
    pairs = [(left, right)] if node.kind == "aten::sub" else [(left, right), (right, left)]
    for operand, constant in pairs:
        value = known.get(constant)
        if type(value) not in (int, float) or value != neutral or operand.type != node.outputs[0].type:
            continue
        if operand.type == "int" or (operand.type == "float" and node.kind != "aten::add" and repr(value)[0] != "-"):
            return operand
    return None
