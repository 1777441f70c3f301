"""Selecting and slicing a tensor, written as Python does: `x[:, i]` for `aten::select(x, 1, i)`.

TorchScript takes `x[a:b, i]` apart into one operator for each dimension. Written as one subscript again, Python makes
the same views in the same order, with less to call.
"""

from __future__ import annotations

from jitlite.codegen.tree import Constant, Expression, Index, Item, Operation, Rest, Slice, TensorSubscript
from jitlite.ir import types as T
from jitlite.ir.graph import Node, constant_of
from jitlite.ir.ops import FOR_PYTHON_INTS

_WHOLE = Slice(None, None, None)
"""A dimension that is left as it is."""


def subscript(operation: Operation) -> TensorSubscript | None:
    """The subscript that a `select` or `slice` is written as, with those that are nested in it; None if it is neither.

    Which dimension an operator means has to be known. A slice needs a positive step: others are errors that Python
    words differently.
    """
    dim = _dimension(operation.node)
    item = _item(operation) if dim is not None else None
    if dim is None or item is None:
        return None
    base, place = operation.operands[0], operation.place
    if dim < 0:  # counted from the last one
        return TensorSubscript(base, (Rest(), item, *[_WHOLE] * (-dim - 1)), place) if isinstance(item, Slice) else None
    if isinstance(base, TensorSubscript) and not isinstance(base.items[0], Rest):
        position = _position(base.items, dim)
        # items are evaluated from left to right: a new one has to stand behind those before it
        if position >= len(base.items):
            filled = base.items + (_WHOLE,) * (position - len(base.items))
            return TensorSubscript(base.base, (*filled, item), place)
    return TensorSubscript(base, (_WHOLE,) * dim + (item,), place)


def _dimension(node: Node) -> int | None:
    """The dimension that a node selects or slices, if it does."""
    op = node.op
    if op is None or op.overload is None or op.schema.key not in FOR_PYTHON_INTS:
        return None
    dim = constant_of(node.inputs[1], None)
    return dim if type(dim) is int and isinstance(node.inputs[0].type, T.TensorType) else None


def _item(operation: Operation) -> Item | None:
    if operation.node.kind == "aten::select":
        return Index(operation.operands[2])
    start, stop, step = operation.operands[2:5]
    if not isinstance(step, Constant) or type(step.value) is not int or step.value <= 0:
        return None
    return Slice(_bound(start), _bound(stop), None if step.value == 1 else step)


def _bound(value: Expression) -> Expression | None:
    return None if isinstance(value, Constant) and value.value is None else value


def _position(items: tuple[Item, ...], dim: int) -> int:
    """The position among the items that stands for dimension `dim` of what they give."""
    for position, item in enumerate(items):
        if isinstance(item, Slice):
            if dim == 0:
                return position
            dim -= 1
    return len(items) + dim
