"""Where classes meet interfaces: results of methods that no annotation tells are inferred before types are compared.

Types are compared by signatures alone. A method without a return annotation has none until its body is compiled, and
whether a class is of an interface may hang on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.base.source import CompileError, SourceRange
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.schema import Schema
from jitlite.ir.types import Type
from jitlite.operators.overloads import MatchedSchema, NamedValue, match_schema


def infer_results(actual: Iterable[Type], wanted: Iterable[Type]) -> list[CompileError]:
    """Compile what is needed to say whether classes in the types `actual` are of interfaces in the types `wanted`.

    Gives the errors of the methods that do not compile; their classes are of none of these interfaces.
    """
    interfaces = [t for w in wanted for t in _interfaces_in(w)]
    failed = []
    for t in _classes_in(actual) if interfaces else ():
        for interface in interfaces:
            try:
                t.definition.infer_results(interface)
            except CompileError as error:
                failed.append(error)
    return failed


def match_call(
    schema: Schema, graph: Graph, range: SourceRange, args: Sequence[NamedValue], kwargs: Sequence[NamedValue]
) -> MatchedSchema:
    """The arguments of a call of a function in the order of its schema, converted and complete.

    Raises:
        CompileError: where they do not fit, or a method does not compile whose result would have to be known.
    """
    failed = infer_for_call([schema], [*args, *kwargs])
    try:
        return match_schema(schema, graph, range, list(args), list(kwargs))
    except CompileError:
        if failed:
            raise failed[0] from None
        raise


def infer_for_call(schemas: Iterable[Schema], arguments: Iterable[NamedValue]) -> list[CompileError]:
    """`infer_results` for the arguments of a call."""
    actual = [a.value.type for a in arguments if a.value is not None]
    return infer_results(actual, [formal.type for schema in schemas for formal in schema.arguments])


def _interfaces_in(t: Type) -> list[T.InterfaceType]:
    if not T.is_named(t):
        return []
    return [t] if isinstance(t, T.InterfaceType) else [i for part in t.contained for i in _interfaces_in(part)]


def _classes_in(types: Iterable[Type]) -> list[T.ClassType]:
    found: list[T.ClassType] = []
    for t in types:
        if isinstance(t, T.ClassType) and t.definition is not None:
            found.append(t)
        found += _classes_in(t.contained)
    return found
