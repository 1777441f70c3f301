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

Operators with a rule are differentiated, and loops over them (`autodiff_loops.py`). Operators without a rule may stand
where no gradient passes. Complex tensors are left to autograd: the formulas are those of real numbers, and who runs a
gradient must see to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type
from jitlite.operators.gradient import Gradient
from jitlite.passes.autodiff_composites import replace_composites
from jitlite.passes.autodiff_loops import differentiate_loop, joined_list, part_of, takes_part
from jitlite.passes.autodiff_recompute import compute_again
from jitlite.passes.autodiff_scopes import Backward, LoopScope, without_sizes
from jitlite.passes.rules import gradients
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
    f = graph.copy()
    replace_composites(f)
    return Differentiation(f).run(computes_again)


def refuse_fixed(graph: Graph) -> None:
    """Ask that arguments for which autograd raises where they require a gradient do not require one.

    Raises:
        ValueError: one does, or `differentiate` would raise.
    """
    found = _Sources(graph).found
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
    """

    def __init__(self, f: Graph) -> None:
        self.f = f
        self.backward = Backward(f)
        self.df = self.backward.graph
        self.alongside = Alongside(f)
        self.sources = _Sources(f).found
        self.grown: dict[Value, tuple[Node, Value]] = {}

    def run(self, computes_again: bool) -> Gradient:
        f = self.f
        found = Gradient(f, self.df, len(f.outputs))
        found.is_total = any(node.kind == "prim::Loop" for node in f.all_nodes())
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
        self.recompute_sizes()
        self.keep(found)
        kept = f.outputs[len(found.f_output_sources) :]
        found.f_output_sources += [tuple(sorted(self.sources.get(o, ()))) for o in kept]
        _forget_requires_grad(f)
        return found

    def add(self, value: Value, grad: Value) -> None:
        """One more contribution to the gradient of a value of the block that is being differentiated."""
        scope = self.backward.scope
        if not scope.holds(value):
            assert isinstance(scope, LoopScope)
            scope.add_outside(value, grad)
            return
        known = scope.grads.get(value)
        assert not isinstance(known, list)
        if known is not None:
            grad = self.sum(known, grad)
        scope.grads[value] = grad

    def sum(self, a: Value, b: Value) -> Value:
        """The sum of two gradients; outside of loops either may be None."""
        if not self.is_certain:
            return self.df.insert("prim::AutogradAdd", (a, b), (T.TENSOR,)).output
        return call(self.backward, "aten::add", Sym(self.backward, a), Sym(self.backward, b)).value

    @property
    def is_certain(self) -> bool:
        """Is it known here which gradients are not None? In a loop it is: those that it carries are not."""
        return self.backward.scope is not self.backward.top

    # -- nodes
    def visit(self, node: Node) -> None:
        """Hand the gradients of a node's outputs on to its inputs."""
        if node.kind == "prim::Loop":
            differentiate_loop(self, Loop(node))
            return
        if node.kind == "aten::append" or joined_list(node) is not None:
            self.visit_grown(node)
            return
        scope = self.backward.scope
        if isinstance(scope, LoopScope) and takes_part(scope, node):
            grad = self.tensor_grad(node.output)
            if grad is not None and self.sources.get(node.inputs[0]):
                scope.add_part(node, grad)
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
            self.add(value, part_of(self, *found))

    def tensor_grad(self, value: Value) -> Value | None:
        """The gradient of a tensor. Who uses it may find one more contribution in it, see `LoopScope.slots`."""
        found = self.backward.scope.tensor_grad(value)
        return found if found is None else self.with_slot(value, found)

    def with_slot(self, value: Value, grad: Value) -> Value:
        """The gradient of a value of a loop's body, with a place for one that it may have of its own."""
        scope = self.backward.scope
        if not isinstance(scope, LoopScope) or not scope.holds(value):
            return grad
        if value not in scope.slots:
            zero = self.df.insert("prim::AutogradZero", (), (T.TENSOR,)).output
            scope.slots[value] = self.df.insert("prim::AutogradAdd", (zero, grad), (without_sizes(grad.type),))
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
        self, node: Node, rule: Rule, grads: Sequence[Value | None], wanted: Sequence[str]
    ) -> dict[str, _Found]:
        """The gradients for the arguments of a node that are asked for."""
        syms = [None if g is None else Sym(self.backward, g) for g in grads]
        formula = Formula(node, self.backward, self.alongside, syms, frozenset(wanted), is_certain=self.is_certain)
        if rule.joint:
            found = rule.joint(formula)
            return {name: found[name] for name in wanted}
        return {name: _formula(rule, name)(formula) for name in wanted}

    def give(self, grad_of: Node, result: Sym) -> Value:
        """Let the block return a value, which the node gives."""
        grad_of.blocks[0].add_output(self.backward.local(result.value))
        return grad_of.add_output()

    # -- what df takes
    def recompute_sizes(self) -> None:
        """Where a tensor is kept, its size need not be."""
        captured = self.backward.top.captured
        for value, local in list(captured.items()):
            node = value.node
            if node.kind != "aten::size" or len(node.inputs) != 1 or value in self.f.outputs:
                continue
            if node.input not in captured:
                continue
            for use in local.uses:  # in the same block: a kept tensor is there only where it is used
                with self.df.inserting_before(use.user):
                    size = self.df.insert("aten::size", (captured[node.input],), (value.type,))
                use.user.replace_input(use.offset, size.output)
            self.df.block.erase_input(local.offset)
            del captured[value]
            if not value.has_uses:
                node.destroy()

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
        found.df_capture_users = _users(self.df, len(vjps))

    def add_late(self, grad: Value) -> Value:
        """One more input that is added to a gradient which is used already."""
        late = self.df.add_input()
        total = self.df.create("prim::AutogradAdd", (late, late), (T.TENSOR,)).insert_after(grad.node)
        grad.replace_all_uses_with(total.output)
        total.replace_input(1, grad)
        return late


