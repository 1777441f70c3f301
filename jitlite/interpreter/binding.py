"""The arguments of a call from Python: which parameter each belongs to, and whether it is of its type.

Values are passed as they are wherever they can be: a list is the caller's own list, an int stays an int where a float
is wanted. What is converted is what TorchScript converts and what would otherwise not behave as the type says: a tuple
for a List, a str for a Device, a numpy number or a one-element tensor for a number.
"""

from __future__ import annotations

import enum
import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

import torch

from jitlite.base.source import did_you_mean
from jitlite.interpreter.argument_hints import hint_for_argument
from jitlite.ir import types as T
from jitlite.ir.constants import plain_tuple, qualified_name
from jitlite.ir.int_codes import INT_OBJECTS, PLAIN, holds_object
from jitlite.ir.python_classes import classes_as_they_are
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.types import Type
from jitlite.ir.values import checker, class_type_of, reads_as_tuple, type_of_value

Converter = Callable[[Any], Any]


class Mismatch(Exception):
    """The value is not of the type. The text says which part of the value, if not all of it."""


def bind_arguments(schema: Schema, args: Sequence[object], kwargs: Mapping[str, object]) -> list[Any]:
    """The arguments in the order of the schema, defaults filled in.

    Raises:
        RuntimeError: with TorchScript's words, where an argument is missing, superfluous or of another type.
    """
    formals = schema.arguments
    if len(args) + len(kwargs) > len(formals):
        _fail_superfluous(schema, args, kwargs)
    bound: list[object] = []
    for position, value in enumerate(args):
        if formals[position].kwarg_only:
            raise RuntimeError(
                f"{schema.name}() takes {position} positional argument(s) but {len(args)} was/were given. "
                f"Declaration: {schema}"
            )
        bound.append(_convert(schema, position, value))
    used = 0
    for position in range(len(args), len(formals)):
        formal = formals[position]
        if formal.name in kwargs:
            used += 1
            bound.append(_convert(schema, position, kwargs[formal.name]))
        elif formal.has_default:
            bound.append(formal.default)
        else:
            _fail_missing(schema, formal, kwargs)
    if used != len(kwargs):
        _fail_keywords(schema, len(args), kwargs)
    return bound


def _convert(schema: Schema, position: int, value: object) -> Any:
    formal = schema.arguments[position]
    try:
        if formal.size and isinstance(value, int | float) and not isinstance(formal.type, T.OptionalType):
            value = [value] * formal.size
        return converter(formal.type)(value)
    except Mismatch as mismatch:
        raise RuntimeError(_mismatch_text(schema, position, value, str(mismatch))) from None


def bind_value(t: Type, value: object, what: str) -> Any:
    """The value in the form that type `t` asks for.

    Raises:
        RuntimeError: where it is not of the type; `what` says what it was to be.
    """
    try:
        return converter(t)(value)
    except Mismatch as mismatch:
        detail = f": {mismatch}" if str(mismatch) else ""
        raise RuntimeError(
            f"Expected a value of type '{t.annotation}' for {what} but instead found type "
            f"'{_class_name(value)}'{detail}"
        ) from None


def with_checked_result(function: Callable[..., object], t: Type) -> Callable[..., Any]:
    """A function of Python whose result is to be of type `t`, converted as an argument would be.

    The function raises RuntimeError where its result is not of the type.
    """
    if t in (T.ANY, T.NONE, T.PY_OBJECT):
        return function
    convert = converter(t)

    @functools.wraps(function)
    def call(*args: object) -> Any:
        result = function(*args)
        try:
            return convert(result)
        except Mismatch as mismatch:
            detail = f": {mismatch}" if str(mismatch) else ""
            raise RuntimeError(
                f"{getattr(function, '__name__', 'the function')}() expected value of type {t.annotation} for return "
                f"value but instead got value of type {type(result).__name__}{detail}"
            ) from None

    return call


