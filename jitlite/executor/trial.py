"""Which of several ways to do the same takes the least time: few runs of each, of which the fastest are compared."""

from __future__ import annotations

from collections.abc import Sequence

RUNS = 6
"""Runs of each other way. The first of each is not counted, for it finds nothing ready."""

ENOUGH = 0.95
"""The part of the usual way's time that another one may take at most to be chosen: less would be noise."""

HOPELESS = 1.5
"""A way that takes so many times as long as the usual one, twice, is not tried any more."""


class Trial:
    """A comparison of the usual way with others.

    Args:
        others: their names.
    """

    def __init__(self, others: Sequence[str]) -> None:
        self._usual: list[float] = []
        self._others: dict[str, list[float]] = {name: [] for name in others}
        self._dropped: dict[str, str] = {}

    @property
    def next(self) -> str | None:
        """The way that is to run beside the usual one; None where the trial is over."""
        left = [name for name in self.left if len(self._others[name]) < RUNS]
        return min(left, key=lambda name: len(self._others[name]), default=None)

    @property
    def left(self) -> list[str]:
        """The other ways that have not been dropped."""
        return [name for name in self._others if name not in self._dropped]

    def note_usual(self, seconds: float) -> None:
        """The usual way has run."""
        self._usual.append(seconds)

    def note(self, name: str, seconds: float) -> None:
        """Another way has run, beside the usual one."""
        runs = self._others[name]
        runs.append(seconds)
        if len(runs) > 2 and min(runs[1:]) > HOPELESS * self.usual_seconds:
            self.drop(name, "")

    def drop(self, name: str, why: str) -> None:
        """Do not try a way any more."""
        self._dropped[name] = why

    @property
    def usual_seconds(self) -> float:
        """What the usual way takes."""
        return min(self._usual[1:], default=float("inf"))

    def seconds(self, name: str) -> float:
        """What another way takes; infinite where it was not counted."""
        return min(self._others[name][1:], default=float("inf"))

    @property
    def winner(self) -> str | None:
        """The fastest way; None where that is the usual one, or no other one is faster for certain."""
        fastest = min(self.left, key=self.seconds, default=None)
        if fastest is None or self.seconds(fastest) > ENOUGH * self.usual_seconds:
            return None
        return fastest

    def __str__(self) -> str:
        """What was found, in words."""
        told = [f"as it is {_milliseconds(self.usual_seconds)}"]
        for name in self._others:
            why = self._dropped.get(name)
            told.append(f"{name} {why or _milliseconds(self.seconds(name))}")
        return ", ".join(told)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < float("inf") else "not run"
