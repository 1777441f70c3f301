"""The language of gradient formulas.

A formula is a function of a `Formula`, which knows the node by the names of its operator's arguments:

    lambda f: f.grad * f.self.cos()                     the gradient of sin for `self`

What it computes with are `Sym`s: values of the graph under differentiation or of the graph of its gradients.
Arithmetic on them and their methods insert nodes of the operators of those names into the graph of gradients; a value
of the first graph that is used this way is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of, is_constant
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue, match_op

MISSING: Any = object()
"""What is no constant."""


class FormulaPlace:
    """Where formulas put nodes: before the insertion point of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def local(self, value: Value) -> Value:
        """The value as one of this graph."""
        return value

    def constant(self, value: object) -> Value:
        """A constant of this graph."""
        return self.graph.insert_constant(value)

    def insert(self, kind: str, arguments: Sequence[object], keywords: Mapping[str, object]) -> Node:
        """A call of an operator. Arguments are `Sym`s and constants."""
        given = [NamedValue(value=self.value(a)) for a in arguments]
        named = [NamedValue(name, self.value(a)) for name, a in keywords.items()]
        matched = match_op(kind, self.graph, None, given, named)
        assert matched.op is not None
        node = self.graph.insert(kind, matched.inputs, matched.return_types)
        node.set_op(matched.op)
        return node

    def value(self, argument: object) -> Value:
        """The value of a `Sym` or a constant in this graph."""
        return self.local(argument.value) if isinstance(argument, Sym) else self.constant(argument)