def _users(df: Graph, vjps: int) -> list[tuple[int, ...]]:
    """For each input of df behind the gradients, the gradients it is used with."""
    reached: dict[Value, set[int]] = {v: {i} for i, v in enumerate(df.inputs[:vjps])}
    for node in df.nodes:
        joined = set().union(*(reached.get(v, ()) for v in node.inputs))
        reached.update(dict.fromkeys(node.outputs, joined))
    blocks = {n.blocks[0]: set().union(*(reached.get(v, ()) for v in n.inputs)) for n in df.nodes if n.blocks}
    users = [[use.user.block for use in value.uses] for value in df.inputs[vjps:]]
    return [tuple(sorted(set().union(*(blocks.get(b, set()) for b in used if b)))) for used in users]


def _formula(rule: Rule, name: str) -> Contribution:
    formula = rule.inputs[name]
    assert formula is not None, "the node should have been lowered"
    return formula


def _values(f: Graph) -> Iterator[Value]:
    yield from f.inputs
    for node in f.nodes:
        yield from node.outputs


_REFUSAL = "differentiation of {} is not supported, or the types of its inputs are unknown"


class _Sources:
    """For each value, the inputs whose gradients depend on its gradient.

    Raises:
        ValueError: such a gradient would pass a node that is not differentiated.
    """

    def __init__(self, f: Graph) -> None:
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
        elif node.kind == "aten::append":
            self.note((node.inputs[0],), self.of((node.inputs[1],)))
        elif joined_list(node) is not None:
            self.note(node.outputs, self.of((node.inputs[0],)))
        elif node.blocks:
            for block in node.blocks:
                self.block(block)
            if any(self.of(block.outputs) for block in node.blocks):
                raise ValueError("a gradient would pass a branch")
        elif node.has(Trait.LIST) and is_differentiable(node):
            self.note(node.outputs, self.of(node.inputs))
        else:
            self.operator(node)

    def operator(self, node: Node) -> None:
        rule = None if "Subgraph" in node.attributes else rule_of(node)
        if rule is not None:
            inputs = [v for name, v in arguments_of(node) if name in rule.inputs]
            outputs = node.outputs if rule.outputs is None else [node.outputs[i] for i in rule.outputs]
            self.note(outputs, self.of(inputs))
            return
        gives = node.kind != "prim::Constant" and any(may_have_gradient(o.type) for o in node.outputs)
        writes = node.op is not None and any(a.is_write for a in node.op.schema.arguments)
        if writes or (gives and self.of(node.inputs)):
            raise ValueError(_REFUSAL.format(node.kind))

    def loop(self, loop: Loop) -> None:
        """What a loop that runs gives depends on the same inputs, however often it runs: else it cannot be said which
        gradients are zero everywhere."""
        for each in loop.carried:
            self.note((each.parameter,), self.of((each.start,)))
        self.block(loop.body)
        once = [self.of((each.following,)) for each in loop.carried]
        for each, sources in zip(loop.carried, once, strict=True):
            self.note((each.parameter,), sources)
        self.block(loop.body)
        if once != [self.of((each.following,)) for each in loop.carried]:
            raise ValueError(
                "what a loop carries depends on other inputs in its second iteration than in the first one"
            )
        for each, sources in zip(loop.carried, once, strict=True):
            self.note((each.result,), sources)

    def of(self, values: Iterable[Value]) -> set[int]:
        return set().union(*(self.found.get(v, ()) for v in values))

    def note(self, values: Iterable[Value], sources: set[int]) -> None:
        for value in values:
            if sources and may_have_gradient(value.type):
                self.found[value] = self.found.get(value, set()) | sources


def _forget_requires_grad(f: Graph) -> None:
    """What types say is true of the run that autograd records; f is run without."""
    for value in (*f.inputs, *(v for node in f.all_nodes() for v in node.outputs)):
        t = value.type
        if isinstance(t, T.TensorType) and t.requires_grad is not None:
            value.type = T.TensorType.of(t.dtype, t.sizes, t.strides, t.device)
