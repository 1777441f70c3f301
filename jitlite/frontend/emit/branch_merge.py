"""After two branches: which variables go on, of which type, and why the others do not."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.changed import Changed
from jitlite.base.errors.types import CHANGED_TYPE
from jitlite.base.records import Record
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.conditional_assignment import store_placeholder
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.local_functions import LocalFunction
from jitlite.frontend.emit.possibly_set import note_possible
from jitlite.frontend.emit.scope import Frame
from jitlite.frontend.emit.symbolic_values import closed, emit_joined
from jitlite.frontend.emit.values import SugaredValue
from jitlite.frontend.emit.ways_out import OTHER_TYPES
from jitlite.ir import types as T
from jitlite.ir.graph import Block
from jitlite.ir.types import Type

Sides = tuple[str, str, str]
"""What two blocks are called in errors, and what the statement is that they belong to."""

IF_SIDES: Sides = ("true branch", "false branch", "if")


def merge_branches(
    em: Emitter, range: SourceRange, true: tuple[Block, Frame], false: tuple[Block, Frame], sides: Sides
) -> None:
    """Bring the variables that both branches define, or the only branch that goes on, into the frame around."""
    blocks = {true[0], false[0]}
    if blocks <= em.leaving | em.jumping:
        (em.leaving if blocks <= em.leaving else em.jumping).add(em.frame.block)
        _note_possible(em, true, false)
        return
    merge = _Merge(em, range, true, false, sides)
    for name in sorted({*true[1].types, *false[1].types}):
        merge.variable(name)
    _note_possible(em, true, false)
    merge.join_functions()
    merge.note_functions()


def _note_possible(em: Emitter, *branches: tuple[Block, Frame]) -> None:
    """Note what only one of the branches sets, so that it may be read behind them."""
    for block, frame in branches:
        if block not in em.leaving and block.owner is not None:
            note_possible(em.frame, frame, block.owner)


class _Merge(Record, eq=True):
    """Two branches, of which at least one goes on, and the frame around them, which is the emitter's."""

    em: Emitter
    range: SourceRange
    true: tuple[Block, Frame]
    false: tuple[Block, Frame]
    sides: Sides

    def variable(self, name: str) -> None:
        """Define a variable after the branches, or note why it is not defined there."""
        em = self.em
        true, false = (self._type_in(side, name) for side in (0, 1))
        merged = self._merged_type(name, true, false)
        if merged is None:
            self._forget_function(name)
            return
        for (block, _), own, other in ((self.true, true, false), (self.false, false, true)):
            if own is None or (block in em.jumping and not T.is_subtype(own, merged)):
                store_placeholder(em, block, name, other or merged)
        em.frame.sugared.pop(name, None)
        em.frame.know(name, merged)
        em.frame.reasons.pop(name, None)

    def _forget_function(self, name: str) -> None:
        """Forget a function if a branch that goes on has given its variable something else."""
        goes_on = [frame for block, frame in (self.true, self.false) if block not in self.em.leaving]
        if self.em.frame.sugar_of(name) is not None and any(name in frame.types for frame in goes_on):
            self.em.frame.remove(name)

    def _type_in(self, side: int, name: str) -> Type | None:
        """The type of a variable at the end of a branch; None, and the reason is noted, where it has none."""
        block, frame = (self.true, self.false)[side]
        if block in self.em.leaving:
            return None
        found = frame.type_of(name)
        if found is None and block not in self.em.jumping:
            self.em.frame.reasons[name] = (
                f"{name} is not defined in the {self.sides[side]} of the {self.sides[2]} at {self.range.location()}"
                f"{self._where_set(name)}"
            )
        return found

    def _where_set(self, name: str) -> str:
        """Where one of the branches gives a variable its value, for errors."""
        for _, frame in (self.true, self.false):
            place = frame.places.get(name)
            if place is not None:
                line = place.source.text.splitlines()[place.source.text.count("\n", 0, place.start)].strip()
                return f", but in the other one at {place.location()}: {line}"
        return ""

    def _merged_type(self, name: str, true: Type | None, false: Type | None) -> Type | None:
        """The type of a variable after the branches; None where it is not defined afterwards."""
        em, outer = self.em, self.em.frame.declared_type(name)
        if true is None:
            return false if self._is_left(self.true) else None
        if false is None:
            return true if self._is_left(self.false) else None
        for (block, _), own, other in ((self.true, true, false), (self.false, false, true)):
            # what a branch that jumps away leaves in a variable matters only if it fits
            if block in em.jumping and not T.is_subtype(own, other):
                return other
        merged = T.unify(true, false, default_to_union=self._may_be_union(outer))
        if merged is None:
            message = (
                f"{OTHER_TYPES}: {name} is set to type {true.annotation} in the {self.sides[0]} and type "
                f"{false.annotation} in the {self.sides[1]}"
            )
            if outer is not None:
                raise CHANGED_TYPE(message, self.range)
            em.frame.reasons[name] = f"{message} of the {self.sides[2]} at {self.range.location()}, and was used here"
        return merged

    def _is_left(self, branch: tuple[Block, Frame]) -> bool:
        return branch[0] in self.em.leaving or branch[0] in self.em.jumping

    def _may_be_union(self, outer: Type | None) -> bool:
        """May a variable be of a Union afterwards, given its type before?"""
        if outer is None:
            return self.em.program.unites_branches
        return isinstance(outer, T.UnionType) or outer is T.NUMBER

    def join_functions(self) -> None:
        """Let what both branches give a variable, or the only one that goes on, be known afterwards as one of these."""
        em = self.em
        for name in sorted({*self.true[1].sugared, *self.false[1].sugared}):
            found = [None if self._is_left(side) else side[1].sugar_of(name) for side in (self.true, self.false)]
            known = [one for one in found if one is not None]
            if len(known) != self._going_on() or not all(one.is_symbolic for one in known):
                em.frame.sugared.pop(name, None)  # it may be another one now
                continue
            em.frame.sugared[name] = self._joined(found)
            em.frame.reasons.pop(name, None)

    def _going_on(self) -> int:
        return 2 - sum(map(self._is_left, (self.true, self.false)))

    def _joined(self, found: Sequence[SugaredValue | None]) -> SugaredValue:
        """One of what the branches give; None stands for a branch that does not go on."""
        node, outside = self.true[0].owner, self.em.frame
        assert node is not None
        sides = zip((self.true, self.false), found, strict=True)
        ends = [None if one is None else self._closed(side, one, outside) for side, one in sides]
        return emit_joined(self.em, node, ends, self.range)

    def _closed(self, side: tuple[Block, Frame], found: SugaredValue, outside: Frame) -> SugaredValue:
        block, frame = side
        with Changed(self.em, "frame", frame), self.em.graph.inserting_at_end(block):
            return closed(self.em, found, outside, self.range)

    def note_functions(self) -> None:
        """Note why functions that a branch defines are not known afterwards."""
        frame = self.em.frame
        for name, sugar in (self.true[1].sugared | self.false[1].sugared).items():
            if isinstance(sugar, LocalFunction) and not frame.is_defined(name):
                frame.reasons[name] = (
                    f"{name} is {sugar.kind} in a branch of the {self.sides[2]} at {self.range.location()}, and known "
                    "there only: functions cannot depend on control flow"
                )
