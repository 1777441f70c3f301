"""The values of one trace: what tensors, numbers and other objects stand for in its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.tracing.trace_constants import MadeTensors
from jitlite.frontend.tracing.trace_containers import Containers, is_container
from jitlite.frontend.tracing.trace_conversions import PendingConversion
from jitlite.frontend.tracing.trace_methods import TracedCalls
from jitlite.frontend.tracing.trace_mode import example_type
from jitlite.frontend.tracing.trace_values import bound_object_path, place_of, wrapped_number
from jitlite.frontend.tracing.traced_numbers import node_of
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Graph, Value
from jitlite.ir.traits import Trait
from jitlite.ir.types import ClassType, Type

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
        state: Mapping[int, tuple[str, ...]] | None,
        modules: Mapping[int, tuple[str, ...]] | None,
        objects: Sequence[tuple[Any, tuple[str, ...]]],
    ) -> None:
        self.graph = Graph()
        self.builder = Builder(self.graph)
        self._state = dict(state or {})
        self._modules = dict(modules or {})
        self._objects = list(objects)
        self._owner = None if owner is None else self.graph.add_input(owner, "self")
        self._attributes: dict[tuple[str, ...], Value] = {}
        self._values: dict[int, Value] = {}
        self._places: dict[tuple[object, ...], Value] = {}
        self._kept: list[object] = []
        self._made = MadeTensors()
        self._varying: set[Value] = set()
        self._regions = TracedCalls(self.graph)
        self._containers = Containers(self.builder, self.graph.insert_constant)

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
            return self._attribute(path, T.TENSOR)
        if tensor.requires_grad:
            raise RuntimeError(_NEEDS_GRAD.format(tensor.detach()))
        made = tensor in self._made
        value = self._made.insert(self.graph, tensor) if made else self.graph.insert_constant(tensor)
        self.bind(tensor, value)
        return value

    def _attribute(self, path: tuple[str, ...], t: Type | None = None) -> Value:
        """An attribute of the traced module, or of a submodule."""
        if not path:
            assert self._owner is not None
            return self._owner
        found = self._attributes.get(path)
        if found is None:
            owner = self._attribute(path[:-1])
            assert isinstance(owner.type, ClassType)
            node = self.graph.create("prim::GetAttr", [owner], [owner.type.attributes[path[-1]]])
            node.attributes["name"] = path[-1]
            node.insert_before(self._regions.outermost or self.graph.insert_point)
            found = self._attributes[path] = node.output
            if t is not None:
                self._varying.add(found)
        return found

    def _varies(self, value: Value) -> bool:
        """Does the value of an argument depend on the inputs?"""
        if value in self._varying:
            return True
        return value.node.has(Trait.PACKS_NUMBERS) and any(self._varies(v) for v in value.node.inputs)

    # -- arguments
    def argument(self, argument: object, t: Type) -> Value:
        """The value of an operator's argument whose type is to be `t`."""
        if isinstance(argument, PendingConversion):
            is_tensor = isinstance(argument.value.type, T.TensorType)
            return self.graph.insert("aten::Int", [argument.value], [T.INT]).output if is_tensor else argument.value
        number = node_of(argument)
        if number is not None:
            return number.value
        if isinstance(argument, torch.Tensor):
            return self.value_of(argument)
        element = T.without_none(t)
        if isinstance(argument, list | tuple) and isinstance(element, T.ListType):
            values = [self.argument(a, element.element) for a in argument]
            inner = T.without_none(element.element)
            return self.builder.make_list(inner if inner is not T.TENSOR else element.element, values)
        if isinstance(argument, torch.ScriptObject):
            return self._object(argument)
        if type(argument) is int and element is T.FLOAT:
            argument = float(argument)
        return self.graph.insert_constant(argument)

    def _object(self, argument: Any) -> Value:
        """The value of an object of a class written in C++, for which Python has a new object each time.

        Raises:
            RuntimeError: the traced module does not hold it.
        """
        path = bound_object_path(argument, self._objects)
        if path is None:
            raise RuntimeError(
                f"an object of the class {argument._type().name()} can be no constant of a trace: make it an attribute "
                "of the module that is traced, or of one of its submodules"
            )
        return self._attribute(path)

    def number_value(self, number: object) -> Value:
        """The value of a number, a constant if it is one of Python's."""
        node = node_of(number)
        return self.graph.insert_constant(number) if node is None else node.value

    def _as_tensor(self, argument: object, other: torch.Tensor | None) -> Value:
        number = wrapped_number(argument)
        node = node_of(number)
        if node is not None:
            return self.graph.insert("prim::NumToTensor", [node.value], [T.TENSOR]).output
        dtype = None if other is None else torch.result_type(other, number)
        return self.graph.insert_constant(torch.tensor(number, dtype=dtype))

    def _given(self, argument: object, t: Type) -> Value | None:
        """The value of an argument of a compiled function; None where the graph can have none."""
        t = T.without_none(t)
        if isinstance(argument, torch.nn.Module):
            path = self._modules.get(id(argument))
            return None if path is None else self._attribute(path)
        if is_container(argument, t):
            return self._containers.argument(argument, t, self._given)
        known = isinstance(argument, torch.Tensor) or node_of(argument) is not None
        return self.argument(argument, t) if known or type_of_constant(argument) is not None else None
