"""The peephole rules: what a node's outputs can be replaced by, seeing only the node and what its inputs are made of.

A rule takes a node and a `RewriteContext` and gives the values that replace the outputs, or None. New nodes go before
the node. Tables by subject: numbers, truth, types and None, lists and dicts; those about tensors are in
`peephole_tensors.py`.

Run-time values decide what is sound: a value typed int may be a torch.dtype and one typed float may be an int, so
arithmetic is simplified on `is_number` values only, and floats are left alone (`nan != nan`, `-0.0 + 0 is 0.0`).
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.analysis.int_values import is_number
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.traits import Link
from jitlite.passes.rules.context import RewriteContext, Table

# -- numbers


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


def _times_one(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`n * 1`, `n // 1`, `n * 0`, `n % 1`"""
    found = _operands(node)
    if found is None or not is_number(found[0]):
        return None
    if node.kind == "aten::remainder" or (node.kind == "aten::mul" and found[1] == 0):
        return [context.constant(0)] if abs(found[1]) <= 1 and (found[1] or node.kind == "aten::mul") else None
    return [found[0]] if found[1] == 1 else None


def _minus_itself(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`n - n`"""
    if len(node.inputs) != 2 or node.inputs[0] is not node.inputs[1]:
        return None
    return [context.constant(0)] if is_number(node.inputs[0]) else None


def _plus_constant(node: Node, context: RewriteContext) -> Sequence[Value] | None:
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
    return context.node(kind, (start, context.constant(step)), T.INT, node)


def _to_int(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`int(n)`, `ceil(n)`"""
    return [node.input] if len(node.inputs) == 1 and is_number(node.input) else None


_REFLEXIVE = frozenset({T.INT, T.BOOL, T.STRING, T.NONE, T.DEVICE})
"""Types whose every value equals itself. Not float: NaN does not."""


def _with_itself(node: Node, context: RewriteContext) -> Sequence[Value] | None:
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


NUMBERS: Table = {
    "aten::mul": (_times_one,),
    "aten::floordiv": (_times_one,),
    "aten::remainder": (_times_one,),
    "aten::add": (_plus_constant,),
    "aten::sub": (_plus_constant, _minus_itself),
    "aten::Int": (_to_int,),
    "aten::ceil": (_to_int,),
    "aten::floor": (_to_int,),
    "aten::round": (_to_int,),
    **dict.fromkeys(("aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"), (_with_itself,)),
}


# -- truth

_ORDERED = frozenset({T.INT, T.STRING})
"""Types of which either `a < b` or `a >= b`. Not float: NaN is neither."""

_COMPARED = _ORDERED | {T.FLOAT, T.BOOL, T.COMPLEX, T.NUMBER, T.DEVICE}
"""Types of which `a != b` is `not a == b`."""


def _not(value: Value, node: Node, context: RewriteContext) -> Sequence[Value]:
    return context.node("aten::__not__", (value,), T.BOOL, node)


def _negated(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`not not c`, `not a == b`"""
    inner = node.input.node
    if inner.kind == "aten::__not__":
        return [inner.input]
    opposite = Link.OPPOSITE.of(inner.kind)
    if opposite is None or len(inner.inputs) != 2:
        return None
    known = _COMPARED if opposite in ("aten::eq", "aten::ne") else _ORDERED
    if not opposite.startswith("aten::__is") and any(v.type not in known for v in inner.inputs):
        return None
    return context.node(opposite, inner.inputs, T.BOOL, node)


def _with_truth(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`c and True`, `c or False`, `c == True` and the like, without the short cut"""
    if len(node.inputs) != 2 or any(v.type is not T.BOOL for v in node.inputs):
        return None
    left, right = node.inputs
    if left is right:
        return [left] if node.kind in ("aten::__and__", "aten::__or__") else None
    for value, other in ((left, right), (right, left)):
        known = constant_of(other, None)
        if type(known) is bool:
            return _with_known(node, value, known, other, context)
    return None


def _with_known(node: Node, value: Value, known: bool, other: Value, context: RewriteContext) -> Sequence[Value]:
    if node.kind in ("aten::__and__", "aten::__or__"):
        return [value] if known is (node.kind == "aten::__and__") else [other]
    same = known is (node.kind == "aten::eq")  # `^` is `!=`
    return [value] if same else _not(value, node, context)


def _truth(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`bool(c)`"""
    return [node.input] if node.input.type is T.BOOL else None


TRUTH: Table = {
    "aten::__not__": (_negated,),
    "aten::Bool": (_truth,),
    **dict.fromkeys(("aten::__and__", "aten::__or__", "aten::__xor__", "aten::eq", "aten::ne"), (_with_truth,)),
}


# -- types and None


def _compared_with_none(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`x is None` where the type of x decides"""
    for value, other in (node.inputs, tuple(reversed(node.inputs))):
        if value.type is T.NONE and (other.type is T.NONE or not T.may_be_none(other.type)):
            same = other.type is T.NONE
            return [context.constant(same == (node.kind == "aten::__is__"))]
    return None


def _unwrapped(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`unwrap_optional(x)` where x cannot be None"""
    return None if T.may_be_none(node.input.type) else [node.input]


def _cast_up(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """a cast to the same or a wider type"""
    source, target = T.unshaped(node.input.type), T.unshaped(node.output.type)
    return [node.input] if T.is_subtype(source, target) else None


TYPES: Table = {
    "aten::__is__": (_compared_with_none,),
    "aten::__isnot__": (_compared_with_none,),
    "aten::_unwrap_optional": (_unwrapped,),
    "prim::unchecked_unwrap_optional": (_unwrapped,),
    "prim::unchecked_cast": (_cast_up,),
}


# -- lists and dicts that nobody writes


def _elements(container: Value, kind: str, context: RewriteContext) -> Sequence[Value] | None:
    """What was put into a list or dict made by a node of `kind`, if it still is in there."""
    if container.node.kind != kind or context.db.is_written(container):
        return None
    return container.node.inputs


def _length(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`len([a, b])`, `len({k: v})`"""
    elements = _elements(node.input, "prim::ListConstruct", context)
    if elements is not None:
        return [context.constant(len(elements))]
    entries = _entries(node.input, context)
    return None if entries is None else [context.constant(len(entries))]


def _item(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`[a, b][1]`, `{k: v}[k]`"""
    container, key = node.inputs
    if not is_constant(key):
        return None
    entries = _entries(container, context)
    if entries is not None:
        value = entries.get(constant_of(key))
        return None if value is None else [value]
    elements = _elements(container, "prim::ListConstruct", context)
    index = constant_of(key)
    if elements is None or type(index) is not int or not -len(elements) <= index < len(elements):
        return None
    return [elements[index]]


_KEYS = frozenset({T.INT, T.STRING, T.BOOL, T.FLOAT})


def _entries(container: Value, context: RewriteContext) -> dict[object, Value] | None:
    """Values by key of a dict display whose keys are distinct constants that equal themselves."""
    if not isinstance(container.type, T.DictType) or container.type.key not in _KEYS:
        return None
    listed = _elements(container, "prim::DictConstruct", context)
    if listed is None or not all(map(is_constant, listed[::2])):
        return None
    keys = [constant_of(key) for key in listed[::2]]
    entries = dict(zip(keys, listed[1::2], strict=True))
    return entries if len(entries) == len(keys) and all(key == key for key in keys) else None


def _unpacked(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`a, b = [x, y]`"""
    elements = _elements(node.input, "prim::ListConstruct", context)
    return elements if elements is not None and len(elements) == len(node.outputs) else None


def _list_of(elements: Sequence[Value], node: Node, context: RewriteContext) -> Sequence[Value]:
    return context.node("prim::ListConstruct", elements, node.output.type, node)


def _sliced(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`[a, b, c][1:]`"""
    items, *ends = node.inputs
    if not isinstance(node.output.type, T.ListType) or not all(map(is_constant, ends)):
        return None
    elements = _elements(items, "prim::ListConstruct", context)
    bounds = [constant_of(v) for v in ends]
    if elements is None or bounds[2:] == [0] or any(b is not None and type(b) is not int for b in bounds):
        return None
    return _list_of(elements[slice(*bounds)], node, context)


def _joined(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`[a] + [b]`"""
    if len(node.inputs) != 2 or not isinstance(node.output.type, T.ListType):
        return None
    left, right = (_elements(v, "prim::ListConstruct", context) for v in node.inputs)
    return None if left is None or right is None else _list_of([*left, *right], node, context)


def _copied(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`list([a, b])`, `[a, b].copy()`"""
    if not isinstance(node.output.type, T.ListType) or len(node.inputs) != 1:
        return None
    elements = _elements(node.input, "prim::ListConstruct", context)
    return None if elements is None else _list_of(elements, node, context)


_LARGEST_REPETITION = 64


def _repeated(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`[a, b] * 2`"""
    if len(node.inputs) != 2 or not isinstance(node.output.type, T.ListType):
        return None
    listed, count = node.inputs if isinstance(node.inputs[0].type, T.ListType) else tuple(reversed(node.inputs))
    elements, times = _elements(listed, "prim::ListConstruct", context), constant_of(count, None)
    if elements is None or type(times) is not int or abs(len(elements) * times) > _LARGEST_REPETITION:
        return None
    return _list_of([*elements] * times, node, context)


def _of_shape(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`len(x.shape)`, `x.shape[1]`"""
    shape = node.inputs[0]
    maker = shape.node
    if maker.kind != "aten::size" or len(maker.inputs) != 1 or context.db.is_written(shape):
        return None
    (tensor,) = maker.inputs
    if context.db.has_writers(tensor):  # it might be resized in between
        return None
    if node.kind == "aten::len":
        return context.node("aten::dim", (tensor,), T.INT, node)
    index = constant_of(node.inputs[1], None)
    if type(index) is not int or abs(index) > _LARGEST_REPETITION:
        return None
    return context.node("aten::size", (tensor, node.inputs[1]), T.INT, node)


CONTAINERS: Table = {
    "aten::len": (_length, _of_shape),
    "aten::__getitem__": (_item, _of_shape),
    "prim::ListUnpack": (_unpacked,),
    "aten::slice": (_sliced,),
    "aten::add": (_joined,),
    "aten::mul": (_repeated,),
    "aten::list": (_copied,),
    "aten::copy": (_copied,),
}


TABLES = (NUMBERS, TRUTH, TYPES, CONTAINERS)
