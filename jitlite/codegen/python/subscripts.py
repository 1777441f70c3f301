"""Selecting and slicing a tensor, written as Python does: `x[:, i]` for `aten::select(x, 1, i)`.

TorchScript takes `x[a:b, i]` apart into one operator for each dimension. Written as one subscript again, Python makes
the same views in the same order, with less to call.
"""

from __future__ import annotations

from dataclasses import dataclass

from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of
from jitlite.ir.ops import FOR_PYTHON_INTS


@dataclass(frozen=True, eq=False)
class Item:
    """What stands for one dimension: one value for an index, three for the bounds and step of a slice."""

    values: tuple[Value, ...]

    @property
    def keeps_dimension(self) -> bool:
        return len(self.values) != 1


WHOLE = Item(())
"""A dimension that is left as it is."""

REST = Item(())
"""`...`: all dimensions that no other item stands for."""


@dataclass(frozen=True)
class SubscriptText:
    """`base[items]`."""

    base: Value
    items: tuple[Item, ...]


def subscript(node: Node, nested: set[Node]) -> SubscriptText | None:
    """The subscript that a `select` or `slice` is written as, with those that are nested in it; None if it is neither.

    Which dimension an operator means has to be known. A slice needs a positive step: others are errors that Python
    words differently.
    """
    item = _item(node)
    if item is None:
        return None
    dim, base = constant_of(node.inputs[1]), node.inputs[0]
    if dim < 0:  # counted from the last one
        return SubscriptText(base, (REST, item, *[WHOLE] * (-dim - 1))) if item.keeps_dimension else None
    inner = subscript(base.node, nested) if base.node in nested else None
    if inner is not None and REST not in inner.items:
        place = _place(inner.items, dim)
        # items are evaluated from left to right: a new one has to stand behind those before it
        if place >= len(inner.items):
            filled = inner.items + (WHOLE,) * (place - len(inner.items))
            return SubscriptText(inner.base, (*filled, item))
    return SubscriptText(base, (WHOLE,) * dim + (item,))


def _item(node: Node) -> Item | None:
    op = node.op
    if op is None or op.overload is None or op.schema.key not in FOR_PYTHON_INTS:
        return None
    dim = constant_of(node.inputs[1], None)
    if type(dim) is not int or not isinstance(node.inputs[0].type, T.TensorType):
        return None
    if node.kind == "aten::select":
        return Item((node.inputs[2],))
    step = constant_of(node.inputs[4], None)
    return Item(tuple(node.inputs[2:5])) if type(step) is int and step > 0 else None


def _place(items: tuple[Item, ...], dim: int) -> int:
    """The position among the items that stands for dimension `dim` of what they give."""
    for position, item in enumerate(items):
        if item.keeps_dimension:
            if dim == 0:
                return position
            dim -= 1
    return len(items) + dim
