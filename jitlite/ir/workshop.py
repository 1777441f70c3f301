"""Room and peace for those who make and change graphs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from jitlite.ir.unit import COMPILING
from jitlite.source import CompileError

_DEEPEST = 10_000
"""Python frames that compiling may nest: a chain of early returns nests its graph as deep as the function is long."""


class _Workshop:
    """What compiling changes in the whole process: changed on entry, put back when the outermost entry is left.

    Only the thread that holds the lock of the compiler enters.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._found = (0, False)

    def enter(self) -> None:
        if self._inside == 0:
            self._found = sys.getrecursionlimit(), gc.isenabled()
            sys.setrecursionlimit(max(self._found[0], _DEEPEST))
            gc.disable()
        self._inside += 1

    def leave(self) -> None:
        self._inside -= 1
        if self._inside == 0:
            limit, collecting = self._found
            if collecting:
                gc.enable()
            with suppress(RecursionError):  # this very thread is deeper than the limit it came with
                sys.setrecursionlimit(limit)


_workshop = _Workshop()


@contextmanager
def compiling() -> Iterator[None]:
    """Room and peace for the compiler: deep recursion allowed, garbage collection paused.

    Trees and graphs are many small objects that live until the end; collecting meanwhile finds nothing and took half
    of the time of a function with a thousand statements. One thread compiles at a time; others wait.

    Raises:
        CompileError: where the program is nested too deeply even so.
    """
    with COMPILING:
        _workshop.enter()
        try:
            yield
        except RecursionError as error:
            hint = "split it into functions"
            raise CompileError("the program is nested too deeply to be compiled", hint=hint) from error
        finally:
            _workshop.leave()
