"""Variables that `:=` sets in a part of a condition that is not evaluated each time.

    if a and (y := f(x)) > 0:           y is set where the condition is true
    if a or (y := f(x)) > 0:            where it is false
    if any((y := v) > 0 for v in xs):   where it is true

The value is put aside in a temporary, which exists on every way through the condition and has a value on those that
set the variable. A branch in which the condition says that it is set starts with taking it back:

    %c : bool = prim::If(%a)
      block0():
        prim::Store[name="y"](%v)
        prim::Store[name="$y1"](%v)
        -> (%b)
      block1():
        prim::Store[name="$y1"](%uninitialized)
        -> (%false)
    prim::If(%c)
      block0():
        prim::Store[name="y"](%y1)
"""

from __future__ import annotations

from dataclasses import replace

from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.scope import Kept, RefinementSet
from jitlite.frontend.syntax import tree
from jitlite.ir.graph import Block, Node, Value
from jitlite.ir.types import Type


def names_set_in(expr: tree.Expr) -> set[str]:
    """The variables that `:=` sets in an expression."""
    return {at.target.name.name for at in expr.walk() if isinstance(at, tree.NamedExpr)}


def store_placeholder(em: Emitter, block: Block, name: str, type: Type) -> None:
    """At the end of a block, give a variable of another block a value that is never read."""
    with em.graph.inserting_at_end(block):
        value = em.uninitialized(type)
        em.unset.placeholders.add(em.graph.insert("prim::Store", (value,), (), {"name": name}))


def keep_what_is_set(em: Emitter, names: set[str]) -> Kept:
    """Put aside those of the variables that are known in this block and not in the one around."""
    assert em.frame.parent is not None
    kept: Kept = {}
    for name in sorted(names):
        found = em.frame.type_of(name)
        if found is not None and not em.frame.parent.is_defined(name):
            kept[name] = em.temporary(name), found
            em.put_aside(em.frame.graph_name(name), *kept[name])
    return kept


def set_by_operands(
    em: Emitter,
    is_or: bool,
    choice: Node,
    known: RefinementSet,
    left: RefinementSet,
    right: RefinementSet,
    certain: Kept,
) -> RefinementSet:
    """`known` with what an `and` or `or` says of variables that its operands, of which `left` and `right` tell, set.

    Args:
        choice: the If that it has become.
        certain: what is set in any case where the right operand is evaluated.
    """
    evaluating, short = reversed(choice.blocks) if is_or else choice.blocks
    # where `and` is true, and `or` false, both operands have been evaluated
    both = {**right.sets(not is_or), **certain}
    for temporary, type in both.values():
        store_placeholder(em, short, temporary, type)
    one = _common(em, short, left.sets(is_or), evaluating, {**right.sets(is_or), **certain})
    true, false = (one, both) if is_or else (both, one)
    return replace(known, set_when_true=true, set_when_false=false)


def _common(em: Emitter, block: Block, set_there: Kept, other: Block, set_here: Kept) -> Kept:
    """The variables that both blocks set, of one type, in temporaries that both have."""
    kept: Kept = {}
    for name, (temporary, type) in set_there.items():
        if name in set_here and set_here[name][1] is type:
            kept[name] = em.temporary(name), type
            for place, source in ((block, temporary), (other, set_here[name][0])):
                with em.graph.inserting_at_end(place):
                    em.put_aside(source, *kept[name])
    return kept


class SetByElements:
    """The variables that the elements of `any(...)` or `all(...)` set, as the element leaves them that decides."""

    def __init__(self, em: Emitter, names: set[str]) -> None:
        self.em = em
        self.names = {name for name in names if not em.frame.is_defined(name)}
        self.kept: Kept = {}

    def note(self) -> None:
        """Behind an element, put aside what it has set."""
        em = self.em
        for name in sorted(self.names):
            found = em.frame.type_of(name)
            temporary, type = self.kept.setdefault(name, (em.temporary(name), found)) if found else ("", None)
            if found is None or found is not type:
                self.names.discard(name)  # elements of a tuple set it to values of several types
                self.kept.pop(name, None)
            else:
                em.put_aside(em.frame.graph_name(name), temporary, found)

    def with_placeholders(self, before: Value) -> Kept:
        """What has been put aside, for the code behind the loop; the temporaries exist since the node of `before`."""
        with self.em.graph.inserting_before(before.node):
            for temporary, type in self.kept.values():
                self.em.graph.insert("prim::Store", (self.em.uninitialized(type),), (), {"name": temporary})
        return self.kept
