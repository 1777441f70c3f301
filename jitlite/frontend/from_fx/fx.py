"""FX graphs -> graphs.

    graph():                                             graph(%x : Tensor, %s0 : int):
        %x = placeholder                                   %2 : int = prim::Constant[value=2]()
        %s0 = placeholder                                  %3 : int = aten::mul(%s0, %2)
        %mul = operator.mul(%s0, 2)                =>      %4 : int[] = prim::ListConstruct(%3, %2)
        %view = aten.view.default(%x, [%mul, 2])           %5 : Tensor = aten::view(%x, %4)
        return view                                        return (%5)

All that torch makes is taken: the graphs of ATen's operators below AOTAutograd and torch.export, and those of Python's
functions, methods and modules that `torch.fx.symbolic_trace` and Dynamo make. What a target is, is looked up in this
order, and written down in the `lookups` of the conversion:

  exact          a lowering given for the target; jitlite has this very overload; it is Python's operator on numbers
  packet         another overload of the same operator takes these arguments (`add.Scalar` for `add.Tensor(x, 2)`)
  decomposition  a function, from a table that was given, that computes it with other operators
  eager          Python calls it: objects of custom classes, operators of a higher order, Python functions

Of operators of a higher order, `cond` and `while_loop` become `prim::If` and `prim::Loop`.

How to read: `fx_converter.py` has what nodes have become; what becomes of a node is in `fx_operators.py` (operators of
the dispatcher), `fx_calls.py` (everything else that is called) and `fx_regions.py` (operators of a higher order).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from jitlite.frontend.emit.definition import FunctionCompiler
from jitlite.frontend.from_fx import fx_calls, fx_operators, fx_regions
from jitlite.frontend.from_fx.fx_converter import Around, ConvertedGraph, Converter, Handlers, Lowerings
from jitlite.frontend.from_fx.fx_values import input_type
from jitlite.ir.graph import Graph, Value


def convert(
    gm: torch.fx.GraphModule,
    *,
    lowerings: Lowerings | None = None,
    decompositions: Lowerings | None = None,
    program: FunctionCompiler | None = None,
    flat: bool = False,
    around: Around | None = None,
) -> ConvertedGraph:
    """The graph of an FX graph module, and how its targets were found.

    Args:
        lowerings: functions to call instead of operators, by OpOverload, packet or other target.
        decompositions: functions that compute operators, by OpOverload or packet, to look into where the operator
            itself would be left to Python.
        program: where to compile functions of torch's that are written in Python; without it Python calls them.
        around: gives what is to run in place of a lowering.
        flat: the graph has an output for each element of the result, which is a tuple or list.

    Raises:
        NotSupportedError: where the graph is not one of torch's making.
    """
    made = ConvertedGraph(around=around)
    converter = Converter(made, gm, _NODES, lowerings or {}, decompositions or {}, program)
    for node in gm.graph.find_nodes(op="placeholder"):
        converter.bind(node, made.graph.add_input(input_type(node)))
    result = converter.body()
    parts = result if flat and isinstance(result, list | tuple) else [result]
    for part in parts:
        made.graph.add_output(converter.value(part))
    return made


def convert_into(
    graph: Graph, gm: torch.fx.GraphModule, inputs: Sequence[Value], program: FunctionCompiler | None = None
) -> list[Value]:
    """Add what an FX graph module does with these inputs to a graph; gives the elements of its result.

    Raises:
        NotSupportedError: where the graph is not one of torch's making.
    """
    return Converter(ConvertedGraph(graph), gm, _NODES, {}, {}, program).inline(gm, inputs)


def _get_attr(c: Converter, node: torch.fx.Node) -> None:
    found: Any = c.gm
    for part in str(node.target).split("."):
        found = getattr(found, part)
    if isinstance(found, torch.Tensor):
        c.bind(node, c.constants.of(found))
    else:
        c.bind_object(node, found)


def _call_function(c: Converter, node: torch.fx.Node) -> None:
    target: Any = node.target
    lowering = _lowering(c, target)
    if lowering is not None:
        how, function = lowering
        if c.made.around is not None:
            function = c.made.around(target, function, c.graph.current_range)
        c.made.note(target, how, "by a lowering that was given")
        c.bind(node, c.callback(function, node.args, node.kwargs, node))
    elif target is operator.getitem and _is_part(c, node):
        pass
    elif isinstance(target, torch._ops.HigherOrderOperator):
        fx_regions.convert(c, node)
    elif isinstance(target, torch._ops.OpOverload):
        fx_operators.convert(c, node)
    else:
        fx_calls.function(c, node)


def _lowering(c: Converter, target: object) -> tuple[str, Callable[..., Any]] | None:
    if target in c.lowerings:
        return "exact", c.lowerings[target]
    packet = getattr(target, "overloadpacket", None)
    return ("packet", c.lowerings[packet]) if packet in c.lowerings else None


def _is_part(c: Converter, node: torch.fx.Node) -> bool:
    """Bind a node that takes one of several results, if it is that."""
    source, index = node.args
    parts = c.parts(source) if isinstance(source, torch.fx.Node) else None
    if parts is None or type(index) is not int:
        return False
    c.bind(node, parts[index])
    return True


_NODES: Handlers = {
    "get_attr": _get_attr,
    "call_function": _call_function,
    "call_method": fx_calls.method,
    "call_module": fx_calls.module,
}