def _mismatch_text(schema: Schema, position: int, value: object, detail: str) -> str:
    formal = schema.arguments[position]
    inferred = " (inferred)" if formal.inferred else ""
    lines = [
        f"{schema.name}() Expected a value of type '{formal.type.annotation}{inferred}' for argument '{formal.name}' "
        f"but instead found type '{_class_name(value)}'."
    ]
    if formal.inferred:
        lines.append(
            f"Inferred '{formal.name}' to be of type '{formal.type.annotation}' because it was not annotated with an "
            "explicit type."
        )
    lines += [f"Position: {position}", f"Value: {_shown(value)}", f"Declaration: {schema}"]
    if detail:
        lines.append(f"Cast error details: {detail}")
    hint = hint_for_argument(formal.type, formal.name, value)
    return "\n".join([*lines, *([f"hint: {hint}"] if hint else [])])


def _class_name(value: object) -> str:
    """The name of a value's class; of a named tuple, with its fields."""
    name = type(value).__name__
    fields = getattr(value, "_fields", None)
    return name if fields is None else f"{name} (aka NamedTuple({', '.join(fields)}))"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 500 else f"{text[:500]}..."


def _fail_superfluous(schema: Schema, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    given = len(args) + len(kwargs)
    hint = _keyword_hint(schema, kwargs)
    raise RuntimeError(
        f"{schema.name}() expected at most {len(schema.arguments)} argument(s) but received {given} argument(s). "
        f"Declaration: {schema}{hint}"
    )


def _fail_missing(schema: Schema, formal: Argument, kwargs: Mapping[str, object]) -> None:
    hint = _keyword_hint(schema, kwargs)
    raise RuntimeError(f"{schema.name}() is missing value for argument '{formal.name}'. Declaration: {schema}{hint}")


def _fail_keywords(schema: Schema, positional: int, kwargs: Mapping[str, object]) -> None:
    for formal in schema.arguments[:positional]:
        if formal.name in kwargs:
            raise RuntimeError(
                f"Argument '{formal.name}' specified both as positional and keyword argument. Schema: {schema}"
            )
    unknown = next(name for name in kwargs if schema.argument_index(name) is None)
    hint = _keyword_hint(schema, kwargs)
    raise RuntimeError(f"Unknown keyword argument '{unknown}' for operator '{schema.name}'. Schema: {schema}{hint}")


def _keyword_hint(schema: Schema, kwargs: Mapping[str, object]) -> str:
    names = [a.name for a in schema.arguments]
    hints = [(name, did_you_mean(name, names)) for name in kwargs if name not in names]
    return "".join(f"\nhint: '{name}': {hint}" for name, hint in hints if hint)


# -- conversion


def converter(t: Type) -> Converter:
    """The function that gives a value in the form its type asks for, the value itself if it can.

    The function raises `Mismatch` where the value is not of the type.
    """
    return T.cached_on(t, "conversion", _make_converter)


def _make_converter(t: Type) -> Converter:
    simple = _SIMPLE.get(t)
    if simple is not None:
        return simple
    for kind, make in _MAKERS:
        if isinstance(t, kind):
            return make(t)
    has_type = checker(t)

    def as_is(value: object) -> Any:
        if has_type(value):
            return value
        raise Mismatch

    return as_is


objects_met: list[object] = [None]
"""Holds something else each time that an object such as a dtype was given for an int."""


def _meet(value: object) -> Any:
    """Take notice of such objects in a value that needs no conversion."""
    if value.__class__ not in PLAIN and holds_object(value):
        objects_met[0] = object()
    return value


def _to_int(value: object) -> Any:
    if isinstance(value, int):
        return value
    if isinstance(value, INT_OBJECTS):
        return _meet(value)
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        return int(value.item())
    if hasattr(value, "__index__") and not isinstance(value, torch.Tensor):
        return operator.index(value)
    raise Mismatch


def _to_float(value: object) -> Any:
    if isinstance(value, float | int):
        return value
    return _number_of(value, ("__float__",), float)


def _to_complex(value: object) -> Any:
    if isinstance(value, complex | float | int):
        return value
    return _number_of(value, ("__complex__", "__float__"), complex)


def _number_of(value: object, conversions: tuple[str, ...], number: Callable[[Any], Any]) -> Any:
    """Numbers of numpy and the like, and tensors with one element."""
    if isinstance(value, torch.Tensor):
        if value.numel() == 1 and not (value.is_complex() and number is float):
            return number(value.item())
    elif any(hasattr(value, c) for c in conversions) and not hasattr(value, "__len__"):
        return number(value)
    elif getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return number(value.item())
    raise Mismatch


def _to_bool(value: object) -> Any:
    if isinstance(value, bool):
        return value
    if value is None or isinstance(value, int | float | torch.Tensor) or type(value).__module__ == "numpy":
        return bool(value)
    raise Mismatch


def _to_number(value: object) -> Any:
    if isinstance(value, int | float | complex):
        return value
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    return _to_int(value) if hasattr(value, "__index__") else _to_complex(value)


def _to_tensor(value: object) -> Any:
    if isinstance(value, torch.Tensor) or value is None:  # TorchScript takes None for a tensor that is not there
        return value
    raise Mismatch


def _to_string(value: object) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):  # TorchScript takes them for the text that they are in UTF-8
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise Mismatch(f"the bytes are no text in UTF-8: {error.reason}") from None
    raise Mismatch


