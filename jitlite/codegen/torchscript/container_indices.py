"""Indices of module containers that are known at run time only, in terms of TorchScript.

TorchScript's index of a ModuleList counts from the front alone, and of parameters it has none:

    self.experts[k](x)     =>   self.experts[k + n if k < 0 else k](x)
    self.weights[k]        =>   [self.weights.0, self.weights.1][k]
"""

from __future__ import annotations

from jitlite.frontend.classes.modules import ModuleDefinition
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.types import ClassType


def lower_index(node: Node) -> bool:
    """`container[index]`; says whether something else was put in its place."""
    container, index = node.inputs
    type = container.type
    if not isinstance(type, ClassType):
        return False
    kind = type.definition.container if isinstance(type.definition, ModuleDefinition) else None
    if kind in ("parameter list", "parameter dict"):
        node.output.replace_all_uses_with(_element(node, [n for n in type.attributes if n in type.parameters]))
        return True
    if index.type is T.INT and not (is_constant(index) and constant_of(index) >= 0):
        parts = [t for t in type.attributes.values() if isinstance(t, ClassType | T.InterfaceType) and t.is_module]
        node.replace_input(1, _from_the_front(node, index, len(parts)))
    return False


def _element(node: Node, names: list[str]) -> Value:
    graph, (container, index) = node.graph, node.inputs
    values = []
    for name in names:
        got = graph.insert("prim::GetAttr", [container], [node.output.type], {"name": name}, range=node.range)
        values.append(got.output)
    if index.type is T.STRING:
        pairs = [v for name, value in zip(names, values, strict=True) for v in (graph.insert_constant(name), value)]
        held = graph.insert("prim::DictConstruct", pairs, [T.DictType.of(T.STRING, T.TENSOR)], range=node.range)
    else:
        held = graph.insert("prim::ListConstruct", values, [T.ListType.of(T.TENSOR)], range=node.range)
    return graph.insert("aten::__getitem__", [held.output, index], [T.TENSOR], range=node.range).output


def _from_the_front(node: Node, index: Value, count: int) -> Value:
    """The index, with the number of elements added where it counts from the end."""
    graph, place = node.graph, node.range
    is_negative = graph.insert("aten::lt", [index, graph.insert_constant(0)], [T.BOOL], range=place).output
    branch = graph.insert("prim::If", [is_negative], [T.INT], range=place)
    with graph.inserting_at_end(branch.add_block()):
        total = graph.insert("aten::add", [index, graph.insert_constant(count)], [T.INT], range=place).output
    branch.blocks[0].add_output(total)
    branch.add_block().add_output(index)
    return branch.output
