"""Calls that one thread may nest beyond Python's limit of recursion, which is one for all threads."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

COUNTS_BY_THREAD = sys.implementation.name == "cpython" and sys.version_info < (3, 12)
"""Does leaving more calls of C than were entered let the thread nest calls of Python? They have a count of their own
since Python 3.12; there, the limit of all threads is raised."""

_enter, _leave = ctypes.pythonapi.Py_EnterRecursiveCall, ctypes.pythonapi.Py_LeaveRecursiveCall
_enter.argtypes, _enter.restype = (ctypes.c_char_p,), ctypes.c_int
_leave.argtypes, _leave.restype = (), None


class MoreCalls:
    """What a thread has been granted beyond the limit. It is granted and taken back by the same thread."""

    def __init__(self) -> None:
        self._granted = 0
        self._limit = 0

    @property
    def deepest(self) -> int:
        """How many calls may be nested here."""
        return sys.getrecursionlimit() + self._granted

    def grant(self, deepest: int) -> None:
        """Let the thread nest so many calls."""
        if COUNTS_BY_THREAD:
            for _ in range(deepest - self.deepest):
                _leave()
                self._granted += 1
        elif deepest > self.deepest:
            self._limit = self._limit or sys.getrecursionlimit()
            sys.setrecursionlimit(deepest)

    def take_back(self) -> None:
        """Let the thread nest as many calls as others."""
        with suppress(RecursionError):  # it is deeper than the limit already: what is left is for the way back
            while self._granted:
                _enter(b"")
                self._granted -= 1
            if self._limit:
                sys.setrecursionlimit(self._limit)
        self._granted = self._limit = 0
