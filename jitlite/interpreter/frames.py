"""The state of a run: frames, the stack they share, entered context managers; and script tracebacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from jitlite.base.source import SourceRange
from jitlite.interpreter.code import CallStack, Code, CodePlace
from jitlite.interpreter.failure_hints import hint_for_failure
from jitlite.ir.unit import Function, MethodName
from jitlite.ir.values import special_method

SWITCH = 0
"""What an instruction returns when another frame is to go on: no jump has this offset."""

_HEADING = """\
The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):"""
_CONTEXT_LINES = 3
_LONGEST_TRACEBACK = 20
"""Calls shown; of a deeper traceback the middle is left out."""


class Protection(NamedTuple):
    """A protected part of a program that is being run: how many frames, values and contexts there were when it began,
    and where its handler starts in the last of these frames."""

    frames: int
    handler: int
    values: int
    contexts: int


class CallFrame:
    """One running call. `pc` is up to date only while the frame waits for a call or an error is being reported.

    In code for a debugger `variables` holds what the script's variables are, by the inlined calls around them and their
    names.
    """

    __slots__ = ("code", "machine", "pc", "program", "registers", "stack", "variables")

    def __init__(self, machine: Machine, code: Code) -> None:
        self.machine = machine
        self.code = code
        self.program = code.program
        self.pc = -1
        self.registers: list[object] = [None] * (code.register_size + 1)  # register 0 does not exist
        self.stack = machine.stack
        self.variables: dict[tuple[CallStack, str], object] = {}

    @property
    def place(self) -> CodePlace:
        """Where in the source the frame is."""
        return self.code.places[max(self.pc, 0)]


class Machine:
    """Everything a run changes. Calls of script functions are frames here and not Python calls.

    Attributes:
        stack: values, shared by all frames.
        frames: the running calls, outermost first.
        entered: the context managers whose `with` blocks are being run, outermost first.
        handlers: the protected parts that are being run, outermost first.
        caught: the exception that was caught last, and where it was raised.
        code_for: gives the code to run for a function.
        evaluate: runs a function to its end apart from this machine.
        fork: gives the future of a computation, for calls that are forked.
    """

    __slots__ = ("caught", "code_for", "depth_limit", "entered", "evaluate", "fork", "frames", "handlers", "stack")

    def __init__(
        self,
        code_for: Callable[[Function], Code],
        evaluate: Callable[[Function, list[object]], object],
        fork: Callable[[Callable[[], object]], object],
    ) -> None:
        self.stack: list[Any] = []
        self.frames: list[CallFrame] = []
        self.entered: list[object] = []
        self.handlers: list[Protection] = []
        self.caught: tuple[BaseException, list[Calling]] | None = None
        self.code_for = code_for
        self.evaluate = evaluate
        self.fork = fork
        self.depth_limit = sys.getrecursionlimit()

    def enter(self, code: Code) -> None:
        """Start a call; its arguments are on the stack.

        Raises:
            RecursionError: where calls are nested deeper than Python would allow.
        """
        if len(self.frames) >= self.depth_limit:
            raise RecursionError(f"maximum recursion depth exceeded while calling {code.name}")
        self.frames.append(CallFrame(self, code))

    def catch(self, error: BaseException) -> bool:
        """Go on at the innermost handler; False where there is none."""
        if not self.handlers:
            return False
        frames, handler, values, contexts = self.handlers.pop()
        calls = self.calls(error)
        error = self.exit_contexts(error, contexts)
        self.caught = error, calls
        del self.frames[frames:]
        del self.stack[values:]
        self.frames[-1].pc = handler
        self.stack.append(error)
        return True

    def calls(self, error: BaseException) -> list[Calling]:
        """The calls that were running when the error was raised first."""
        if self.caught is not None and self.caught[0] is error:
            return self.caught[1]
        return [(frame.code.name, frame.place) for frame in self.frames]

    def exit_contexts(self, error: BaseException, down_to: int = 0) -> BaseException:
        """Leave `with` blocks because of an error; gives the error to go on with, which an `__exit__` may replace."""
        return exit_contexts(self.entered, down_to, error)


def exit_contexts(entered: list[object], down_to: int, error: BaseException) -> BaseException:
    """Leave the last of the context managers entered, because of an error; gives the error to go on with."""
    while len(entered) > down_to:
        manager = entered.pop()
        try:
            special_method(manager, "__exit__")(type(error), error, error.__traceback__)
        except Exception as other:
            error = other
    return error


Calling = tuple[str, CodePlace]
"""The name of a function that is running, and where it is."""


class ScriptTraceback(str):
    """Where calls are, in the form of TorchScript's tracebacks: the note of an error.

    Attributes:
        entries: one for each call, outermost first, also those that the text leaves out.
        details: lines about the innermost call: its module, the tensors that it was given, and a way out.
    """

    __slots__ = ("details", "entries")
    details: list[str]
    entries: list[str]

    @classmethod
    def of(cls, entries: list[str], details: list[str]) -> ScriptTraceback:
        """The note that has these entries, but for those in the middle where they are too many."""
        shown = list(entries)
        if len(shown) > _LONGEST_TRACEBACK:
            half = _LONGEST_TRACEBACK // 2
            shown[half:-half] = [f"  ... {len(shown) - 2 * half} more calls ..."]
        note = cls("\n".join([_HEADING, *shown, *details]))
        note.entries = entries
        note.details = details
        return note

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def script_traceback(calls: Iterable[Calling], tensors: Sequence[str] = (), hint: str | None = None) -> ScriptTraceback:
    """Where the calls are, and what to do about it; inlined calls are shown like others."""
    entries: list[str] = []
    module = ""
    for name, place in calls:
        module = ""
        for callee, called_at in place.call_stack:
            entries.append(_entry(name, called_at))
            name = callee
            module = callee.module if isinstance(callee, MethodName) else module
        entries.append(_entry(name, place.range))
    details = [f"in the module {module}"] if module else []
    details += [f"with {', '.join(tensors)}"] if tensors else []
    return ScriptTraceback.of(entries, details + ([f"hint: {hint}"] if hint else []))


def _entry(name: str, range: SourceRange | None) -> str:
    if range is None:
        return f"  in {name} (no source)"
    head = f'  File "{range.filename or "<string>"}", line {range.line}, in {name}'
    return f"{head}\n{range.excerpt(_CONTEXT_LINES, ' <--- HERE')}"


def add_traceback(
    error: BaseException, calls: Iterable[Calling], tensors: Sequence[str] = (), *, with_inner: bool
) -> None:
    """Attach the script traceback as a note.

    Where a script called Python that called a script, the inner run has done so: its calls come behind the outer ones.

    Args:
        tensors: those that the innermost call was given, described.
        with_inner: are calls of inner runs among the calls, so far as these were generated functions?
    """
    notes = notes_of(error)
    note = script_traceback(calls, tensors, hint_for_failure(error))
    inner = next((n for n in notes if n.startswith(_HEADING)), None)
    if inner is not None:
        if not isinstance(inner, ScriptTraceback):  # it was pickled on the way
            return
        both = _common_end(note.entries, inner.entries) if with_inner else 0
        note = ScriptTraceback.of([*note.entries[: len(note.entries) - both], *inner.entries], inner.details)
        notes = [n for n in notes if n is not inner]
    set_notes(error, [*notes, note])


def _common_end(a: Sequence[str], b: Sequence[str]) -> int:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(a), len(b)))


def notes_of(error: BaseException) -> list[str]:
    """The notes of an error, also before Python 3.11."""
    return list(getattr(error, "__notes__", ()))


def set_notes(error: BaseException, notes: list[str]) -> None:
    """Let an error have these notes; nothing happens where it takes no attributes."""
    noted: Any = error  # `add_note` is new in Python 3.11
    with suppress(AttributeError, TypeError):
        noted.__notes__ = notes
