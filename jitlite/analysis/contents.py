"""Following what is in a list or dict, from the display that makes it through the uses in one block.

A container that was just made is known to nobody. As long as each node that uses it, in the order they run, is one of
whose effect on the contents all is known (`append`, `pop(0)`, `d["a"] = x`), or one that only reads it and keeps
nothing, the contents are a list of values known here, and nobody can tell whether there is a container at all. So such
nodes are replaced: writes by updating what is known of the container, reads by the values read; other readers are given
a container made for them. This ends at the first node that keeps the container or is not understood, which gets one
with the contents it would have found, and so does everybody after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cmp_to_key
from typing import Any

from jitlite.analysis.alias import keeps_nothing
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.analysis import ancestor_in
from jitlite.ir.graph import Graph, Node, Use, Value, constant_of, is_constant

MISSING: Any = object()
"""The key that a value stands for that is no constant key."""

_KEYS = (str, int, bool)
"""Types of keys that are looked up here. Floats have NaN, which equals nothing."""


class Contents(Record, eq=True, frozen=False):
    """A container at one point of the program."""

    graph: Graph
    container: Value
    items: list[Value] = field(default_factory=list)
    """The elements of a list, or the values of a dict."""
    keys: list[Any] = field(default_factory=list)
    """The keys of a dict, as Python values."""
    key_values: list[Value] = field(default_factory=list)
    is_stale: bool = False
    """Has anything changed since `container` was made?"""

    @property
    def is_dict(self) -> bool:
        return isinstance(self.container.type, T.DictType)

    def position(self, index: Value) -> int | None:
        """The position in the list that a constant index means, from 0; None if there is none or it is not known."""
        number = constant_of(index, None)
        if type(number) is not int or not -len(self.items) <= number < len(self.items):
            return None
        return number % len(self.items)

    def find(self, key: Value) -> int | None:
        """Where the value for a constant key is; None if it is not there."""
        known = key_of(key)
        return self.keys.index(known) if known in self.keys else None

    def set(self, key: Value, value: Value) -> None:
        """`d[key] = value`"""
        at = self.find(key)
        if at is not None:
            self.items[at] = value
            return
        self.keys.append(key_of(key))
        self.key_values.append(key)
        self.items.append(value)

    def remove(self, at: int) -> None:
        """Take out the item at a position."""
        del self.items[at]
        if self.is_dict:
            del self.keys[at], self.key_values[at]

    def clear(self) -> None:
        del self.items[:], self.keys[:], self.key_values[:]

    def written_out(self, before: Node) -> Value:
        """A container with the contents, made before the node `before` if there is none yet."""
        if self.is_stale:
            inputs = self.items
            if self.is_dict:
                inputs = [v for pair in zip(self.key_values, self.items, strict=True) for v in pair]
            old = self.container
            with self.graph.inserting_before(before):
                made = self.graph.insert(old.node.kind, inputs, (old.type,), range=old.node.range)
            made.scope, made.call_stack = old.node.scope, old.node.call_stack
            self.container, self.is_stale = made.output, False
        return self.container


def key_of(value: Value) -> Any:
    """The Python value of a constant that may be looked up in a dict here, else `MISSING`."""
    if not is_constant(value):
        return MISSING
    known = constant_of(value)
    return known if isinstance(known, _KEYS) else MISSING


SAME: Any = object()
"""Stands for the container among the results of a step."""

Step = Callable[[Node, Contents], "list[Value] | None"]
"""What a node does to the contents of its first input: the values of its outputs, or None where it is not known.

New nodes go before the node. An output that is the container itself is given as `SAME`.
"""


def follow(node: Node, steps: dict[str, Step]) -> bool:
    """Replace what `steps` describe of the uses of the container that `node` makes, in order. Says if it did anything.

    `steps` go by the kind of the node, with `dict ` before it for dicts.
    """
    contents = _start(node)
    return contents is not None and _Follower(node, contents, steps).run()


def _start(node: Node) -> Contents | None:
    contents = Contents(node.graph, node.output)
    if node.kind == "prim::ListConstruct":
        contents.items = list(node.inputs)
        return contents
    for key, value in zip(node.inputs[::2], node.inputs[1::2], strict=True):
        if key_of(key) is MISSING:
            return None
        contents.set(key, value)
    return contents


class _Follower:
    def __init__(self, node: Node, contents: Contents, steps: dict[str, Step]) -> None:
        self.made, self.contents, self.steps = node, contents, steps
        self.original = contents.container
        self.changed = False
        self.pending: dict[Node, list[Use]] = {}
        """The nodes of the block that are still to come, in order, with the uses they are or hold."""

    def run(self) -> bool:
        self.look_ahead(self.made)
        while self.pending:
            place = next(iter(self.pending))
            if not self.pass_by(place, self.pending.pop(place)):
                break
        if self.changed and not self.original.has_uses:
            self.made.destroy()
        return self.changed

    def look_ahead(self, place: Node) -> None:
        block = self.made.block
        assert block is not None
        found: dict[Node, list[Use]] = {}
        for use in self.original.uses:
            user = ancestor_in(use.user, block)
            assert user is not None
            if user.is_after(place):
                found.setdefault(user, []).append(use)
        self.pending = {user: found[user] for user in sorted(found, key=_in_order)}

    def pass_by(self, place: Node, uses: list[Use]) -> bool:
        """Account for the next node that uses the container; False where the books are closed."""
        if self.steps_over(place, uses):
            return True
        current = self.contents.written_out(place)
        is_harmless = all(keeps_nothing(use) for use in uses)
        if current is not self.original:
            later = [] if is_harmless else [use for group in self.pending.values() for use in group]
            for user, offset in (*uses, *later):
                user.replace_input(offset, current)
            self.changed = True
        return is_harmless

    def steps_over(self, place: Node, uses: list[Use]) -> bool:
        step = self.steps.get(f"dict {place.kind}" if self.contents.is_dict else place.kind)
        if step is None or uses != [Use(place, 0)]:
            return False
        with place.graph.inserting_before(place):
            values = step(place, self.contents)
        if values is None:
            return False
        for output, value in zip(place.outputs, values, strict=True):
            is_same = value is SAME
            if is_same and output.has_uses:
                output.replace_all_uses_with(self.original)
                self.look_ahead(place)
            elif not is_same:
                output.replace_all_uses_with(value)
        place.destroy()
        self.changed = True
        return True


def _compare(a: Node, b: Node) -> int:
    return -1 if a.is_before(b) else 1


_in_order = cmp_to_key(_compare)
