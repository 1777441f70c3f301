"""Sugared values of what Python makes to loop over or to index with: `range`, `enumerate`, `zip`, `slice`."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.calls import WRONG_ARGUMENTS, WRONG_COUNT
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.known_values import LazyIterable
from jitlite.frontend.emit.values import SimpleValue, SugaredTuple, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.constants import INT64_MAX
from jitlite.ir.graph import Value, constant_of, is_constant


class RangeValue(LazyIterable):
    """`range(start, end, step)`."""

    kind = "a range"

    def __init__(self, b: Builder, range: SourceRange, inputs: Sequence[Value], static_length: int | None = None):
        inputs = [b.enum_value(v, range) for v in inputs]
        inputs = [b.convert(T.INT, v, range) if v.type is T.NUMBER else v for v in inputs]
        for position, value in enumerate(inputs):
            if value.type is not T.INT:
                hint = "convert it with int(...)" if value.type in (T.TENSOR, T.FLOAT) else None
                parameter = b.unannotated(value)
                if parameter is not None:
                    hint = f"'{parameter}' is a Tensor because it has no annotation; annotate it: `{parameter}: int`"
                raise WRONG_ARGUMENTS(
                    f"all inputs of range must be ints, found {value.type.annotation} in argument {position}",
                    range,
                    hint=hint,
                )
        if not 1 <= len(inputs) <= 3:
            raise WRONG_COUNT(f"range takes 1 to 3 arguments, got {len(inputs)}", range)
        self.only_end = len(inputs) == 1
        self.start = b.constant(0, range) if self.only_end else inputs[0]
        self.end = inputs[0] if self.only_end else inputs[1]
        self.step = inputs[2] if len(inputs) == 3 else b.constant(1, range)
        self._static_length = static_length

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self

    def length(self, b: Builder, range: SourceRange) -> Value:
        if self._static_length is not None:
            return b.constant(self._static_length, range)
        if self.only_end:
            return self.end
        return b.op("aten::__range_length", [self.start, self.end, self.step], range=range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        if self.only_end:
            return SimpleValue(index)
        return SimpleValue(b.op("aten::__derive_index", [index, self.start, self.step], range=range))

    @property
    def static_length(self) -> int | None:
        return self._static_length

    @property
    def is_symbolic(self) -> bool:
        return True

    @property
    def bounds(self) -> tuple[Value, Value, Value]:
        """Start, end and step."""
        return self.start, self.end, self.step

    def count(self, b: Builder, range: SourceRange) -> Value:
        """`len(self)`, which is 0 where the end is before the start."""
        return b.op("aten::__range_length", list(self.bounds), range=range)

    def as_shown(self, b: Builder, range: SourceRange) -> Value:
        return b.op("python::range", list(self.bounds), range=range)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        found = {"start": self.start, "stop": self.end, "step": self.step}.get(name)
        return super().attr(b, range, name) if found is None else SimpleValue(found)

    def truth(self, b: Builder, range: SourceRange) -> Value:
        return b.op("aten::gt", [self.count(b, range), b.constant(0, range)], range=range)

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value | None:
        """Is a number one of the elements? Nothing else is equal to an int."""
        item = b.convert(T.INT, b.enum_value(item, range), range) if item.type is T.BOOL else b.enum_value(item, range)
        if item.type not in (T.INT, T.FLOAT):
            return None if T.may_be_none(item.type) or item.type is T.ANY else b.constant(False, range)

        def op(name: str, *values: Value) -> Value:
            return b.op(f"aten::{name}", values, range=range)

        zero, length = b.constant(0, range), self.count(b, range)
        offset = op("sub", item, self.start)
        is_step = op("eq", op("remainder", offset, self.step), zero)
        position = op("floordiv", offset, self.step)
        is_within = op("__and__", op("ge", position, zero), op("lt", position, length))
        return op("__and__", is_step, is_within)


class CounterValue(RangeValue):
    """What `enumerate` counts: ints from a start on, without end."""

    kind = "a counter"

    def length(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(self._static_length, range) if self._static_length is not None else self.end


class ZipValue(LazyIterable):
    """`zip(...)`, and `enumerate(x)`, which is `zip` of a counter and `x`."""

    kind = "an iterable"

    def __init__(self, range: SourceRange, children: Sequence[SugaredValue], *, strict: bool = False) -> None:
        self.children = list(children)
        self.is_checked = not strict
        """Are the lengths equal, or need not be? Whoever goes through it to the end checks them."""
        # a length at compile time forces unrolling
        known = [c.static_length for c in children if c.static_length is not None]
        self._static_length = min(known) if known else None

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self

    def _leaves(self) -> list[SugaredValue]:
        leaves: list[SugaredValue] = []
        for child in self.children:
            leaves += child._leaves() if isinstance(child, ZipValue) else [child]
        return leaves

    def length(self, b: Builder, range: SourceRange) -> Value:
        lengths = [leaf.length(b, range) for leaf in self._leaves()]
        return b.op("prim::min", [b.make_list(T.INT, lengths)], range=range)

    def complaints(self, b: Builder, range: SourceRange) -> list[tuple[Value, str]]:
        """What `strict` raises at the end, and when, first things first; nothing where the lengths are known to fit."""
        lengths = [] if self.is_checked else [child.length(b, range) for child in self.children]
        known = [constant_of(n) for n in lengths if is_constant(n)]
        if len(known) == len(lengths) and len(set(known)) < 2:
            return []
        least = b.op("prim::min", [b.make_list(T.INT, lengths)], range=range)
        found = []
        for first, other, word in (("aten::ne", "aten::eq", "shorter"), ("aten::eq", "aten::ne", "longer")):
            for number, length in enumerate(lengths[1:], 2):
                one = b.op(first, [lengths[0], least], range=range)
                two = b.op(other, [length, least], range=range)
                before = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
                text = f"zip() argument {number} is {word} than {before}"
                found.append((b.op("aten::__and__", [one, two], range=range), text))
        return found

    def limit(self, b: Builder, range: SourceRange) -> Value | None:
        lengths = [leaf.length(b, range) for leaf in self._leaves() if leaf.static_length is None]
        lengths += [n for leaf in self._leaves() if (n := leaf.limit(b, range)) is not None]
        lengths = [n for n in lengths if not is_constant(n) or constant_of(n) < self._static_length]
        return b.op("prim::min", [b.make_list(T.INT, lengths)], range=range) if lengths else None

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        return SugaredTuple([c.element(b, range, index) for c in self.children])

    @property
    def static_length(self) -> int | None:
        return self._static_length


def list_length_positions(source: SugaredValue) -> list[int]:
    """Which of the lengths that bound a loop over `source` are those of lists, by position."""
    source = source.counted
    leaves = source._leaves() if isinstance(source, ZipValue) else [source]
    return [
        i
        for i, v in enumerate(leaf.counted for leaf in leaves)
        if isinstance(v, SimpleValue) and isinstance(v.value.type, T.ListType)
    ]


def enumerate_value(b: Builder, range: SourceRange, iterable: SugaredValue, start: Value | None) -> ZipValue:
    """`enumerate(iterable, start)`."""
    end = b.number(INT64_MAX, range)
    counter = CounterValue(b, range, [end] if start is None else [start, end], iterable.static_length)
    return ZipValue(range, [counter, iterable])


class SliceValue(SugaredValue):
    """`slice(start, stop, step)` as an object; None stands for a missing bound."""

    kind = "a slice"

    def __init__(self, start: Value | None, stop: Value | None, step: Value | None) -> None:
        self.start = start
        self.stop = stop
        self.step = step
