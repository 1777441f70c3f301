"""From instructions to what a user calls a step: a new line, a call, a return, a node.

A line begins where Python's own would: where a statement begins in another line than the one before, where an operator
in a statement stands in another line, and where a loop comes back to its head. Instructions that only branch, carry
values or end what was begun begin none, and neither does the head of a loop that a `break` or `return` leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from jitlite.base.source import SourceRange
from jitlite.interpreter.code import CallStack, Code
from jitlite.interpreter.frames import CallFrame, Machine

_NO_STEP = frozenset(["JMP", "STORE", "STOREN", "DROP", "DROPR", "UN_INITIALIZED", "RET", "END_TRY"])
"""Instructions that end what was begun elsewhere: they begin no line."""
_OPERANDS = _NO_STEP | frozenset(["LOAD", "LOADC", "MOVE", "LINE"])
"""Instructions before or after the one that does what their node does."""


@dataclass
class Moment:
    """The moment before an instruction.

    Attributes:
        frame, opcode: whose, and which.
        path: the inlined calls within the frame.
        range: the place in the source, None where the instruction has none.
        is_line: does a line begin?
        is_entry: is it the first one of its call?
        values: the names of the values that the node gives, if the instruction is what its node does.
    """

    frame: CallFrame
    opcode: str
    path: CallStack
    range: SourceRange | None
    is_line: bool = False
    is_entry: bool = False
    values: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function that is running."""
        return self.path[-1][0] if self.path else self.frame.code.name


_Line = tuple[int, int]
"""A source, by identity, and the number of a line in it."""


class Tracker:
    """Remembers in which line each call was last, so that a new one is noticed."""

    def __init__(self) -> None:
        self._calls: dict[CallFrame, dict[CallStack, _Position]] = {}
        self._ranges: dict[CallFrame, SourceRange] = {}

    def moment(self, frame: CallFrame) -> Moment:
        """What the instruction that comes next is to the user."""
        code, pc = frame.code, frame.pc
        opcode, place = code.instructions[pc].opcode, code.places[pc]
        values: tuple[str, ...] = ()
        if code.nodes and opcode not in _OPERANDS:
            values = tuple(value.name for value in code.nodes[pc].outputs)
        found = Moment(frame, opcode, place.call_stack, place.range, values=values)
        if place.range is None or opcode in _NO_STEP:
            return found
        calls = self._calls.setdefault(frame, {})
        for path in [path for path in calls if path != place.call_stack[: len(path)]]:
            del calls[path]  # that call has been left
        found.is_entry = place.call_stack not in calls
        if not found.is_entry and not self._may_begin(code, pc):
            return found
        position = calls.setdefault(place.call_stack, _Position())
        found.is_line = position.comes_to((id(place.range.source), place.range.line), _head_of(frame))
        if is_mark(code, pc):
            position.is_leaving = False
        elif opcode == "LINE":
            position.is_leaving = bool(code.nodes[pc].attributes.get("leaves"))
        self._ranges[frame] = place.range
        return found

    def _may_begin(self, code: Code, pc: int) -> bool:
        """May a line begin at an instruction? Where statements have marks, it may there, at operators and at loops."""
        if not code.nodes or not _has_marks(code) or code.instructions[pc].opcode in ("LINE", "LOOP"):
            return True
        node = code.nodes[pc]
        is_end = node.kind in ("prim::Return", "prim::Drop", "prim::Param", "prim::GetCell", "prim::Raise")
        return not node.blocks and not is_end

    def last_range(self, frame: CallFrame) -> SourceRange | None:
        """Where the frame was when it last was somewhere."""
        return self._ranges.get(frame)

    def forget(self, machine: Machine) -> None:
        """Forget a run that has ended."""
        for frame in [frame for frame in self._ranges if frame.machine is machine]:
            del self._ranges[frame]
            self._calls.pop(frame, None)


class _Position:
    """Where a call is.

    Attributes:
        is_leaving: has a `return` or `break` run, and no statement since?
    """

    def __init__(self) -> None:
        self._line: _Line | None = None
        self.is_leaving = False
        self._begun = 0
        self._at_heads: dict[int, int] = {}

    def comes_to(self, line: _Line, head: _Head | None) -> bool:
        """Note an instruction, perhaps the head of a loop; does a line begin there?"""
        is_new = line != self._line
        if head is not None:
            comes_back = head.comes_back and self._at_heads.get(head.pc) == self._begun
            is_new = (is_new or comes_back) and not self.is_leaving
        if is_new:
            self._begun += 1
            self._line = line
        if head is not None:
            self._at_heads[head.pc] = self._begun
        return is_new


class _Head(NamedTuple):
    """The head of a loop that is about to run.

    Attributes:
        pc: which instruction it is.
        comes_back: does the line of the loop begin anew there, even if all of the loop stands in it? Not that of a
            comprehension, and not where a `while` ends.
    """

    pc: int
    comes_back: bool


def _head_of(frame: CallFrame) -> _Head | None:
    code, pc = frame.code, frame.pc
    instruction = code.instructions[pc]
    if instruction.opcode != "LOOP":
        return None
    if not code.nodes:
        return _Head(pc, True)
    node = code.nodes[pc]
    condition = frame.stack[len(frame.stack) - instruction.n + 1]
    return _Head(pc, node.range in _loops_of(code) and (bool(condition) or "over_range" in node.attributes))


def is_mark(code: Code, pc: int) -> bool:
    """Is the instruction the mark of where a statement begins?"""
    return code.instructions[pc].opcode == "LINE" and bool(code.nodes) and "leaves" not in code.nodes[pc].attributes


@lru_cache(maxsize=1024)
def _loops_of(code: Code) -> frozenset[SourceRange | None]:
    """The places of the loops that are statements."""
    return frozenset(node.range for node in code.nodes if node.attributes.get("loop"))


@lru_cache(maxsize=1024)
def _has_marks(code: Code) -> bool:
    return any(is_mark(code, pc) for pc in range(len(code.instructions)))
