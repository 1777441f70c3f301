"""`dataclasses.replace`, `asdict`, `astuple` and `fields`, as calls and displays of what the fields hold."""

from __future__ import annotations

import dataclasses

from jitlite.base.errors.calls import WRONG_ARGUMENTS
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.type_tests import python_object
from jitlite.frontend.emit.values import ConstantValue, SimpleValue, SpecialForm, SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type

_SHARED = (T.INT, T.FLOAT, T.BOOL, T.STRING, T.COMPLEX, T.NONE, T.DEVICE)
"""Types whose values `asdict` need not copy."""


@form("dataclass_replace", 1, 1, ["*"])
def emit_replace(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue | Value:
    this = em.emit(call.args[0])
    cls = _dataclass_of(this, "replace", call.args[0].range)
    given = {keyword.name.name for keyword in call.keywords}
    kept = [
        tree.KeywordArgument(tree.Ident(f.name, range=call.range), _field(this, f.name, call.range), range=call.range)
        for f in dataclasses.fields(cls)
        if f.init and f.name not in given
    ]
    made = KnownValue(sugared_from_python(em, cls, cls.__name__, call.range), range=call.range)
    return em.emit_sugared(tree.Apply(made, (), (*call.keywords, *kept), range=call.range))


@form("dataclass_asdict", 1, 1)
def emit_asdict(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue | Value:
    return em.emit_sugared(_display(em, em.emit(call.args[0]), "asdict", call.range))


@form("dataclass_astuple", 1, 1)
def emit_astuple(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue | Value:
    return em.emit_sugared(_display(em, em.emit(call.args[0]), "astuple", call.range))


@form("dataclass_fields", 1, 1)
def emit_fields(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue | Value:
    where = call.args[0].range
    cls = python_object(em, call.args[0])
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        cls = _dataclass_of(em.emit(call.args[0]), "fields", where)
    return SugaredTuple([_Field(f.name) for f in dataclasses.fields(cls)])


class _Field(SugaredValue):
    """An entry of `dataclasses.fields`, of which scripts read the name."""

    kind = "a field of a dataclass"

    def __init__(self, name: str) -> None:
        self.name = name

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        return ConstantValue(self.name) if name == "name" else super().attr(b, range, name)


def _dataclass_of(value: Value, function: str, range: SourceRange) -> type:
    """The dataclass that a value is an object of.

    Raises:
        CompileError: it is none.
    """
    cls: type | None = value.type.python_class if isinstance(value.type, T.ClassType) else None
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise WRONG_ARGUMENTS(
            f"dataclasses.{function}() takes an object of a dataclass", range,
            expected="an object of a dataclass", found=value.type.annotation,
        )  # fmt: skip
    return cls


def _field(this: Value, name: str, range: SourceRange) -> tree.Expr:
    return tree.Select(KnownValue(SimpleValue(this), range=range), tree.Ident(name, range=range), range=range)


def _display(em: Emitter, this: Value, function: str, range: SourceRange) -> tree.Expr:
    """The dict or tuple of what the fields of an object hold."""
    names = [f.name for f in dataclasses.fields(_dataclass_of(this, function, range))]
    values = tuple(_copied(em, em.emit(_field(this, name, range)), name, function, range) for name in names)
    if function == "astuple":
        return tree.TupleLiteral(values, range=range)
    return tree.DictLiteral(tuple(tree.StringLiteral(n, range=range) for n in names), values, range=range)


def _copied(em: Emitter, held: Value, name: str, function: str, range: SourceRange) -> tree.Expr:
    """What Python puts for the value of a field: a copy, of a dataclass what its fields hold."""
    if isinstance(held.type, T.ClassType) and dataclasses.is_dataclass(held.type.python_class):
        return _display(em, held, function, range)
    if isinstance(held.type, T.ListType | T.DictType) and all(_is_shared(part) for part in held.type.contained):
        return KnownValue(SimpleValue(em.op("aten::copy", [held], range=range)), range=range)
    if not _is_shared(held.type):
        raise WRONG_ARGUMENTS(
            f"dataclasses.{function}() copies what the field '{name}' holds, which a script cannot do",
            range, hint="make the dict or tuple of the fields that are needed", found=held.type.annotation,
        )  # fmt: skip
    return KnownValue(SimpleValue(held), range=range)


def _is_shared(t: Type) -> bool:
    if isinstance(t, T.TupleType):
        return t.names is None and all(map(_is_shared, t.elements))
    return t in _SHARED or isinstance(t, T.EnumType) or (isinstance(t, T.UnionType) and all(map(_is_shared, t.members)))
