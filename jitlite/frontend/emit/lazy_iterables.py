"""`reversed`, `map`, `filter`, `itertools.count` and `cycle`: what they give is computed while it is gone through."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.calls import WRONG_ARGUMENTS
from jitlite.base.errors.types import NOT_ITERABLE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.constant_containers import SetValue
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.iterable_values import CounterValue, RangeValue, ZipValue
from jitlite.frontend.emit.iteration import iterated
from jitlite.frontend.emit.known_values import KnownValue, LazyIterable, elements_of
from jitlite.frontend.emit.library_calls import generator_of_filter
from jitlite.frontend.emit.sets import is_set
from jitlite.frontend.emit.values import SimpleValue, SpecialForm, SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.constants import INT64_MAX
from jitlite.ir.graph import Value
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue


# -- reversed
@form("reversed", 1, 1)
def emit_reversed(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    given = em.emit_sugared(call.args[0])
    if isinstance(given, SetValue) or (isinstance(given, SimpleValue) and is_set(given.value)):
        raise NOT_ITERABLE("a set cannot be reversed", call.range, hint="make it a list: reversed(list(x))")
    source = iterated(em, KnownValue(given, range=call.args[0].range))
    if isinstance(source, SugaredTuple):
        return SugaredTuple(source.parts[::-1])
    is_sequence = isinstance(source, SimpleValue) and (
        isinstance(source.value.type, T.ListType) or source.value.type is T.STRING
    )
    if not is_sequence and not isinstance(source, RangeValue):
        raise NOT_ITERABLE(f"{source.kind} cannot be reversed", call.range, hint="make it a list: reversed(list(x))")
    return ReversedValue(em, call.range, source)


class ReversedValue(LazyIterable):
    """`reversed(x)`, which counts down from the length that `x` had."""

    kind = "a reversed sequence"

    def __init__(self, b: Builder, range: SourceRange, source: SugaredValue) -> None:
        self.source = source
        self.count = source.length(b, range)

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self

    def length(self, b: Builder, range: SourceRange) -> Value:
        return self.count

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        last = b.op("aten::sub", [self.count, b.constant(1, range)], range=range)
        return self.source.element(b, range, b.op("aten::sub", [last, index], range=range))

    @property
    def static_length(self) -> int | None:
        return self.source.static_length


# -- filter
@form("filter", 2, 2)
def emit_filter(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    """A list, as of other generators that are no loop's; `statements.py` has the loops."""
    return em.emit_sugared(generator_of_filter(em, call))


# -- map
@form("map", 2)
def emit_map(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    sources = [iterated(em, a) for a in call.args[1:]]
    zipped = sources[0] if len(sources) == 1 else ZipValue(call.range, sources)
    return MapValue(em.emit_sugared(call.args[0]), sources, zipped)


class MapValue(LazyIterable):
    """`map(f, xs)`: an element is computed when it is asked for."""

    kind = "a map"

    def __init__(self, function: SugaredValue, sources: Sequence[SugaredValue], zipped: SugaredValue) -> None:
        self.function = function
        self.sources = sources
        self.zipped = zipped

    @property
    def counted(self) -> SugaredValue:
        return self.zipped.counted

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self

    def length(self, b: Builder, range: SourceRange) -> Value:
        return self.zipped.length(b, range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        given = [source.element(b, range, index) for source in self.sources]
        args = [NamedValue(None, None, g, range) if g.is_function else NamedValue(None, g.as_value(b, range))
                for g in given]  # fmt: skip
        return self.function.call(b, range, args, [])

    def limit(self, b: Builder, range: SourceRange) -> Value | None:
        return self.zipped.limit(b, range)

    @property
    def static_length(self) -> int | None:
        return self.zipped.static_length


# -- without end
@form("count", 0, 2, ["start", "step"])
def emit_count(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    given = dict(zip(("start", "step"), call.args, strict=False)) | {k.name.name: k.value for k in call.keywords}
    values = [em.emit(given[n]) if n in given else None for n in ("start", "step")]
    for value in values:
        if value is not None and value.type is not T.INT:
            raise WRONG_ARGUMENTS(
                "itertools.count is compiled for ints", call.range, expected="int", found=value.type.annotation,
                hint="count with ints, and compute the rest from them",
            )  # fmt: skip
    start, step = (em.constant(i, call.range) if v is None else v for i, v in enumerate(values))
    return EndlessCounter(em, call.range, [start, em.number(INT64_MAX, call.range), step])


class _Endless(LazyIterable):
    """What has no end: something else has to end the loop."""

    def as_argument(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_ITERABLE(f"{self.kind} has no end", range, hint="go through it beside something else: zip(...)")

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value | None:
        return None


class EndlessCounter(_Endless, CounterValue):
    """`itertools.count(start, step)`."""

    kind = "itertools.count"


@form("cycle", 1, 1)
def emit_cycle(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    listed: SugaredValue = em.emit_sugared(elements_of(iterated(em, call.args[0]), call.range))
    return CycleValue(listed.as_value(em, call.range))


class CycleValue(_Endless):
    """`itertools.cycle(xs)`: the elements again and again, none where there are none."""

    kind = "itertools.cycle"

    def __init__(self, items: Value) -> None:
        self.items = items

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self

    def _count(self, b: Builder, range: SourceRange) -> Value:
        return b.op("aten::len", [self.items], range=range)

    def length(self, b: Builder, range: SourceRange) -> Value:
        any_ = b.op("prim::min", [b.make_list(T.INT, [self._count(b, range), b.constant(1, range)])], range=range)
        return b.op("aten::mul", [any_, b.number(INT64_MAX, range)], range=range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        position = b.op("aten::remainder", [index, self._count(b, range)], range=range)
        return SimpleValue(b.op("aten::__getitem__", [self.items, position], range=range))
