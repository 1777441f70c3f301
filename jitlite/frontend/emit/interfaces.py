"""Where classes meet interfaces: results of methods that no annotation tells are inferred before types are compared.

Types are compared by signatures alone. A method without a return annotation has none until its body is compiled, and
whether a class is of an interface may hang on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from itertools import product

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


def bodies_that_fail(actual: Type, wanted: Type) -> list[str]:
    """Notes for an error: which methods do not compile whose results decide whether `actual` is of type `wanted`."""
    return [f"a method does not compile whose result is needed: {e.message}" for e in infer_results([actual], [wanted])]


_FAILED: ContextVar[set[tuple[Type, Type]] | None] = ContextVar("failed", default=None)
"""Classes and interfaces for which a method did not compile: the bodies of many methods may mention the same ones."""


class SeenTypes:
    """The classes and interfaces that the values and annotations of one function have shown so far.

    Any two of them may be compared from then on, wherever that is: in an annotation, in the arguments of an operator,
    where two branches meet. So what a comparison has to know is inferred once a class and an interface are both known.
    A method that does not compile is no error here: its class is of no interface that has the method.
    """

    def __init__(self) -> None:
        self._seen: set[Type] = set()
        self._classes: dict[Type, None] = {}
        self._interfaces: dict[Type, None] = {}

    def note(self, t: Type) -> None:
        """Note what is in a type. Classes of modules are compared in few places, which see to it themselves."""
        if not T.is_named(t) or t in self._seen:
            return
        self._seen.add(t)
        classes = [c for c in _classes_in([t]) if not c.is_module and c not in self._classes]
        interfaces = [i for i in _interfaces_in(t) if i not in self._interfaces]
        earlier = list(self._classes)
        self._classes.update(dict.fromkeys(classes))
        self._interfaces.update(dict.fromkeys(interfaces))
        _infer_early([*product(earlier, interfaces), *product(classes, self._interfaces)])


def _infer_early(pairs: Sequence[tuple[Type, Type]]) -> None:
    """`infer_results` for what may be compared; each class is tried once until the outermost such call is through."""
    if not pairs:
        return
    known = _FAILED.get()
    failed: set[tuple[Type, Type]] = set() if known is None else known
    token = _FAILED.set(failed)
    try:
        for pair in pairs:
            if pair not in failed and infer_results(pair[:1], pair[1:]):
                failed.add(pair)
    finally:
        _FAILED.reset(token)


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
