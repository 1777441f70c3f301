"""A graph that runs specialized code where it may, and something else where not.

    graph(%x : Tensor):
      %2 : Float(2, 3), %3 : bool = prim::TypeCheck[types=[Float(2, 3)]](%x)
      %4 : Tensor = prim::If(%3)
        block0():
          ...                       the specialized graph, of %2
        block1():
          %5 : Function = prim::Constant[name="fallback_function"]()
          %6 : Tensor = prim::CallFunction(%5, %x)
          -> (%6)
      return (%4)

The specialized graph is one that gives the same as the fallback for arguments of its parameter types.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.types import Type
from jitlite.ir.unit import Function, insert_call


def refine_inputs(graph: Graph, types: Sequence[Type]) -> None:
    """Give inputs the types that arguments are known to have; an input that is None is read no more.

    Nothing may be written that the inputs with other types may alias: a tensor may be resized while the graph runs.
    """
    for value, t in zip(graph.inputs, types, strict=True):
        if t is T.NONE and value.type is not T.NONE:
            if value.has_uses:
                first = graph.block.param_node._next
                assert first is not None
                with graph.inserting_before(first):
                    value.replace_all_uses_with(graph.insert_constant(None))
        else:
            value.type = t


def guarded(
    declared: Sequence[Value],
    specialized: Graph,
    refined: Sequence[Type],
    fallback: Function,
    test: Graph | None = None,
) -> Graph:
    """The graph that runs `specialized` where its arguments are of the types `refined`, else calls `fallback`.

    Args:
        declared: the inputs of the graph that is specialized.
        test: takes the arguments, and says whether what else the specialized graph depends on is so.
    """
    graph = Graph()
    inputs = [graph.add_input(v.type, v.name if v.has_name else None) for v in declared]
    arguments, condition = _condition(graph, inputs, refined)
    if test is not None:
        passed = graph.inline_call(test, inputs)
        condition = _all_of(graph, [*passed] if condition is None else [condition, *passed])
    if condition is None:
        condition = graph.insert_constant(True)
    results = [v.type for v in fallback.graph.outputs]
    branch = graph.insert("prim::If", (condition,), results)
    with graph.inserting_at_end(branch.add_block()):
        for value in graph.inline_call(specialized, arguments):
            branch.blocks[0].add_output(value)
    with graph.inserting_at_end(branch.add_block()):
        value = insert_call(graph, fallback, inputs)
        value.node.inputs[0].node.attributes["fallback"] = 1
        several = graph.insert("prim::TupleUnpack", (value,), results).outputs if len(results) != 1 else [value]
        for value in several:
            branch.blocks[1].add_output(value)
    for value in branch.outputs:
        graph.add_output(value)
    return graph


def _condition(graph: Graph, inputs: Sequence[Value], refined: Sequence[Type]) -> tuple[list[Value], Value | None]:
    """The arguments for the specialized graph, and whether they are what it was made for."""
    arguments = list(inputs)
    changed = [i for i, t in enumerate(refined) if t is not inputs[i].type]
    tensors = [i for i in changed if isinstance(refined[i], T.TensorType)]
    others = [i for i in changed if i not in tensors]
    conditions = [_none_test(graph, inputs[i], refined[i]) for i in others]
    if tensors:
        types = [refined[i] for i in tensors]
        check = graph.insert("prim::TypeCheck", [inputs[i] for i in tensors], (*types, T.BOOL), {"types": types})
        for i, value in zip(tensors, check.outputs, strict=False):
            arguments[i] = value
        conditions.append(check.outputs[-1])
    for i in others:
        if refined[i] is not T.NONE:
            arguments[i] = graph.insert("prim::unchecked_unwrap_optional", (inputs[i],), (refined[i],)).output
    return arguments, _all_of(graph, conditions)


def _all_of(graph: Graph, conditions: Sequence[Value]) -> Value | None:
    total = None
    for condition in conditions:
        total = condition if total is None else graph.insert("aten::__and__", (total, condition), (T.BOOL,)).output
    return total


def _none_test(graph: Graph, value: Value, refined: Type) -> Value:
    """Is the value None, or is it not, as the refined type says?"""
    kind = "aten::__is__" if refined is T.NONE else "aten::__isnot__"
    return graph.insert(kind, (value, graph.insert_constant(None)), (T.BOOL,)).output
