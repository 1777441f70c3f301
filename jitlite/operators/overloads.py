"""Arguments to schema: which overload a call means, and the conversions of its arguments.

Overloads are tried in order, first without implicit conversions, then with them. Trying one looks at types only and
gives a `_Plan`; nodes are inserted for the chosen one. As a plan depends on the types of a call alone, plans are
remembered.

Read `match_op` first, then `_Matching` (one schema against one call), then `conversions.py` (one type to another).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import torch

from jitlite.base.source import CompileError, SourceRange, did_you_mean
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Graph, Value
from jitlite.ir.ops import Op
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type
from jitlite.operators.builtin_functions import EXPANSIONS, Body, Expansion
from jitlite.operators.conversions import (
    Convert,
    construct_list,
    conversion,
    enum_value_type,
    is_convertible_to_list,
    try_convert_to_type,
)

__all__ = ["MatchedSchema", "NamedValue", "can_call", "emit_builtin_call", "match_op", "match_schema", "match_schemas",
           "pack_outputs", "try_convert_to_type"]  # fmt: skip

NO_CONSTANT: Final[object] = object()
"""Stands for the constant of a `NamedValue` that has none."""


@dataclass(frozen=True)
class NamedValue:
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
            raise CompileError(f"a {type(self.constant).__name__} cannot be used as a value", self.range)
        return found

    def in_graph(self, graph: Graph) -> Value:
        """The value; a constant is inserted into the graph at its insertion point."""
        return self.value if self.value is not None else graph.insert_constant(self.constant, self.type, self.range)


@dataclass(frozen=True)
class MatchedSchema:
    """A call's overload with its inputs in schema order, converted and complete.

    `op` is None for functions; an `expansion` stands for what other operators make up.
    """

    schema: Schema
    op: Op | None
    inputs: list[Value]
    return_types: list[Type]
    return_names: list[str] | None
    """Names of the results, if all have one."""
    expansion: Expansion | None = None


# -- types of a call ---------------------------------------------------------------------------------------------------


class _Actual(NamedTuple):
    """Type of an argument. An unannotated `[]` is a list of whatever is wanted."""

    type: Type
    is_empty_literal: bool


class _Call(NamedTuple):
    """Types of a call's arguments; two calls with equal ones choose the same overload."""

    this: _Actual | None
    args: tuple[_Actual, ...]
    kwargs: tuple[tuple[str, _Actual], ...]

    @property
    def actuals(self) -> tuple[_Actual, ...]:
        first = () if self.this is None else (self.this,)
        return (*first, *self.args, *(actual for _, actual in self.kwargs))

    def __str__(self) -> str:
        shown = [a.type.annotation for a in (self.this, *self.args) if a is not None]
        shown += [f"{name}: {actual.type.annotation}" for name, actual in self.kwargs]
        return f"({', '.join(shown)})"


def _actual(argument: NamedValue) -> _Actual:
    value = argument.value
    return _Actual(argument.type, value is not None and value.node.kind == "prim::EmptyListLiteral")


def _call(args: Sequence[NamedValue], kwargs: Sequence[NamedValue], self_value: NamedValue | None) -> _Call:
    return _Call(
        None if self_value is None else _actual(self_value),
        tuple(_actual(a) for a in args),
        tuple((k.name or "", _actual(k)) for k in kwargs),
    )


# -- one schema --------------------------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """An input that is argument number `place` of the call."""

    place: int
    convert: Convert | None


class _Collected(NamedTuple):
    """An input that is a list of the remaining positional arguments."""

    type: T.ListType
    items: tuple[_Given, ...]


class _Default(NamedTuple):
    """An input that is a default."""

    value: object
    type: Type | None

    @property
    def key(self) -> tuple[object, ...]:
        return type(self.value), repr(self.value), self.type


class _Plan(NamedTuple):
    """How the inputs of a node follow from a call's arguments."""

    slots: tuple[_Given | _Collected | _Default, ...]
    return_types: list[Type]
    return_names: list[str] | None
    constants: tuple[_Default, ...] = ()
    """The defaults, in the order in which they are inserted."""


