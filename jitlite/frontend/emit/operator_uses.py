"""What operators on lists and dicts tell of the types of these; see `learned_types`."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.ir.types import Type


def wanted_type(name: str, this: Type, given: Sequence[Type]) -> Type | None:
    """The type that the first operand of an operator had to be of for the others to fit."""
    kinds = [T.unshaped(t) for t in given]
    if not kinds:
        return None
    position = _position_of_element(name)
    if position is None:
        return kinds[0] if type(kinds[0]) is type(this) else None
    found = dict(enumerate(kinds)).get(position)
    if isinstance(this, T.DictType):
        return T.DictType.of(kinds[0], found if found is not None and len(kinds) > 1 else this.value)
    return None if found is None else T.ListType.of(found)


def _position_of_element(name: str) -> int | None:
    """Where an operator on a list or dict has an element, or a value, behind the container; -1 where it has none.

    None where the second operand is of the type of the first.
    """
    match name.removeprefix("aten::"):
        case "extend" | "add" | "add_" | "update":
            return None
        case "append" | "index" | "count" | "remove" | "__contains__":
            return 0
        case "insert" | "_set_item" | "setdefault" | "get":
            return 1
    return -1


def gives_part(kind: str) -> bool:
    """Does an operator give what is in its first operand?"""
    return kind.removeprefix("aten::") in ("__getitem__", "setdefault", "get", "pop")


def compares(name: str) -> bool:
    return name.removeprefix("aten::") in ("eq", "ne", "lt", "le", "gt", "ge")
