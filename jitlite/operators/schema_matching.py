"""One schema against one call: does it fit, and how do the inputs of a node follow from the arguments?

Trying a schema looks at types only and gives a `BindingPlan`; `insert_arguments` inserts what the plan of the chosen
one asks for. Read `Matching` first, then `conversions.py` (one type to another).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from jitlite.base.errors.calls import WRONG_ARGUMENTS, WRONG_COUNT, WRONG_KEYWORD
from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.errors.names import MAY_BE_NONE, NOT_A_VALUE
from jitlite.base.source import CompileError, SourceRange
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Graph, Value
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.types import Type
from jitlite.operators.argument_hints import (
    ALWAYS_NONE,
    TEST_FOR_NONE,
    hint_for_argument,
    hint_for_type,
    instead_of_keyword,
)
from jitlite.operators.conversions import (
    Convert,
    construct_list,
    conversion,
    enum_value_type,
    is_empty_literal,
)

NO_CONSTANT: Final[object] = object()
"""Stands for the constant of a `NamedValue` that has none."""


class NamedValue(NamedTuple):
    """An argument of a call: a value of the graph, or a constant that is inserted when it is needed.

    `name` is the keyword, None for a positional argument.
    """

    name: str | None = None
    value: Value | None = None
    constant: object = NO_CONSTANT
    range: SourceRange | None = None

    @property
    def type(self) -> Type:
        """The argument's type.

        Raises:
            CompileError: where the constant is of no type.
        """
        if self.value is not None:
            return self.value.type
        found = type_of_constant(self.constant)
        if found is None:
            what = getattr(self.constant, "kind", f"a {type(self.constant).__name__}")
            hint = getattr(self.constant, "instead_of_value", None)
            raise NOT_A_VALUE(f"{what} cannot be used as a value", self.range, hint=hint)
        return found

    def in_graph(self, graph: Graph) -> Value:
        """The value; a constant is inserted into the graph at its insertion point."""
        return self.value if self.value is not None else graph.insert_constant(self.constant, self.type, self.range)


# -- types of a call ---------------------------------------------------------------------------------------------------


class ActualType(NamedTuple):
    """Type of an argument. An unannotated `[]`, `{}` or `set()` is of whatever is wanted."""

    type: Type
    is_empty_literal: bool


class CallTypes(NamedTuple):
    """Types of a call's arguments; two calls with equal ones choose the same overload."""

    this: ActualType | None
    args: tuple[ActualType, ...]
    kwargs: tuple[tuple[str, ActualType], ...]

    @property
    def actuals(self) -> tuple[ActualType, ...]:
        first = () if self.this is None else (self.this,)
        return (*first, *self.args, *(actual for _, actual in self.kwargs))

    def with_types(self, types: Sequence[Type]) -> CallTypes:
        """The same call with other types of its `actuals`."""
        actuals = [ActualType(t, a.is_empty_literal) for t, a in zip(types, self.actuals, strict=True)]
        this = None if self.this is None else actuals.pop(0)
        names = [name for name, _ in self.kwargs]
        split = len(self.args)
        return CallTypes(this, tuple(actuals[:split]), tuple(zip(names, actuals[split:], strict=True)))

    def __str__(self) -> str:
        shown = [a.type.annotation for a in (self.this, *self.args) if a is not None]
        shown += [f"{name}: {actual.type.annotation}" for name, actual in self.kwargs]
        return f"({', '.join(shown)})"


def _actual(argument: NamedValue) -> ActualType:
    value = argument.value
    if value is None:
        return ActualType(argument.type, False)
    return ActualType(value.type, is_empty_literal(value))


def types_of_call(args: Sequence[NamedValue], kwargs: Sequence[NamedValue], self_value: NamedValue | None) -> CallTypes:
    return CallTypes(
        None if self_value is None else _actual(self_value),
        tuple(_actual(a) for a in args),
        tuple((k.name or "", _actual(k)) for k in kwargs),
    )


# -- one schema --------------------------------------------------------------------------------------------------------


class _GivenArgument(NamedTuple):
    """An input that is argument number `place` of the call."""

    place: int
    convert: Convert | None


class _Collected(NamedTuple):
    """An input that is a list of the remaining positional arguments."""

    type: T.ListType
    items: tuple[_GivenArgument, ...]


class Default(NamedTuple):
    """An input that is a default."""

    value: object
    type: Type | None

    @property
    def key(self) -> tuple[object, ...]:
        return type(self.value), repr(self.value), self.type


class BindingPlan(NamedTuple):
    """How the inputs of a node follow from a call's arguments."""

    slots: tuple[_GivenArgument | _Collected | Default, ...]
    return_types: list[Type]
    return_names: list[str] | None
    constants: tuple[Default, ...] = ()
    """The defaults, in the order in which they are inserted."""
    places: tuple[int, ...] = ()
    """The arguments that are used, in the order in which they are inserted."""


