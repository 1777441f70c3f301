"""The parameters of a definition: their types, by annotation or by default, and the values of defaults."""

from __future__ import annotations

from functools import partial
from typing import Any

from jitlite.base.errors.classes import WRONG_METHOD
from jitlite.base.errors.statements import WRONG_DEFAULT
from jitlite.base.source import CompileError
from jitlite.frontend.emit.annotations import parse_parameter_type
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.open_calls import type_of_default
from jitlite.frontend.emit.open_types import is_open
from jitlite.frontend.emit.ways_out import way_to_default
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.python_ast import refuse_stars
from jitlite.ir import types as T
from jitlite.ir.schema import Argument
from jitlite.ir.types import Type
from jitlite.ir.values import value_has_type


def declared_arguments(source: tree.Def, definition: Definition) -> list[Argument]:
    """The parameters of a definition with types and defaults; a parameter without annotation is a Tensor.

    `source` has the annotations. The first parameter of a method is of the type of the class.

    Declared overloads share the defaults of their function: where one does not fit, the argument must be given.

    Raises:
        CompileError: a default is not of the type of its parameter.
    """
    arguments = []
    refuse_stars(source.decl.params)
    defaults, overloaded = definition.defaults, definition.signature is not None
    for position, param in enumerate(source.decl.params):
        name = param.ident.name
        size: int | None = None
        t: Type
        if position == 0 and definition.self_type is not None:
            _check_is_object(definition, param)
            t = definition.self_type
        else:
            t, size = _type_of(definition, param)
        default: dict[str, Any] = {}
        if name in defaults:
            if _default_fits(defaults[name], t, size):
                value = _as_declared(defaults[name], t, size)
                default = {"default": value, "default_text": repr(value)}
            elif not overloaded and (param.type is None or name not in definition.inferred):
                raise WRONG_DEFAULT(
                    f'Expected a default value of type {t.annotation} on parameter "{name}"',
                    param.range,
                    expected=t.annotation,
                    found=repr(defaults[name]),
                    hint=way_to_default(name, t, defaults[name]),
                )
        arguments.append(
            Argument(
                name, t, size, kwarg_only=param.kwarg_only, inferred=param.type is None and t is T.TENSOR, **default
            )
        )
    return arguments


def _check_is_object(definition: Definition, param: tree.Param) -> None:
    """See that the first parameter of a method is no argument, before which `self` was forgotten.

    Raises:
        CompileError: its annotation is a type of other values than objects.
    """
    name = param.ident.name
    if param.type is None or name == "self":
        return
    try:
        t, _ = _type_of(definition, param)
    except CompileError:
        return
    if t is not T.ANY and not isinstance(t, T.ClassType | T.InterfaceType):
        raise WRONG_METHOD(
            f"the first parameter of a method is the object it belongs to, and '{name}' is annotated as {t.annotation}",
            param.range,
            hint=f"put self in front of it: (self, {name}: {t.annotation})",
        )


def _type_of(definition: Definition, param: tree.Param) -> tuple[Type, int | None]:
    """The type of a parameter, and the length of the list that a single value stands for."""
    name, resolver = param.ident.name, definition.resolver
    has_default = name in definition.defaults and definition.signature is None
    if param.type is None:
        by_default = type_of_default(definition.defaults[name]) if has_default else None
        return definition.inferred.get(name) or by_default or T.TENSOR, None
    parse = partial(parse_parameter_type, param.type, resolver.resolve_type, class_types=resolver.class_types)
    try:
        parsed = parse()
    except CompileError:
        if not is_open(param.type, resolver):
            raise
        if name in definition.inferred:
            return definition.inferred[name], None
        by_default = type_of_default(definition.defaults[name]) if has_default else None
        if by_default is not None and definition.defaults[name] is not None:
            return by_default, None
        parsed = parse(nearest=True)
    return parsed.type, parsed.broadcast


def _default_fits(value: object, declared: Type, size: int | None) -> bool:
    """Is a default of the declared type? Numbers convert, and one may stand for a list of numbers."""
    if value_has_type(value, declared):
        return True
    if size is not None and isinstance(declared, T.ListType):
        return _default_fits(value, declared.element, None)
    if isinstance(declared, T.OptionalType):
        return _default_fits(value, T.without_none(declared), size)
    if isinstance(declared, T.ListType) and isinstance(value, list | tuple):
        return all(_default_fits(v, declared.element, None) for v in value)
    if isinstance(declared, T.TupleType) and isinstance(value, tuple) and len(value) == len(declared.elements):
        return all(_default_fits(v, e, None) for v, e in zip(value, declared.elements, strict=True))
    return isinstance(value, int | float) and declared in (T.FLOAT, T.COMPLEX, T.NUMBER)


def _as_declared(value: object, declared: Type, size: int | None = None) -> Any:
    """A default that fits, with lists where lists are declared: for those, Python programs often write tuples."""
    declared = T.without_none(declared)
    if isinstance(declared, T.ListType):
        if isinstance(value, list | tuple):
            return [_as_declared(v, declared.element) for v in value]
        return value if size is None or value is None else [value] * size
    if isinstance(declared, T.TupleType) and isinstance(value, tuple):
        parts = [_as_declared(v, e) for v, e in zip(value, declared.elements, strict=True)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(declared, T.DictType) and isinstance(value, dict):
        return {k: _as_declared(v, declared.value) for k, v in value.items()}
    return value