def _to_device(value: object) -> Any:
    if isinstance(value, torch.device):
        return value
    if isinstance(value, str):
        return torch.device(value)
    raise Mismatch


_SIMPLE: dict[Type, Converter] = {
    T.INT: _to_int,
    T.FLOAT: _to_float,
    T.COMPLEX: _to_complex,
    T.BOOL: _to_bool,
    T.NUMBER: _to_number,
    T.TENSOR: _to_tensor,
    T.DEVICE: _to_device,
    T.STRING: _to_string,
    T.ANY: _meet,
}


def _convert_part(value: object, t: Type, what: str) -> Any:
    try:
        return converter(t)(value)
    except Mismatch as inner:
        reason = str(inner) or f"is a '{type(value).__name__}' and not a '{t.annotation}'"
        raise Mismatch(f"{what}: {reason}" if reason[0].isupper() else f"{what} {reason}") from None


def _convert_all(values: Iterable[object], element: Type, what: str) -> list[Any]:
    return [_convert_part(value, element, f"{what} {index}") for index, value in enumerate(values)]


def _to_list(t: T.ListType) -> Converter:
    classes = classes_as_they_are(t.element)
    # looking for one class takes half as long as looking for several
    plain, commonest = frozenset(classes), classes[0] if classes else type(None)

    def convert(value: Any) -> Any:
        if isinstance(value, list):
            if operator.countOf(map(type, value), commonest) == len(value) or plain.issuperset(map(type, value)):
                return value
            converted = _convert_all(value, t.element, "element")
            return value if all(map(operator.is_, value, converted)) else converted
        if isinstance(value, torch.Tensor | str | bytes | Mapping):
            raise Mismatch
        if isinstance(value, Sequence | Set) or (hasattr(value, "__array__") and getattr(value, "ndim", 1) != 0):
            return _convert_all(value, t.element, "element")
        raise Mismatch

    return convert


def _to_dict(t: T.DictType) -> Converter:
    def convert(value: object) -> Any:
        if not isinstance(value, dict):
            raise Mismatch
        keys = _convert_all(value, t.key, "key")
        values = _convert_all(value.values(), t.value, "value")
        same = all(map(operator.is_, value, keys)) and all(map(operator.is_, value.values(), values))
        return value if same else dict(zip(keys, values, strict=True))

    return convert


def _to_set(t: T.SetType) -> Converter:
    kind = frozenset if t.frozen else set

    def convert(value: object) -> Any:
        if not isinstance(value, set | frozenset):
            raise Mismatch
        elements = _convert_all(value, t.element, "element")
        same = isinstance(value, kind) and all(map(operator.is_, value, elements))
        return value if same else kind(elements)

    return convert


def _to_tuple(t: T.TupleType) -> Converter:
    def convert(value: object) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            value = tuple(value)
        if not isinstance(value, tuple | list):
            raise Mismatch
        parts = plain_tuple(value) if isinstance(value, tuple) else tuple(value)
        if len(parts) != len(t.elements):
            raise Mismatch(f"has {len(parts)} elements and not {len(t.elements)}")
        fields: Any = getattr(value, "_fields", t.names)
        if t.names is not None and fields != t.names:
            raise Mismatch(f"has the fields {', '.join(fields)}")
        pairs = enumerate(zip(parts, t.elements, strict=True))
        converted = [_convert_part(v, e, f"element {i}") for i, (v, e) in pairs]
        if isinstance(value, tuple) and reads_as_tuple(type(value)) and all(map(operator.is_, parts, converted)):
            return value
        if hasattr(value, "_make"):
            return value._make(converted)
        return tuple(converted)

    return convert


