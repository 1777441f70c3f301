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

Only straight code of operators with a rule is differentiated; `create_autodiff.py` finds it. Complex tensors are left
to autograd: the formulas are those of real numbers, and who runs a gradient must see to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, is_constant
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type
from jitlite.ir.value_keys import value_key
from jitlite.operators.gradient import Gradient
from jitlite.passes.rules import gradients
from jitlite.passes.rules import gradients_nn as gradients_nn  # declares rules
from jitlite.passes.rules.formula import (
    Alongside,
    Contribution,
    Formula,
    FormulaPlace,
    Rule,
    Sym,
    arguments_of,
    rule_of,
)

_Gradients = dict[Value, "Value | list[Value | None]"]


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


def differentiate(graph: Graph) -> Gradient:
    """The gradient of a graph, which is not changed, for the inputs whose types do not say `requires_grad=0`.

    Raises:
        ValueError: the graph has a node that is not differentiated.
    """
    f = graph.copy()
    for node in f.nodes:
        if not is_differentiable(node):
            raise ValueError(f"differentiation of {node.kind} is not supported, or the types of its inputs are unknown")
    _lower(f)
    return _Differentiation(f).run()


def _lower(f: Graph) -> None:
    """Replace nodes whose gradient needs more than they give by ones that give it."""
    for node in list(f.nodes):
        rule = rule_of(node)
        if rule is None or rule.lower is None:
            continue
        with f.inserting_before(node):
            place = FormulaPlace(f)
            results = rule.lower(Formula(node, place, place, (), frozenset()))
        for output, result in zip(node.outputs, results, strict=True):
            result.value.type = output.type
            output.replace_all_uses_with(result.value)
        node.destroy()


class _Backward(FormulaPlace):
    """The graph of gradients: captures what it uses of the graph it is for."""

    def __init__(self) -> None:
        super().__init__(Graph())
        self.captured: dict[Value, Value] = {}
        self._constants: dict[object, Value] = {}

    def local(self, value: Value) -> Value:
        if value.node.graph is self.graph:
            return value
        if is_constant(value):
            return self.constant(value.node.attributes.get("value"), value.type)
        if value not in self.captured:
            self.captured[value] = self.graph.add_input().copy_metadata(value)
        return self.captured[value]

    def constant(self, value: object, type: Type | None = None) -> Value:
        key = (value_key(value), type)
        if key not in self._constants:
            node = self.graph.create_constant(value, type)
            self._constants[key] = self.graph.block.prepend(node).output
        return self._constants[key]


