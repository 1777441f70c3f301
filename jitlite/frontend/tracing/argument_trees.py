"""Arguments and results as trees, for back ends that are called with Python's own.

Tuples, lists, dicts and the classes that a user has registered with torch's `pytree` are taken apart by that. Objects
of dataclasses, which it takes for leaves unless they are registered, are exchanged for a node of our own first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch.utils import _pytree as pytree

from jitlite.base.dataclass_values import fields_of, with_fields


class _TakenApart:
    """Stands for an object of a dataclass."""

    def __init__(self, cls: type, fields: dict[str, object]) -> None:
        self.cls = cls
        self.fields = fields


def _flatten(value: _TakenApart) -> tuple[list[object], tuple[type, tuple[str, ...]]]:
    return list(value.fields.values()), (value.cls, tuple(value.fields))


def _flatten_with_keys(value: _TakenApart) -> tuple[list[tuple[pytree.KeyEntry, object]], tuple[type, tuple[str, ...]]]:
    parts, context = _flatten(value)
    return [(pytree.GetAttrKey(name), part) for name, part in zip(value.fields, parts, strict=True)], context


def _unflatten(parts: Iterable[object], context: tuple[type, tuple[str, ...]]) -> _TakenApart:
    cls, names = context
    return _TakenApart(cls, dict(zip(names, parts, strict=True)))


pytree.register_pytree_node(_TakenApart, _flatten, _unflatten, flatten_with_keys_fn=_flatten_with_keys)


def taken_apart(value: object) -> object:
    """The value with nodes for the objects of dataclasses that nobody has registered."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)([taken_apart(part) for part in value])
    if isinstance(value, dict) and type(value) is dict:
        return {key: taken_apart(part) for key, part in value.items()}
    fields = None if type(value) in pytree.SUPPORTED_NODES else fields_of(value)
    return value if fields is None else _TakenApart(type(value), {name: taken_apart(f) for name, f in fields.items()})


def put_together(value: object) -> object:
    """The inverse of `taken_apart`."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)([put_together(part) for part in value])
    if isinstance(value, dict) and type(value) is dict:
        return {key: put_together(part) for key, part in value.items()}
    if not isinstance(value, _TakenApart):
        return value
    return with_fields(object.__new__(value.cls), {name: put_together(f) for name, f in value.fields.items()})


def places_of_leaves(value: object) -> list[str]:
    """Where each leaf of a tree is: `[0]`, `['a']`, `.x`; its number where the tree does not say."""
    try:
        return [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(value)[0]]
    except ValueError:  # a user's class without names of its parts
        return [f"<{i}>" for i in range(len(pytree.tree_flatten(value)[0]))]


def with_other_parts(value: object, other: Callable[[object, str], object]) -> object:
    """An object of a class that a user has registered with `pytree`, of other parts; anything else as it is.

    Args:
        other: gives a part in place of one, and of where that is.
    """
    known = pytree.SUPPORTED_NODES.get(type(value))
    if known is None:
        return value
    parts, context = known.flatten_fn(value)
    return known.unflatten_fn([other(part, f"<{i}>") for i, part in enumerate(parts)], context)
