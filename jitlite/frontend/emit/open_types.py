"""Annotations that are no type of TorchScript, but allow several: what is annotated so has the type of its value.

    Sequence[int]    Tuple[int, ...]    Callable[[Tensor], Tensor]    T, a TypeVar    Literal["sum", "mean"]

Of a parameter, each call tells the type (`open_calls.py`); of a result, the body does.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from typing import Any

import typing_extensions

from jitlite.base.records import replace
from jitlite.base.source import CompileError
from jitlite.frontend.emit.annotations import parse_parameter_type
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.resolver import Resolver
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.constants import attribute_or_none
from jitlite.ir.types import Type

_NAMES = frozenset(
    {
        "Sequence", "Iterable", "Collection", "Mapping", "Callable", "MutableSequence", "MutableMapping", "TypeGuard",
        "TypeIs",
    }
)  # fmt: skip
"""What generic types of `typing` and `collections.abc` are called, of which a type of TorchScript may be one."""

_BARE_CLASSES = (tuple, list, dict)
_BARE = (tuple, list, dict, typing.Tuple, typing.List, typing.Dict)  # noqa: UP006 (the aliases are meant)


def inherits(actual: Type, base: Type | None) -> bool:
    """Is a script class one that inherits from another?"""
    classes = [t.python_class for t in (actual, base) if isinstance(t, T.ClassType) and not t.is_module]
    return len(classes) == 2 and None not in classes and actual is not base and issubclass(*classes)


def is_open(expr: tree.Expr, resolver: Resolver) -> bool:
    """Does an annotation leave open which type of TorchScript is meant? One that means nothing does not."""
    if not _allows_several(expr, resolver):
        return False
    if isinstance(expr, tree.Var | tree.Select) and _is_generic(_denoted(expr, resolver)):
        return True  # a class of collections.abc is one whose objects a script might hold
    try:
        parse_parameter_type(expr, resolver.resolve_type, class_types=resolver.class_types)
    except CompileError:
        return True
    return False


def _allows_several(expr: tree.Expr, resolver: Resolver) -> bool:
    match expr:
        case tree.Subscript():
            if _is_generic(_denoted(expr.value, resolver)):
                return True
            parts = [e for i in expr.indices for e in (i.elements if isinstance(i, tree.TupleLiteral) else (i,))]
            return any(isinstance(p, tree.Dots) or _allows_several(p, resolver) for p in parts)
        case tree.BinOp(op="|"):
            return _allows_several(expr.left, resolver) or _allows_several(expr.right, resolver)
        case tree.Var() | tree.Select():
            return _is_open_object(_denoted(expr, resolver))
    return False


def is_tuple_of_any_length(expr: tree.Expr | None, resolver: Resolver) -> bool:
    """Is an annotation `Tuple[T, ...]`?"""
    if not isinstance(expr, tree.Subscript):
        return False
    only = expr.indices[0] if len(expr.indices) == 1 else None
    parts = only.elements if isinstance(only, tree.TupleLiteral) else expr.indices
    is_open_ended = len(parts) == 2 and isinstance(parts[1], tree.Dots)
    return is_open_ended and any(_denoted(expr.value, resolver) is t for t in (tuple, typing.Tuple))  # noqa: UP006


def _denoted(expr: tree.Expr, resolver: Resolver) -> Any:
    names: list[str] = []
    while isinstance(expr, tree.Select):
        names.append(expr.name.name)
        expr = expr.value
    if not isinstance(expr, tree.Var):
        return None
    try:
        return resolver.resolve_type(".".join([expr.name.name, *reversed(names)]))
    except (LookupError, AttributeError):
        return None


def _is_open_object(found: object) -> bool:
    """Does an annotation object leave open which type is meant?"""
    if isinstance(found, type) and found not in _BARE_CLASSES and found.__module__ != "collections.abc":
        return False
    if isinstance(found, typing.TypeVar) or any(found is bare for bare in _BARE) or _is_generic(found):
        return True
    origin = typing.get_origin(found)
    if origin is None:
        return False
    if origin in (collections.abc.Callable, typing_extensions.TypeIs, typing_extensions.TypeGuard):
        return True
    arguments = typing.get_args(found)
    if origin in (typing.Union, types.UnionType, list, dict, tuple):
        return any(a is ... or _is_open_object(a) for a in arguments)
    return _is_open_object(origin)


def without_result(definition: Definition) -> Definition:
    """The definition of a function without the annotation of its result."""

    def bare(function: tree.Def) -> tree.Def:
        return tree.replaced(function, decl=tree.replaced(function.decl, return_type=None))

    signature = None if definition.signature is None else bare(definition.signature)
    return replace(definition, tree=bare(definition.tree), signature=signature)


def _is_generic(found: object) -> bool:
    """Is it a generic type that TorchScript has not?"""
    name = attribute_or_none(found, "__name__") or attribute_or_none(found, "_name")
    module = attribute_or_none(found, "__module__")
    return isinstance(name, str) and name in _NAMES and module in ("typing", "typing_extensions", "collections.abc")


def result_is_open(definition: Definition) -> bool:
    """Does only the body of a function tell what type its result has?"""
    result = (definition.signature or definition.tree).decl.return_type
    return result is None or is_open(result, definition.resolver)