class Alongside(FormulaPlace):
    """Puts nodes as early as what they take is there, and none twice. For what is computed along with a graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._made: dict[tuple[object, ...], Node] = {}

    def insert(self, kind: str, arguments: Sequence[object], keywords: Mapping[str, object]) -> Node:
        """The node that computes this; it is made the first time."""
        key = (kind, *(id(a.value) if isinstance(a, Sym) else repr(a) for a in arguments))
        if key not in self._made:
            nodes = [a.value.node for a in arguments if isinstance(a, Sym)]
            latest = nodes[0]
            for node in nodes[1:]:
                latest = node if node.is_after(latest) else latest
            following = latest._next
            assert following is not None
            with self.graph.inserting_before(following):
                self._made[key] = super().insert(kind, arguments, keywords)
        return self._made[key]


class Sym:
    """A value in a formula. `x.cos()` is `aten::cos(x)`; operators and comparisons by name work alike."""

    __slots__ = ("place", "value")

    def __init__(self, place: FormulaPlace, value: Value) -> None:
        self.place = place
        self.value = value

    def __getattr__(self, name: str) -> Callable[..., Sym]:
        if name.startswith("__"):
            raise AttributeError(name)
        return partial(call, self.place, f"aten::{name}", self)

    def prim(self, name: str, *arguments: object) -> Sym:
        """`prim::NAME` of this and the other arguments."""
        return call(self.place, f"prim::{name}", self, *arguments)

    def all_of(self, kind: str, *arguments: object) -> tuple[Sym, ...]:
        """The results of an operator that has several, of this and the other arguments."""
        return calls(self.place, kind, self, *arguments)

    def __neg__(self) -> Sym:
        return self.neg()

    def __add__(self, other: object) -> Sym:
        return self.add(other)

    def __sub__(self, other: object) -> Sym:
        return self.sub(other)

    def __rsub__(self, other: object) -> Sym:
        return self.rsub(other)

    def __mul__(self, other: object) -> Sym:
        return self.mul(other)

    def __rmul__(self, other: object) -> Sym:
        return self.mul(other)

    def __truediv__(self, other: object) -> Sym:
        return self.div(other)


def call(place: FormulaPlace, kind: str, *arguments: object, **keywords: object) -> Sym:
    """Insert a call of an operator that has one result."""
    return Sym(place, place.insert(kind, arguments, keywords).output)


def calls(place: FormulaPlace, kind: str, *arguments: object) -> tuple[Sym, ...]:
    """Insert a call of an operator; gives all its results."""
    return tuple(Sym(place, output) for output in place.insert(kind, arguments, {}).outputs)


def list_of(place: FormulaPlace, elements: Sequence[object], element: Type) -> Sym:
    """Insert a list display."""
    values = [place.value(e) for e in elements]
    return Sym(place, place.graph.insert("prim::ListConstruct", values, (T.ListType.of(element),)).output)


def scaled(x: Sym, f: Formula, factor: str) -> Sym:
    """`x` times an argument that is a number, usually 1."""
    return x if f.constant(factor) == 1 else x * getattr(f, factor)


Contribution = Callable[["Formula"], "Sym | list[Sym | None] | None"]
"""The gradient for one argument: None for zero, a list for the elements of a list of tensors."""

Joint = Callable[["Formula"], Mapping[str, "Sym | None"]]
"""The gradients for several arguments at once."""


def always(node: Node) -> bool:
    """The rule needs nothing of its node."""
    return True


class Rule(Record, eq=True):
    """How one operator is differentiated.

    Attributes:
        inputs: the arguments that have gradients, with their formulas, unless `joint` gives them all.
        joint: the formula of all of them.
        outputs: which results have gradients; None for all of them.
        when: whether the formulas hold for a node: some hold for constant arguments only, say.
        lower: replaces the node by others first, which have rules; gives what replaces its results.
        fixed: the arguments for which autograd raises where they require a gradient.
    """

    inputs: Mapping[str, Contribution | None]
    joint: Joint | None = None
    outputs: tuple[int, ...] | None = (0,)
    when: Callable[[Node], bool] = always
    lower: Callable[[Formula], Sequence[Sym]] | None = None
    fixed: tuple[str, ...] = ()


class Formula:
    """What a formula may use of the node it is for. Attributes that are not listed are arguments, by name.

    Attributes:
        node: the node.
        arguments: the values of its arguments, by name.
        place: the graph of gradients.
        grads: the gradients of the node's results, None where there is none.
        wanted: names of the arguments whose gradients are asked for.
        before: where values are computed along with the graph itself, to be captured.
        is_certain: are gradients that are there never None when it runs?
    """

    def __init__(
        self,
        node: Node,
        place: FormulaPlace,
        before: FormulaPlace,
        grads: Sequence[Sym | None],
        wanted: frozenset[str],
        *,
        is_certain: bool = False,
    ):
        self.node = node
        self.place = place
        self.arguments = dict(arguments_of(node))
        self.grads = grads
        self.wanted = wanted
        self.before = before
        self.is_certain = is_certain

    def __getattr__(self, name: str) -> Sym:
        try:
            return Sym(self.place, self.arguments[name])
        except KeyError:
            raise AttributeError(f"{self.node.kind} has no argument {name}") from None

    @property
    def grad(self) -> Sym:
        """The gradient of the first result."""
        found = self.grads[0]
        assert found is not None
        return found

    @property
    def result(self) -> Sym:
        """The first result."""
        return self.output(0)

    def output(self, index: int) -> Sym:
        """One of the results."""
        return Sym(self.place, self.node.outputs[index])

    def constant(self, name: str) -> Any:
        """The value of an argument that is a constant, else `MISSING`."""
        return constant_of(self.arguments[name], MISSING)

    def is_none(self, name: str) -> bool:
        """Is the argument None?"""
        return self.arguments[name].type is T.NONE

    def elements(self, name: str) -> list[Sym]:
        """What the list that is this argument is made of."""
        return [Sym(self.place, v) for v in self.arguments[name].node.inputs]

    def parts(self) -> list[Sym]:
        """What the list that is the result is unpacked into."""
        return [Sym(self.place, v) for v in unpacked(self.node.output)]

    def element_type(self, name: str) -> Type:
        """The type of the elements of the list that is this argument."""
        listed = self.arguments[name].type
        assert isinstance(listed, T.ListType)
        return listed.element

    # -- what is computed along with the graph
    def size(self, of: Sym) -> Sym:
        """`of.size()`, where `of` is a value of the graph under differentiation."""
        of = Sym(self.place, _of_same_size(of.value))
        return Sym(self.place, call(self.before, "aten::size", of).value)

    def size_at(self, of: Sym, dim: int) -> Sym:
        """`of.size(dim)`, likewise."""
        return Sym(self.place, call(self.before, "aten::size", of, dim).value)

    def summed(self, grad: Sym, of: Sym, result: Sym | None = None) -> Sym:
        """The gradient summed over the dimensions along which `of` was broadcast."""
        given, made = (shape_of(v.value.type) for v in (of, result or self.result))
        if given is not None and given == made:
            return grad
        size: object
        if given is not None and not any(isinstance(d, str) for d in given):
            size = Sym(grad.place, grad.place.graph.insert_constant(list(given), T.ListType.of(T.INT)))
        else:
            size = call(self.before, "aten::_size_if_not_equal", self.size(of), self.size(result or self.result))
        return call(grad.place, "aten::_grad_sum_to_size", grad, size)

    def cast(self, grad: Sym, of: Sym, result: Sym | None = None) -> Sym:
        """The gradient with the dtype and device of `of`, which may have been promoted to those of the result."""
        given, made = of.value.type, (result or self.result).value.type
        assert isinstance(given, T.TensorType) and isinstance(made, T.TensorType)
        if given.dtype is not None and given.dtype is made.dtype and given.device == made.device is not None:
            return grad
        if given.dtype is not None and made.dtype is not None and given.device == made.device is not None:
            return call(grad.place, "aten::to", grad, given.dtype) if given.dtype.is_floating_point else grad
        options = call(self.before, "prim::AutogradOptions", of, result or self.result)
        return grad.prim("AutogradTo", options)

    def fit(self, grad: Sym, of: Sym) -> Sym:
        """The gradient of a pointwise operator for `of`: summed and cast."""
        return self.cast(self.summed(grad, of), of)


def _of_same_size(value: Value) -> Value:
    """What the value was computed from element by element."""
    while value.node.op is not None and value.node.op.is_pointwise:
        tensors = [v for v in value.node.inputs if isinstance(v.type, T.TensorType | T.OptionalType | T.ListType)]
        if len(tensors) != 1 or not isinstance(tensors[0].type, T.TensorType):
            break
        value = tensors[0]
    return value


def shape_of(t: Type) -> tuple[int | str, ...] | None:
    """What is known of all sizes: a number, or what a symbol is called; None if nothing is known of one."""
    if not isinstance(t, T.TensorType) or t.sizes is None:
        return None
    symbols = t.symbols or (None,) * len(t.sizes)
    found = [n if n is not None else f"SS(-{s})" if s else None for n, s in zip(t.sizes, symbols, strict=True)]
    return None if None in found else tuple(d for d in found if d is not None)


def arguments_of(node: Node) -> Iterator[tuple[str, Value]]:
    """The inputs of the node by the names of its operator's arguments."""
    op = node.op
    if node.kind == "prim::ConstantChunk":
        yield "self", node.input
    elif op is not None:
        yield from zip((a.name for a in op.schema.arguments), node.inputs, strict=False)


