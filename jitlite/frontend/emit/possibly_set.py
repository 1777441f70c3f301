"""Variables that only the body of a loop sets, read behind it.

The body need not have run. So such a variable is known behind the loop once something reads it there: it then is a
variable that may be unset, and `unset.py` lets the read look whether it has been set.

    for x in xs: ...
    return x                 an UnboundLocalError where there was nothing in xs
"""

from __future__ import annotations

from collections.abc import Iterator

from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.return_types import Unset
from jitlite.frontend.emit.scope import Frame
from jitlite.frontend.emit.values import SimpleValue
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node


def note_possible(outer: Frame, body: Frame, loop: Node) -> None:
    """Note what the body of a loop, or of a loop in it, has set and the block around has not."""
    found = dict(body.possible)
    found.update((name, Unset(body.declared_type(name) or t, loop)) for name, t in body.types.items())
    for name, variable in found.items():
        if name[0] != "$" and name not in body.owned and not outer.is_defined(name):
            outer.possible[name] = Unset(variable.type, loop)


def read_possible(b: Builder, frame: Frame, unset: dict[str, Unset], name: str) -> SimpleValue | None:
    """The value of a variable that a loop before may have set, which is known from then on; None where there is none.

    It is none either where the function gives the variable values of another type before: these may still be in it.
    """
    owner = next((f for f in frame.chain() if name in f.possible), None)
    if owner is None:
        return None
    variable = owner.possible[name]
    stored = (n.input.type for n in accesses(b.graph.block, name) if n.kind == "prim::Store")
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
