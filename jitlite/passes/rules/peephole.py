"""The peephole rules: what a node's outputs can be replaced by, seeing only the node and what its inputs are made of.

A rule takes a node and a `Context` and gives the values that replace the outputs, or None. New nodes go before
the node. Tables by subject: numbers, types and None, branches, lists, dicts, facts about tensors, alias-sensitive.

Run-time values decide what is sound: a value typed int may be a torch.dtype and one typed float may be an int, so
arithmetic is simplified on `is_number` values only, and floats are left alone (`nan != nan`, `-0.0 + 0 is 0.0`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of, is_constant
from jitlite.passes.alias import AliasDb
from jitlite.passes.value_keys import value_key

Rule = Callable[[Node, "Context"], Sequence[Value] | None]


@dataclass
class Context:
    """What rules may ask and make."""

    graph: Graph
    db: AliasDb
    unsettled: list[Value] = field(default_factory=list)
    """Values whose aliasing a replacement changed, so that `db` is out of date about them."""

    def constant(self, value: object, type: T.Type | None = None) -> Value:
        return self.graph.insert_constant(value, type)

    def may_be_input(self, output: Value, input: Value) -> bool:
        """May the new tensor `output` be replaced by `input`, an equal one that is there already?

        Nobody may write either, and nobody else may get hold of the new one: it would be seen to be the old one.
        """
        if self.db.has_writers((output, input)) or self.db.escapes(output):
            return False
        if any(use.user.kind in _TENSOR_OBSERVERS or use.user.kind == "prim::Return" for use in output.uses):
            return False
        return not self.db.may_contain_alias((output, input), self.unsettled)

    def now_input(self, output: Value, input: Value) -> Sequence[Value]:
        """Take note that `input` stands for `output` from now on."""
        self.unsettled += [output, input]
        return [input]


_TENSOR_OBSERVERS = frozenset({
    "prim::is_leaf", "aten::is_leaf", "prim::requires_grad", "aten::requires_grad", "prim::grad", "aten::_version",
    "aten::output_nr", "aten::is_view", "aten::_is_view", "aten::_base", "aten::retains_grad", "prim::name",
})  # fmt: skip
"""Operators that see how a tensor came about."""


# -- numbers

_NUMBER_RESULTS = frozenset({
    "aten::add", "aten::sub", "aten::mul", "aten::neg", "aten::floordiv", "aten::remainder", "aten::len", "aten::dim",
    "aten::numel", "aten::__and__", "aten::__or__", "aten::__xor__", "aten::__lshift__", "aten::__rshift__",
    "aten::__range_length", "aten::__derive_index", "prim::abs", "aten::Int", "aten::ord", "aten::element_size",
})  # fmt: skip


def is_number(value: Value) -> bool:
    """Is it certain that a value typed int is a number, and no dtype, layout or memory format?"""
    if value.type is not T.INT:
        return False
    node = value.node
    if is_constant(value):
        return type(constant_of(value)) is int
    if node.kind == "prim::Param":
        owner = node.block.owner if node.block is not None else None
        return owner is not None and owner.kind == "prim::Loop" and value.offset == 0
    return node.kind in _NUMBER_RESULTS or (node.kind == "aten::size" and len(node.inputs) == 2)


def _operands(node: Node) -> tuple[Value, int] | None:
    """The operand and the constant int of an int operation; a constant in front of a commutative one counts too."""
    if len(node.inputs) != 2 or any(v.type is not T.INT for v in node.inputs):
        return None
    left, right = node.inputs
    if type(constant_of(right, None)) is int:
        return left, constant_of(right)
    if node.kind in ("aten::add", "aten::mul") and type(constant_of(left, None)) is int:
        return right, constant_of(left)
    return None


def _times_one(node: Node, context: Context) -> Sequence[Value] | None:
    """`n * 1`, `n // 1`"""
    found = _operands(node)
    return [found[0]] if found and found[1] == 1 and is_number(found[0]) else None


def _plus_constant(node: Node, context: Context) -> Sequence[Value] | None:
    """`n + 0`, `n - 0`, `(n + a) - b`"""
    found = _operands(node)
    if found is None or not is_number(found[0]):
        return None
    operand, constant = found
    if constant == 0:
        return [operand]
    inner = operand.node
    deeper = _operands(inner) if inner.kind in ("aten::add", "aten::sub") else None
    if deeper is None or is_constant(deeper[0]):
        return None
    start, added = deeper
    total = (constant if node.kind == "aten::add" else -constant) + (added if inner.kind == "aten::add" else -added)
    if total == 0:
        return [start] if is_number(start) else None
    kind, step = ("aten::add", total) if total > 0 else ("aten::sub", -total)
    return [context.graph.insert(kind, (start, context.constant(step)), (T.INT,), range=node.range).output]


def _to_int(node: Node, context: Context) -> Sequence[Value] | None:
    """`int(n)`, `ceil(n)`"""
    return [node.input] if len(node.inputs) == 1 and is_number(node.input) else None


_REFLEXIVE = frozenset({T.INT, T.BOOL, T.STRING, T.NONE, T.DEVICE})
"""Types whose every value equals itself. Not float: NaN does not."""


def _with_itself(node: Node, context: Context) -> Sequence[Value] | None:
    """`n == n`, `n <= n` and their opposites"""
    if len(node.inputs) != 2 or node.inputs[0] is not node.inputs[1]:
        return None
    t = node.inputs[0].type
    if node.kind in ("aten::eq", "aten::ne"):
        bare = t.element if isinstance(t, T.ListType) else t
        known = bare in _REFLEXIVE
    else:
        known = is_number(node.inputs[0])
    return [context.constant(node.kind in ("aten::eq", "aten::le", "aten::ge"))] if known else None


NUMBERS: dict[str, tuple[Rule, ...]] = {
    "aten::mul": (_times_one,),
    "aten::floordiv": (_times_one,),
    "aten::add": (_plus_constant,),
    "aten::sub": (_plus_constant,),
    "aten::Int": (_to_int,),
    "aten::ceil": (_to_int,),
    "aten::floor": (_to_int,),
    **dict.fromkeys(("aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"), (_with_itself,)),
}


# -- types and None


def _compared_with_none(node: Node, context: Context) -> Sequence[Value] | None:
    """`x is None` where the type of x decides"""
    for value, other in (node.inputs, tuple(reversed(node.inputs))):
        if value.type is T.NONE and (other.type is T.NONE or not T.may_be_none(other.type)):
            same = other.type is T.NONE
            return [context.constant(same == (node.kind == "aten::__is__"))]
    return None


def _unwrapped(node: Node, context: Context) -> Sequence[Value] | None:
    """`unwrap_optional(x)` where x cannot be None"""
    return None if T.may_be_none(node.input.type) else [node.input]


def _cast_up(node: Node, context: Context) -> Sequence[Value] | None:
    """a cast to the same or a wider type"""
    source, target = T.unshaped(node.input.type), T.unshaped(node.output.type)
    return [node.input] if T.is_subtype(source, target) else None


TYPES: dict[str, tuple[Rule, ...]] = {
    "aten::__is__": (_compared_with_none,),
    "aten::__isnot__": (_compared_with_none,),
    "aten::_unwrap_optional": (_unwrapped,),
    "prim::unchecked_unwrap_optional": (_unwrapped,),
    "prim::unchecked_cast": (_cast_up,),
}


# -- lists and dicts that nobody writes


def _elements(container: Value, kind: str, context: Context) -> Sequence[Value] | None:
    """What was put into a list or dict made by a node of `kind`, if it still is in there."""
    if container.node.kind != kind or context.db.is_written(container):
        return None
    return container.node.inputs


def _length(node: Node, context: Context) -> Sequence[Value] | None:
    """`len([a, b])`, `len({k: v})`"""
    elements = _elements(node.input, "prim::ListConstruct", context)
    if elements is not None:
        return [context.constant(len(elements))]
    entries = _entries(node.input, context)
    return None if entries is None else [context.constant(len(entries))]


def _item(node: Node, context: Context) -> Sequence[Value] | None:
    """`[a, b][1]`, `{k: v}[k]`"""
    container, key = node.inputs
    if not is_constant(key):
        return None
    entries = _entries(container, context)
    if entries is not None:
        value = entries.get(value_key(constant_of(key)))
        return None if value is None else [value]
    elements = _elements(container, "prim::ListConstruct", context)
    index = constant_of(key)
    if elements is None or type(index) is not int or not -len(elements) <= index < len(elements):
        return None
    return [elements[index]]


def _entries(container: Value, context: Context) -> dict[object, Value] | None:
    """Values by key of a dict display whose keys are distinct constants."""
    if not isinstance(container.type, T.DictType) or container.type.key not in (T.INT, T.STRING, T.BOOL):
        return None
    listed = _elements(container, "prim::DictConstruct", context)
    if listed is None or not all(map(is_constant, listed[::2])):
        return None
    entries = {value_key(constant_of(k)): v for k, v in zip(listed[::2], listed[1::2], strict=True)}
    return entries if 2 * len(entries) == len(listed) else None


def _unpacked(node: Node, context: Context) -> Sequence[Value] | None:
    """`a, b = [x, y]`"""
    elements = _elements(node.input, "prim::ListConstruct", context)
    return elements if elements is not None and len(elements) == len(node.outputs) else None


def _list_of(elements: Sequence[Value], node: Node, context: Context) -> Sequence[Value]:
    return [context.graph.insert("prim::ListConstruct", elements, (node.output.type,), range=node.range).output]


def _sliced(node: Node, context: Context) -> Sequence[Value] | None:
    """`[a, b, c][1:]`"""
    if not isinstance(node.output.type, T.ListType) or not all(map(is_constant, node.inputs[1:])):
        return None
    elements = _elements(node.inputs[0], "prim::ListConstruct", context)
    bounds = [constant_of(v) for v in node.inputs[1:]]
    if elements is None or bounds[2:] == [0] or any(b is not None and type(b) is not int for b in bounds):
        return None
    return _list_of(elements[slice(*bounds)], node, context)


def _joined(node: Node, context: Context) -> Sequence[Value] | None:
    """`[a] + [b]`"""
    if len(node.inputs) != 2 or not isinstance(node.output.type, T.ListType):
        return None
    left, right = (_elements(v, "prim::ListConstruct", context) for v in node.inputs)
    return None if left is None or right is None else _list_of([*left, *right], node, context)


CONTAINERS: dict[str, tuple[Rule, ...]] = {
    "aten::len": (_length,),
    "aten::__getitem__": (_item,),
    "prim::ListUnpack": (_unpacked,),
    "aten::slice": (_sliced,),
    "aten::add": (_joined,),
}


# -- facts about tensors that their types tell


def _tensor_type(node: Node, context: Context) -> T.TensorType | None:
    """The type of the tensor the node asks about, unless the tensor may be resized or the like."""
    t = node.inputs[0].type if node.inputs else None
    return t if isinstance(t, T.TensorType) and not context.db.has_writers(node.inputs[0]) else None


def _fact(read: Callable[[T.TensorType], Any]) -> Rule:
    def rule(node: Node, context: Context) -> Sequence[Value] | None:
        t = _tensor_type(node, context)
        fact = None if t is None else read(t)
        return None if fact is None else [context.constant(fact)]

    return rule


def _known_size(node: Node, context: Context) -> Sequence[Value] | None:
    """`x.size(d)`, `x.size()`"""
    t = _tensor_type(node, context)
    if t is None or t.sizes is None:
        return None
    if len(node.inputs) == 1:
        sizes = t.sizes
        known = [s for s in sizes if s is not None]
        return _list_of([context.constant(s) for s in known], node, context) if len(known) == len(sizes) else None
    dim = constant_of(node.inputs[1], None)
    if type(dim) is not int or not -len(t.sizes) <= dim < len(t.sizes) or t.sizes[dim] is None:
        return None
    return [context.constant(t.sizes[dim])]


FACTS: dict[str, tuple[Rule, ...]] = {
    "aten::dim": (_fact(lambda t: None if t.sizes is None else len(t.sizes)),),
    "aten::size": (_known_size,),
    "prim::dtype": (_fact(lambda t: t.dtype),),
    "prim::device": (_fact(lambda t: t.device),),
    "prim::is_cuda": (_fact(lambda t: None if t.device is None else t.device.type == "cuda"),),
    "aten::is_floating_point": (_fact(lambda t: None if t.dtype is None else t.dtype.is_floating_point),),
    "aten::is_complex": (_fact(lambda t: None if t.dtype is None else t.dtype.is_complex),),
}


# -- tensors that are others again


def _transposed_twice(node: Node, context: Context) -> Sequence[Value] | None:
    """`x.t().t()`"""
    inner = node.input.node
    if inner.kind != "aten::t" or not context.may_be_input(node.output, inner.input):
        return None
    return context.now_input(node.output, inner.input)


def _unchanged(node: Node, context: Context) -> Sequence[Value] | None:
    """`x * 1`, `x / 1`, `x - 0`; `x + 0` of ints only, for it turns -0.0 into 0.0"""
    if len(node.inputs) < 2 or not isinstance(node.inputs[0].type, T.TensorType):
        return None
    t, tensor = node.inputs[0].type, node.inputs[0]
    scalars = [constant_of(v, None) for v in node.inputs[1:]]
    if t.dtype is None or any(type(s) not in (int, float) for s in scalars) or not _is_dense(t):
        return None
    floating = t.dtype.is_floating_point
    if t.dtype in (torch.bool, torch.float16, torch.bfloat16) or t.dtype.is_complex:
        return None
    if not floating and (node.kind == "aten::div" or any(type(s) is float for s in scalars)):
        return None  # it would be promoted to float
    if floating and node.kind == "aten::add":
        return None
    neutral = [1] if node.kind in ("aten::mul", "aten::div") else [0, 1]
    if scalars != neutral or value_key(scalars[0]) == value_key(-0.0):
        return None
    return context.now_input(node.output, tensor) if context.may_be_input(node.output, tensor) else None


def _is_dense(t: T.TensorType) -> bool:
    """Is the tensor known to be laid out without gaps or overlaps, so that a result has the same strides?"""
    if t.sizes is None or t.strides is None or len(t.sizes) != len(t.strides):
        return False
    expected = 1
    for stride, size in sorted(zip(t.strides, t.sizes, strict=True), key=lambda p: -1 if p[0] is None else p[0]):
        if stride is None or size is None or size < 2 or stride != expected:
            return False
        expected *= size
    return True


ALIAS_SENSITIVE: dict[str, tuple[Rule, ...]] = {
    "aten::t": (_transposed_twice,),
    **dict.fromkeys(("aten::mul", "aten::div", "aten::add", "aten::sub"), (_unchanged,)),
}


TABLES = (NUMBERS, TYPES, CONTAINERS, FACTS, ALIAS_SENSITIVE)

RULES: dict[str, tuple[Rule, ...]] = {
    kind: tuple(rule for table in TABLES for rule in table.get(kind, ())) for table in TABLES for kind in table
}
"""All rules by kind."""
