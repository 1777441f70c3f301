"""What a graph tells, without types, about dtypes and shapes: whether an operation on a tensor keeps them.

    %a : Tensor = aten::mul(%x, %y)       %a has the dtype and shape that %x and %y promote and broadcast to, so that
    %b : Tensor = aten::relu(%a)          to add %y to %b changes neither
    %c : Tensor = aten::add(%b, %y, %1)

A tensor *absorbs* another if an elementwise operation on both gives the dtype and shape of the first. It absorbs what
it was computed from by such operations, and what types and constants show to be no larger.

The answers are about graphs in which nobody resizes a tensor.
"""

from __future__ import annotations

import torch

from jitlite.analysis.effects import effect_of
from jitlite.analysis.int_values import is_number
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.int_codes import int_coded
from jitlite.ir.ops import Effect
from jitlite.ir.traits import Trait
from jitlite.operators import in_place

BOOL, INTEGRAL, FLOATING, COMPLEX = range(4)
"""The categories of dtypes, in the order of promotion."""

NUMBERS: dict[T.Type, int] = {
    T.BOOL: BOOL, T.INT: INTEGRAL, T.FLOAT: FLOATING, T.COMPLEX: COMPLEX, T.NUMBER: COMPLEX
}  # fmt: skip
"""The highest category that a number of the type may have."""

_CATEGORY_OF_CONSTANT: dict[type, int] = {bool: BOOL, int: INTEGRAL, float: FLOATING, complex: COMPLEX}

_FAR = 40
"""How far back computations are followed."""


def category_of(dtype: torch.dtype) -> int:
    """The category of a dtype."""
    if dtype.is_complex:
        return COMPLEX
    if dtype.is_floating_point:
        return FLOATING
    return BOOL if dtype is torch.bool else INTEGRAL


def origin(tensor: Value) -> Value:
    """The tensor furthest back that certainly has the same dtype and shape."""
    for _ in range(_FAR):
        previous = _same_as(tensor)
        if previous is None:
            break
        tensor = previous
    return tensor


def _same_as(tensor: Value) -> Value | None:
    node = tensor.node
    if not node.inputs or not isinstance(node.inputs[0].type, T.TensorType) or len(node.outputs) != 1:
        return None
    if node.has(Trait.LIKE_FIRST):
        return node.inputs[0] if _argument(node, "dtype", None) is None else None
    return node.inputs[0] if _keeps_dtype_of_first(node) else None


def _keeps_dtype_of_first(node: Node) -> bool:
    if node.op is not None and in_place.is_plain_write(node.op):
        return True
    if node.kind in ("aten::slice_scatter", "aten::select_scatter"):
        return True
    return node.kind.startswith("aten::") and node.kind.removeprefix("aten::") in in_place.KEEPS - in_place.BROADCASTS


def _argument(node: Node, name: str, default: object) -> object:
    """The constant given for an argument, `...` for what is no constant; `default` where there is no such argument."""
    try:
        return constant_of(node.named_input(name), ...)
    except KeyError:
        return default


def _promotes(node: Node) -> bool:
    """Does the node give the dtype and shape its operands promote and broadcast to?"""
    if node.op is None or len(node.outputs) != 1 or not isinstance(node.output.type, T.TensorType):
        return False
    return node.kind.startswith("aten::") and node.kind.removeprefix("aten::") in in_place.PROMOTES


def operands(node: Node) -> list[Value]:
    """The inputs of a promoting node, or of its in-place variant, that meet its first: tensors and numbers."""
    resolved = node.op
    assert resolved is not None
    pairs = zip(resolved.schema.arguments, node.inputs, strict=True)
    if in_place.base_name(node.kind) in ("addcmul", "addcdiv"):
        return list(node.inputs[1:3])
    return [v for a, v in pairs if a.name not in in_place.NO_OPERANDS and v.type is not T.NONE]


# -- lower bounds of dtypes


