"""Operators that are made up of others: their parts take their place while a kernel is written.

What the parts are is declared where gradients are (`passes/rules/parts*.py`), so that both passes of a recording and
plain kernels compute the same.
"""

from __future__ import annotations

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.graph import Value as GraphValue
from jitlite.kernels import norms as norms  # has rules of its own for some of them
from jitlite.kernels import rearranging as rearranging  # has, too
from jitlite.kernels.loop_ir import Scalar
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import RULES, Call, rule
from jitlite.kernels.values import TensorValue, Value
from jitlite.native.code import NotNative
from jitlite.passes.rules import parts as parts
from jitlite.passes.rules.composites import composite_kinds, parts_of
from jitlite.passes.rules.formula import Formula, FormulaPlace

_CPU = torch.device("cpu")


def composite(call: Call) -> Value:
    """What the parts of an operator give."""
    lowering, node, graph = call.lowering, call.node, Graph()
    inputs = [_input(call, graph, value, lowering.value(value)) for value in node.inputs]
    made = graph.insert(node.kind, inputs, [v.type for v in node.outputs])
    assert node.op is not None
    made.set_op(node.op)
    write = parts_of(made)
    if write is None:
        raise NotNative(f"{node.kind} of such operands")
    place = FormulaPlace(graph)
    with graph.inserting_before(made):
        results = write(Formula(made, place, place, (), frozenset()))
    for inner in list(graph.nodes):
        if inner is not made and inner.kind != "prim::Constant":
            lowering.node(inner)
    found = [lowering.value(result.value) for result in results]
    for value in found:
        if isinstance(value, TensorValue) and value.position is None:
            value.node = node  # who reads the result reads what the operator gives
    return found[0] if len(found) == 1 else list(found)


def _input(call: Call, graph: Graph, value: GraphValue, found: Value) -> GraphValue:
    """An operand as a value of a graph of its own."""
    if isinstance(found, TensorValue):
        sizes = [None if isinstance(size, Scalar) else int(size) for size in found.sizes]
        made = graph.add_input(T.TensorType.of(found.dtype.torch, sizes, None, _CPU))
    elif isinstance(found, Scalar):
        made = graph.add_input(found.type)
    elif isinstance(found, list) and any(not isinstance(each, int | float) for each in found):
        t = value.type
        assert isinstance(t, T.ListType)
        elements = [_input(call, graph, value, each) for each in found]
        return graph.insert("prim::ListConstruct", elements, (t,)).output
    else:
        return graph.insert_constant(found, None if found is None else T.without_none(value.type))
    call.lowering.know(made, found)
    return made


rule(*(kind for kind in composite_kinds() if kind not in RULES), narrow=Narrow.LEFT)(composite)
