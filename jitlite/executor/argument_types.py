"""Of what types the arguments of profiled calls are, and how the flags of modules among them were set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from jitlite.analysis.module_flags import Flag
from jitlite.interpreter.guards import tensor_type_of
from jitlite.interpreter.profiler import Profile
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type


class ArgumentTypes:
    """What calls have shown of the inputs of a graph.

    Args:
        inputs: the inputs of the graph that is profiled.
        profile: has the types of tensors; who runs a graph that profiles all values has it filled by that.
        flags: those that the graph reads.
    """

    def __init__(self, inputs: Sequence[Value], profile: Profile, flags: Iterable[Flag] = ()) -> None:
        self.profile = profile
        self._inputs = list(inputs)
        self._optionals: list[Type | None] = [None] * len(self._inputs)
        self._flags: dict[Flag, set[object]] = {flag: set() for flag in flags}

    def note(self, arguments: Sequence[object]) -> None:
        """Note the types of the arguments of a call."""
        for value, argument in zip(self._inputs, arguments, strict=True):
            if isinstance(argument, torch.Tensor) and isinstance(value.type, T.TensorType):
                self.profile.recorder(value)(argument)
        self.note_others(arguments)

    def note_others(self, arguments: Sequence[object]) -> None:
        """Note of Optional arguments whether they are there, and of which type, and how flags are set."""
        for flag, found_here in self._flags.items():
            try:
                found_here.add(flag.read(arguments))
            except AttributeError:
                found_here.add(None)
        for i, (value, argument) in enumerate(zip(self._inputs, arguments, strict=True)):
            if not isinstance(value.type, T.OptionalType):
                continue
            inner = value.type.element
            found: Type = T.NONE if argument is None else inner
            if isinstance(argument, torch.Tensor) and isinstance(inner, T.TensorType):
                found = tensor_type_of(argument, sizes=True)
            seen = self._optionals[i]
            self._optionals[i] = found if seen is None else (T.unify(seen, found) or value.type)

    def flags(self) -> dict[Flag, bool]:
        """How flags were set in all calls, for those that were set alike."""
        settled = {flag: next(iter(seen)) for flag, seen in self._flags.items() if len(seen) == 1}
        return {flag: value for flag, value in settled.items() if isinstance(value, bool)}

    def seen(self) -> list[Type]:
        """The type of each argument, as far as all calls agree."""
        found: list[Type] = []
        for value, optional in zip(self._inputs, self._optionals, strict=True):
            seen = optional if isinstance(value.type, T.OptionalType) else self.profile.type_of(value)
            fits = seen is not None and seen is not T.TENSOR and T.is_subtype(seen, value.type)
            found.append(seen if seen is not None and fits else value.type)
        return found
