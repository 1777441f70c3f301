"""Types as users write them: from type expressions and from Python's annotation objects.

    Optional[List[int]]    list[int] | None    "t.Optional[t.List[int]]"    torch.Tensor    Tuple[()]

A name means what Python says it means where it stands (`resolve`), so aliases and renamed imports work; names that
Python does not know there mean TorchScript's own types, so `List[Tensor]` needs no import in a type comment.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
import typing
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import typing_extensions

from jitlite.base.errors.type_names import ENUM_VALUES, MALFORMED_TYPE, NO_ELEMENT_TYPE, UNKNOWN_TYPE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.type_names import (
    ARITY,
    BARE,
    CONSTRUCTOR_NAMES,
    LEGACY_TENSOR,
    NAMES,
    OBJECTS,
    construct,
    constructor_of,
    find,
    nearest_constructor,
    suggestion,
    unknown_object,
)
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.python_ast import parse_expression
from jitlite.ir.constants import enum_type, module_name, qualified_name, type_of_constant
from jitlite.ir.types import (
    ANY,
    FLOAT,
    INT,
    NONE,
    TENSOR,
    AwaitType,
    EnumType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    unify_all,
)

Resolve = Callable[[str], object]
"""The Python object a (dotted) name denotes; None, or an exception, where there is none."""
ClassTypes = Callable[[type], Type | None]
"""The type of instances of a Python class, None where it cannot have one."""

T = TypeVar("T")

_BROADCASTING = re.compile(r"BroadcastingList(\w*)$")
_SIZE_ALIAS = re.compile(r"_size_([1-9])_t$")


@dataclass(frozen=True)
class ParameterType:
    """The type of a parameter; a list with `broadcast` N also takes a single value, which stands for N equal ones."""

    type: Type
    broadcast: int | None = None


def parse_type(
    expr: t.Expr,
    resolve: Resolve | None = None,
    *,
    class_types: ClassTypes | None = None,
    bare_containers: bool = False,
) -> Type:
    """The type that a type expression means.

    Args:
        expr: the expression.
        resolve: what names denote where it stands.
        class_types: the types of classes that are neither named tuples nor enums.
        bare_containers: allow `list`, `dict` and `tuple` without arguments, as in isinstance.

    Raises:
        CompileError: it is no type of TorchScript.
    """
    return _Reader(resolve, class_types, bare_containers).expression(expr)


def parse_parameter_type(
    expr: t.Expr, resolve: Resolve | None = None, *, class_types: ClassTypes | None = None, nearest: bool = False
) -> ParameterType:
    """Like `parse_type`, for a parameter, which may be a `BroadcastingListN[int]` or `[float]`, also optional.

    Args:
        nearest: of a generic type that several types of TorchScript are, take one: of a Sequence, a List.

    Raises:
        CompileError: it is no type of TorchScript.
    """
    reader = _Reader(resolve, class_types, False, nearest)
    name = _dotted_name(expr) or ""
    alias = _SIZE_ALIAS.search(name)
    if alias is not None:  # torch.nn's own names for what its functions take
        return ParameterType(ListType.of(INT), int(alias.group(1)))
    repeated = _any_length(expr) if nearest else None
    if repeated is not None:
        return ParameterType(ListType.of(reader.expression(repeated)))
    if isinstance(expr, t.Subscript) and len(expr.indices) == 1:
        name = (_dotted_name(expr.value) or "").rpartition(".")[2]
        broadcasting = _BROADCASTING.match(name)
        if broadcasting is not None:
            if re.fullmatch("[1-9][0-9]*", broadcasting.group(1)) is None:
                raise MALFORMED_TYPE(
                    f"subscript of Broadcasting list must be a positive integer: {name}", expr.value.range
                )
            element = reader.expression(expr.indices[0])
            if element not in (INT, FLOAT):
                raise MALFORMED_TYPE(
                    f"{name} takes int or float", expr.indices[0].range, found=element.annotation, hint="use List[T]"
                )
            return ParameterType(ListType.of(element), int(broadcasting.group(1)))
        if name == "Optional":
            inner = parse_parameter_type(expr.indices[0], resolve, class_types=class_types, nearest=nearest)
            if inner.broadcast is not None:
                return ParameterType(OptionalType.of(inner.type), inner.broadcast)
    return ParameterType(reader.expression(expr))


def type_from_python(
    annotation: object,
    range: SourceRange | None,
    resolve: Resolve | None = None,
    *,
    class_types: ClassTypes | None = None,
    bare_containers: bool = False,
) -> Type:
    """The type that an annotation object means: `typing.List[int]`, `int | None`, `"Tensor"`, a class ...

    `Final[T]` is T. The arguments are those of `parse_type`; errors point at `range`.

    Raises:
        CompileError: it is no type of TorchScript.
    """
    return _Reader(resolve, class_types, bare_containers).python(annotation, range)


def _dotted_name(expr: t.Expr) -> str | None:
    parts = []
    while isinstance(expr, t.Select):
        parts.append(expr.name.name)
        expr = expr.value
    return ".".join([expr.name.name, *reversed(parts)]) if isinstance(expr, t.Var) else None


@dataclass(frozen=True)
class _Reader:
    """Reads types where names have one meaning."""

    resolve: Resolve | None
    class_types: ClassTypes | None
    bare_containers: bool
    nearest: bool = False

    def denoted(self, name: str) -> object:
        """What a name denotes in Python, None for nothing."""
        if self.resolve is None:
            return None
        try:
            return self.resolve(name)
        except (NameError, AttributeError, LookupError):
            return None

    # Type expressions

    def expression(self, expr: t.Expr) -> Type:
        match expr:
            case t.NoneLiteral():
                return NONE
            case t.StringLiteral():
                return self.expression(parse_expression(expr.value, expr.range))
            case t.Var() | t.Select():
                return self.name(expr)
            case t.Subscript():
                return self.subscript(expr)
            case t.BinOp(op="|"):
                return UnionType.of(self.alternatives(expr))
        what = "this is not a type"
        if isinstance(expr, t.BinOp):
            what = f"Expression of type {expr.op} cannot be used in a type expression"
        is_tuple = isinstance(expr, t.TupleLiteral)
        hint = (
            "several types are one tuple: Tuple[int, Tensor]"
            if is_tuple
            else "write a type like int, Tensor or List[int]"
        )
        raise MALFORMED_TYPE(what, expr.range, hint=hint)

    def alternatives(self, expr: t.Expr) -> list[Type]:
        """Types joined by `|`, from left to right."""
        found = []
        while isinstance(expr, t.BinOp) and expr.op == "|":
            found.append(self.expression(expr.right))
            expr = expr.left
        return [self.expression(expr), *reversed(found)]

    def name(self, expr: t.Expr) -> Type:
        name = _dotted_name(expr)
        if name is None:
            raise MALFORMED_TYPE("this is not a type", expr.range)
        _not_broadcasting(name, expr.range)
        denoted = self.denoted(name)
        if denoted is not None:
            return self.python(denoted, expr.range, name)
        short = self.short(name)
        if short in NAMES:
            return NAMES[short]
        if short in CONSTRUCTOR_NAMES:
            return self.bare(CONSTRUCTOR_NAMES[short], short, expr.range)
        raise UNKNOWN_TYPE(f"Unknown type name '{name}'", expr.range, hint=suggestion(name))

    def short(self, name: str) -> str:
        """A name that Python does not know, without the modules that TorchScript knows."""
        module, _, last = name.rpartition(".")
        return last if module in ("typing", "torch", "torch.jit", "builtins") else name

    def subscript(self, expr: t.Subscript) -> Type:
        name = _dotted_name(expr.value)
        if name is None:
            raise MALFORMED_TYPE("Subscripted type must be a type identifier", expr.range)
        _not_broadcasting(name, expr.range)
        denoted = self.denoted(name)
        if denoted in (typing.Literal, typing_extensions.Literal):
            return literal_type([_literal(e, self) for e in _listed(expr.indices)], expr.range)
        if denoted in (typing.Annotated, typing_extensions.Annotated):
            return self.expression(_listed(expr.indices)[0])
        constructor = CONSTRUCTOR_NAMES.get(self.short(name)) if denoted is None else constructor_of(denoted)
        if constructor is None and self.nearest:
            constructor = nearest_constructor(denoted)
        if constructor is None:
            hint = suggestion(name) or "only List, Dict, Tuple, Optional, Union, Future, Await and RRef take types"
            raise MALFORMED_TYPE(f"Unknown type constructor {name}", expr.value.range, hint=hint)
        if constructor == "Final":
            raise MALFORMED_TYPE("Final is only for attributes of classes", expr.range, hint="leave out Final[...]")
        arguments = _listed(expr.indices)
        return self.construct(constructor, arguments, self.expression, expr.range)

    # Annotation objects

    def python(self, annotation: object, place: SourceRange | None, name: str | None = None) -> Type:
        """The type an object means; `name` is how the user called it, for errors."""
        if isinstance(annotation, Type):
            return annotation
        if isinstance(annotation, typing.ForwardRef):
            annotation = annotation.__forward_arg__
        if isinstance(annotation, str):
            return self.expression(parse_expression(annotation, place))
        simple = find(OBJECTS, annotation)
        if simple is not None:
            return simple
        constructor = constructor_of(annotation)
        if constructor is not None:
            return self.bare(constructor, name or constructor, place)
        origin = typing.get_origin(annotation)
        if origin in (typing.Literal, typing_extensions.Literal):
            return literal_type(typing.get_args(annotation), place)
        if origin in (typing.Annotated, typing_extensions.Annotated):
            return self.python(typing.get_args(annotation)[0], place, name)
        if isinstance(annotation, typing.NewType):
            return self.python(annotation.__supertype__, place, name)
        constructor = constructor_of(origin)
        if constructor is None and self.nearest:
            constructor = nearest_constructor(origin)
        if constructor is not None:
            arguments = typing.get_args(annotation)
            return self.construct(
                constructor, () if arguments == ((),) else arguments, lambda a: self.python(a, place), place
            )
        found = self.python_class(annotation, place)
        if found is None:
            raise unknown_object(annotation, place, name)
        return found

    def python_class(self, cls: object, place: SourceRange | None) -> Type | None:
        """The type of instances of a class."""
        if isinstance(cls, LEGACY_TENSOR):
            warnings.warn(
                "TorchScript will treat type annotations of Tensor dtype-specific subtypes as if they are normal "
                "Tensors. dtype constraints are not enforced in compilation either.",
                stacklevel=2,
            )
            return TENSOR
        if not isinstance(cls, type):
            return None
        if issubclass(cls, torch.Tensor):
            return TENSOR
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self.named_tuple(cls, place)
        if issubclass(cls, enum.Enum):
            return self.enum(cls, place)
        return None if self.class_types is None else self.class_types(cls)

    def named_tuple(self, cls: type, place: SourceRange | None) -> Type:
        """Fields without annotation (`collections.namedtuple`) are tensors."""
        names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
        other = next((n for n in ("__iter__", "__getitem__") if getattr(cls, n) is not getattr(tuple, n)), None)
        if other is not None:
            raise UNKNOWN_TYPE(
                f"the named tuple '{cls.__name__}' defines {other}, so its fields are not what it is made of", place,
                hint="give the method another name, or use a dataclass",
            )  # fmt: skip
        annotations: dict[str, object] = {}
        for base in reversed(cls.__mro__):
            annotations.update(inspect.get_annotations(base))
        defined_in = sys.modules.get(module_name(cls))

        def resolve(name: str) -> object:
            first, *rest = name.split(".")
            found: object = getattr(defined_in, first, None)
            for attribute in rest:
                found = getattr(found, attribute, None)
            return self.denoted(name) if found is None else found

        inner = _Reader(resolve, self.class_types, False)
        elements = [inner.python(annotations[n], place) if n in annotations else TENSOR for n in names]
        return TupleType.of(elements, names, qualified_name(cls), cls)

    def enum(self, cls: type[enum.Enum], place: SourceRange | None) -> Type:
        values = {type(member.value): None for member in cls}
        if not values:
            raise ENUM_VALUES(f"No enum values defined for '{cls.__name__}'", place)
        value_type = unify_all(OBJECTS.get(value, ANY) for value in values)
        if value_type is None:
            found = " and ".join(sorted(value.__name__ for value in values))
            raise ENUM_VALUES(
                f"Could not unify type list: the members of enum '{cls.__name__}' have values of several types",
                place,
                found=found,
                hint="give all members values of one type",
            )
        of_containers = enum_type(cls) if value_type is ANY else None
        return of_containers or EnumType.of(qualified_name(cls), cls, value_type)

    # Both

    def bare(self, constructor: str, spelled: str, place: SourceRange | None) -> Type:
        """A container without the types of what it contains."""
        if self.bare_containers and constructor in BARE:
            return BARE[constructor]
        if constructor == "Await":
            return AwaitType.of(ANY)
        if constructor == "Dict":
            what, example = "contained types. Please add contained type", f"{spelled}[int, int]"
        else:
            what, example = "a contained type. Please add a contained type", f"{spelled}[int]"
        raise NO_ELEMENT_TYPE(f"Attempted to use {spelled} without {what}, e.g. {example}", place)

    def construct(
        self, name: str, arguments: Sequence[T], read: Callable[[T], Type], place: SourceRange | None
    ) -> Type:
        """`name[arguments]`."""
        _check_arity(name, len(arguments), place)
        if any(a is ... or isinstance(a, t.Dots) for a in arguments):
            raise MALFORMED_TYPE("the length of a tuple must be known", place, hint="use List[T] for any number of T")
        contained = [read(a) for a in arguments]
        return construct(name, contained, place)


def _check_arity(name: str, given: int, place: SourceRange | None) -> None:
    wanted = ARITY.get(name)
    if (wanted is not None and wanted != given) or (name == "Union" and not given):
        expected = "at least one type" if wanted is None else f"{wanted} type{'s' if wanted > 1 else ''}"
        raise MALFORMED_TYPE(f"wrong number of types for {name}", place, expected=expected, found=str(given))


def _listed(indices: Sequence[t.Expr]) -> Sequence[t.Expr]:
    """What stands in the brackets of a generic type."""
    only = indices[0] if len(indices) == 1 else None
    return only.elements if isinstance(only, t.TupleLiteral) else indices


def _any_length(expr: t.Expr) -> t.Expr | None:
    """What a tuple of any length, `Tuple[T, ...]`, has for elements; None for another type."""
    if not isinstance(expr, t.Subscript):
        return None
    name = (_dotted_name(expr.value) or "").rpartition(".")[2]
    parts = _listed(expr.indices)
    is_one = name in ("Tuple", "tuple") and len(parts) == 2 and isinstance(parts[1], t.Dots)
    return parts[0] if is_one else None


def _literal(expr: t.Expr, reader: _Reader) -> object:
    """The value that stands in a Literal."""
    match expr:
        case t.StringLiteral() | t.Const():
            return expr.value
        case t.TrueLiteral() | t.FalseLiteral():
            return isinstance(expr, t.TrueLiteral)
        case t.NoneLiteral():
            return None
    return reader.denoted(_dotted_name(expr) or "")


def literal_type(values: Sequence[object], place: SourceRange | None) -> Type:
    """The type of the values of a Literal. Which of its values one has is not checked, as in Python."""
    found = [type_of_constant(value) for value in values]
    common = unify_all([f for f in found if f is not None], default_to_union=True)
    if common is None or None in found:
        raise ENUM_VALUES("the values of a Literal have to be numbers, strings, None or members of enums", place)
    return common


def _not_broadcasting(name: str, place: SourceRange) -> None:
    if _BROADCASTING.search(name):
        raise MALFORMED_TYPE(f"{name} can only be the type of a parameter", place, hint="use List[T]")
