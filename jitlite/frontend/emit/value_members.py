"""What classes of values that are no objects have beside fields and members: methods, properties, constants."""

from __future__ import annotations

import enum
import inspect

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.denotations import LibraryFunction, PythonFunction, sugared_from_python
from jitlite.frontend.emit.enum_members import EnumClass, attribute_of_members
from jitlite.frontend.emit.iterable_library import fromkeys
from jitlite.frontend.emit.named_tuples import BoundFunction, member_of_named_tuple
from jitlite.frontend.emit.values import Args, ConstantValue, SimpleValue, SpecialForm, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.overloads import NamedValue


class _ClassMethod(SugaredValue):
    """A class method of an enum, whose first argument is the class."""

    is_function = True
    takes_functions = True

    def __init__(self, function: SugaredValue, owner: SugaredValue, name: str) -> None:
        self.function = function
        self.owner = owner
        self.kind = f"the class method {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        this = NamedValue(None, constant=self.owner, range=range)
        return self.function.call(b, range, [this, *args], kwargs)


def member_of_value(scope: Scope, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue | None:
    """What the class of a named tuple or of a member of an enum has under a name; None for other values and names."""
    if isinstance(value.type, T.EnumType):
        return _member_of_enum(scope, b, range, value, name)
    return member_of_named_tuple(scope, b, range, value, name)


def _member_of_enum(scope: Scope, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue | None:
    assert isinstance(value.type, T.EnumType)
    found = _own_attribute(value.type.python_class, name)
    if isinstance(found, property) and found.fget is not None:
        return PythonFunction(scope, found.fget).call(b, range, [NamedValue(None, value, range=range)], [])
    if inspect.isfunction(found):
        return BoundFunction(sugared_from_python(scope, found, name, range), value, name)
    if found is not None:
        return member_of_class(scope, EnumClass(value.type), name, range)
    given = attribute_of_members(b, range, value, name)
    return None if given is None else SimpleValue(given)


def member_of_class(scope: Scope, owner: SugaredValue, name: str, range: SourceRange) -> SugaredValue | None:
    """`dict.fromkeys`, and a function or constant of an enum class; None for anything else."""
    if isinstance(owner, SpecialForm) and owner.form == "dict" and name == "fromkeys":
        return LibraryFunction(scope, fromkeys, dict.fromkeys)
    found = _own_attribute(owner.cls, name) if isinstance(owner, EnumClass) else None
    if isinstance(found, classmethod):
        return _ClassMethod(PythonFunction(scope, found.__func__), owner, name)
    if isinstance(found, staticmethod):
        return sugared_from_python(scope, found.__func__, name, range)
    if inspect.isfunction(found):
        return sugared_from_python(scope, found, name, range)
    return None if found is None or isinstance(found, property) else ConstantValue(found)


def _own_attribute(cls: type, name: str) -> object:
    """What an enum class has under a name, if it is no member and not every enum has it."""
    if name in getattr(cls, "__members__", {}) or name.startswith("_"):
        return None
    return next((vars(c)[name] for c in cls.__mro__ if _is_own(c) and name in vars(c)), None)


def _is_own(cls: type) -> bool:
    return issubclass(cls, enum.Enum) and cls.__module__ != "enum"