class _Differentiation:
    """The work on one graph."""

    def __init__(self, f: Graph) -> None:
        self.f = f
        self.backward = _Backward()
        self.df = self.backward.graph
        self.alongside = Alongside(f)
        self.sources = _sources(f)
        self.grads: _Gradients = {}

    def run(self) -> Gradient:
        f = self.f
        found = Gradient(f, self.df, len(f.outputs))
        found.f_differentiated_inputs = [i for i, v in enumerate(f.inputs) if wants_gradient(v.type)]
        for index, output in enumerate(f.outputs):
            if self.sources.get(output) and wants_gradient(output.type):
                found.df_input_vjps.append(index)
                self.add(output, self.df.add_input())
        for node in reversed(list(f.nodes)):
            self.visit(node)
        results = []
        for index, value in enumerate(f.inputs):
            grad = self.grads.get(value)
            if isinstance(grad, Value) and self.sources.get(value):
                results.append(grad)
                found.df_output_vjps.append(index)
        made = T.TupleType.of([v.type for v in results])
        self.df.add_output(self.df.insert("prim::TupleConstruct", results, (made,)).output)
        self.recompute_sizes()
        self.keep(found)
        found.f_output_sources = [tuple(sorted(self.sources.get(o, ()))) for o in f.outputs]
        _forget_requires_grad(f)
        return found

    def add(self, value: Value, grad: Value) -> None:
        """One more contribution to the gradient of a value."""
        known = self.grads.get(value)
        assert not isinstance(known, list)
        if known is not None:
            grad = self.df.insert("prim::AutogradAdd", (known, grad), (T.TENSOR,)).output
        self.grads[value] = grad

    # -- nodes
    def visit(self, node: Node) -> None:
        """Hand the gradients of a node's outputs on to its inputs."""
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
                self.grads[node.input] = parts
            return
        elements = self.grads.get(node.output)
        for value, grad in zip(node.inputs, elements if isinstance(elements, list) else (), strict=False):
            if grad is not None and self.sources.get(value):
                self.add(value, grad)

    def tensor_grad(self, value: Value) -> Value | None:
        found = self.grads.get(value)
        return found if isinstance(found, Value) else None

    def output_grads(self, node: Node, rule: Rule) -> list[Value | None]:
        if len(node.outputs) == 1 and isinstance(node.output.type, T.ListType):
            parts = self.grads.get(node.output)
            return parts if isinstance(parts, list) else []
        indices = range(len(node.outputs)) if rule.outputs is None else rule.outputs
        return [self.tensor_grad(node.outputs[i]) for i in indices]

    def apply(self, node: Node, rule: Rule, grads: Sequence[Value | None]) -> None:
        """Insert the formula of a node, in a block that is run if some gradient is not zero."""
        arguments = dict(arguments_of(node))
        wanted = [name for name in rule.inputs if self.sources.get(arguments[name])]
        given = [g if g is not None else self.df.insert("prim::AutogradZero", (), (T.TENSOR,)).output for g in grads]
        grad_of = self.df.insert("prim::GradOf", given, (), {"name": node.kind}, node.range)
        block = grad_of.add_block()
        with self.df.inserting_at_end(block):
            syms = [None if g is None else Sym(self.backward, g) for g in grads]
            formula = Formula(node, self.backward, self.alongside, syms, frozenset(wanted))
            found = rule.joint(formula) if rule.joint else {n: _formula(rule, n)(formula) for n in wanted}
        for name in wanted:
            result = found[name]
            if isinstance(result, list):
                self.grads[arguments[name]] = [None if r is None else self.give(grad_of, r) for r in result]
            elif result is not None:
                self.add(arguments[name], self.give(grad_of, result))

    def give(self, grad_of: Node, result: Sym) -> Value:
        """Let the block return a value, which the node gives."""
        grad_of.blocks[0].add_output(self.backward.local(result.value))
        return grad_of.add_output()

    # -- what df takes
    def recompute_sizes(self) -> None:
        """Where a tensor is kept, its size need not be."""
        captured = self.backward.captured
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
        f, captured = self.f, self.backward.captured
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
                if grad is not None and self.sources.get(value):
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


def _sources(f: Graph) -> dict[Value, set[int]]:
    """For each value, the inputs whose gradients depend on its gradient."""
    found = {v: {i} for i, v in enumerate(f.inputs) if wants_gradient(v.type)}
    for node in f.nodes:
        if node.has(Trait.LIST):
            inputs, outputs = list(node.inputs), list(node.outputs)
        else:
            rule = rule_of(node)
            if rule is None:
                continue
            inputs = [v for name, v in arguments_of(node) if name in rule.inputs]
            outputs = node.outputs if rule.outputs is None else [node.outputs[i] for i in rule.outputs]
        joined = set().union(*(found.get(v, ()) for v in inputs))
        for output in outputs:
            if joined and may_have_gradient(output.type):
                found[output] = joined
    return found


def _forget_requires_grad(f: Graph) -> None:
    """What types say is true of the run that autograd records; f is run without."""
    for value in _values(f):
        t = value.type
        if isinstance(t, T.TensorType) and t.requires_grad is not None:
            value.type = T.TensorType.of(t.dtype, t.sizes, t.strides, t.device)