class Mismatch(Exception):
    """A schema does not fit a call. `progress` tells which of several came nearest.

    Attributes:
        place: the number of the argument that does not fit, if it is one.
    """

    place: int | None = None

    def __init__(
        self,
        reason: str,
        progress: int = 0,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
        kind: ErrorKind[CompileError] = WRONG_ARGUMENTS,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.progress = progress
        self.expected = expected
        self.found = found
        self.hint = hint


class Matching:
    """One schema against one call: fills `slots` argument by argument.

    Args:
        allow: make use of implicit conversions.
        seen: collects the defaults that were looked at, also by schemas that do not fit in the end.
        widen: take ints for floats.
    """

    def __init__(
        self,
        schema: Schema,
        call: CallTypes,
        allow: bool,
        seen: dict[tuple[object, ...], Default],
        widen: bool = False,
    ) -> None:
        self.schema = schema
        self.call = call
        self.allow = allow
        self.widen = widen
        self.seen = seen
        self.actuals = call.actuals
        self.first_positional = 0 if call.this is None else 1
        self.first_keyword = self.first_positional + len(call.args)
        self.self_is_free = call.this is not None
        self.used = 0
        self.used_keywords: set[int] = set()
        self.bindings: dict[str, Type] = {}
        self.slots: list[_GivenArgument | _Collected | Default] = []

    def run(self) -> BindingPlan:
        """Match everything.

        Raises:
            Mismatch: where the schema does not fit.
        """
        for position, argument in enumerate(self.schema.arguments):
            self.slots.append(self._slot(position, argument))
        self._check_leftovers()
        returns = self.schema.returns
        types = [T.substitute(r.type, self.bindings) for r in returns]
        names = [r.name for r in returns]
        wanted = {d.key for d in self.slots if isinstance(d, Default)}
        constants = tuple(d for key, d in self.seen.items() if key in wanted)
        places = {s.place for s in self.slots if isinstance(s, _GivenArgument)}
        places |= {item.place for s in self.slots if isinstance(s, _Collected) for item in s.items}
        known_names = names if names and all(names) else None
        return BindingPlan(tuple(self.slots), types, known_names, constants, tuple(sorted(places)))

    def _slot(self, position: int, argument: Argument) -> _GivenArgument | _Collected | Default:
        if self.self_is_free and argument.name == "self":
            self.self_is_free = False
            return self._given(argument, 0)
        if not argument.kwarg_only and self.used < len(self.call.args):
            if self._takes_all_the_rest(position, argument):
                return self._collect(argument)
            self.used += 1
            return self._given(argument, self.first_positional + self.used - 1)
        keyword = self._keyword(argument.name)
        if keyword is not None:
            self.used_keywords.add(keyword)
            return self._given(argument, self.first_keyword + keyword)
        if argument.has_default:
            return self._default(argument)
        self._check_keywords()  # a misspelt keyword is why an argument seems to be missing
        raise self._fail(f"Argument {argument.name} not provided.", kind=WRONG_COUNT)

    def _keyword(self, name: str) -> int | None:
        # functions call `input` what methods call `self`
        also = "input" if name == "self" and self.schema.name.startswith("aten::") else name
        for position, (given, _) in enumerate(self.call.kwargs):
            if given in (name, also):
                return position
        return None

    def _default(self, argument: Argument) -> Default:
        value, formal = argument.default, T.without_none(argument.type)
        if isinstance(formal, T.ListType) and argument.size and isinstance(value, int | float):
            value = [value] * argument.size
        if formal is T.FLOAT and type(value) is int:
            value = float(value)
        default = Default(value, formal if isinstance(value, list | dict) else None)
        return self.seen.setdefault(default.key, default)

    # -- arguments that are given
    def _given(self, argument: Argument, place: int) -> _GivenArgument:
        try:
            convert = self._fit(argument.name, argument.type, argument.size, self.actuals[place], argument)
        except Mismatch as failure:
            failure.place = place
            raise
        return _GivenArgument(place, convert)

    def _fit(self, name: str, formal: Type, size: int | None, actual: ActualType, argument: Argument) -> Convert | None:
        type, repeat = actual.type, None
        element = enum_value_type(type) if self.allow else type
        if self.widen and element is T.INT and T.without_none(formal) is T.ListType.of(T.FLOAT):
            element = T.FLOAT
        if size and element in (T.INT, T.FLOAT) and T.without_none(formal) is T.ListType.of(element):
            first = conversion(element, type, self.allow, widen=self.widen).convert
            type, repeat = T.ListType.of(element), _repeated(T.ListType.of(element), size, first)
        if T.has_variables(formal):
            formal = self._concrete(name, formal, type, actual.is_empty_literal)
        target = conversion(formal, type, self.allow, actual.is_empty_literal, self.widen)
        if not T.is_subtype(target.type, formal):
            raise self._wrong_type(name, formal, actual.type, argument)
        return repeat or target.convert

    def _concrete(self, name: str, formal: Type, actual: Type, is_empty_literal: bool) -> Type:
        """The formal type with its variables bound by what is given."""
        known = T.substitute(formal, self.bindings)
        if is_empty_literal and not T.has_variables(known):
            return known  # `xs + []`: an empty literal says nothing about the elements
        if self.widen and known is T.FLOAT and actual is T.INT:
            return known
        reason = T.match_variables(formal, actual, self.bindings)
        if reason is not None:
            text = f"Could not match type {actual.annotation} to {formal.annotation} in argument '{name}': {reason}."
            wanted = T.substitute(formal, self.bindings)
            hint = hint_for_type(wanted, actual)
            raise self._fail(text, f"{wanted.annotation} for '{name}'", actual.annotation, hint)
        concrete = T.substitute(formal, self.bindings)
        if T.has_variables(concrete):
            raise self._fail(
                f"Type variables in type {formal.annotation} could not be inferred from actual type {actual.annotation}"
            )
        return concrete

    def _takes_all_the_rest(self, position: int, argument: Argument) -> bool:
        """Do the remaining positional arguments make up one list, as in `x.view(2, 3)`?"""
        formal = argument.type
        if not self.allow or not isinstance(formal, T.ListType) or argument.size:
            return False
        following = self.schema.arguments[position + 1 :]
        # `len(x)` is not the length of a list that holds x
        if isinstance(formal.element, T.VarType) or formal.element is T.ANY:
            return False
        if following and not following[0].kwarg_only:
            return False
        actual = self.call.args[self.used].type
        as_one = conversion(formal, actual, isinstance(actual, T.TupleType), widen=self.widen).type
        return not isinstance(actual, T.ListType) and not T.is_subtype(as_one, formal)

    def _collect(self, argument: Argument) -> _Collected:
        assert isinstance(argument.type, T.ListType)
        formal, items = argument.type.element, []
        while self.used < len(self.call.args):
            place = self.first_positional + self.used
            items.append(_GivenArgument(place, self._fit("<varargs>", formal, None, self.actuals[place], argument)))
            self.used += 1
        return _Collected(T.ListType.of(T.substitute(formal, self.bindings)), tuple(items))

    def _check_leftovers(self) -> None:
        if self.self_is_free:
            raise self._fail("Provided self argument not used in schema.")
        given = len(self.call.args)
        if self.schema.is_vararg:
            self.slots += [_GivenArgument(self.first_positional + place, None) for place in range(self.used, given)]
        elif self.used < given:
            text = f"Expected at most {self.used} arguments but found {given} positional arguments."
            raise self._fail(text, kind=WRONG_COUNT)
        self._check_keywords()
        for position, (name, _) in enumerate(self.call.kwargs):
            if position not in self.used_keywords:
                raise self._fail(f"Keyword argument {name} specified twice.", kind=WRONG_COUNT)

    def _check_keywords(self) -> None:
        """Raise for a keyword that is no parameter's."""
        for position, (name, _) in enumerate(self.call.kwargs):
            if position not in self.used_keywords and self.schema.argument_index(name) is None:
                names = [a.name for a in self.schema.arguments if a.name != "self"]
                hint = instead_of_keyword(name, names)
                raise self._fail(f"Keyword argument {name} unknown.", hint=hint, kind=WRONG_KEYWORD)

    # -- failures
    def _fail(
        self,
        reason: str,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
        kind: ErrorKind[CompileError] = WRONG_ARGUMENTS,
    ) -> Mismatch:
        return Mismatch(reason, len(self.slots), expected, found, hint, kind)

    def _wrong_type(self, name: str, formal: Type, actual: Type, argument: Argument) -> Mismatch:
        wanted = formal.annotation + (" (inferred)" if argument.inferred else "")
        text = (
            f"Expected a value of type '{wanted}' for argument '{name}' but instead found type '{actual.annotation}'."
        )
        hint = hint_for_argument(formal, actual, argument)
        kind = MAY_BE_NONE if hint in (TEST_FOR_NONE, ALWAYS_NONE) else WRONG_ARGUMENTS
        return self._fail(text, f"{formal.annotation} for '{name}'", actual.annotation, hint, kind)


def _repeated(type: T.ListType, size: int, first: Convert | None) -> Convert:
    def convert(graph: Graph, range: SourceRange | None, value: Value) -> Value:
        element = value if first is None else first(graph, range, value)
        return construct_list(graph, range, type, [element] * size)

    return convert


def insert_arguments(
    graph: Graph, range: SourceRange | None, plan: BindingPlan, arguments: Sequence[NamedValue]
) -> list[Value]:
    """Insert what a plan asks for; gives the inputs."""
    values = {place: arguments[place].in_graph(graph) for place in plan.places}
    constants = {id(d): graph.insert_constant(d.value, d.type, range) for d in plan.constants}

    def given(slot: _GivenArgument) -> Value:
        value = values[slot.place]
        return value if slot.convert is None else slot.convert(graph, range, value)

    inputs = []
    for slot in plan.slots:
        if isinstance(slot, _GivenArgument):
            inputs.append(given(slot))
        elif isinstance(slot, Default):
            inputs.append(constants[id(slot)])  # equal defaults are one object: `Matching.seen` has it
        else:
            inputs.append(construct_list(graph, range, slot.type, [given(item) for item in slot.items]))
    return inputs
