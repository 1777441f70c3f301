"""Applying what is known of attributes and of elements of tuples while a function is emitted.

Paths and effects are in `attribute_refinement.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jitlite.base.source import CompileError
from jitlite.frontend.emit.attribute_refinement import path_of
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.possibly_set import UnsetVariables
from jitlite.frontend.emit.scope import Frame, Path, common_facts
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Value


def refined(em: Emitter, value: Value) -> Value:
    """A value that has just been read, with the type that is known of it here."""
    if not isinstance(value.type, T.UnionType) and value.type is not T.ANY:
        return value
    facts, dropped = em.facts, em.frame.dropped_here()
    path = path_of(value) if facts or dropped else None
    known = facts.get(path) if path is not None else None
    if known is None and path in dropped:
        em.outdated[path] = value.type
    if known is None or known is value.type or not T.is_subtype(known, value.type):
        return value
    return em.cast(value, known)


def refined_sugar(em: Emitter, found: SugaredValue) -> SugaredValue:
    """Likewise for what an expression denotes."""
    if not isinstance(found, SimpleValue):
        return found
    value = refined(em, found.value)
    return found if value is found.value else SimpleValue(value)


class Branches:
    """The facts of several blocks of which one is run: each starts with those from before."""

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.before = dict(em.facts)
        self.frames: list[tuple[Block, Frame]] = []

    def add(self, block: Block, frame: Frame) -> None:
        """Note a block that has been emitted; the next one starts as it did."""
        self.frames.append((block, frame))
        self.em.frame.facts = dict(self.before)

    def join(self) -> None:
        """Go on with what holds at the end of every block that goes on."""
        gone = self.em.leaving | self.em.jumping
        self.em.frame.facts = common_facts([frame.facts for block, frame in self.frames if block not in gone])


def emit_left_early(em: Emitter, emit: Callable[[], None]) -> None:
    """Emit a statement whose blocks may run again, or be left anywhere.

    What a condition before it says of a variable need not hold within it where it gives the variable a value that the
    condition excludes. The variable has its declared type from the start then, and the statement is emitted anew.
    """
    while True:
        state = _State(em)
        try:
            return emit()
        except CompileError as error:
            names = [name for name, found in em.frame.too_narrow.items() if found is error and em.frame.may_widen(name)]
            if not names:
                raise
            state.restore()
            for name in names:
                _widen(em, name)


def emit_or_else(em: Emitter, emit: Callable[[], SugaredValue], otherwise: Callable[[], SugaredValue]) -> SugaredValue:
    """What `emit` gives; where it does not compile, what `otherwise` gives.

    Raises:
        CompileError: neither compiles; it says what is wrong with the first.
    """
    state = _State(em)
    try:
        return emit()
    except CompileError as error:
        state.restore()
        try:
            return otherwise()
        except CompileError:
            raise error from None


def _widen(em: Emitter, name: str) -> None:
    """Let a variable have its declared type, whatever is known of its value."""
    declared, found = em.frame.declared_type(name), em.frame.find(em, name)
    assert declared is not None and isinstance(found, SimpleValue)
    em.frame.store(em, name, em.cast(found.value, declared), declared, None)


class _State:
    """What a function has come to, to go back to."""

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.frames = [
            (f, dict(f.types), dict(f.declared), dict(f.sugared), dict(f.facts), set(f.dropped), dict(f.possible))
            for f in em.frame.chain()
        ]
        self.reasons = dict(em.frame.reasons)
        self.merged = [r.merged for r in em.returns]
        self.blocks, self.lists = (set(em.leaving), set(em.jumping)), len(em.empty_literals)
        self.unset = UnsetVariables(em.unset)
        self.last = em.frame.block.return_node.prev

    def restore(self) -> None:
        """Take back what has been emitted since, but the nodes outside the block."""
        em = self.em
        em.effects.clear()
        for f, types, declared, sugared, facts, dropped, possible in self.frames:
            f.types, f.declared, f.sugared, f.facts, f.dropped = types, declared, sugared, facts, dropped
            f.possible = possible
        em.frame.reasons.clear()
        em.frame.reasons.update(self.reasons)
        del em.returns[len(self.merged) :]
        for r, before in zip(em.returns, self.merged, strict=True):
            r.merged = before
        em.leaving, em.jumping = self.blocks
        del em.empty_literals[self.lists :]
        em.unset = self.unset
        while (new := em.frame.block.return_node.prev) is not None and new is not self.last:
            new.destroy()


def emit_repeated(em: Emitter, emit: Callable[[bool], None]) -> None:
    """Emit a loop, whose body must not start from facts that it changes itself.

    Where there are facts before the loop, it is first emitted on trial to see which of them its body drops.

    Args:
        emit: emits the loop; told whether that is on trial.
    """
    failure: CompileError | None = None
    while em.facts and failure is None:
        try:
            dropped = _dropped_by(em, emit)
        except CompileError as error:  # perhaps for a fact that does not hold: without facts it may compile
            dropped, failure = set(em.facts), error
        if not dropped:
            break
        em.frame.dropped |= dropped
        em.frame.drop(dropped.__contains__)
    try:
        emit(False)
    except CompileError:
        if failure is not None:
            raise failure from None
        raise


def _dropped_by(em: Emitter, emit: Callable[[bool], None]) -> set[Path]:
    """Which facts a loop drops anywhere in it."""
    before = set(em.facts)
    with _on_trial(em) as frame:
        emit(True)
        return before & (frame.dropped | before - em.facts.keys())


@contextmanager
def _on_trial(em: Emitter) -> Iterator[Frame]:
    """Take back what is emitted within the `with`."""
    scratch = em.node("prim::Closure", [], [T.NONE])
    state = _State(em)
    try:
        with em.inside(scratch.add_block()) as frame:
            yield frame
    finally:
        state.restore()
        scratch.destroy()
