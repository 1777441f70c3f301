"""`self.layers[name](x)`, where the name is known at run time only and the submodules are of several types: a chain of
ifs, one for each submodule, around what is done with the one that is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.frontend.builder import Builder
from jitlite.frontend.conditions import emit_if_expression
from jitlite.frontend.emitter import Emitter
from jitlite.frontend.scope import Condition
from jitlite.frontend.values import Args, SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.graph import Value
from jitlite.ir.overloads import NamedValue
from jitlite.source import SourceRange

Read = Callable[[SugaredValue], SugaredValue]


class ChosenPart(SugaredValue):
    """One of the parts of a container, or what `read` makes of it. What is done with it gives values of one type.

    Args:
        index: a name, or a position, which may be negative.
        names: the names of the parts.
    """

    kind = "a submodule that is known at run time only"

    def __init__(self, index: Value, names: Sequence[str], parts: Sequence[SugaredValue], read: Read | None = None):
        self.index = index
        self.names = list(names)
        self.parts = list(parts)
        self.read: Read = read or (lambda part: part)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        return ChosenPart(self.index, self.names, self.parts, lambda part: self.read(part).attr(b, range, name))

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        given = [_evaluated(b, range, a) for a in args]
        named = [_evaluated(b, range, a) for a in kwargs]
        return SimpleValue(self._chosen(b, range, lambda part: part.call(b, range, given, named).as_value(b, range)))

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        return self._chosen(b, range, lambda part: part.as_value(b, range))

    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        return SimpleValue(self.as_value(b, range)).as_tuple(b, range, size)

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return SimpleValue(self.as_value(b, range)).iterate(b, range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        return SimpleValue(self.as_value(b, range)).element(b, range, index)

    def _chosen(self, b: Builder, range: SourceRange, use: Callable[[SugaredValue], Value]) -> Value:
        assert isinstance(b, Emitter)
        first: list[T.Type] = []

        def emit(position: int) -> Value:
            if position == len(self.parts):
                return self._nothing(b, range, first[0])

            def taken() -> Value:
                found = use(self.read(self.parts[position]))
                first.append(found.type)
                return found

            condition = Condition(self._is(b, range, position))
            return emit_if_expression(b, range, condition, taken, lambda: emit(position + 1))

        return emit(0)

    def _is(self, b: Builder, range: SourceRange, position: int) -> Value:
        """Does the index mean this part?"""
        wanted: list[object] = [self.names[position]]
        if self.index.type is not T.STRING:
            wanted = [position, position - len(self.parts)]
        tests = [b.op("aten::eq", [self.index, b.constant(w, range)], range=range) for w in wanted]
        return tests[0] if len(tests) == 1 else b.op("aten::__or__", tests, range=range)

    def _nothing(self, b: Builder, range: SourceRange, wanted: T.Type) -> Value:
        """What Python raises where there is no such part."""
        cls, message = KeyError, self.index
        if self.index.type is not T.STRING:
            text = b.op("aten::str", [self.index], range=range)
            text = b.op("aten::add", [text, b.constant(" is out of range", range)], range=range)
            cls = IndexError  # type: ignore[assignment]
            message = b.op("aten::add", [b.constant("index ", range), text], range=range)
        name = b.constant(QualifiedClassName(f"builtins.{cls.__name__}", cls), range, T.STRING)
        b.node("prim::RaiseException", [message, name], [], range)
        return b.uninitialized(wanted)


def _evaluated(b: Builder, range: SourceRange, given: NamedValue) -> NamedValue:
    return NamedValue(given.name, given.in_graph(b.graph), range=range)
