"""Whether a kernel is faster than Python: the two run by turns."""

from __future__ import annotations

import time

from jitlite.ir.regions import Runner

TURNS = 5
"""Runs of a new kernel, and as many of Python, that are compared."""

CLEARLY = 4
"""As many times as fast as Python, a kernel is not compared any more."""

HOPELESS = 1.5
"""A kernel that takes so many times as long as Python is not compared again."""

RACES = 3
"""Races that a kernel may lose by less: what else runs in the machine can make the faster one lose."""

REST = 20
"""Python runs for so many times as long as a race took before there is another one."""


class Race:
    """Measures a kernel against Python, by turns.

    Args:
        entry: the kernel.
        before: the seconds of the fastest run in Python so far.

    Attributes:
        python: the seconds of the runs in Python.
    """

    def __init__(self, entry: Runner, before: float) -> None:
        self.python: list[float] = []
        self._before = before
        self._entry = entry
        self._native: list[float] = []
        self._turns = 0

    def turn(self, *arguments: object) -> object:
        """What the kernel gives; None where it is Python's turn, or the kernel cannot do it."""
        self._turns += 1
        if self._turns % 2 == 0:
            return None
        since = time.perf_counter()
        found = self._entry(*arguments)
        if found is not None:
            self._native.append(time.perf_counter() - since)
        return found

    @property
    def is_over(self) -> bool:
        return self._turns >= 2 * TURNS or self._is_clear

    @property
    def _is_clear(self) -> bool:
        """Is the kernel many times as fast as any run in Python was, whatever other arguments these had?"""
        return bool(self._native) and self._native[-1] * CLEARLY < self._before

    @property
    def is_hopeless(self) -> bool:
        """Did the kernel take so much longer that this was no accident?"""
        return self.is_lost and min(self._native[1:]) > HOPELESS * min(self.python[1:])

    @property
    def seconds(self) -> float:
        """What the race took."""
        return sum(self._native) + sum(self.python)

    @property
    def is_lost(self) -> bool:
        """Does the kernel take longer? The first run of either is not like the others, and of these the fastest are
        compared: what else runs in the machine makes some longer, and none shorter."""
        if len(self._native) < 2 or len(self.python) < 2:
            return False
        return min(self._native[1:]) > min(self.python[1:])
