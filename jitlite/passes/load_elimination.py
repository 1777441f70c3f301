"""Redundant load elimination: read an element, an attribute or a length once as long as nobody writes it.

    %a : int = aten::__getitem__(%l, %i)               %a : int = aten::__getitem__(%l, %i)
    %b : int = aten::add(%a, %1)                       %b : int = aten::add(%a, %1)
    %w : int[] = aten::_set_item(%l, %i, %b)    =>     %w : int[] = aten::_set_item(%l, %i, %b)
    %c : int = aten::__getitem__(%l, %i)               %d : int = aten::mul(%b, %b)
    %d : int = aten::mul(%c, %b)

What was read from, or put into, a list or dict at an index or key is what a later node reads there, which therefore
does not raise either, unless a node in between may write the container: `AliasDb` tells which. Setting an element
leaves the length. In a loop only what the loop does not write is known from before; behind a branch, what the branch
does not write. `cse` does the same for what nobody writes anywhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from jitlite.analysis.alias import AliasDb, aliases_of
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.value_keys import value_key
from jitlite.passes.registry import graph_pass

_KEYS = frozenset({T.INT, T.STRING, T.BOOL})
"""Types of keys of which two equal ones read the same."""


class _ReadPlace(NamedTuple):
    """What is read: something (an element, the length, an attribute) of a container."""

    what: str
    container: Value
    key: Hashable = None


_Known = dict[_ReadPlace, Value]


@graph_pass
def eliminate_loads(graph: Graph) -> bool:
    """Replace reads of what has been read or written before."""
    containers = {place.container for node in graph.all_nodes() if (place := _read(node)) is not None}
    if not containers:
        return False
    eliminator = _LoadEliminator(aliases_of(graph), containers)
    eliminator.block(graph.block, {})
    return eliminator.changed


class _LoadEliminator:
    def __init__(self, db: AliasDb, containers: Iterable[Value]) -> None:
        self.db = db
        self.read_somewhere = 0
        """The locations of all that is read in the graph."""
        for container in containers:
            self.read_somewhere |= db.locations(container)
        self.changed = False

    def block(self, block: Block, known: _Known) -> None:
        for node in block.nodes:
            if node.blocks:
                self.nested(node, known)
                self.forget(node, known)
                continue
            place = _read(node)
            if place is not None:
                self.read(node, place, known)
                continue
            self.forget(node, known)
            stored = _stored(node)
            if stored is not None:
                known[stored[0]] = stored[1]

    def nested(self, node: Node, known: _Known) -> None:
        """The blocks of a node. What one of them finds out, the others do not know."""
        if node.kind == "prim::If":
            for inner in node.blocks:
                self.block(inner, dict(known))
            return
        unwritten = dict(known)
        self.forget(node, unwritten)
        for inner in node.blocks:
            self.block(inner, dict(unwritten) if node.kind in ("prim::Loop", "prim::Try") else {})

    def read(self, node: Node, place: _ReadPlace, known: _Known) -> None:
        found = known.get(place)
        if found is not None and found.type is node.output.type:
            node.output.replace_all_uses_with(found)
            node.destroy()
            self.changed = True
        elif found is None:
            known[place] = node.output

    def forget(self, node: Node, known: _Known) -> None:
        """Forget what the node may write."""
        written = self.db.writes(node)
        if not written & self.read_somewhere:
            return
        keeps_length = node.kind == "aten::_set_item" and isinstance(node.inputs[0].type, T.ListType)
        for place in list(known):
            if self.db.locations(place.container) & written and not (keeps_length and place.what == "length"):
                del known[place]


def _read(node: Node) -> _ReadPlace | None:
    """What the node reads, if it does nothing else."""
    if node.kind == "prim::GetAttr":
        return _ReadPlace(f".{node.attributes['name']}", node.input)
    container = node.inputs[0] if node.inputs else None
    if container is None or not isinstance(container.type, T.ListType | T.DictType):
        return None
    if node.kind == "aten::len":
        return _ReadPlace("length", container)
    if node.kind == "aten::__contains__" and isinstance(container.type, T.DictType):
        return _keyed("has", container, node.inputs[1])
    return _keyed("item", container, node.inputs[1]) if node.kind == "aten::__getitem__" else None


def _stored(node: Node) -> tuple[_ReadPlace, Value] | None:
    """Where the node puts which value."""
    if node.kind != "aten::_set_item" or not isinstance(node.inputs[0].type, T.ListType | T.DictType):
        return None
    container, key, value = node.inputs
    place = _keyed("item", container, key)
    return None if place is None else (place, value)


def _keyed(what: str, container: Value, key: Value) -> _ReadPlace | None:
    if key.type not in _KEYS:
        return None
    return _ReadPlace(what, container, value_key(constant_of(key)) if is_constant(key) else key)
