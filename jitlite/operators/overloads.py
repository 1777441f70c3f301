"""Arguments to schema: which overload a call means, and the conversions of its arguments.

Overloads are tried in order, first without implicit conversions, then with them, at last with ints for floats. Trying
one gives a plan (`schema_matching.py`); nodes are inserted for the chosen one. As a plan depends on the types of a call
alone, plans are remembered. Read `match_op` first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import torch

from jitlite.base.errors.calls import WRONG_COUNT, WRONG_KEYWORD
from jitlite.base.errors.names import MAY_BE_NONE, UNKNOWN_OPERATOR
from jitlite.base.source import CompileError, SourceRange, did_you_mean
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.ops import Op
from jitlite.ir.schema import Schema
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type
from jitlite.operators.argument_hints import TEST_FOR_NONE, instead_of_keyword
from jitlite.operators.builtin_functions import EXPANSIONS, Body, Expansion
from jitlite.operators.conversions import try_convert_to_type
from jitlite.operators.schema_matching import (
    BindingPlan,
    CallTypes,
    Default,
    Matching,
    Mismatch,
    NamedValue,
    insert_arguments,
    types_of_call,
)

__all__ = ["MatchedSchema", "NamedValue", "argument_to_split", "can_call", "emit_builtin_call", "match_op",
           "match_schema", "match_schemas", "pack_outputs", "schema_argument_to_split",
           "try_convert_to_type"]  # fmt: skip


class MatchedSchema(NamedTuple):
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


# -- the choice --------------------------------------------------------------------------------------------------------

_Candidate = Op | Expansion


class _Places(NamedTuple):
    """Where a call stands, and its arguments in the order of `CallTypes.actuals`."""

    call: SourceRange | None
    arguments: Sequence[NamedValue]

    def of(self, failure: Mismatch) -> SourceRange | None:
        """The argument that does not fit, where it stands within the call; else the call."""
        place = None if failure.place is None else self.arguments[failure.place].range
        if place is None or self.call is None or place.source is not self.call.source:
            return self.call
        return place if self.call.start <= place.start and place.end <= self.call.end else self.call


class _ChosenOverload(NamedTuple):
    operators: tuple[Op, ...]
    candidate: _Candidate
    plan: BindingPlan


_chosen: dict[tuple[str, CallTypes], _ChosenOverload] = {}
"""Choices made before. They hold as long as the operators of the name are the same."""

_MOST_REMEMBERED = 20_000
"""Choices kept before starting anew. Calls with class types are not kept: the classes would stay forever."""


def _candidates(name: str, operators: Sequence[Op]) -> tuple[list[_Candidate], list[_Candidate]]:
    """What is tried first, as it fits exactly or not at all, and what is tried after that."""
    expansions = EXPANSIONS.get(name, ())
    pool: list[_Candidate] = [o for o in operators if not o.has(Trait.NEVER_CHOSEN)]
    return [e for e in expansions if e.exact], [*pool, *(e for e in expansions if not e.exact)]


def _choose(name: str, call: CallTypes, at: _Places, candidates: Sequence[Op] | None) -> _ChosenOverload:
    if candidates is not None:
        chosen = _first_fit(name, [], list(candidates), call, at)
        return _ChosenOverload(tuple(candidates), *chosen)
    operators = ops.lookup(name)
    remembered = _chosen.get((name, call))
    if remembered is not None and remembered.operators is operators:
        return remembered
    first, pool = _candidates(name, operators)
    if not first and not pool:
        raise _unknown(name, at.call)
    candidate, plan = _first_fit(name, first, pool, call, at)
    found = _ChosenOverload(operators, candidate, plan)
    if any(T.is_named(actual.type) for actual in call.actuals):
        return found
    if len(_chosen) >= _MOST_REMEMBERED:
        _chosen.clear()
    _chosen[name, call] = found
    return found


def _first_fit(
    name: str, first: list[_Candidate], pool: list[_Candidate], call: CallTypes, at: _Places
) -> tuple[_Candidate, BindingPlan]:
    seen: dict[tuple[object, ...], Default] = {}
    only = len(first) + len(pool) == 1
    failures: list[tuple[Schema, Mismatch]] = []
    for allow in (True,) if only else (False, True):
        failures = []
        for candidate in pool if allow else [*first, *pool]:
            try:
                return candidate, Matching(candidate.schema, call, allow, seen).run()
            except Mismatch as failure:
                failures.append((candidate.schema, failure))
    for candidate in pool if _has_int(call) else ():
        with suppress(Mismatch):
            return candidate, Matching(candidate.schema, call, True, seen, widen=True).run()
    raise _no_fit(name, failures, call, at)


def _has_int(call: CallTypes) -> bool:
    """Is there an int that could be taken for a float?"""
    return any(actual.type is T.INT or isinstance(actual.type, T.TupleType) for actual in call.actuals)


_VARIANTS = "Arguments for call are not valid. The following variants are available:"


def _no_fit(name: str, failures: list[tuple[Schema, Mismatch]], call: CallTypes, at: _Places) -> CompileError:
    ranked = sorted(_worth_showing(failures, call), key=lambda f: _rank(f[0], f[1], call))
    best = ranked[0][1]
    found = best.found if best.expected else f"{name}{call}"
    hint, kind, range = best.hint, best.kind, at.of(best)
    hint = _for_constants(call, at) or hint
    if hint is None and any(f.hint == TEST_FOR_NONE and f.found == best.found for _, f in failures):
        hint, kind = TEST_FOR_NONE, MAY_BE_NONE
    if len(failures) == 1:
        return kind(
            f"{name}: {best.reason}", range, expected=best.expected, found=found, hint=best.hint,
            notes=[str(ranked[0][0])],
        )  # fmt: skip
    if kind is WRONG_KEYWORD:
        hint = _instead_of_keywords(ranked, call) or hint
    notes = [f"  {schema}:\n    {failure.reason}" for schema, failure in ranked]
    return kind(
        f"{name}: {best.reason}",
        range, expected=best.expected, found=found, hint=hint, notes=[_VARIANTS, *notes],
    )  # fmt: skip


def _for_constants(call: CallTypes, at: _Places) -> str | None:
    """What to do about a text where a dtype, layout or member of an enum is meant."""
    if not any(actual.type is T.STRING for actual in call.actuals):
        return None
    for argument, actual in zip(at.arguments, call.actuals, strict=True):
        if argument.value is not None and argument.value.node.kind == "prim::dtype":
            return "a dtype is an attribute of torch: write torch.float32 for 'float32'"
        if isinstance(actual.type, T.EnumType):
            return f"a text is no member of an enum: write {actual.type.python_class.__name__}.NAME"
    return None


def _rank(schema: Schema, failure: Mismatch, call: CallTypes) -> tuple[bool, int, bool]:
    """The nearest first: overloads that have all keywords, that took most arguments, that take as many."""
    lacks_keyword = any(schema.argument_index(name) is None for name, _ in call.kwargs)
    return lacks_keyword, -failure.progress, failure.kind is WRONG_COUNT


def _instead_of_keywords(failures: list[tuple[Schema, Mismatch]], call: CallTypes) -> str | None:
    """What to write instead of a keyword that no overload has which takes the other arguments."""
    schemas = [schema for schema, failure in failures if failure.kind is WRONG_KEYWORD]
    known = dict.fromkeys(a.name for schema in schemas for a in schema.arguments if a.name != "self")
    unknown = next((name for name, _ in call.kwargs if name not in known), None)
    return None if unknown is None else instead_of_keyword(unknown, list(known))


def _worth_showing(failures: list[tuple[Schema, Mismatch]], call: CallTypes) -> list[tuple[Schema, Mismatch]]:
    """The failures without those of variants that write to `out`, unless the call gives it or there are no others."""
    if any(name == "out" for name, _ in call.kwargs):
        return failures
    return [f for f in failures if f[0].argument_index("out") is None] or failures


def _unknown(name: str, range: SourceRange | None) -> CompileError:
    known = {full.partition(".")[0] for full in torch._C._dispatch_get_all_op_names()}
    known |= ops.declared_names() | EXPANSIONS.keys()
    namespace = name.partition("::")[0] + "::"
    hint = did_you_mean(name, sorted(k for k in known if k.startswith(namespace)))
    return UNKNOWN_OPERATOR(
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
    call = types_of_call(args, kwargs, self_value)
    given = [*([self_value] if self_value else []), *args, *kwargs]
    chosen = _choose(name, call, _Places(range, given), candidates)
    plan = chosen.plan
    inputs = insert_arguments(graph, range, plan, given)
    expansion = chosen.candidate if isinstance(chosen.candidate, Expansion) else None
    op = chosen.candidate if isinstance(chosen.candidate, Op) else None
    return MatchedSchema(chosen.candidate.schema, op, inputs, list(plan.return_types), plan.return_names, expansion)


def argument_to_split(
    name: str,
    args: Sequence[NamedValue],
    kwargs: Sequence[NamedValue] = (),
    self_value: NamedValue | None = None,
    candidates: Sequence[Op] | None = None,
) -> Value | None:
    """Of a call that no overload fits, a value of a Union: for each of its types, and those of others, there is one.

    None where there is no such value.
    """
    given = [*([self_value] if self_value else []), *args, *kwargs]
    call = types_of_call(args, kwargs, self_value)

    def fits(one: CallTypes) -> bool:
        try:
            _choose(name, one, _Places(None, given), candidates)
        except CompileError:
            return False
        return True

    return _value_to_split(given, call, fits)


def schema_argument_to_split(
    schema: Schema, args: Sequence[NamedValue], kwargs: Sequence[NamedValue] = ()
) -> Value | None:
    """The same for a call of a function."""

    def fits(one: CallTypes) -> bool:
        try:
            Matching(schema, one, True, {}, widen=True).run()
        except Mismatch:
            return False
        return True

    return _value_to_split([*args, *kwargs], types_of_call(args, kwargs, None), fits)


def _value_to_split(given: Sequence[NamedValue], call: CallTypes, fits: Callable[[CallTypes], bool]) -> Value | None:
    """A value of a Union among the arguments, if the call fits whatever types the values of Unions have."""
    values = [a.value for a in given]
    unions = list(dict.fromkeys(v for v in values if v is not None and isinstance(v.type, T.UnionType)))
    choices = [T.members_of(v.type) for v in unions]
    if not unions or prod(map(len, choices)) > _MOST_COMBINATIONS:
        return None
    for types in product(*choices):
        chosen = dict(zip(unions, types, strict=True))
        actuals = [a.type if v is None else chosen.get(v, a.type) for v, a in zip(values, call.actuals, strict=True)]
        if not fits(call.with_types(actuals)):
            return None
    return unions[0]


_MOST_COMBINATIONS = 16
"""Types of a call's arguments that are looked at: each becomes a branch of the program."""


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
    widen: bool = True,
) -> MatchedSchema:
    """Bring the arguments of a call into the order of a function's schema, converted and complete.

    Raises:
        CompileError: where they do not fit.
    """
    call = types_of_call(args, kwargs, self_value)
    given = [*([self_value] if self_value else []), *args, *kwargs]
    try:
        plan = Matching(schema, call, allow_conversions, {}, widen=widen).run()
    except Mismatch as failure:
        raise _no_fit(schema.name, [(schema, failure)], call, _Places(range, given)) from None
    inputs = insert_arguments(graph, range, plan, given)
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
    call = types_of_call(args, kwargs, self_value)
    failures: list[tuple[Schema, Mismatch]] = []
    for allow, widen in ((True, True),) if len(schemas) == 1 else ((False, False), (True, False), (True, True)):
        failures = []
        for position, schema in enumerate(schemas):
            try:
                Matching(schema, call, allow, {}, widen=widen).run()
            except Mismatch as failure:
                failures.append((schema, failure))
                continue
            return position, match_schema(schema, graph, range, args, kwargs, self_value, allow, widen)
    given = [*([self_value] if self_value else []), *args, *kwargs]
    raise _no_fit(schemas[0].name, failures, call, _Places(range, given))


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
