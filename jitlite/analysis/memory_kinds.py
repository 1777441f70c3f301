"""The kinds of objects that alias analysis tells apart, as the bits of an int."""

from __future__ import annotations

import operator
from functools import reduce

from jitlite.ir import types as T
from jitlite.ir.types import Type

TENSOR, LIST, DICT, OBJECT, SET = KINDS = (1, 2, 4, 8, 16)
_ALL = TENSOR | LIST | DICT | OBJECT | SET

_ANYTHING = frozenset({T.ANY, T.PY_OBJECT, T.CAPSULE, T.ANY_TUPLE})
_OBJECTS = frozenset({T.GENERATOR, T.STREAM, T.STORAGE, T.ANY_CLASS})


_OBJECT_TYPES = T.ClassType | T.InterfaceType | T.FutureType | T.AwaitType | T.RRefType


def kinds_of(t: Type) -> int:
    """The kinds of objects that a value of the type is, or (a tuple, an Optional) directly consists of."""
    return T.cached_on(t, "kinds", _kinds_of)


def _kinds_of(t: Type) -> int:
    if isinstance(t, T.TensorType):
        return TENSOR
    if isinstance(t, T.ListType) or t is T.ANY_LIST:
        return LIST
    if isinstance(t, T.DictType) or t is T.ANY_DICT:
        return DICT
    if _is_set(t):
        return SET
    if _is_object(t):
        return OBJECT
    if t in _ANYTHING or isinstance(t, T.VarType):
        return _ALL
    return reduce(operator.or_, map(kinds_of, t.contained), 0)


def _is_object(t: Type) -> bool:
    return isinstance(t, _OBJECT_TYPES) or t in _OBJECTS


def _is_set(t: Type) -> bool:
    return isinstance(t, T.SetType) or t in (T.ANY_SET, T.ANY_FROZENSET)


def contained_kinds(t: Type) -> int:
    """The kinds of objects that may be inside the objects that a value of the type is, however deep."""
    return T.cached_on(t, "contained kinds", _contained_kinds)


def _contained_kinds(t: Type) -> int:
    if isinstance(t, T.TensorType | T.EnumType) or _is_set(t):
        return 0  # what has a hash is changed by nobody
    if isinstance(t, T.ListType | T.DictType):
        found = 0
        for part in t.contained:
            found |= reachable_kinds(part)
        return found
    if t in (T.ANY_LIST, T.ANY_DICT) or kinds_of(t) & OBJECT:
        return _ALL
    found = 0
    for part in t.contained:
        found |= contained_kinds(part)
    return found


def reachable_kinds(t: Type) -> int:
    """The kinds of objects that can be reached from a value of the type."""
    return kinds_of(t) | contained_kinds(t)
