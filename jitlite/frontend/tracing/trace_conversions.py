"""Numbers that Python has asked for while a function was traced.

Who asks shows a little later. torch's own argument parsing asks too, where an operator wants an int and is given a
tensor, or a size for a dimension, as in `x.topk(k)` or `x.sum(n - 1)`: then the operator is called by the same
instruction of the same frame, has an argument of that very number, and is recorded with the value instead. Everything
else is a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitlite.base.records import Record
from jitlite.frontend.tracing.trace_warnings import LOST, Instruction, UserInstruction, current_place
from jitlite.ir.graph import Value


class _Conversion(Record, eq=True):
    """A value of the graph, the number that it is now, what it was asked for as ("" if nobody is to be told)."""

    value: Value
    number: object
    what: str
    place: UserInstruction

    def warn(self) -> None:
        if self.what:
            self.place.warn(f"Converting a tensor to a {self.what}{LOST}")


class PendingConversion(Record, eq=True):
    """Stands for an int argument that is the number of a value."""

    value: Value


class Conversions:
    """What has been asked for since the last operator."""

    def __init__(self) -> None:
        self._waiting: list[_Conversion] = []

    def add(self, value: Value, number: object, what: str) -> None:
        """Note that Python has asked for the number of a value."""
        place = current_place()
        if self._waiting and self._waiting[-1].place.instruction != place.instruction:
            self.warn()
        self._waiting.append(_Conversion(value, number, what, place))

    def warn(self) -> None:
        """Warn of those that have become no arguments."""
        waiting, self._waiting = self._waiting, []
        for conversion in waiting:
            conversion.warn()

    def drop(self, here: Instruction | None) -> bool:
        """Forget those of the instruction that is at work; says whether there were any."""
        dropped = [c for c in self._waiting if c.place.instruction == here]
        self._waiting = [c for c in self._waiting if c not in dropped]
        return bool(dropped)

    def linked(self, given: Sequence[object]) -> list[object]:
        """The arguments of an operator, with links in place of ints that came from values."""
        made = [list(a) if isinstance(a, list | tuple) else a for a in given]
        if not self._waiting:
            return made
        here = current_place().instruction
        waiting, self._waiting = self._waiting, []
        current = [c for c in waiting if c.place.instruction == here]
        for conversion in waiting:
            if conversion.place.instruction != here or not _link(made, conversion, current):
                conversion.warn()
        return made


def _link(given: list[Any], conversion: _Conversion, current: Sequence[_Conversion]) -> bool:
    """Put links where the arguments hold the number; says whether its value is linked, now or before."""
    spots = _spots(given, conversion.number)
    if len(spots) != sum(c.value is conversion.value for c in current):
        return _is_linked(given, conversion.value)
    for holder, position in spots:
        holder[position] = PendingConversion(conversion.value)
    return True


def _spots(given: list[Any], number: object) -> list[tuple[list[Any], int]]:
    """Where the arguments hold this int."""
    holders = [given, *(a for a in given if isinstance(a, list))]
    return [(h, i) for h in holders for i, a in enumerate(h) if type(a) is int and a == number]


def _is_linked(given: list[Any], value: Value) -> bool:
    holders = [given, *(a for a in given if isinstance(a, list))]
    return any(isinstance(a, PendingConversion) and a.value is value for h in holders for a in h)
