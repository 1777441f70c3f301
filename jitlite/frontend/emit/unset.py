"""Variables that may not have been set where they are read.

A `with` whose manager ended an exception goes on behind its body, though not all of the body has run. As in Python, a
variable that is first set in there may then be read or not, depending on how far the body came. So a flag goes with
it, and reading it looks at the flag:

                                          prim::Store[name="$has x"](%false)
    prim::Store[name="x"](%a)       =>    prim::Store[name="x"](%a)
                                          prim::Store[name="$has x"](%true)
    %v : int = prim::Load[name="x"]()     %f : bool = prim::Load[name="$has x"]()
                                          prim::If(%f)
                                            block0(): -> ()
                                            block1(): prim::RaiseException(...) -> ()
                                          %v : int = prim::Load[name="x"]()

Where the flag is known to be true, later steps and passes remove the test. What the compiler puts aside and takes back,
for an `else`, is neither read nor set: the flag stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.callables import ExceptionClass
from jitlite.frontend.emit.emitter import Emitter
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Node


def check_reads(em: Emitter) -> None:
    """Let reading a variable that has not been set raise an UnboundLocalError."""
    for name, variable in em.unset.items():
        accesses = list(_accesses(em.graph.block, name))
        first: Node | None = next(em.graph.block.nodes, None)
        stored = [node.input.type for node in accesses if node.kind == "prim::Store"]
        if first is None or not all(T.is_subtype(t, variable.type) for t in stored):
            first = variable.node  # elsewhere it is another variable, of another type
        flag = f"$has {name}"
        with em.graph.inserting_before(first):
            _store(em, flag, False)
            em.graph.insert("prim::Store", (em.uninitialized(variable.type),), (), {"name": name})
        for node in accesses:
            if node in em.moves:
                continue
            if node.kind == "prim::Store":
                with em.graph.inserting_before(node):
                    _store(em, flag, True)
            else:
                _check(em, node, name, flag, variable.node.range)


def _accesses(block: Block, name: str) -> Iterator[Node]:
    """The Loads and Stores of a variable of the function."""
    for node in block.nodes:
        if node.kind in ("prim::Load", "prim::Store"):
            if node.attributes["name"] == name:
                yield node
            continue
        for inner in node.blocks:
            found = list(_accesses(inner, name))
            own = node.kind == "prim::ComprehensionScope" and any(n.kind == "prim::Store" for n in found)
            yield from () if own else found


def _store(em: Emitter, name: str, value: bool) -> None:
    em.graph.insert("prim::Store", (em.graph.insert_constant(value),), (), {"name": name})


def _check(em: Emitter, load: Node, name: str, flag: str, range: SourceRange | None) -> None:
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    range = load.range or range
    assert range is not None
    with em.graph.inserting_before(load), em.at(range):
        known = em.graph.insert("prim::Load", (), (T.BOOL,), {"name": flag}).output
        test = em.node("prim::If", [known], [])
        test.add_block()
        with em.graph.inserting_at_end(test.add_block()):
            cls = ExceptionClass(UnboundLocalError, "builtins.UnboundLocalError").qualified
            parts = [em.graph.insert_constant(text), em.constant(cls, range, T.STRING)]
            em.node("prim::RaiseException", parts, [])
