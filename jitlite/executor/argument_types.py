"""Of what types the arguments of profiled calls are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

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
    """

    def __init__(self, inputs: Sequence[Value], profile: Profile) -> None:
        self.profile = profile
        self._inputs = list(inputs)
        self._optionals: list[Type | None] = [None] * len(self._inputs)

    def note(self, arguments: Sequence[object]) -> None:
        """Note the types of the arguments of a call."""
        for value, argument in zip(self._inputs, arguments, strict=True):
            if isinstance(argument, torch.Tensor) and isinstance(value.type, T.TensorType):
                self.profile.recorder(value)(argument)
        self.note_optionals(arguments)

    def note_optionals(self, arguments: Sequence[object]) -> None:
        """Note of Optional arguments whether they are there, and of which type."""
        for i, (value, argument) in enumerate(zip(self._inputs, arguments, strict=True)):
            if not isinstance(value.type, T.OptionalType):
                continue
            inner = value.type.element
            found: Type = T.NONE if argument is None else inner
            if isinstance(argument, torch.Tensor) and isinstance(inner, T.TensorType):
                found = tensor_type_of(argument, sizes=True)
            seen = self._optionals[i]
            self._optionals[i] = found if seen is None else (T.unify(seen, found) or value.type)

    def seen(self) -> list[Type]:
        """The type of each argument, as far as all calls agree."""
        found: list[Type] = []
        for value, optional in zip(self._inputs, self._optionals, strict=True):
            seen = optional if isinstance(value.type, T.OptionalType) else self.profile.type_of(value)
            fits = seen is not None and seen is not T.TENSOR and T.is_subtype(seen, value.type)
            found.append(seen if seen is not None and fits else value.type)
        return found
