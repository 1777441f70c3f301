"""From instructions to what a user calls a step: a new line, a call, a return, a node."""

from __future__ import annotations

from dataclasses import dataclass

from jitlite.base.source import SourceRange
from jitlite.interpreter.code import CallStack
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
        self._lines: dict[CallFrame, dict[CallStack, _Line]] = {}
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
        lines = self._lines.setdefault(frame, {})
        for path in [path for path in lines if path != place.call_stack[: len(path)]]:
            del lines[path]  # that call has been left
        line = id(place.range.source), place.range.line
        found.is_entry = place.call_stack not in lines
        found.is_line = lines.get(place.call_stack) != line
        lines[place.call_stack] = line
        self._ranges[frame] = place.range
        return found

    def last_range(self, frame: CallFrame) -> SourceRange | None:
        """Where the frame was when it last was somewhere."""
        return self._ranges.get(frame)

    def forget(self, machine: Machine) -> None:
        """Forget a run that has ended."""
        for frame in [frame for frame in self._ranges if frame.machine is machine]:
            del self._ranges[frame]
            self._lines.pop(frame, None)
