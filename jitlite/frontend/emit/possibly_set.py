"""Variables that are set on some of the ways to where they are read.

The body of a loop need not have run, and of two branches one has. What only these set is known behind them once
something reads it there: it then is a variable that may be unset, and `unset.py` lets the read look whether it has been
set.

    for x in xs: ...
    return x                 an UnboundLocalError where there was nothing in xs

    if c:
        y = f()
    return y                 likewise where c is false
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.return_types import Unset
from jitlite.frontend.emit.scope import Frame
from jitlite.frontend.emit.values import SimpleValue
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node
from jitlite.ir.types import Type


class UnsetVariables:
    """What is followed of the variables of a function that need not be set where they are read."""

    def __init__(self, before: UnsetVariables | None = None) -> None:
        self.read: dict[str, Unset] = {} if before is None else dict(before.read)
        """Those that are read."""
        self.moves: set[Node] = set() if before is None else set(before.moves)
        """Loads and Stores that hand on what a variable holds, set or not."""
        self.placeholders: set[Node] = set() if before is None else set(before.placeholders)
        """Stores of values that are never read, for blocks that do not set the variable."""
        self.deletions: set[Node] = set() if before is None else set(before.deletions)
        """Stores that stand where a variable is deleted."""


def note_possible(outer: Frame, body: Frame, node: Node) -> None:
    """Note what the body of a loop or a branch, or what is in it, has set and the block around has not."""
    found = dict(body.possible)
    found.update((name, Unset(body.declared_type(name) or t, node)) for name, t in body.types.items())
    note_unset(outer, {name: found[name].type for name in found.keys() - body.owned}, node)


def note_unset(outer: Frame, types: Mapping[str, Type], node: Node) -> None:
    """Note which variables a node may have set, of which types, that the block around it has not."""
    for name, type in types.items():
        if name[0] == "$" or outer.is_defined(name):
            continue
        before = outer.possible.get(name)
        both = None if before is None else T.unify(before.type, type)
        outer.possible[name] = Unset(both or type, node)


def is_set_outside_loop(frame: Frame, name: str) -> bool:
    """Is a variable set outside the innermost loop around a place? So may an earlier iteration have deleted it."""
    for inner in frame.chain():
        if name in inner.types or inner.starts_function:
            return False
        if inner.block.owner is not None and inner.block.owner.kind == "prim::Loop":
            return inner.parent is not None and inner.parent.is_defined(name)
    return False


def read_possible(b: Builder, frame: Frame, unset: dict[str, Unset], name: str) -> SimpleValue | None:
    """The value of a variable that something before may have set, which is known from then on; None if there is none.

    It is none either where the function gives the variable before values of another type, or what is no value, such as
    a function: these may still be in it.
    """
    if name in frame.symbolic:
        return None
    owner = next((f for f in frame.chain() if name in f.possible), None)
    if owner is None:
        return None
    variable = owner.possible[name]
    stored = (T.unshaped(n.input.type) for n in accesses(b.graph.block, name) if n.kind == "prim::Store")
    if not all(T.is_subtype(t, variable.type) for t in stored):
        return None
    unset.setdefault(name, variable)
    owner.know(name, variable.type)
    return SimpleValue(frame.load(b, name, variable.type))


def accesses(block: Block, name: str) -> Iterator[Node]:
    """The Loads and Stores of a variable of the function."""
    for node in block.nodes:
        if _accesses(node, name):
            yield node
        for inner in node.blocks:
            found = list(accesses(inner, name))
            own = node.kind == "prim::ComprehensionScope" and any(n.kind == "prim::Store" for n in found)
            yield from () if own else found


def all_accesses(graph: Graph, name: str) -> Iterator[Node]:
    """The Loads and Stores of every variable of this name: comprehensions have variables of their own."""
    return (node for node in graph.all_nodes() if _accesses(node, name))


def _accesses(node: Node, name: str) -> bool:
    return node.kind in ("prim::Load", "prim::Store") and node.attributes["name"] == name