class _Mismatch(Exception):
    """A schema does not fit a call. `progress` tells which of several came nearest."""

    def __init__(
        self,
        reason: str,
        progress: int = 0,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.progress = progress
        self.expected = expected
        self.found = found
        self.hint = hint


class _Matching:
    """One schema against one call: fills `slots` argument by argument.

    Args:
        allow: make use of implicit conversions.
        seen: collects the defaults that were looked at, also by schemas that do not fit in the end.
    """

    def __init__(self, schema: Schema, call: _Call, allow: bool, seen: dict[tuple[object, ...], _Default]) -> None:
        self.schema = schema
        self.call = call
        self.allow = allow
        self.seen = seen
        self.actuals = call.actuals
        self.first_positional = 0 if call.this is None else 1
        self.first_keyword = self.first_positional + len(call.args)
        self.self_is_free = call.this is not None
        self.used = 0
        self.used_keywords: set[int] = set()
        self.bindings: dict[str, Type] = {}
        self.slots: list[_Given | _Collected | _Default] = []

    def run(self) -> _Plan:
        """Match everything.

        Raises:
            _Mismatch: where the schema does not fit.
        """
        for position, argument in enumerate(self.schema.arguments):
            self.slots.append(self._slot(position, argument))
        self._check_leftovers()
        returns = self.schema.returns
        types = [T.substitute(r.type, self.bindings) for r in returns]
        names = [r.name for r in returns] if returns and all(r.name for r in returns) else None
        wanted = {d.key for d in self.slots if isinstance(d, _Default)}
        constants = tuple(d for key, d in self.seen.items() if key in wanted)
        return _Plan(tuple(self.slots), types, names, constants)

    def _slot(self, position: int, argument: Argument) -> _Given | _Collected | _Default:
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
        raise self._fail(f"Argument {argument.name} not provided.")

    def _keyword(self, name: str) -> int | None:
        # functions call `input` what methods call `self`
        also = "input" if name == "self" and self.schema.name.startswith("aten::") else name
        for position, (given, _) in enumerate(self.call.kwargs):
            if given in (name, also):
                return position
        return None

    def _default(self, argument: Argument) -> _Default:
        value, formal = argument.default, T.without_none(argument.type)
        if isinstance(formal, T.ListType) and argument.size and isinstance(value, int | float):
            value = [value] * argument.size
        if formal is T.FLOAT and type(value) is int:
            value = float(value)
        default = _Default(value, formal if isinstance(value, list | dict) else None)
        return self.seen.setdefault(default.key, default)

    # -- arguments that are given
    def _given(self, argument: Argument, place: int) -> _Given:
        return _Given(place, self._fit(argument.name, argument.type, argument.size, self.actuals[place], argument))

    def _fit(self, name: str, formal: Type, size: int | None, actual: _Actual, argument: Argument) -> Convert | None:
        type, repeat = actual.type, None
        element = enum_value_type(type) if self.allow else type
        if size and element in (T.INT, T.FLOAT) and T.without_none(formal) is T.ListType.of(element):
            first = conversion(element, type, self.allow).convert
            type, repeat = T.ListType.of(element), _repeated(T.ListType.of(element), size, first)
        if T.has_variables(formal):
            formal = self._concrete(name, formal, type, actual.is_empty_literal)
        target = conversion(formal, type, self.allow, actual.is_empty_literal)
        if not T.is_subtype(target.type, formal):
            raise self._wrong_type(name, formal, actual.type, argument)
        return repeat or target.convert

    def _concrete(self, name: str, formal: Type, actual: Type, is_empty_literal: bool) -> Type:
        """The formal type with its variables bound by what is given."""
        known = T.substitute(formal, self.bindings)
        if is_empty_literal and not T.has_variables(known):
            return known  # `xs + []`: an empty list says nothing about the elements
        reason = T.match_variables(formal, actual, self.bindings)
        if reason is not None:
            text = f"Could not match type {actual.annotation} to {formal.annotation} in argument '{name}': {reason}."
            raise self._fail(text, f"{formal.annotation} for '{name}'", actual.annotation)
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
        return not isinstance(actual, T.ListType) and not is_convertible_to_list(actual, formal)

    def _collect(self, argument: Argument) -> _Collected:
        assert isinstance(argument.type, T.ListType)
        formal, items = argument.type.element, []
        while self.used < len(self.call.args):
            place = self.first_positional + self.used
            items.append(_Given(place, self._fit("<varargs>", formal, None, self.actuals[place], argument)))
            self.used += 1
        return _Collected(T.ListType.of(T.substitute(formal, self.bindings)), tuple(items))

    def _check_leftovers(self) -> None:
        if self.self_is_free:
            raise self._fail("Provided self argument not used in schema.")
        given = len(self.call.args)
        if self.schema.is_vararg:
            self.slots += [_Given(self.first_positional + place, None) for place in range(self.used, given)]
        elif self.used < given:
            raise self._fail(f"Expected at most {self.used} arguments but found {given} positional arguments.")
        for position, (name, _) in enumerate(self.call.kwargs):
            if position in self.used_keywords:
                continue
            if self.schema.argument_index(name) is not None:
                raise self._fail(f"Keyword argument {name} specified twice.")
            hint = did_you_mean(name, [a.name for a in self.schema.arguments])
            raise self._fail(f"Keyword argument {name} unknown.", hint=hint)

    # -- failures
    def _fail(
        self, reason: str, expected: str | None = None, found: str | None = None, hint: str | None = None
    ) -> _Mismatch:
        return _Mismatch(reason, len(self.slots), expected, found, hint)

    def _wrong_type(self, name: str, formal: Type, actual: Type, argument: Argument) -> _Mismatch:
        wanted = formal.annotation + (" (inferred)" if argument.inferred else "")
        text = (
            f"Expected a value of type '{wanted}' for argument '{name}' but instead found type '{actual.annotation}'."
        )
        return self._fail(text, f"{formal.annotation} for '{name}'", actual.annotation, _hint(formal, actual, argument))


_MAY_BE_NONE: Final = "it may be None here: test `is not None` first, or assert it"


def _hint(formal: Type, actual: Type, argument: Argument) -> str | None:
    """A way out of a wrong argument type."""
    if isinstance(formal, T.InterfaceType) and isinstance(actual, T.ClassType | T.InterfaceType):
        return T.why_not_interface(actual, formal)
    if argument.inferred:
        return f"'{argument.name}' is a Tensor because it has no annotation; annotate it"
    if T.without_none(actual) is not actual and T.is_subtype(T.without_none(actual), formal):
        return _MAY_BE_NONE
    if formal is T.FLOAT and actual is T.INT:
        return "an int is not turned into a float here: write `1.0`, or `float(x)`"
    if formal is T.TENSOR and T.is_subtype(actual, T.UnionType.of([T.NUMBER, T.BOOL])):
        return "annotate it as a Tensor, or make one with torch.tensor(...)"
    if isinstance(formal, T.ListType) and actual is T.ListType.of(T.TENSOR):
        return "an empty list is a List[Tensor] unless it is annotated: `xs: List[int] = []`"
    return None


def _repeated(type: T.ListType, size: int, first: Convert | None) -> Convert:
    def convert(graph: Graph, range: SourceRange | None, value: Value) -> Value:
        element = value if first is None else first(graph, range, value)
        return construct_list(graph, range, type, [element] * size)

    return convert


def _insert(graph: Graph, range: SourceRange | None, plan: _Plan, arguments: Sequence[NamedValue]) -> list[Value]:
    """Insert what a plan asks for; gives the inputs."""
    used = {s.place for s in plan.slots if isinstance(s, _Given)}
    used |= {item.place for s in plan.slots if isinstance(s, _Collected) for item in s.items}
    values = {place: arguments[place].in_graph(graph) for place in sorted(used)}
    constants = {d.key: graph.insert_constant(d.value, d.type, range) for d in plan.constants}

    def given(slot: _Given) -> Value:
        value = values[slot.place]
        return value if slot.convert is None else slot.convert(graph, range, value)

    inputs = []
    for slot in plan.slots:
        if isinstance(slot, _Given):
            inputs.append(given(slot))
        elif isinstance(slot, _Default):
            inputs.append(constants[slot.key])
        else:
            inputs.append(construct_list(graph, range, slot.type, [given(item) for item in slot.items]))
    return inputs


# -- the choice --------------------------------------------------------------------------------------------------------

_Candidate = Op | Expansion


class _Chosen(NamedTuple):
    operators: tuple[Op, ...]
    candidate: _Candidate
    plan: _Plan


_chosen: dict[tuple[str, _Call], _Chosen] = {}
"""Choices made before. They hold as long as the operators of the name are the same."""

_MOST_REMEMBERED = 20_000
"""Choices kept before starting anew. Calls with class types are not kept: the classes would stay forever."""


def _choose(name: str, call: _Call, range: SourceRange | None, candidates: Sequence[Op] | None) -> _Chosen:
    if candidates is not None:
        chosen = _first_fit(name, [], list(candidates), call, range)
        return _Chosen(tuple(candidates), *chosen)
    operators = ops.lookup(name)
    remembered = _chosen.get((name, call))
    if remembered is not None and remembered.operators is operators:
        return remembered
    expansions = EXPANSIONS.get(name, ())
    first: list[_Candidate] = [e for e in expansions if e.exact]
    pool: list[_Candidate] = [o for o in operators if not o.has(Trait.NEVER_CHOSEN)]
    pool += [e for e in expansions if not e.exact]
    if not first and not pool:
        raise _unknown(name, range)
    candidate, plan = _first_fit(name, first, pool, call, range)
    found = _Chosen(operators, candidate, plan)
    if any(T.is_named(actual.type) for actual in call.actuals):
        return found
    if len(_chosen) >= _MOST_REMEMBERED:
        _chosen.clear()
    _chosen[name, call] = found
    return found


def _first_fit(
    name: str, first: list[_Candidate], pool: list[_Candidate], call: _Call, range: SourceRange | None
) -> tuple[_Candidate, _Plan]:
    seen: dict[tuple[object, ...], _Default] = {}
    only = len(first) + len(pool) == 1
    failures: list[tuple[Schema, _Mismatch]] = []
    for allow in (True,) if only else (False, True):
        failures = []
        for candidate in pool if allow else [*first, *pool]:
            try:
                return candidate, _Matching(candidate.schema, call, allow, seen).run()
            except _Mismatch as failure:
                failures.append((candidate.schema, failure))
    raise _no_fit(name, failures, call, range)


def _no_fit(
    name: str, failures: list[tuple[Schema, _Mismatch]], call: _Call, range: SourceRange | None
) -> CompileError:
    ranked = sorted(failures, key=lambda f: -f[1].progress)
    best = ranked[0][1]
    found = best.found if best.expected else f"{name}{call}"
    hint = best.hint
    if any(failure.hint == _MAY_BE_NONE and failure.found == best.found for _, failure in failures):
        hint = hint or _MAY_BE_NONE
    if len(failures) == 1:
        return CompileError(
            f"{name}: {best.reason}", range, expected=best.expected, found=found, hint=best.hint,
            notes=[str(ranked[0][0])],
        )  # fmt: skip
    notes = [f"  {schema}:\n    {failure.reason}" for schema, failure in ranked]
    return CompileError(
        "Arguments for call are not valid. The following variants are available:",
        range, expected=best.expected, found=found, hint=hint, notes=notes,
    )  # fmt: skip


def _unknown(name: str, range: SourceRange | None) -> CompileError:
    known = {full.partition(".")[0] for full in torch._C._dispatch_get_all_op_names()}
    known |= ops.declared_names() | EXPANSIONS.keys()
    namespace = name.partition("::")[0] + "::"
    hint = did_you_mean(name, sorted(k for k in known if k.startswith(namespace)))
    return CompileError(
        f"Unknown builtin op: {name}. This op may not exist or may not be currently supported in TorchScript.",
        range,
        hint=hint,
    )


def match_op(
    name: str,
    graph: Graph,
    range: SourceRange | None,
    args: Sequence[NamedValue],
    kwargs: Sequence[NamedValue] = (),
    self_value: NamedValue | None = None,
    candidates: Sequence[Op] | None = None,
) -> MatchedSchema:
    """Choose the overload of an operator and insert the conversions of its arguments, but not the node itself.

    Args:
        candidates: choose among these instead of all overloads of the name.

    Raises:
        CompileError: where there is no such operator, or none of its overloads fits.
    """
    call = _call(args, kwargs, self_value)
    chosen = _choose(name, call, range, candidates)
    plan = chosen.plan
    inputs = _insert(graph, range, plan, [*([self_value] if self_value else []), *args, *kwargs])
    expansion = chosen.candidate if isinstance(chosen.candidate, Expansion) else None
    op = chosen.candidate if isinstance(chosen.candidate, Op) else None
    return MatchedSchema(chosen.candidate.schema, op, inputs, list(plan.return_types), plan.return_names, expansion)


def can_call(name: str) -> bool:
    """Is there a builtin operator of this name?"""
    return bool(ops.lookup(name)) or name in EXPANSIONS


def match_schema(
    schema: Schema,
    graph: Graph,
    range: SourceRange | None,
    args: Sequence[NamedValue],
    kwargs: Sequence[NamedValue] = (),
    self_value: NamedValue | None = None,
    allow_conversions: bool = True,
) -> MatchedSchema:
    """Bring the arguments of a call into the order of a function's schema, converted and complete.

    Raises:
        CompileError: where they do not fit.
    """
    call = _call(args, kwargs, self_value)
    try:
        plan = _Matching(schema, call, allow_conversions, {}).run()
    except _Mismatch as failure:
        raise _no_fit(schema.name, [(schema, failure)], call, range) from None
    inputs = _insert(graph, range, plan, [*([self_value] if self_value else []), *args, *kwargs])
    return MatchedSchema(schema, None, inputs, plan.return_types, plan.return_names)


def match_schemas(
    schemas: Sequence[Schema],
    graph: Graph,
    range: SourceRange | None,
    args: Sequence[NamedValue],
    kwargs: Sequence[NamedValue] = (),
    self_value: NamedValue | None = None,
) -> tuple[int, MatchedSchema]:
    """The first of a function's overloads that fits a call, tried without conversions and then with them.

    Raises:
        CompileError: where none fits.
    """
    call = _call(args, kwargs, self_value)
    failures: list[tuple[Schema, _Mismatch]] = []
    for allow in (True,) if len(schemas) == 1 else (False, True):
        failures = []
        for position, schema in enumerate(schemas):
            try:
                _Matching(schema, call, allow, {}).run()
            except _Mismatch as failure:
                failures.append((schema, failure))
                continue
            return position, match_schema(schema, graph, range, args, kwargs, self_value, allow)
    raise _no_fit(schemas[0].name, failures, call, range)


# -- calls -------------------------------------------------------------------------------------------------------------


def emit_builtin_call(
    graph: Graph,
    range: SourceRange | None,
    name: str,
    args: Sequence[NamedValue],
    kwargs: Sequence[NamedValue] = (),
    self_value: NamedValue | None = None,
    candidates: Sequence[Op] | None = None,
) -> Value:
    """Insert a call of an operator; gives its result, a tuple of its results, or None if it has none.

    Raises:
        CompileError: where there is no such operator, or none of its overloads fits.
    """
    matched = match_op(name, graph, range, args, kwargs, self_value, candidates)
    if matched.expansion is not None:
        names = [a.name for a in matched.schema.arguments]
        environment = dict(zip(names, matched.inputs, strict=True))
        return _expand(graph, range, matched.expansion.body, environment).in_graph(graph)
    assert matched.op is not None
    node = graph.insert(name, matched.inputs, matched.return_types, range=range)
    node.set_op(matched.op)
    return pack_outputs(graph, node.outputs, matched.return_names, name, range)


def _expand(graph: Graph, range: SourceRange | None, body: Body, environment: dict[str, Value]) -> NamedValue:
    if isinstance(body, str):
        return NamedValue(None, environment[body], range=range)
    if not isinstance(body, tuple):
        return NamedValue(None, constant=body, range=range)
    name, *operands = body
    args = [_expand(graph, range, operand, environment) for operand in operands]
    return NamedValue(None, emit_builtin_call(graph, range, name, args), range=range)


def pack_outputs(
    graph: Graph,
    outputs: Sequence[Value],
    names: Sequence[str] | None = None,
    operator: str = "",
    range: SourceRange | None = None,
) -> Value:
    """One value for the results of a call: itself, None if there is none, else a tuple, named if all results are."""
    if len(outputs) == 1:
        return outputs[0]
    if not outputs:
        return graph.insert_constant(None, T.NONE, range)
    cls = None if names is None else _result_class(operator, tuple(names))
    result = T.TupleType.of((o.type for o in outputs), names, None, cls)
    return graph.insert("prim::TupleConstruct", outputs, [result], range=range).output


@cache
def _result_class(operator: str, names: tuple[str, ...]) -> Any:
    """torch's class of an operator's results, such as `torch.return_types.max`; None where its fields differ."""
    cls = getattr(torch.return_types, operator.rpartition("::")[2], None)
    if cls is None or getattr(cls, "n_sequence_fields", 0) != len(names):
        return None
    return cls if all(hasattr(cls, name) for name in names) else None
