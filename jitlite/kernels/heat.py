"""What compiling kernels has cost so far, and what the regions of the process have paid for it together.

A region alone becomes a kernel once Python has been in it for half of what compiling it takes (`native/policy.py`). A
model has many regions that take little each. Together they soon have taken longer than compiling one of them does, and
most of them are compiled to code that another one, or an earlier process, has had compiled. So a region becomes one
early where the time that Python has been in all regions, less what compiling took, pays for it. All kernels together
then still cost no more than Python did in the regions.

Threads count at once, and may lose a count to one another: what is counted is an estimate.
"""

from __future__ import annotations

EARLY = 5
"""A region that becomes a kernel early has taken at least this part of what it would have to take alone..."""

EARLY_RUNS = 8
"""... in at least so many runs: a program that calls a model once or twice compiles nothing for that."""

_FIRST_GUESS = 0.1
"""Seconds of compiling that are taken to cost what was expected, before any has been measured."""

_CHEAPEST = 0.1
"""The least part of what was expected that compiling is taken to cost."""


class Heat:
    """The seconds of all regions of a process.

    Attributes:
        python: seconds that Python was in regions.
        compiling: seconds that compiling took, or is expected to take where it has only been asked for.
    """

    def __init__(self) -> None:
        self.python = 0.0
        self.compiling = 0.0
        self._expected = _FIRST_GUESS
        self._measured = _FIRST_GUESS

    @property
    def cost(self) -> float:
        """The part of what is expected of compiling that it takes in this process."""
        return min(max(self._measured / self._expected, _CHEAPEST), 1.0)

    def pays(self, seconds: float) -> bool:
        """Have the regions taken so many seconds more than compiling has?"""
        return self.python - self.compiling > seconds

    def ran(self, seconds: float) -> None:
        """Python was in a region for so long."""
        self.python += seconds

    def ask(self, expected: float) -> None:
        """Some region is to be compiled."""
        self.compiling += expected

    def note(self, expected: float, measured: float) -> None:
        """Compiling took so long, instead of what was expected."""
        self.compiling += measured - expected
        self._expected += expected
        self._measured += measured


HEAT = Heat()
