"""What the compiler needs of the process: the lock of those who compile, and stack for what is nested deeply."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from jitlite.base.errors.statements import TOO_DEEP
from jitlite.base.recursion import MoreCalls
from jitlite.base.source import SourceRange
from jitlite.ir.graph import Graph
from jitlite.ir.unit import COMPILING

_DEEPEST = 10_000
"""Python frames that compiling may nest: a chain of early returns nests its graph as deep as the function is long."""

_FRAMES, _FRAMES_A_LEVEL = 150, 10
"""Frames that compiling needs for any program, and for each level that the program nests; measured, with some to
spare."""


class _CompilerScope:
    """What compiling changes while it lasts, put back when the outermost entry is left.

    The thread that compiles may nest more calls, for a program that needs it; others may not. The garbage collector is
    one for all threads: it is paused only where no other thread is there to miss it. Only the thread that holds the
    lock of the compiler enters.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._calls = MoreCalls()
        self._is_collecting = False

    def enter(self) -> None:
        if self._inside == 0:
            self._is_collecting = gc.isenabled() and _is_alone()
            if self._is_collecting:
                gc.disable()
        self._inside += 1

    def leave(self) -> None:
        self._inside -= 1
        if self._inside == 0:
            if self._is_collecting:
                gc.enable()
            self._calls.take_back()

    def make_room(self, levels: int) -> None:
        known = self._calls.deepest
        needed = _FRAMES + _FRAMES_A_LEVEL * levels
        if self._inside and known < _DEEPEST and _is_deeper_than(known - needed):
            self._calls.grant(min(_DEEPEST, _depth_of_stack() + 2 * needed))


_scope = _CompilerScope()


def _is_alone() -> bool:
    """Is this the only thread of Python's? The one in the background, which is not counted, never is."""
    return threading.active_count() == 1 and threading.get_ident() == threading.main_thread().ident


def _is_deeper_than(depth: int) -> bool:
    """Are more calls nested than so many? Many times as quick as counting them."""
    try:
        sys._getframe(max(depth, 0))
    except ValueError:
        return False
    return True


def _depth_of_stack() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def make_room(levels: int) -> None:
    """Let the thread that compiles nest what is `levels` deep; others have what the process has."""
    if COMPILING.is_held_here():
        _scope.make_room(levels)


def depth_of(graph: Graph) -> int:
    """How many blocks are within one another."""
    deepest, level = -1, [graph.block]
    while level:
        deepest += 1
        level = [inner for block in level for owner in block.owners() for inner in owner.blocks]
    return deepest


@contextmanager
def compiling(range: SourceRange | None = None) -> Iterator[None]:
    """The compiler's lock: one thread compiles at a time; others wait.

    Trees and graphs are many small objects that live until the end. Collecting garbage meanwhile finds none of them and
    goes over all that torch has made: a tenth of a second, a third of the first call of a network. So the collector is
    paused, unless there are other threads, whose garbage it would leave as well.

    Args:
        range: what is compiled, for the error.

    Raises:
        CompileError: where the program is nested too deeply even so.
    """
    with COMPILING:
        _scope.enter()
        try:
            yield
        except RecursionError as error:
            hint = "split it into functions"
            raise TOO_DEEP("the program is nested too deeply to be compiled", range, hint=hint) from error
        finally:
            _scope.leave()
