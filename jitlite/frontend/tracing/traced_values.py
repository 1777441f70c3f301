"""The values of one trace: what tensors, numbers and other objects stand for in its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from jitlite.frontend.tracing.recorder import Path, Recorder
from jitlite.frontend.tracing.trace_constants import MadeTensors
from jitlite.frontend.tracing.trace_conversions import PendingConversion
from jitlite.frontend.tracing.trace_methods import TracedCalls
from jitlite.frontend.tracing.trace_mode import example_type
from jitlite.frontend.tracing.trace_values import place_of, wrapped_number
from jitlite.frontend.tracing.traced_numbers import node_of
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value
from jitlite.ir.traits import Trait
from jitlite.ir.types import ClassType

_NEEDS_GRAD = (
    "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, or detaching "
    "the gradient\nTensor:\n{}"
)


class TracedValues:
    """Finds values by the identity of tensors, which it keeps alive.

    Args:
        owner: the type of the traced module, None where a function is traced. It becomes the first input.
        state: the parameters, buffers and other tensors of the traced module by identity, with the path to each.
        modules: its submodules, likewise.
        objects: what it holds of classes written in C++, with the path to each.
    """

    def __init__(
        self,
        owner: ClassType | None,
        state: Mapping[int, Path] | None,
        modules: Mapping[int, Path] | None,
        objects: Sequence[tuple[object, Path]],
    ) -> None:
        self.recorder = Recorder(self, owner, modules, objects, shares=False)
        self.graph = self.recorder.graph
        self.builder = self.recorder.builder
        self._state = dict(state or {})
        self._values: dict[int, Value] = {}
        self._places: dict[tuple[object, ...], Value] = {}
        self._kept: list[object] = []
        self._made = MadeTensors()
        self._varying: set[Value] = set()
        self._calls = TracedCalls(self.graph)

    # -- tensors
    def bind(self, tensor: torch.Tensor, value: Value) -> None:
        """Let `tensor` stand for `value` from now on."""
        self._values[id(tensor)] = value
        value.example_type = value.example_type or example_type(tensor)
        self._kept.append(tensor)
        place = place_of(tensor)
        if place is not None:
            self._places[place] = value

    def known(self, tensor: torch.Tensor) -> Value | None:
        """The value that a tensor stands for, if it has been seen.

        torch makes copies of tensor objects that are the same tensor, such as for what `torch.arange` gives.
        """
        found = self._values.get(id(tensor))
        if found is None and id(tensor) not in self._state and tensor not in self._made:
            place = place_of(tensor)
            found = None if place is None else self._places.get(place)
        return found

    def is_followed(self, tensor: torch.Tensor) -> bool:
        """Does the tensor depend on the inputs?"""
        return self.known(tensor) in self._varying

    def value_of(self, tensor: torch.Tensor) -> Value:
        """The value of a tensor.

        Raises:
            RuntimeError: the tensor would be a constant, but requires grad.
        """
        found = self.known(tensor)
        if found is not None:
            return found
        path = self._state.get(id(tensor))
        if path is not None:
            return self._state_value(path)
        if tensor.requires_grad:
            raise RuntimeError(_NEEDS_GRAD.format(tensor.detach()))
        made = tensor in self._made
        value = self._made.insert(self.graph, tensor) if made else self.graph.insert_constant(tensor)
        self.bind(tensor, value)
        return value

    def _state_value(self, path: Path) -> Value:
        """A tensor of the traced module, which may differ from run to run."""
        value = self.recorder.attribute(path)
        self._varying.add(value)
        return value

    def _varies(self, value: Value) -> bool:
        """Does the value of an argument depend on the inputs?"""
        if value in self._varying:
            return True
        return value.node.has(Trait.PACKS_NUMBERS) and any(self._varies(v) for v in value.node.inputs)

    # -- what the recorder asks
    def followed(self, argument: object) -> Value | None:
        """The value that an argument stands for; None for what is the same in each run."""
        if isinstance(argument, PendingConversion):
            is_tensor = isinstance(argument.value.type, T.TensorType)
            return self.graph.insert("aten::Int", [argument.value], [T.INT]).output if is_tensor else argument.value
        number = node_of(argument)
        if number is not None:
            return number.value
        return self.value_of(argument) if isinstance(argument, torch.Tensor) else None

    def number_of(self, argument: object) -> object:
        """The number that stands in place of a tensor; None where there is a tensor."""
        return wrapped_number(argument)

    def place_of_attributes(self) -> Node:
        """The node before which attributes of the traced module are read."""
        return self._calls.outermost or self.graph.insert_point

    def refused(self, message: str) -> Exception:
        """The error to raise for what cannot be recorded."""
        return RuntimeError(message)
