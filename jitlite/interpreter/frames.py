"""The state of a run: frames, the stack they share, entered context managers; and script tracebacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from jitlite.interpreter.code import Code, Place
from jitlite.ir.unit import Function
from jitlite.source import SourceRange

SWITCH = 0
"""What an instruction returns when another frame is to go on: no jump has this offset."""

_HEADING = "Traceback of TorchScript (most recent call last):"
_CONTEXT_LINES = 3
_LONGEST_TRACEBACK = 20
"""Calls shown; of a deeper traceback the middle is left out."""


class Frame:
    """One running call. `pc` is up to date only while the frame waits for a call or an error is being reported."""

    __slots__ = ("code", "machine", "pc", "program", "registers", "stack")

    def __init__(self, machine: Machine, code: Code) -> None:
        self.machine = machine
        self.code = code
        self.program = code.program
        self.pc = -1
        self.registers: list[Any] = [None] * (code.register_size + 1)  # register 0 does not exist
        self.stack = machine.stack

    @property
    def place(self) -> Place:
        """Where in the source the frame is."""
        return self.code.places[max(self.pc, 0)]


class Machine:
    """Everything a run changes. Calls of script functions are frames here and not Python calls.

    Attributes:
        stack: values, shared by all frames.
        frames: the running calls, outermost first.
        entered: the context managers whose `with` blocks are being run, outermost first.
        code_for: gives the code to run for a function.
        evaluate: runs a function to its end apart from this machine (for `fork`).
    """

    __slots__ = ("code_for", "depth_limit", "entered", "evaluate", "frames", "stack")

    def __init__(self, code_for: Callable[[Function], Code], evaluate: Callable[[Function, list[Any]], Any]) -> None:
        self.stack: list[Any] = []
        self.frames: list[Frame] = []
        self.entered: list[Any] = []
        self.code_for = code_for
        self.evaluate = evaluate
        self.depth_limit = sys.getrecursionlimit()

    def enter(self, code: Code) -> None:
        """Start a call; its arguments are on the stack.

        Raises:
            RecursionError: where calls are nested deeper than Python would allow.
        """
        if len(self.frames) >= self.depth_limit:
            raise RecursionError(f"maximum recursion depth exceeded while calling {code.name}")
        self.frames.append(Frame(self, code))

    def exit_contexts(self) -> None:
        """Leave all `with` blocks because of an error; as in TorchScript, errors of `__exit__` are dropped."""
        while self.entered:
            manager = self.entered.pop()
            with suppress(Exception):
                type(manager).__exit__(manager, None, None, None)


def script_traceback(frames: Iterable[Frame]) -> str:
    """Where the frames are, in the form of TorchScript's tracebacks; inlined calls are shown like others."""
    shown: list[str] = []
    for frame in frames:
        name, place = frame.code.name, frame.place
        for callee, called_at in place.call_stack:
            shown.append(_entry(name, called_at))
            name = callee
        shown.append(_entry(name, place.range))
    if len(shown) > _LONGEST_TRACEBACK:
        half = _LONGEST_TRACEBACK // 2
        shown[half:-half] = [f"  ... {len(shown) - 2 * half} more calls ..."]
    return "\n".join([_HEADING, *shown])


def _entry(name: str, range: SourceRange | None) -> str:
    if range is None:
        return f"  in {name} (no source)"
    head = f'  File "{range.filename or "<string>"}", line {range.line}, in {name}'
    return f"{head}\n{range.excerpt(_CONTEXT_LINES, ' <--- HERE')}"


def add_traceback(error: BaseException, frames: Iterable[Frame]) -> None:
    """Attach the script traceback as a note, unless an inner run has done so."""
    notes: list[str] = getattr(error, "__notes__", [])
    if any(note.startswith(_HEADING) for note in notes):
        return
    # `add_note` is new in Python 3.11 and does just this
    with suppress(AttributeError, TypeError):
        error.__notes__ = [*notes, script_traceback(frames)]  # type: ignore[attr-defined]
