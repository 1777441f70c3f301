"""Why the guard of a specialized plan turned calls away, for those who ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from jitlite.analysis.module_flags import Flag
from jitlite.interpreter.guards import guard_of_one, tensor_type_of
from jitlite.ir.graph import Value
from jitlite.ir.types import Type

_MOST_NOTED = 64
"""Calls whose reasons are noted: to find one takes longer than the guard."""


class GuardMisses:
    """The reasons, and how often there was each, for the first calls that the guard turned away.

    Args:
        inputs: the parameters of the function.
        wanted: the types that the plan is for.
        flags: how flags are set for it.
    """

    def __init__(self, inputs: Sequence[Value], wanted: Sequence[Type], flags: Mapping[Flag, bool]) -> None:
        asked = [(i, v, t) for i, (v, t) in enumerate(zip(inputs, wanted, strict=True)) if t is not v.type]
        self._guards = [(i, v.name.partition(".")[0], t, guard_of_one(v.type, t)) for i, v, t in asked]
        self._flags = [(flag, flag.told(inputs), value) for flag, value in flags.items()]
        self._left = _MOST_NOTED
        self.reasons: Counter[str] = Counter()

    def note(self, arguments: Sequence[object]) -> None:
        """Find out what the guard did not like about a call."""
        if self._left <= 0:
            return
        self._left -= 1
        for position, name, wanted, fits in self._guards:
            if not fits(arguments[position]):
                self.reasons[f"'{name}' was {_kind(arguments[position])}, and the plan is for {wanted}"] += 1
                return
        for flag, name, value in self._flags:
            try:
                found = flag.read(arguments)
            except AttributeError:
                found = "missing"
            if found is not value:
                self.reasons[f"'{name}' was {found}, and the plan is for {value}"] += 1
                return


def _kind(value: object) -> str:
    """What an argument is, in the words of types."""
    if isinstance(value, torch.Tensor):
        found = str(tensor_type_of(value, sizes=True))
        return found if type(value) in (torch.Tensor, torch.nn.Parameter) else f"a {type(value).__name__}"
    return "None" if value is None else f"a {type(value).__name__}"
