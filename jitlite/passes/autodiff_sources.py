"""Which inputs of a graph the gradients of its values depend on.

A value has the sources of what it is computed from. The result of a branch has those of either block, and a program
may ask which it was: what has no gradient is None, and what has no source requires none. Where blocks differ in that,
values are *inexact*: what they depend on is known when the graph runs only (`autodiff_reach.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.structure import If, Loop
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type
from jitlite.passes.autodiff_loops import joined_list
from jitlite.passes.rules import gradients
from jitlite.passes.rules.formula import arguments_of, rule_of


def is_differentiable(node: Node) -> bool:
    """Can the node be part of a graph that is differentiated?"""
    if node.blocks or "Subgraph" in node.attributes:
        return False
    if node.kind == "prim::Constant" or not any(may_have_gradient(o.type) for o in node.outputs):
        return True
    # a display that is unpacked at once belongs to nobody: the two would ask one another without end
    if node.kind == "prim::ListConstruct":
        return gradients.is_display_part(node) and all(is_differentiable(use.user) for use in node.output.uses)
    if node.kind == "prim::ListUnpack":
        return gradients.is_unpacked_part(node) and is_differentiable(node.input.node)
    return rule_of(node) is not None


def may_have_gradient(t: Type) -> bool:
    """May values of this type have a gradient? Tensors (of unknown or real dtype) and lists of them."""
    if isinstance(t, T.TensorType):
        return t.dtype is None or t.dtype.is_floating_point
    return isinstance(t, T.ListType) and may_have_gradient(t.element)


def wants_gradient(t: Type) -> bool:
    """May a value of this type that is given or returned want a gradient?"""
    return isinstance(t, T.TensorType) and may_have_gradient(t) and t.requires_grad is not False


_REFUSAL = "differentiation of {} is not supported, or the types of its inputs are unknown"


class GradientSources:
    """For each value, the inputs whose gradients may depend on its gradient.

    Attributes:
        found: these inputs, by position.
        inexact: the values that may depend on fewer of them, which is decided when the graph runs.
        given: what operators have computed a value from, as far as gradients pass.

    Raises:
        ValueError: such a gradient would pass a node that is not differentiated.
    """

    def __init__(self, f: Graph) -> None:
        self.inexact: set[Value] = set()
        self.given: dict[Value, Sequence[Value]] = {}
        self.found: dict[Value, set[int]] = {v: {i} for i, v in enumerate(f.inputs) if wants_gradient(v.type)}
        for value in f.inputs:
            if isinstance(value.type, T.ListType) and may_have_gradient(value.type) and value.has_uses:
                raise ValueError(_REFUSAL.format(value.uses[0].user.kind))
        self.block(f.block)

    def block(self, block: Block) -> None:
        for node in block.nodes:
            self.node(node)

    def node(self, node: Node) -> None:
        if node.kind == "prim::Loop":
            self.loop(Loop(node))
        elif node.kind == "prim::If":
            self.branch(If(node))
        elif node.kind == "aten::append":
            self.hand_on((node.inputs[1],), (node.inputs[0],))
        elif joined_list(node) is not None:
            self.hand_on((node.inputs[0],), node.outputs)
        elif node.blocks:
            for block in node.blocks:
                self.block(block)
            if any(self.of(block.outputs) for block in node.blocks):
                raise ValueError(_REFUSAL.format(node.kind))
        elif node.has(Trait.LIST) and is_differentiable(node):
            self.hand_on(node.inputs, node.outputs)
        else:
            self.operator(node)

    def branch(self, branch: If) -> None:
        for block in branch.node.blocks:
            self.block(block)
        for then, orelse, result in branch.joined:
            sources = self.of((then,)), self.of((orelse,))
            if any(sources) and not isinstance(result.type, T.TensorType):
                raise ValueError("a branch gives a list of tensors through which a gradient would pass")
            self.note((result,), set().union(*sources))
            if sources[0] != sources[1] or not self.inexact.isdisjoint((then, orelse)):
                self.inexact.add(result)

    def operator(self, node: Node) -> None:
        rule = None if "Subgraph" in node.attributes else rule_of(node)
        if rule is not None:
            inputs = [v for name, v in arguments_of(node) if name in rule.inputs]
            outputs = node.outputs if rule.outputs is None else [node.outputs[i] for i in rule.outputs]
            self.hand_on(inputs, outputs)
            return
        gives = node.kind != "prim::Constant" and any(may_have_gradient(o.type) for o in node.outputs)
        writes = node.op is not None and any(a.is_write for a in node.op.schema.arguments)
        if writes or (gives and self.of(node.inputs)):
            raise ValueError(_REFUSAL.format(node.kind))

    def loop(self, loop: Loop) -> None:
        """What a loop carries may depend on other inputs in each iteration; a loop whose results are asked for runs."""
        for each in loop.carried:
            self.hand_on((each.start,), (each.parameter,))
        self.block(loop.body)
        known: object = None
        while known != (known := self._state(loop)):
            before = [self.of((each.following,)) for each in loop.carried]
            for each in loop.carried:
                self.hand_on((each.following,), (each.parameter,))
            self.block(loop.body)
            for each, sources in zip(loop.carried, before, strict=True):
                if sources != self.of((each.following,)):
                    self.inexact.update((each.parameter, each.following))
        for each in loop.carried:
            self.hand_on((each.following,), (each.result,))

    def _state(self, loop: Loop) -> object:
        """What is known of a loop, which stays the same at last."""
        return len(self.inexact), [self.of((each.parameter, each.following)) for each in loop.carried]

    def hand_on(self, given: Sequence[Value], made: Sequence[Value]) -> None:
        """Note what values are computed from."""
        self.given.update(dict.fromkeys(made, given))
        self.note(made, self.of(given))
        if not self.inexact.isdisjoint(given):
            self.inexact.update(made)

    def of(self, values: Iterable[Value]) -> set[int]:
        return set().union(*(self.found.get(v, ()) for v in values))

    def note(self, values: Iterable[Value], sources: set[int]) -> None:
        for value in values:
            if sources and may_have_gradient(value.type):
                self.found[value] = self.found.get(value, set()) | sources
