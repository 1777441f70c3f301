"""Variables that the body of a loop reads before the line that sets them, which an earlier iteration has passed.

    for i in range(n):
        if i > 0:
            total += x - last         an UnboundLocalError where i starts with 0
        last = x

The variable then exists from the start of the outermost loop, of a type that is guessed, and may be unset (`unset.py`).
An assignment that does not fit tells the type, and the function is emitted again (`learned_types.py`).
"""

from __future__ import annotations

from jitlite.frontend.emit.learned_types import LearningBuilder
from jitlite.frontend.emit.possibly_set import accesses
from jitlite.frontend.emit.return_types import Unset
from jitlite.frontend.emit.scope import Frame
from jitlite.frontend.emit.values import SimpleValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import is_assigned_within
from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.ir.types import Type


def read_in_loop(
    b: LearningBuilder, frame: Frame, function: tree.Def, unset: dict[str, Unset], name: str
) -> SimpleValue | None:
    """The value of a variable that an earlier iteration may have set; None where no loop around the read sets it.

    It is none either in the first attempt to emit a function, of which nothing is learned.
    """
    if b.learned is None:
        return None
    found = _outermost_loop(frame, function, name)
    if found is None:
        return None
    loop, around = found
    type = b.learned.type_of_carried(name, _stored_type(b, name))
    unset.setdefault(name, Unset(type, loop))
    around.know(name, type)
    return SimpleValue(frame.load(b, name, type))


def _outermost_loop(frame: Frame, function: tree.Def, name: str) -> tuple[Node, Frame] | None:
    """The outermost loop around a place that sets a variable, and the frame that it stands in."""
    found: tuple[Node, Frame] | None = None
    for inner in frame.chain():
        loop = inner.block.owner
        if inner.starts_function or loop is None or inner.parent is None:
            return found
        if loop.kind == "prim::Loop" and loop.range is not None and is_assigned_within(function, name, loop.range):
            found = loop, inner.parent
    return found


def _stored_type(b: LearningBuilder, name: str) -> Type | None:
    """The type of what has been stored in a variable so far."""
    stored = [T.unshaped(n.input.type) for n in accesses(b.graph.block, name) if n.kind == "prim::Store"]
    return T.unify_all(stored) if stored else None
