"""Sequences whose length is known at run time only, where they are taken apart: `tuple(xs)`, `f(*xs)`, `[1, *xs]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jitlite.base.errors.calls import FIXED_SIZE
from jitlite.base.errors.names import NOT_A_VALUE
from jitlite.base.errors.types import MIXED_ELEMENTS
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.values import SimpleValue, SugaredTuple, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.overloads import NamedValue


class SequencePart(NamedTuple):
    """An argument or element: a value, or the elements of a list if it is `spread`."""

    value: Value
    spread: bool
    range: SourceRange

    @property
    def type(self) -> T.Type:
        """The type of the value, or of each of the elements."""
        t = self.value.type
        return T.unshaped(t.element if self.spread and isinstance(t, T.ListType) else t)


def spread_list(found: SugaredValue) -> Value | None:
    """The list behind what is spread, None for what has a known number of parts."""
    if isinstance(found, ListAsTuple):
        return found.elements
    is_list = isinstance(found, SimpleValue) and isinstance(found.value.type, T.ListType)
    return found.value if is_list and isinstance(found, SimpleValue) else None


class ListAsTuple(SugaredValue):
    """A tuple whose length is known at run time only: a list of the graph, which nobody else has."""

    kind = "a tuple whose length is known at run time only"

    def __init__(self, elements: Value) -> None:
        self.elements = elements

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE.unsupported(
            f"{self.kind} cannot be used as a value", range,
            hint="use a list, as list(t); as an argument of an operator or function it is fine",
        )  # fmt: skip

    def as_argument(self, b: Builder, range: SourceRange) -> Value:
        return self.elements

    @property
    def is_symbolic(self) -> bool:
        return True

    def as_shown(self, b: Builder, range: SourceRange) -> Value:
        return b.op("python::tuple", [self.elements], range=range)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        return self._list().attr(b, range, name) if name in ("count", "index") else super().attr(b, range, name)

    def _list(self) -> SimpleValue:
        return SimpleValue(self.elements)

    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        return self._list().as_tuple(b, range, size)

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self._list().iterate(b, range)

    def length(self, b: Builder, range: SourceRange) -> Value:
        return self._list().length(b, range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        return self._list().element(b, range, index)

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value:
        return b.op("aten::__contains__", [self.elements, item], range=range)

    def truth(self, b: Builder, range: SourceRange) -> Value:
        length = b.op("aten::len", [self.elements], range=range)
        return b.op("aten::gt", [length, b.constant(0, range)], range=range)


def list_of_tuple(b: Builder, found: SugaredValue, element: T.Type, range: SourceRange) -> Value | None:
    """The elements of a tuple as a list; None where they are of another type, and for what is neither."""
    if isinstance(found, ListAsTuple):
        return found.elements
    t = found.value.type if isinstance(found, SimpleValue) else None
    if isinstance(found, SimpleValue) and isinstance(t, T.ListType):
        return found.value
    if not isinstance(found, SugaredTuple) and not isinstance(t, T.TupleType):
        return None
    parts = [part.as_value(b, range) for part in found.as_tuple(b, range)]
    return b.make_list(element, parts) if all(T.is_subtype(p.type, element) for p in parts) else None


def joined_list(b: Builder, parts: Sequence[SequencePart], range: SourceRange) -> Value:
    """One new list of values, of which some are lists to be spread.

    Raises:
        CompileError: where they are of several types.
    """
    types = [part.type for part in parts]
    common = T.unify_all(types)
    if common is None:
        shown = " and ".join(sorted({t.annotation for t in types}))
        raise MIXED_ELEMENTS(f"a list is spread among values of other types: {shown}", range)
    run: list[Value] = []
    pieces: list[Value] = []
    for part in parts:
        if not part.spread:
            run.append(part.value)
            continue
        pieces += [b.make_list(common, run)] if run else []
        pieces.append(part.value)
        run = []
    pieces += [b.make_list(common, run)] if run else []
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = b.op("aten::add", [whole, piece], range=range)
    return whole if len(pieces) > 1 else b.op("aten::list", [whole], range=range)


def with_spread_tail(b: Builder, parts: Sequence[SequencePart], range: SourceRange) -> list[NamedValue]:
    """Arguments of an operator, of which lists are spread at the end: it takes these, and what goes with them, as one.

    `x.view(*shape, 2)` is `x.view(shape + [2])`, `torch.einsum("ij,jk", *xs)` is `torch.einsum("ij,jk", xs)`.
    """
    element = next(part.type for part in parts if part.spread)
    start = len(parts)
    while start and T.is_subtype(parts[start - 1].type, element):
        start -= 1
    if any(part.spread for part in parts[:start]):
        raise FIXED_SIZE("cannot statically infer the expected size of a list in this context", range,
                           hint="unpack into a fixed number of names, or index the list")  # fmt: skip
    before = [NamedValue(None, part.value, range=part.range) for part in parts[:start]]
    return [*before, NamedValue(None, joined_list(b, parts[start:], range), range=parts[start].range)]