def floor(tensor: Value, far: int = _FAR) -> int:
    """The lowest category that the dtype of a tensor may have."""
    known = dtype_of(tensor)
    if known is not None:
        return category_of(known)
    first = origin(tensor)
    node = first.node
    if far == 0:
        return BOOL
    if node.kind == "prim::If":
        return min(floor(block.outputs[first.offset], far - 1) for block in node.blocks)
    if node.kind == "aten::tensor":
        return _floor_of_display(node)
    if _promotes(node):
        parts = (node.inputs[0], *operands(node))
        known_parts = [floor(v, far - 1) if isinstance(v.type, T.TensorType) else _floor_of_number(v) for v in parts]
        return max(FLOATING if _makes_floats(node) else BOOL, *known_parts)
    return _floor_of_kind(node)


def _floor_of_kind(node: Node) -> int:
    if node.has(Trait.FACTORY) and node.kind != "aten::full" and _argument(node, "dtype", ...) is None:
        return FLOATING
    name = node.kind.removeprefix("aten::")
    return FLOATING if node.kind.startswith("aten::") and name in in_place.FLOATS - {"square"} else BOOL


def _makes_floats(node: Node) -> bool:
    return in_place.base_name(node.kind) in in_place.TO_FLOAT and _argument(node, "rounding_mode", None) is None


def _floor_of_number(value: Value) -> int:
    """At least what category a number is: a value typed float may be an int, and one typed Scalar anything."""
    return _category_of_number(value) or BOOL


def _floor_of_display(node: Node) -> int:
    """At least what category `torch.tensor` makes of its argument."""
    if _argument(node, "dtype", ...) is not None:
        return BOOL
    return max((BOOL if c is None else c for c in _displayed(node.inputs[0]) or ()), default=BOOL)


def _displayed(value: Value) -> list[int | None] | None:
    """The categories of the numbers an argument of `torch.tensor` consists of, None for what is not known."""
    if value.type in NUMBERS:
        return [_category_of_number(value)]
    if not isinstance(value.type, T.ListType) or value.type.element not in NUMBERS:
        return None
    if is_constant(value):
        return [_CATEGORY_OF_CONSTANT.get(type(number)) for number in constant_of(value)]
    if value.node.kind != "prim::ListConstruct" or value.use_count != 1:
        return None
    return [_category_of_number(v) for v in value.node.inputs]


def _category_of_number(value: Value) -> int | None:
    if is_constant(value):
        return _CATEGORY_OF_CONSTANT.get(type(constant_of(value)))
    return INTEGRAL if is_number(value) else None


# -- dtypes and shapes that are known


def dtype_of(tensor: Value) -> torch.dtype | None:
    """The dtype of a tensor, where types or constants tell it."""
    first = origin(tensor)
    if isinstance(first.type, T.TensorType) and first.type.dtype is not None:
        return first.type.dtype
    node = first.node
    if node.has(Trait.FACTORY) or node.has(Trait.LIKE_FIRST) or node.kind == "aten::tensor":
        given = int_coded(T.SCALAR_TYPE, _argument(node, "dtype", None))
        if isinstance(given, torch.dtype):
            return given
        if given is None and node.kind == "aten::tensor":
            return _dtype_of_display(_displayed(node.inputs[0]))
    return None


def _dtype_of_display(numbers: list[int | None] | None) -> torch.dtype | None:
    known = [c for c in numbers or () if c is not None]
    if not numbers or len(known) < len(numbers):
        return None
    return {BOOL: torch.bool, INTEGRAL: torch.int64}.get(max(known))


def sizes_of(tensor: Value) -> list[int | None] | None:
    """The shape of a tensor, with None for what is not known of it."""
    first = origin(tensor)
    if isinstance(first.type, T.TensorType) and first.type.sizes is not None:
        return list(first.type.sizes)
    node = first.node
    if node.kind == "aten::tensor":
        numbers = _displayed(node.inputs[0])
        is_list = isinstance(node.inputs[0].type, T.ListType)
        return None if numbers is None else [len(numbers)] if is_list else []
    if node.has(Trait.FACTORY):
        return _listed_sizes(node.named_input("size"))
    return None


