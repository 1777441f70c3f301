"""Symbolic differentiation: from a graph to the graph of its gradients.

    graph(%x, %y):                         f(%x, %y):                  df(%dy, %x, %y, %b):
      %a = aten::mul(%x, %y)                 the same, %b kept           %da = tanh_backward(%dy, %b)
      %b = aten::tanh(%a)            =>      return (%b)                 %dx = aten::mul(%da, %y)
      return (%b)                                                        %dy = aten::mul(%da, %x)
                                                                         return ((%dx, %dy))

The nodes are visited last to first. The formula of each, from `rules/gradients*.py`, goes into a `prim::GradOf` block,
which need not be run where its gradients are zero; contributions to one value are summed with `prim::AutogradAdd`.
What formulas use of `f` becomes an input of `df` (see `ir/gradient.py`). Where a kept value has a gradient of its own,
that is an input too: so `df` can be differentiated by autograd, and gives right gradients of gradients.

Operators with a rule are differentiated, and loops and branches over them (`autodiff_loops.py`,
`autodiff_branches.py`). Operators without a rule may stand where no gradient passes. Complex tensors are left to
autograd: the formulas are those of real numbers, and who runs a gradient must see to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.structure import If, Loop
from jitlite.ir.traits import Trait
from jitlite.operators.gradient import Gradient
from jitlite.passes.autodiff_branches import differentiate_branch, when_present
from jitlite.passes.autodiff_captured import blocks_of_captured, recompute_sizes, users_of_captured
from jitlite.passes.autodiff_composites import replace_composites
from jitlite.passes.autodiff_loops import Doubtful, differentiate_loop, joined_list, part_of, takes_part
from jitlite.passes.autodiff_reach import Reach
from jitlite.passes.autodiff_recompute import compute_again
from jitlite.passes.autodiff_scopes import Backward, InnerScope, without_sizes
from jitlite.passes.autodiff_sources import GradientSources, wants_gradient
from jitlite.passes.rules import gradients_classes as gradients_classes  # declares rules
from jitlite.passes.rules import gradients_losses as gradients_losses  # declares rules
from jitlite.passes.rules import gradients_moves as gradients_moves  # declares rules
from jitlite.passes.rules import gradients_nn as gradients_nn  # declares rules
from jitlite.passes.rules.formula import (
    Alongside,
    Contribution,
    Formula,
    Rule,
    Sym,
    arguments_of,
    call,
    rule_of,
)


def requiring(graph: Graph, needs: Sequence[bool]) -> Graph:
    """A copy of the graph whose types say which of its inputs require a gradient."""
    copy = graph.copy()
    for value, need in zip(copy.inputs, needs, strict=True):
        t = value.type
        if isinstance(t, T.TensorType):
            value.type = T.TensorType.of(t.dtype, t.sizes, t.strides, t.device, need)
    return copy


def differentiate(graph: Graph, *, computes_again: bool = False) -> Gradient:
    """The gradient of a graph, which is not changed, for the inputs whose types do not say `requires_grad=0`.

    Args:
        graph: is not changed.
        computes_again: have the backward pass compute what is cheap, instead of keeping it?

    Raises:
        ValueError: a gradient would pass a node that is not differentiated, or the graph writes a tensor.
    """
    lowered = graph.copy()
    replace_composites(lowered)
    doubtful: set[tuple[int, int]] = set()
    while True:
        f, known = lowered.copy(), len(doubtful)
        found = Differentiation(f, Doubtful(doubtful, f)).run(computes_again)
        if len(doubtful) == known:
            return found


def refuse_fixed(graph: Graph) -> None:
    """Ask that arguments for which autograd raises where they require a gradient do not require one.

    Raises:
        ValueError: one does, or `differentiate` would raise.
    """
    found = GradientSources(graph).found
    for node in graph.all_nodes():
        rule = rule_of(node)
        if rule is not None and any(found.get(v) for name, v in arguments_of(node) if name in rule.fixed):
            raise ValueError(f"{node.kind} has no gradient for an argument that requires one")


_Found = Sym | list[Sym | None] | None
"""What a formula gives: the gradient of an argument, or those of the elements of a list, None for zero."""


class Differentiation:
    """The work on one graph.

    Attributes:
        f: the graph, with what is kept for later.
        backward: the graph of gradients, `df`.
        sources: for each value, the inputs whose gradients depend on its gradient.
        grown: for each list of tensors that a loop appends to, the gradient of what they are put together to.
        doubtful: what loops carry whose gradient may not be there.
    """

    def __init__(self, f: Graph, doubtful: Doubtful) -> None:
        self.f = f
        self.backward = Backward(f)
        self.df = self.backward.graph
        self.alongside = Alongside(f)
        self._known = GradientSources(f)
        self.sources, self.inexact = self._known.found, self._known.inexact
        self.doubtful = doubtful
        self.grown: dict[Value, tuple[Node, Value]] = {}

    def run(self, computes_again: bool) -> Gradient:
        f = self.f
        found = Gradient(f, self.df, len(f.outputs))
        found.is_total = any(node.kind in ("prim::Loop", "prim::If") for node in f.all_nodes())
        found.f_differentiated_inputs = [i for i, v in enumerate(f.inputs) if wants_gradient(v.type)]
        for index, output in enumerate(f.outputs):
            if self.sources.get(output) and wants_gradient(output.type):
                found.df_input_vjps.append(index)
                self.add(output, self.df.add_input())
        found.f_output_sources = [tuple(sorted(self.sources.get(o, ()))) for o in f.outputs]
        for node in reversed(list(f.nodes)):
            self.visit(node)
        results = []
        for index, value in enumerate(f.inputs):
            grad = self.tensor_grad(value)
            if grad is not None and self.sources.get(value):
                results.append(grad)
                found.df_output_vjps.append(index)
        made = T.TupleType.of([v.type for v in results])
        self.df.add_output(self.df.insert("prim::TupleConstruct", results, (made,)).output)
        if computes_again:
            compute_again(self.backward, list(_values(f)))
        recompute_sizes(self.backward, self.f)
        self.keep(found)
        kept = f.outputs[len(found.f_output_sources) :]
        found.f_output_sources += [tuple(sorted(self.sources.get(o, ()))) for o in kept]
        self.compute_reach(found)
        _forget_requires_grad(f)
        return found

    def add(self, value: Value, grad: Value) -> None:
        """One more contribution to the gradient of a value of the block that is being differentiated."""
        scope = self.backward.scope
        if not scope.holds(value):
            scope.add_outside(value, grad)
            return
        known = scope.grads.get(value)
        assert not isinstance(known, list)
        if known is not None:
            grad = self.sum(known, grad)
        scope.grads[value] = grad

    def sum(self, a: Value, b: Value) -> Value:
        """The sum of two gradients; outside of loops either may be None."""
        place = self.backward
        if not self.is_certain:
            return place.with_presence(self.df.insert("prim::AutogradAdd", (a, b), (T.TENSOR,)).output, a, b)
        return place.with_presence(call(place, "aten::add", Sym(place, a), Sym(place, b)).value, a, b)

    @property
    def is_certain(self) -> bool:
        """Is it known here which gradients are not None? In loops and branches it is: those that they take are not."""
        return self.backward.scope is not self.backward.top

    # -- nodes
    def visit(self, node: Node) -> None:
        """Hand the gradients of a node's outputs on to its inputs."""
        if node.kind == "prim::Loop":
            differentiate_loop(self, Loop(node))
            return
        if node.kind == "prim::If":
            differentiate_branch(self, If(node))
            return
        if node.kind == "aten::append" or joined_list(node) is not None:
            self.visit_grown(node)
            return
        loop = takes_part(self.backward.scope, node)
        if loop is not None:
            grad = self.tensor_grad(node.output)
            if grad is not None and self.sources.get(node.inputs[0]):
                loop.add_part(node, grad)
            return
        if node.has(Trait.LIST):
            self.visit_list(node)
            return
        rule = rule_of(node)
        if rule is None or not rule.inputs:
            return
        grads = self.output_grads(node, rule)
        if any(g is not None for g in grads):
            self.apply(node, rule, grads)

    def visit_list(self, node: Node) -> None:
        if node.kind == "prim::ListUnpack":
            parts = [self.tensor_grad(o) for o in node.outputs]
            if any(g is not None for g in parts):
                self.backward.scope.grads[node.input] = parts
            return
        elements = self.backward.scope.grads.get(node.output)
        for value, grad in zip(node.inputs, elements if isinstance(elements, list) else (), strict=False):
            if grad is not None and self.sources.get(value):
                self.add(value, grad)

    def visit_grown(self, node: Node) -> None:
        """Hand on the gradient of a list that grows in a loop, and is put together behind it."""
        grown = joined_list(node)
        if grown is not None:
            grad = self.tensor_grad(node.output)
            if grad is not None:
                self.grown[grown] = (node, grad)
            return
        found = self.grown.get(node.inputs[0])
        value = node.inputs[1]
        if found is not None and self.sources.get(value):
            self.add(value, self.backward.with_presence(part_of(self, *found), found[1]))

    def tensor_grad(self, value: Value) -> Value | None:
        """The gradient of a tensor. Who uses it may find one more contribution in it, see `InnerScope.slots`."""
        found = self.backward.scope.tensor_grad(value)
        return found if found is None else self.with_slot(value, found)

    def with_slot(self, value: Value, grad: Value) -> Value:
        """The gradient of a value of an inner block, with a place for one that it may have of its own."""
        scope = self.backward.scope
        if not isinstance(scope, InnerScope) or not scope.holds(value):
            return grad
        if value not in scope.slots:
            zero = self.df.insert("prim::AutogradZero", (), (T.TENSOR,)).output
            scope.slots[value] = self.df.insert("prim::AutogradAdd", (zero, grad), (without_sizes(grad.type),))
            self.backward.with_presence(scope.slots[value].output, grad)
        return scope.slots[value].output

    def output_grads(self, node: Node, rule: Rule) -> list[Value | None]:
        if len(node.outputs) == 1 and isinstance(node.output.type, T.ListType):
            parts = self.backward.scope.grads.get(node.output)
            return parts if isinstance(parts, list) else []
        indices = range(len(node.outputs)) if rule.outputs is None else rule.outputs
        return [self.tensor_grad(node.outputs[i]) for i in indices]

    def apply(self, node: Node, rule: Rule, grads: Sequence[Value | None]) -> None:
        """Insert the formula of a node, in a block that is run if some gradient is not zero."""
        arguments = dict(arguments_of(node))
        wanted = [name for name in rule.inputs if self.sources.get(arguments[name])]
        present = self.backward.any_present([g for g in grads if g is not None])
        if present is not None:
            self.apply_if(present, node, rule, grads)
            return
        if self.is_certain:
            found = self.formulas(node, rule, grads, wanted)
            self.hand_on(arguments, found, lambda result: self.backward.local(result.value))
            return
        given = [g if g is not None else self.df.insert("prim::AutogradZero", (), (T.TENSOR,)).output for g in grads]
        grad_of = self.df.insert("prim::GradOf", given, (), {"name": node.kind}, node.range)
        block = grad_of.add_block()
        with self.df.inserting_at_end(block):
            found = self.formulas(node, rule, grads, wanted)
        self.hand_on(arguments, found, lambda result: self.give(grad_of, result))

    def apply_if(self, present: Value, node: Node, rule: Rule, grads: Sequence[Value | None]) -> None:
        """Insert the formula of a node whose gradients may all be absent, in a branch that asks.

        The gradient of a view is one, of zeros too.
        """
        arguments = dict(arguments_of(node))
        wanted = [name for name in rule.inputs if self.sources.get(arguments[name])]
        local = self.backward.local
        if node.has(Trait.PLAIN_VIEW):
            of_view = self.formulas(node, rule, grads, wanted, is_certain=True)
            self.hand_on(arguments, of_view, lambda result: self.with_bool(local(result.value), present))
            return
        found: dict[str, _Found] = {}
        positions: dict[Sym, int] = {}

        def make() -> list[tuple[Value, Value]]:
            found.update(self.formulas(node, rule, grads, wanted, is_certain=True))
            pairs: list[tuple[Value, Value]] = []
            for value, each in _results(arguments, found):
                positions[each] = len(pairs)
                pairs.append((value, local(each.value)))
            return pairs

        given = when_present(self, present, next(g for g in grads if g is not None), make)
        self.hand_on(arguments, found, lambda result: given[positions[result]])

    def with_bool(self, grad: Value, present: Value) -> Value:
        """A gradient of which a bool tells whether it is there."""
        self.backward.present[grad] = present
        return grad

    def hand_on(
        self, arguments: Mapping[str, Value], found: Mapping[str, _Found], value_of: Callable[[Sym], Value]
    ) -> None:
        """Add to the gradients of arguments what formulas have given."""
        for name, result in found.items():
            if isinstance(result, list):
                parts: list[Value | None] = [None if r is None else value_of(r) for r in result]
                self.backward.scope.grads[arguments[name]] = parts
            elif result is not None:
                self.add(arguments[name], value_of(result))

    def formulas(
        self,
        node: Node,
        rule: Rule,
        grads: Sequence[Value | None],
        wanted: Sequence[str],
        *,
        is_certain: bool | None = None,
    ) -> dict[str, _Found]:
        """The gradients for the arguments of a node that are asked for."""
        syms = [None if g is None else Sym(self.backward, g) for g in grads]
        certain = self.is_certain if is_certain is None else is_certain
        formula = Formula(node, self.backward, self.alongside, syms, frozenset(wanted), is_certain=certain)
        if rule.joint:
            found = rule.joint(formula)
            return {name: found[name] for name in wanted}
        return {name: _formula(rule, name)(formula) for name in wanted}

    def give(self, grad_of: Node, result: Sym) -> Value:
        """Let the block return a value, which the node gives."""
        grad_of.blocks[0].add_output(self.backward.local(result.value))
        return grad_of.add_output()

    def compute_reach(self, found: Gradient) -> None:
        """Have `f` tell what its results depend on, where that is decided when it runs."""
        f, reach = self.f, None
        for index in sorted({*range(found.f_real_outputs), *found.df_input_vjps}):
            if f.outputs[index] in self.inexact:
                reach = reach or Reach(f, self._known)
                found.f_output_reach[index] = f.add_output(reach.of(f.outputs[index], f.block.return_node))
                found.f_output_sources.append(())
        found.reach_inputs = [] if reach is None else reach.inputs

    # -- what df takes
    def keep(self, found: Gradient) -> None:
        """Make what is captured outputs of f, and bring the inputs of df into order."""
        f, captured = self.f, self.backward.top.captured
        outputs = {value: index for index, value in reversed(list(enumerate(f.outputs)))}
        vjps = self.df.inputs[: len(found.df_input_vjps)]
        kept_inputs, kept_outputs = [], []
        for value in [v for v in _values(f) if v in captured]:
            if value in outputs:
                found.df_input_captured_outputs.append(outputs[value])
                kept_outputs.append(captured[value])
            elif value.node is f.block.param_node:
                found.df_input_captured_inputs.append(value.offset)
                kept_inputs.append(captured[value])
            else:
                found.df_input_captured_outputs.append(f.add_output(value))
                kept_outputs.append(captured[value])
                grad = self.tensor_grad(value)
                late = self.backward.top.lates.get(value)
                if late is not None:
                    vjps.append(late)
                    found.df_input_vjps.append(len(f.outputs) - 1)
                elif grad is not None and self.sources.get(value):
                    vjps.append(self.add_late(grad))
                    found.df_input_vjps.append(len(f.outputs) - 1)
        ordered = [*vjps, *kept_inputs, *kept_outputs]
        self.df.block.param_node.permute_outputs([v.offset for v in ordered])
        found.df_capture_users = users_of_captured(self.df, len(vjps))
        found.df_capture_blocks = blocks_of_captured(self.df, len(vjps))

    def add_late(self, grad: Value) -> Value:
        """One more input that is added to a gradient which is used already."""
        late = self.df.add_input()
        total = self.df.create("prim::AutogradAdd", (late, late), (T.TENSOR,)).insert_after(grad.node)
        grad.replace_all_uses_with(total.output)
        total.replace_input(1, grad)
        return late


def _results(arguments: Mapping[str, Value], found: Mapping[str, _Found]) -> Iterator[tuple[Value, Sym]]:
    """The tensors among arguments, or in lists that are arguments, with the gradients that formulas give."""
    for name, result in found.items():
        if isinstance(result, list):
            elements = zip(arguments[name].node.inputs, result, strict=False)
            yield from ((value, each) for value, each in elements if each is not None)
        elif result is not None:
            yield arguments[name], result


def _formula(rule: Rule, name: str) -> Contribution:
    formula = rule.inputs[name]
    assert formula is not None, "the node should have been lowered"
    return formula


def _values(f: Graph) -> Iterator[Value]:
    yield from f.inputs
    for node in f.nodes:
        yield from node.outputs


def _forget_requires_grad(f: Graph) -> None:
    """What types say is true of the run that autograd records; f is run without."""
    for value in (*f.inputs, *(v for node in f.all_nodes() for v in node.outputs)):
        t = value.type
        if isinstance(t, T.TensorType) and t.requires_grad is not None:
            value.type = T.TensorType.of(t.dtype, t.sizes, t.strides, t.device)