def unpacked(value: Value) -> list[Value]:
    """What a list of tensors is unpacked into, if that is all that is done with it."""
    users = value.uses
    if len(users) != 1 or users[0].user.kind != "prim::ListUnpack":
        return []
    return users[0].user.outputs


_rules: dict[str, Rule] = {}


def declare(name: str, rule: Rule) -> None:
    """Declare the rule of an overload: `aten::mul.Tensor`, or `mul.Tensor` for short."""
    key = name if "::" in name else f"aten::{name}"
    if key in _rules:
        raise ValueError(f"the gradient of {key} is declared twice")
    _rules[key] = rule


def rules() -> Mapping[str, Rule]:
    """All rules by operator."""
    return _rules


def rule_of(node: Node) -> Rule | None:
    """The rule for a node, if there is one and it holds for it."""
    op = node.op
    rule = None if op is None else _rules.get(op.schema.qualified)
    if rule is None or not rule.when(node):
        return None
    for name, value in arguments_of(node):
        if name in rule.inputs and not (isinstance(value.type, T.TensorType | T.ListType) or value.type is T.NONE):
            return None  # a tensor or None: which, is known when it runs only
    return rule


def constants(*names: str) -> Callable[[Node], bool]:
    """The condition that these arguments are constants."""

    def hold(node: Node) -> bool:
        found = dict(arguments_of(node))
        return all(is_constant(found[name]) for name in names)

    return hold