def _listed_sizes(sizes: Value) -> list[int | None] | None:
    if is_constant(sizes):
        found = list(constant_of(sizes))
    elif sizes.node.kind == "prim::ListConstruct" and sizes.use_count == 1:
        found = [constant_of(v, None) for v in sizes.node.inputs]
    else:
        return None
    return [size if type(size) is int else None for size in found]


# -- absorbing


def absorbs(tensor: Value, operand: Value) -> bool:
    """Does an elementwise operation on both certainly give dtype and shape of `tensor`? An operand may be a number."""
    if isinstance(operand.type, T.TensorType) and origin(operand) in _absorbed(tensor):
        return True
    if not absorbs_dtype(tensor, operand):
        return False
    return not isinstance(operand.type, T.TensorType) or absorbs_shape(tensor, operand)


def absorbs_dtype(tensor: Value, operand: Value) -> bool:
    """Does an elementwise operation on both certainly give the dtype of `tensor`, if it is not the smaller one?"""
    if operand.type in NUMBERS:
        return NUMBERS[operand.type] <= floor(tensor)
    if not isinstance(operand.type, T.TensorType):
        return False
    mine, theirs = dtype_of(tensor), dtype_of(operand)
    return mine is not None and theirs is not None and _promoted(mine, theirs) is mine


def _promoted(a: torch.dtype, b: torch.dtype) -> torch.dtype | None:
    try:
        return torch.promote_types(a, b)
    except RuntimeError:  # some pairs have no common dtype
        return None


def absorbs_shape(tensor: Value, operand: Value) -> bool:
    """Does an operand certainly broadcast to the shape of `tensor`?"""
    mine, theirs = sizes_of(tensor), sizes_of(operand)
    if theirs == []:
        return True
    if mine is None or theirs is None or len(theirs) > len(mine):
        return False
    ends = zip(reversed(mine), reversed(theirs), strict=False)
    return all(size == 1 or (size is not None and size == own) for own, size in ends)


def _absorbed(tensor: Value) -> set[Value]:
    """The origins of all that elementwise computations put into the tensor."""
    found: set[Value] = set()
    waiting = [origin(tensor)]
    while waiting and len(found) < _FAR:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            if _promotes(at.node):
                inputs = (at.node.inputs[0], *operands(at.node))
                waiting += [origin(v) for v in inputs if isinstance(v.type, T.TensorType)]
    return found


# -- layout and gradients


def is_contiguous(tensor: Value) -> bool:
    """Is the tensor certainly laid out without gaps, in the order of its dimensions?"""
    node = tensor.node
    if node.op is not None and in_place.is_plain_write(node.op):
        return is_contiguous(node.inputs[0])
    if node.kind == "aten::tensor":
        return True
    return node.has(Trait.FACTORY) and not any(_argument(node, n, None) for n in ("memory_format", "layout"))


def is_differentiable(tensor: Value) -> bool:
    """May the tensor be of a dtype that has gradients?"""
    known = dtype_of(tensor)
    return known is None or category_of(known) >= FLOATING


def needs_result(node: Node) -> bool:
    """May the backward pass of the node need its result, so that it fails when that was written?"""
    if node.kind == "aten::tensor":
        return _argument(node, "requires_grad", True) is not False
    return in_place.base_name(node.kind) not in in_place.KEEPS_NO_RESULT


def may_start_gradients(node: Node) -> bool:
    """May a result of the node require gradients although no input does?"""
    resolved = node.op
    if resolved is None or (resolved.overload is None and node.kind != "aten::tensor"):
        return True
    if effect_of(node) not in (Effect.PURE, Effect.RANDOM) and not in_place.is_plain_write(resolved):
        return True
    return _argument(node, "requires_grad", False) is not False


def holds_tensor(value: Value) -> bool:
    """May the value be a tensor or hold one?"""
    return T.cached_on(value.type, "holds tensors", _holds_tensor)


def _holds_tensor(t: T.Type) -> bool:
    return isinstance(t, T.TensorType | T.ClassType) or t is T.ANY or any(_holds_tensor(p) for p in t.contained)
