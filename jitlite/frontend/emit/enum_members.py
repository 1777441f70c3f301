"""An Enum class as a value: its members by name, by value and in order.

Which member a value or a name of run time means is asked of each in turn: in graphs members are constants only.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from jitlite.base.errors.calls import WRONG_COUNT
from jitlite.base.errors.names import NO_ATTRIBUTE
from jitlite.base.errors.type_names import ENUM_VALUES
from jitlite.base.source import SourceRange, did_you_mean
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.values import Args, SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.types import Type

_Class = type[enum.Enum]
_Failure = tuple[Value, type[Exception]]
"""The text and the class of an exception."""


class EnumClass(SugaredValue):
    """A Python Enum."""

    is_function = True

    def __init__(self, type: T.EnumType) -> None:
        self.type = type
        self.cls: _Class = type.python_class
        self.kind = f"the enum {self.cls.__name__}"

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        members = self.cls.__members__
        if name == "__members__":
            return SimpleValue(self._by_name(b, range))
        if name not in members:
            raise NO_ATTRIBUTE(
                f"enum '{self.cls.__name__}' has no attribute '{name}'",
                range,
                hint=did_you_mean(name, members) or f"it has: {', '.join(members)}",
            )
        return SimpleValue(b.constant(members[name], range, self.type))

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        """The member of a value.

        Raises:
            CompileError: where the class says itself what a value that no member has means.
        """
        if len(args) != 1 or kwargs:
            raise WRONG_COUNT(f"{self.kind} takes the value of a member", range, found=f"{len(args) + len(kwargs)}")
        if issubclass(self.cls, enum.Flag) or "_missing_" in _attributes_of(self.cls):
            raise ENUM_VALUES(
                f"which member of '{self.cls.__name__}' a value means is computed by its class", range,
                hint="name the members: `Color.RED`",
            )  # fmt: skip
        value = args[0].in_graph(b.graph)
        if value.type is self.type:
            return SimpleValue(value)
        found = {member.value: member for member in self.cls}
        if not _may_equal(b.enum_value(value, range).type, self.type.value_type):
            found = {}
        text = b.op("aten::str", [value], range=range)
        message = b.op("aten::add", [text, b.constant(f" is not a valid {self.cls.__qualname__}", range)], range=range)
        plain = b.enum_value(value, range)
        return SimpleValue(self._chosen(b, range, plain, list(found.items()), (message, ValueError)))

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        """The member of a name."""
        if index.type is not T.STRING:
            return super().element(b, range, index)
        members = list(self.cls.__members__.items())
        return SimpleValue(self._chosen(b, range, index, members, (index, KeyError)))

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return SimpleValue(b.make_list(self.type, self.members(b, range)))

    def length(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(len(self.cls), range)

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value | None:
        return b.constant(item.type is self.type, range) if isinstance(item.type, T.EnumType) else None

    def as_argument(self, b: Builder, range: SourceRange) -> Value:
        """The members, for a function that goes through them."""
        return self.iterate(b, range).as_value(b, range)

    def members(self, b: Builder, range: SourceRange) -> list[Value]:
        """The members, as constants, in order."""
        return [b.constant(member, range, self.type) for member in self.cls]

    def _by_name(self, b: Builder, range: SourceRange) -> Value:
        entries = [
            value
            for name, member in self.cls.__members__.items()
            for value in (b.constant(name, range), b.constant(member, range, self.type))
        ]
        return b.node("prim::DictConstruct", entries, [T.DictType.of(T.STRING, self.type)], range).output

    def _chosen(
        self,
        b: Builder,
        range: SourceRange,
        asked: Value,
        members: Sequence[tuple[object, enum.Enum]],
        otherwise: _Failure,
    ) -> Value:
        keys = [b.constant(key, range) for key, _ in members]
        if is_constant(asked):  # `Color["RED"]`
            known = [member for key, member in members if key == constant_of(asked)]
            if known:
                return b.constant(known[0], range, self.type)
        results = [b.constant(member, range, self.type) for _, member in members]
        return chosen(b, range, asked, list(zip(keys, results, strict=True)), self.type, otherwise)


def chosen(
    b: Builder,
    range: SourceRange,
    asked: Value,
    choices: Sequence[tuple[Value, Value]],
    type: Type,
    otherwise: _Failure,
) -> Value:
    """The second value of the pair whose first one is equal to what is asked for; where there is none, an exception of
    the text and class given is raised."""
    if not choices:
        message, cls = otherwise
        name = b.constant(QualifiedClassName(f"builtins.{cls.__name__}", cls), range, T.STRING)
        b.node("prim::RaiseException", [message, name], [], range)
        return b.uninitialized(type)
    (key, result), *others = choices
    choice = b.node("prim::If", [b.op("aten::eq", [asked, key], range=range)], [], range)
    choice.add_block().add_output(result)
    rest = choice.add_block()
    with b.graph.inserting_at_end(rest):
        rest.add_output(chosen(b, range, asked, others, type, otherwise))
    return choice.add_output(type)


def attribute_of_members(b: Builder, range: SourceRange, value: Value, name: str) -> Value | None:
    """What each member of an enum was given under a name when the class was made; None where some have none."""
    assert isinstance(value.type, T.EnumType)
    members: list[enum.Enum] = list(value.type.python_class)
    if not members or any(name not in vars(member) for member in members):
        return None
    if is_constant(value):
        return b.constant(vars(constant_of(value))[name], range)
    given = [b.constant(vars(member)[name], range) for member in members]
    if any(g.type is not given[0].type for g in given):
        raise ENUM_VALUES(
            f"'{name}' is of several types among the members of '{value.type.python_class.__name__}'", range,
            hint="give all members values of one type",
        )  # fmt: skip
    keys = [b.constant(member, range, value.type) for member in members]
    missing = b.constant(name, range), AttributeError
    return chosen(b, range, value, list(zip(keys, given, strict=True)), given[0].type, missing)


def _attributes_of(cls: type) -> set[str]:
    return {name for base in cls.__mro__ if base.__module__ != "enum" for name in vars(base)}


def _may_equal(asked: Type, held: Type) -> bool:
    numbers = (T.INT, T.FLOAT, T.BOOL, T.NUMBER)
    return asked is held or (asked in numbers and held in numbers)