def _to_union(t: T.UnionType) -> Converter:
    """A member the value already is of, or the only container that takes it; for Optional also what the member would
    convert."""
    is_member = checker(t)
    element = converter(T.without_none(t)) if isinstance(t, T.OptionalType) else None

    def convert(value: object) -> Any:
        if value is None and T.NONE in t.members:
            return None
        if element is not None:
            return element(value)
        if is_member(value):
            return _meet(value)
        found = _converted_to_member(value, t)
        if found is not _missing:
            return found
        raise Mismatch(f"Expected a member of {t.annotation} but instead found type {type_of_value(value).annotation}")

    return convert


def _converted_to_member(value: object, t: T.UnionType) -> Any:
    """A tuple, list or dict as a member of a union that it is not of yet; `_missing` where none or several take it."""
    if isinstance(value, tuple) and checker(t)(list(plain_tuple(value))):
        return list(plain_tuple(value))
    found = []
    for member in t.members:
        if isinstance(member, T.ListType | T.TupleType | T.DictType | T.SetType | T.EnumType):
            with suppress(Mismatch):
                found.append(converter(member)(value))
    return found[0] if len(found) == 1 else _missing


def _to_object(t: T.ClassType) -> Converter:
    """An object whose attributes are of the types that the class was compiled with."""
    has_type = checker(t)

    def convert(value: object) -> Any:
        if not has_type(value):
            missing = next((name for name in t.attributes if not hasattr(value, name)), None)
            raise Mismatch("" if missing is None or t.is_module else f"missing attribute {missing}")
        if t.is_module or t.definition is None:
            return value
        for name, wanted in t.attributes.items():
            found = getattr(value, name, _missing)
            if found is _missing:
                raise Mismatch(f"missing attribute {name}: an object of {t.annotation} has one")
            if not T.is_named(wanted):  # objects in it may lead back to this one, and were checked when they were made
                try:
                    converter(wanted)(found)
                except Mismatch:
                    raise Mismatch(f"Could not cast attribute '{name}' to type {wanted.annotation}") from None
        return value

    return convert


_missing = object()


def _to_enum(t: T.EnumType) -> Converter:
    """A member; of a class of the same name and with the same value, for programs that come from archives."""
    has_type, members = checker(t), getattr(t.python_class, "__members__", {})

    def convert(value: object) -> Any:
        if has_type(value):
            return value
        if isinstance(value, enum.Enum) and _plain_name(qualified_name(type(value))) == _plain_name(t.qualified_name):
            same = members.get(value.name)
            if same is not None and same.value == value.value:
                return same
        raise Mismatch

    return convert


def _plain_name(qualified: str) -> str:
    """Without what the second class of one name gets in an archive."""
    return re.sub(r"\.___torch_mangle_\d+", "", qualified)


def _to_interface(t: T.InterfaceType) -> Converter:
    has_type = checker(t)

    def convert(value: object) -> Any:
        found = class_type_of(value)
        if found is not None and found.definition is not None:
            found.definition.infer_results(t)
        if has_type(value):
            return value
        if found is not None:
            raise Mismatch(T.why_not_interface(found, t) or "")
        missing = ", ".join(name for name in t.methods if not callable(getattr(value, name, None)))
        raise Mismatch(
            f"the value is not a TorchScript compatible type, and its class '{type(value).__name__}' is not compatible "
            f"with interface {t.annotation}" + (f": it does not have method {missing}" if missing else "")
        )

    return convert


_MAKERS: tuple[tuple[Any, Callable[[Any], Converter]], ...] = (
    (T.ClassType, _to_object),
    (T.EnumType, _to_enum),
    (T.InterfaceType, _to_interface),
    (T.UnionType, _to_union),
    (T.ListType, _to_list),
    (T.DictType, _to_dict),
    (T.SetType, _to_set),
    (T.TupleType, _to_tuple),
)
