"""Operators of a higher order in FX graphs: `cond` and `while_loop` become blocks, others call their graphs eagerly.

    %cond = cond(%p, %true_graph_0, %false_graph_0, (%x, %y))

    %b : bool = aten::Bool(%p)
    %1 : Tensor = prim::If(%b)            =>            the graphs are in the blocks, with %x and %y for their inputs
      block0():
        ...

`wrap_with_set_grad_enabled` and `wrap_with_autocast` become the nodes of their graphs between `prim::Enter` and
`prim::Exit`. `while_loop` asks its condition before the first round and at the end of each. What a loop of no rounds
gives are copies of what it was given, as torch has it: a caller may write to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from jitlite.frontend.from_fx.fx_converter import Converter
from jitlite.frontend.from_fx.fx_values import name_of
from jitlite.frontend.tracing.recorded_modes import ContextRecorder
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Value
from jitlite.ir.structure import UNBOUNDED
from jitlite.ir.types import Type


def convert(c: Converter, node: torch.fx.Node) -> None:
    """Bind a call of an operator of a higher order."""
    made = _REGIONS.get(name_of(node.target))
    if made is None or not made(c, node):
        c.eager(node, "graphs have no such operator of a higher order")
    else:
        c.made.note(node.target, "exact")


def _cond(c: Converter, node: torch.fx.Node) -> bool:
    arguments: Any = node.args
    predicate, if_true, if_false, *operands = arguments
    graphs = [_graph(c, if_true), _graph(c, if_false)]
    condition = _condition(c, c.value(predicate))
    if None in graphs or node.kwargs or condition is None:
        return False
    values = [c.value(a) for a in (operands[0] if operands else ())]
    choice = c.graph.create("prim::If", [condition]).insert_before(c.graph.insert_point)
    for graph in graphs:
        _fill(c, choice.add_block(), lambda graph=graph: c.inline(graph, values))  # type: ignore[misc]
    first, second = choice.blocks
    for one, other in zip(first.outputs, second.outputs, strict=True):
        choice.add_output(_common(one.type, other.type))
    c.bind(node, tuple(choice.outputs))
    return True


def _while_loop(c: Converter, node: torch.fx.Node) -> bool:
    arguments: Any = node.args
    cond, body, carried, additional = arguments[:4]
    cond_graph, body_graph = _graph(c, cond), _graph(c, body)
    if cond_graph is None or body_graph is None or node.kwargs or len(node.args) > 4:
        return False
    around = [c.value(a) for a in additional]
    first = [_own(c, c.value(a)) for a in carried]

    def ask(values: Sequence[Value]) -> Value:
        (answer,) = c.inline(cond_graph, [*values, *around])
        condition = _condition(c, answer)
        assert condition is not None, "the condition of a while_loop is a tensor or a bool"
        return condition

    unbounded = c.constants.of(UNBOUNDED)
    loop = c.graph.create("prim::Loop", [unbounded, ask(first), *first], [v.type for v in first])
    loop.insert_before(c.graph.insert_point)
    block = loop.add_block()
    block.add_input(T.INT)
    values = [block.add_input(v.type) for v in first]

    def once() -> Sequence[Value]:
        following = c.inline(body_graph, [*values, *around])
        return [ask(following), *following]

    _fill(c, block, once)
    c.bind(node, tuple(loop.outputs))
    return True


def _own(c: Converter, value: Value) -> Value:
    """A copy of a tensor that is carried on."""
    if not isinstance(value.type, T.TensorType):
        return value
    return c.builder.op("aten::clone", [value])


def _graph(c: Converter, argument: object) -> torch.fx.GraphModule | None:
    found = c.object_of(argument)
    return found[0] if found is not None and isinstance(found[0], torch.fx.GraphModule) else None


def _condition(c: Converter, value: Value) -> Value | None:
    if value.type is T.BOOL:
        return value
    return c.builder.op("aten::Bool", [value]) if isinstance(value.type, T.TensorType) else None


def _fill(c: Converter, block: Block, make: Callable[[], Sequence[Value]]) -> None:
    with c.graph.inserting_at_end(block):
        results = make()
    for value in results:
        block.add_output(value)


def _common(one: Type, other: Type) -> Type:
    return T.unify(one, other) or T.ANY


def _with_grad_mode(c: Converter, node: torch.fx.Node) -> bool:
    enabled, graph, *inputs = node.args
    return _within(c, node, torch.enable_grad if enabled else torch.no_grad, [], graph, inputs)


def _with_autocast(c: Converter, node: torch.fx.Node) -> bool:
    device, dtype, enabled, keeps, graph, *inputs = node.args
    return _within(c, node, torch.autocast, [device, dtype, enabled, keeps is not False], graph, inputs)


def _within(
    c: Converter, node: torch.fx.Node, cls: type, arguments: Sequence[object], graph: object, inputs: Sequence[object]
) -> bool:
    """Bind what a graph gives within `with cls(*arguments):`."""
    inner = _graph(c, graph)
    if inner is None or node.kwargs:
        return False
    values = [c.value(a) for a in inputs]
    contexts = ContextRecorder(c.builder)
    contexts.enter(cls, list(arguments))
    results = c.inline(inner, values)
    contexts.leave()
    c.bind(node, tuple(results))
    return True


_REGIONS: dict[str, Callable[[Converter, torch.fx.Node], bool]] = {
    "cond": _cond, "while_loop": _while_loop, "wrap_with_set_grad_enabled": _with_grad_mode,
    "wrap_with_autocast": _with_autocast,
}  # fmt: skip
