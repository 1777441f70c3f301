"""Variables that may not have been set where they are read.

A `with` whose manager ended an exception goes on behind its body, though not all of the body has run, and the body of a
loop, or a branch, need not run at all (`possibly_set.py`). As in Python, a variable that is first set in there may then
be read or not, depending on how far the body came. So a flag goes with it, and reading it looks at the flag:

                                          prim::Store[name="$has x"](%false)
    prim::Store[name="x"](%a)       =>    prim::Store[name="x"](%a)
                                          prim::Store[name="$has x"](%true)
    %v : int = prim::Load[name="x"]()     %f : bool = prim::Load[name="$has x"]()
                                          prim::If(%f)
                                            block0(): -> ()
                                            block1(): prim::RaiseException(...) -> ()
                                          %v : int = prim::Load[name="x"]()

Where the flag is known to be true, later steps and passes remove the test. What the compiler puts aside and takes back,
for an `else`, is neither read nor set: the flag stays as it is. `del x` takes the flag back. As the variable exists
from its start, no block needs a placeholder for it, which would hide what an earlier iteration has set.
"""

from __future__ import annotations

from collections.abc import Iterable

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.callables import ExceptionClass
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.possibly_set import accesses, all_accesses
from jitlite.frontend.emit.return_types import Unset
from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.ir.traits import Trait


def check_reads(em: Emitter) -> None:
    """Let reading a variable that has not been set raise an UnboundLocalError."""
    for name, variable in em.unset.read.items():
        _check_reads_of(em, name, variable)
    _drop(node for node in em.unset.deletions if node.attributes["name"] not in em.unset.read)


def _check_reads_of(em: Emitter, name: str, variable: Unset) -> None:
    first = _first(em, name, variable)
    if first is not variable.node or first.kind == "prim::Loop":
        # the variable exists wherever a block might need a placeholder for it
        _drop(n for n in accesses(em.graph.block, name) if _is_placeholder(em, n, variable))
    found = [n for n in accesses(em.graph.block, name) if n not in em.unset.moves]
    with em.graph.inserting_before(first):
        _store(em, _flag(name), False)
        if variable.node not in em.unset.deletions:  # else it has a value before
            em.graph.insert("prim::Store", (em.uninitialized(variable.type),), (), {"name": name})
    for node in found:
        _follow(em, node, name, variable)


def _flag(name: str) -> str:
    """The variable that says whether another one has been set."""
    return f"$has {name}"


def _follow(em: Emitter, node: Node, name: str, variable: Unset) -> None:
    """Let a Store set the flag of a variable, and a Load look at it."""
    if node.kind == "prim::Load":
        _check(em, node, name, variable.node.range)
        return
    with em.graph.inserting_before(node):
        _store(em, _flag(name), node not in em.unset.deletions)


def _drop(stores: Iterable[Node]) -> None:
    for node in list(stores):
        node.destroy()


def _is_placeholder(em: Emitter, node: Node, variable: Unset) -> bool:
    return node in em.unset.placeholders and T.is_subtype(T.unshaped(node.input.type), variable.type)


def _first(em: Emitter, name: str, variable: Unset) -> Node:
    """The node before which the variable begins to exist: the first of the function where all it holds is of one type.

    Elsewhere the name may be that of another variable, of another type; a loop hands on what the one before has set.
    """
    first = next(em.graph.block.nodes, None)
    stored = (T.unshaped(n.input.type) for n in all_accesses(em.graph, name) if n.kind == "prim::Store")
    assert first is not None
    if variable.node in em.unset.deletions or all(T.is_subtype(t, variable.type) for t in stored):
        return first
    return _outermost_loop(variable.node)


def _outermost_loop(node: Node) -> Node:
    """The outermost loop around a node in the same function; where there is none, the node."""
    found, around = node, node
    while around.block is not None and around.block.owner is not None:
        around = around.block.owner
        if around.has(Trait.FUNCTION_SCOPE):
            break
        if around.kind == "prim::Loop":
            found = around
    return found


def _store(em: Emitter, name: str, value: bool) -> None:
    em.graph.insert("prim::Store", (em.graph.insert_constant(value),), (), {"name": name})


def _check(em: Emitter, load: Node, name: str, range: SourceRange | None) -> None:
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    range = load.range or range
    assert range is not None
    with em.graph.inserting_before(load), em.at(range):
        known = em.graph.insert("prim::Load", (), (T.BOOL,), {"name": _flag(name)}).output
        test = em.node("prim::If", [known], [])
        test.add_block()
        with em.graph.inserting_at_end(test.add_block()):
            cls = ExceptionClass(UnboundLocalError, "builtins.UnboundLocalError").qualified
            parts = [em.graph.insert_constant(text), em.constant(cls, range, T.STRING)]
            em.node("prim::RaiseException", parts, [])
