"""The points-to graph of alias analysis: which locations each value may be, and what follows for two values.

`alias.py` says what locations are and fills this graph in by a walk over the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.analysis.memory_kinds import DICT, KINDS, LIST, OBJECT, contained_kinds, kinds_of, reachable_kinds
from jitlite.ir.graph import Node, Value

Locations = int
"""A set of memory locations, one bit each."""

Source = Value | None
"""A value, or None for the heap."""


class PointsTo:
    """What values of one graph may be, and which of it is written, held or known outside."""

    def __init__(self) -> None:
        self._points: dict[Value, Locations] = {}
        self._flows: list[tuple[Source, tuple[Source, ...]]] = []
        """Whatever the sources may be, the first may be too."""
        self._own: dict[Value, Locations] = {}
        self._of_kind = dict.fromkeys(KINDS, 0)
        self._writes: dict[Node, list[tuple[Source, bool]]] = {}
        """For each writing node the values written, and whether all that can be reached from them is."""
        self._private: dict[Value, Sequence[Value]] = {}
        self._private_locations: dict[Locations, Sequence[Value]] = {}
        self._private_mask: Locations = 0
        self._observed: list[Value] = []
        self._next_location = 1
        self._masks: dict[int, Locations] = {}
        self._outside = {kind: self._new_location(kind) for kind in KINDS}
        self._heap: Locations = sum(self._outside.values())
        self._everything: Locations = 0
        """All locations, once every node has been seen."""
        self._written: Locations = 0
        self._escaped: Locations = 0

    # -- questions about values

    def locations(self, value: Value) -> Locations:
        """What the value may be, or be a view of."""
        if not kinds_of(value.type):
            return 0
        return self._points.get(value, self._everything)

    def reachable(self, value: Value) -> Locations:
        """Its locations, and those of all it may hold, however deep."""
        if value not in self._points:
            return self._everything if reachable_kinds(value.type) else 0
        found = self.locations(value)
        holders = found & self._mask(LIST | DICT | OBJECT)
        private = holders & self._private_mask
        while private:
            location = private & -private
            private ^= location
            for element in self._private_locations[location]:
                found |= self.reachable(element)
        if holders & ~self._private_mask:
            found |= self._heap & self._mask(contained_kinds(value.type))
        return found

    def may_alias(self, a: Value, b: Value) -> bool:
        """May the two be one object, or views of one memory?"""
        return bool(self.locations(a) & self.locations(b))

    def may_contain_alias(self, a: Value | Iterable[Value], b: Value | Iterable[Value]) -> bool:
        """May something reachable from `a` be reachable from `b`?"""
        return bool(self.all_reachable(a) & self.all_reachable(b))

    def all_reachable(self, values: Value | Iterable[Value]) -> Locations:
        """The locations of values and of all they may hold."""
        found = 0
        for value in (values,) if isinstance(values, Value) else values:
            found |= self.reachable(value)
        return found

    def is_written(self, value: Value) -> bool:
        """Does any node write the value itself (not what it holds)?"""
        return bool(self.locations(value) & self._written)

    def has_writers(self, values: Value | Iterable[Value]) -> bool:
        """Does any node of the graph write something reachable from the values?"""
        return bool(self.all_reachable(values) & self._written)

    def writes_own(self, value: Value) -> bool:
        """Does any node write the object made for this value, so far as the graph tells?

        A constant is made once and may be an object of the surroundings: a write to one of those does not count here.
        """
        return bool(self._own.get(value, 0) & self._written)

    def escapes(self, value: Value) -> bool:
        """Could somebody other than its readers in the graph get hold of the object made for this value?

        A value that is another one (an element read from a list, say) was not made for it.
        """
        if value not in self._points:
            return kinds_of(value.type) != 0
        return bool(self._own.get(value, 0) & self._escaped)

    def is_new(self, value: Value) -> bool:
        """May the value be an object that its node made?"""
        return kinds_of(value.type) != 0 and (value in self._own or value not in self._points)

    def may_merge(self, kept: Sequence[Value], removed: Sequence[Value], repeated: bool = False) -> bool:
        """May each `removed` value be replaced by the `kept` one, an equal object made before?

        They may unless somebody writes one of them, or could tell that two objects became one. With `repeated`, the
        removed values stand for several objects made one after the other (in a loop that `kept` is not in).
        """
        if self.has_writers(kept) or self.has_writers(removed):
            return False
        return not any(
            self.is_new(old) and self.escapes(old) and (repeated or self.escapes(new))
            for new, old in zip(kept, removed, strict=True)
        )

    def merged(self, kept: Sequence[Value], removed: Sequence[Value]) -> None:
        """Take note that `kept` values now stand for `removed` ones as well."""
        for new, old in zip(kept, removed, strict=True):
            if self.escapes(old):
                self._escaped |= self._own.get(new, 0)

    @property
    def held(self) -> Locations:
        """What lists, dicts, objects and the surroundings may hold."""
        return self._heap

    def of_kinds(self, kinds: int) -> Locations:
        """All locations of tensors, lists, dicts or other objects."""
        return self._mask(kinds)

    def put_in_place_of(self, old: Value, new: Value) -> None:
        """Take note of a value made later that is, or holds, no more than `old` may (and memory nobody else knows)."""
        self._points[new] = self._points.get(old, self._everything)

    # -- locations

    def _new_location(self, kind: int) -> Locations:
        location = self._next_location
        self._next_location <<= 1
        self._of_kind[kind] |= location
        return location

    def _mask(self, kinds: int) -> Locations:
        found = self._masks.get(kinds)
        if found is None:
            found = 0
            for kind in KINDS:
                if kinds & kind:
                    found |= self._of_kind[kind]
            self._masks[kinds] = found
        return found

    def _make(self, value: Value) -> None:
        """The value is a new object (or several, where it is a tuple)."""
        kinds = kinds_of(value.type)
        if not kinds:
            return
        own = 0
        for kind in KINDS:
            if kinds & kind:
                own |= self._new_location(kind)
        self._own[value] = own
        self._points[value] = self._points.get(value, 0) | own

    def _from_outside(self, value: Value) -> None:
        kinds = kinds_of(value.type)
        for kind in KINDS:
            if kinds & kind:
                self._points[value] = self._points.get(value, 0) | self._outside[kind]

    def _flow(self, value: Value, sources: Iterable[Source]) -> None:
        """The value may be any of the sources."""
        if kinds_of(value.type):
            self._points.setdefault(value, 0)
            listed = tuple(s for s in sources if s is None or kinds_of(s.type))
            if listed:
                self._flows.append((value, listed))

    def _escape(self, values: Iterable[Value]) -> None:
        listed = tuple(v for v in values if kinds_of(v.type))
        if listed:
            self._flows.append((None, listed))

    def _write(self, node: Node, value: Source, deep: bool = False) -> None:
        if value is None or reachable_kinds(value.type):
            self._writes.setdefault(node, []).append((value, deep))

    def _solve(self) -> None:
        points, grew = self._points, True
        while grew:
            grew = False
            for value, sources in self._flows:
                gathered = 0
                for source in sources:
                    gathered |= self._heap if source is None else points.get(source, 0)
                if value is None:
                    if gathered & ~self._heap:
                        self._heap |= gathered
                        grew = True
                    continue
                gathered &= self._mask(kinds_of(value.type))
                if gathered & ~points[value]:
                    points[value] |= gathered
                    grew = True
