"""The types of module attributes: from an annotation, else from the value."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Iterable

import torch

from jitlite.base.source import CompileError
from jitlite.frontend.emit.annotations import ClassTypes, type_from_python
from jitlite.frontend.emit.resolver import Resolver
from jitlite.ir import types as T
from jitlite.ir.constants import plain_tuple, type_of_constant
from jitlite.ir.types import Type
from jitlite.ir.values import bound_class, class_type_of


class NoType(Exception):
    """A value that has no type of TorchScript; the text says why."""


ATTRIBUTE_TYPES = "__jitlite_attribute_types__"
"""The attribute of a module that keeps the types of those attributes that were set to an `Attribute`."""


def is_attribute_object(value: object) -> bool:
    """Is it an `Attribute(value, type)`, of jitlite or of torch.jit?"""
    return type(value).__name__ == "Attribute" and hasattr(value, "value") and hasattr(value, "type")


def infer_type(value: object, class_types: ClassTypes) -> Type:
    """The type that a value has by itself.

    Raises:
        NoType: where it has none, such as an empty list.
    """
    if isinstance(value, list):
        return T.ListType.of(_common(value, "list", class_types))
    if isinstance(value, dict):
        return T.DictType.of(
            _key_type(_common(value, "dict", class_types)), _common(value.values(), "dict", class_types)
        )
    if isinstance(value, set | frozenset):
        return T.SetType.of(_hashed(_common(value, "set", class_types)), isinstance(value, frozenset))
    if isinstance(value, tuple) and type_of_constant(value) is None:
        return _tuple_type(value, class_types)
    if isinstance(value, enum.Enum | torch.Tensor) or type_of_constant(value) is not None:
        found = T.TENSOR if isinstance(value, torch.Tensor) else type_of_constant(value)
        if found is None:
            raise NoType(f"the members of {type(value).__name__} have values of several types")
        return found
    for base, t in ((int, T.INT), (float, T.FLOAT), (complex, T.COMPLEX), (str, T.STRING)):
        if isinstance(value, base):
            return t
    if isinstance(value, torch.futures.Future):
        raise NoType("a Future needs an annotation")
    return _object_type(value, class_types)


def _object_type(value: object, class_types: ClassTypes) -> Type:
    own = class_type_of(value)
    if own is not None:
        return own
    if isinstance(value, torch.ScriptObject):
        return bound_class(value)
    if isinstance(value, torch.nn.Module):
        raise NoType(
            "Cannot infer concrete type of torch.nn.Module: a module can only be an attribute by itself, or in a "
            "ModuleList, ModuleDict or Sequential"
        )
    if inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, functools.partial):
        raise NoType(f"a {type(value).__name__} is no value of TorchScript")
    try:
        found = class_types(type(value))
        definition = getattr(found, "definition", None)
        if definition is not None and isinstance(found, T.ClassType):
            definition.complete()
    except CompileError as error:
        raise NoType(f"the class {type(value).__name__} does not compile: {error.message}") from None
    if found is None:
        raise NoType(f"'{type(value).__name__}' is no class that scripts can use")
    return found


def _common(values: Iterable[object], what: str, class_types: ClassTypes) -> Type:
    try:
        types = list(dict.fromkeys(infer_type(v, class_types) for v in values))
    except NoType as error:
        raise NoType(f"Could not infer type of {what} element: {error}") from None
    if not types:
        raise NoType(f"an empty {what} has no type of its own")
    merged = T.unify_all(types)
    if merged is None:
        raise NoType(f"the {what} holds {' and '.join(t.annotation for t in types)}")
    return merged


def _key_type(key: Type) -> Type:
    if not T.may_be_key(key):
        raise NoType(f"a dict cannot have keys of type {key.annotation}")
    return key


def _hashed(element: Type) -> Type:
    if not T.may_be_in_set(element):
        raise NoType(f"a set cannot have elements of type {element.annotation}")
    return element


def _tuple_type(value: tuple[object, ...], class_types: ClassTypes) -> Type:
    elements = [infer_type(v, class_types) for v in plain_tuple(value)]
    names = getattr(type(value), "_fields", None)
    if names is None:
        return T.TupleType.of(elements)
    found = type_from_python(type(value), None, class_types=class_types)
    assert isinstance(found, T.TupleType)
    return found


def annotated_type(annotation: object, resolver: Resolver) -> Type:
    """The type of an annotation.

    Raises:
        NoType: where it is none of TorchScript's.
    """
    try:
        return type_from_python(annotation, None, resolver.resolve_type, class_types=resolver.class_types)
    except CompileError as error:
        raise NoType(error.message) from None


def as_held(annotated: Type, value: object, class_types: ClassTypes) -> Type:
    """The annotated type, with the class of the object itself where a base class of it is annotated.

    Methods are bound by the type, so an object under the type of its base class would have the methods of the base.
    """
    if value is None:
        return annotated
    if isinstance(annotated, T.OptionalType):
        return T.OptionalType.of(as_held(T.without_none(annotated), value, class_types))
    if isinstance(annotated, T.ListType) and isinstance(value, list | tuple):
        return T.ListType.of(_held_in(annotated.element, value, class_types))
    if isinstance(annotated, T.DictType) and isinstance(value, dict):
        return T.DictType.of(annotated.key, _held_in(annotated.value, value.values(), class_types))
    if isinstance(annotated, T.TupleType) and isinstance(value, tuple) and annotated.names is None:
        return T.TupleType.of(
            as_held(t, v, class_types) for t, v in zip(annotated.elements, plain_tuple(value), strict=False)
        )
    if isinstance(annotated, T.ClassType) and not annotated.is_module:
        return _class_as_held(annotated, value, class_types)
    return annotated


def _class_as_held(annotated: T.ClassType, value: object, class_types: ClassTypes) -> Type:
    base = annotated.python_class
    inherits = base is not None and isinstance(value, base) and type(value) is not base
    return _object_type(value, class_types) if inherits and annotated.definition is not None else annotated


def _held_in(element: Type, values: Iterable[object], class_types: ClassTypes) -> Type:
    """The type of elements annotated as `element`: that of a subclass only where all are of it."""
    found = {as_held(element, v, class_types) for v in values}
    return found.pop() if len(found) == 1 else element


def class_annotations(cls: type) -> dict[str, object]:
    """The annotations in the bodies of a class and its bases."""
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        if base is not torch.nn.Module:
            found.update(inspect.get_annotations(base))
    return found
