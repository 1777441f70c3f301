"""`super()` in a method."""

from __future__ import annotations

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.class_members import function_of
from jitlite.frontend.emit.objects import ObjectDefinition
from jitlite.frontend.emit.values import Args, SimpleValue, SugaredValue
from jitlite.ir.graph import Value


class SuperValue(SugaredValue):
    """`super()` in a method."""

    kind = "super()"

    def __init__(self, owner: Value, definition: ObjectDefinition, start: type) -> None:
        self.owner = owner
        self.definition = definition
        self.start = start

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if name == "__init__" and self._nothing_to_initialize():
            return Nothing()
        found = self.definition.special_of_base(self.owner, self.start, name)
        if found is not None:
            return found
        return self.definition.bound(self.owner, self.definition.super_method(self.start, name, range))

    def _nothing_to_initialize(self) -> bool:
        order = self.definition.type.python_class.__mro__
        later = order[order.index(self.start) + 1 :]
        return not any(function_of(cls.__dict__.get("__init__")) for cls in later)


class Nothing(SugaredValue):
    """`object.__init__`: a call does nothing."""

    kind = "object.__init__"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        return SimpleValue(b.constant(None, range))
