"""Who looks on while the stack machine runs: debuggers, profilers, limits of steps.

A run that is watched goes through a loop of its own (`vm.py`); the ordinary loop does not know of watchers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jitlite.interpreter.frames import CallFrame, Machine


class DebuggerQuit(BaseException):
    """The user left the debugger, and the program with it. No script catches it."""


class DebuggerRestart(DebuggerQuit):
    """The user wants the program to begin again."""


class Watcher:
    """Is told of every run, instruction and exception of the runs that it watches. Each method may be left out."""

    def begin(self, machine: Machine) -> None:
        """A run begins, perhaps within an operator of another one; its first frame has been entered."""

    def before(self, frame: CallFrame) -> None:
        """An instruction is about to run, `frame.pc` of the frame."""

    def raised(self, machine: Machine, error: BaseException) -> None:
        """An instruction has raised; frames and handlers are as they were when it did."""

    def end(self, machine: Machine) -> None:
        """The run that began last has ended, with a result or an exception."""


_watcher: ContextVar[Watcher | None] = ContextVar("jitlite_watcher", default=None)


def current_watcher() -> Watcher | None:
    """Who watches the runs of this thread, forked calls among them; None for nobody."""
    return _watcher.get()


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Within the `with`, runs of the stack machine that begin in this thread are watched."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)
