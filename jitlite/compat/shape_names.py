"""What is known about tensors, under the names of PyTorch: see `testing.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from jitlite.analysis.output_sizes import output_sizes
from jitlite.analysis.result_types import RULES
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.types import Type
from jitlite.objects.torch_types import View, new_symbol, wrap
from jitlite.passes import propagate_device, propagate_dtype
from jitlite.passes.shapes import propagate
from jitlite.passes.size_graphs import SizeGraph, build_size_graph


def propagate_shapes_on_graph(graph: Graph) -> None:
    """`torch._C._jit_pass_propagate_shapes_on_graph`: what is known in the modes of now."""
    _use_examples(graph)
    propagate(graph)


def _use_examples(graph: Graph) -> None:
    """Give the inputs of a trace the types of the tensors that it was made with."""
    for value in graph.inputs:
        if value.example_type is not None:
            value.type, value.example_type = value.example_type, None


class SizeGraphView(View, of=SizeGraph):
    """The graph that computes sizes: torch's `ShapeComputeGraphMapping`."""

    inner: SizeGraph

    def partial_eval_shape_graph(self) -> Any:
        """From the sizes of the graph's tensors, each a list of ints, to the symbols."""
        return wrap(self.inner.graph)

    def graph_output_to_symbolic_shape_dim(self) -> dict[Any, int]:
        """The symbol that each result is, as a negative number."""
        return {wrap(value): -number for value, number in self.inner.symbols.items()}


def propagate_shapes_and_build_compute(graph: Graph) -> SizeGraph:
    """`torch._C._jit_pass_propagate_shapes_on_graph_and_build_compute`."""
    _use_examples(graph)
    return build_size_graph(graph)


def erase_non_input_shapes(graph: Graph) -> None:
    """Forget what types say about tensors, but of inputs: `torch._C._jit_erase_non_input_shape_information`."""
    _use_examples(graph)
    kept = [value.type for value in graph.inputs]
    _erase(graph)
    for value, t in zip(graph.inputs, kept, strict=True):
        value.type = t


def _erase(graph: Graph) -> None:
    for value in _values(graph):
        value.type, value.example_type = T.unshaped(value.type), None


def _values(graph: Graph) -> list[Value]:
    inside = [v for node in graph.all_nodes() for v in (*node.outputs, *(p for b in node.blocks for p in b.inputs))]
    return [*graph.inputs, *inside]


def complete_shape_analysis(graph: Graph, inputs: Sequence[object], with_grad: bool = False) -> None:
    """Propagate from arguments: `torch._C._jit_pass_complete_shape_analysis`.

    Unless `with_grad` is given, nothing is said about arguments that require grad.
    """
    propagate(graph, [_type_of(a, v.type, with_grad) for a, v in zip(inputs, graph.inputs, strict=True)])


def shapes_from_arguments(graph: Graph, inputs: Sequence[object], with_grad: bool = False) -> Graph:
    """A copy of the graph with what follows from the rank, dtype and device of arguments: `_propagate_shapes`.

    Unless `with_grad` is given, nothing is said about arguments that require grad.
    """
    made = graph.copy()
    propagate(made, [_with_rank(_type_of(a, v.type, with_grad)) for a, v in zip(inputs, made.inputs, strict=True)])
    return made


def _with_rank(t: Type) -> Type:
    if not isinstance(t, T.TensorType) or t.sizes is None:
        return t
    return T.TensorType.of(t.dtype, [None] * len(t.sizes), None, t.device, t.requires_grad)


def _type_of(argument: object, declared: Type, with_grad: bool) -> Type:
    if not isinstance(argument, torch.Tensor):
        return declared
    t = T.TensorType.from_tensor(argument)
    told = t.requires_grad if with_grad or not t.requires_grad else None
    return T.TensorType.of(t.dtype, t.sizes, t.strides, t.device, told)


def apply_input_props_using_example(graph: Graph, example_input: Sequence[object]) -> None:
    """Give the inputs the types of the examples, but of those that are None; `self` of a method is passed over.

    Raises:
        RuntimeError: there are not as many examples as inputs, or one is a tensor where the input is none.
    """
    inputs = list(graph.inputs)
    if inputs and isinstance(inputs[0].type, T.ClassType) and inputs[0].name.partition(".")[0] == "self":
        inputs = inputs[1:]
    if not inputs:
        return
    if len(inputs) != len(example_input):
        raise RuntimeError("Number of inputs in graph does not match number of inputs in the example")
    for number, (value, example) in enumerate(zip(inputs, example_input, strict=True)):
        if example is None:
            continue
        if isinstance(example, torch.Tensor) is not isinstance(value.type, T.TensorType):
            raise RuntimeError(f"Input {number} does not match type of example", value, example)
        if isinstance(example, torch.Tensor):
            value.type = T.TensorType.from_tensor(example)


_test_mode = [False]


def set_test_mode(enabled: bool) -> bool:
    """Remember the switch `_jit_set_symbolic_shapes_test_mode`, which changes nothing here; gives it back."""
    _test_mode[0] = enabled
    return enabled


SHAPE_NAMES: dict[str, object] = {
    "torch._C._jit_pass_propagate_shapes_on_graph": propagate_shapes_on_graph,
    "torch._C._jit_pass_propagate_shapes_on_graph_and_build_compute": propagate_shapes_and_build_compute,
    "torch._C._jit_pass_propagate_dtype": propagate_dtype.propagate,
    "torch._C._jit_pass_propagate_device": propagate_device.propagate,
    "torch._C._jit_pass_complete_shape_analysis": complete_shape_analysis,
    "torch._C._propagate_shapes": shapes_from_arguments,
    "torch._C._jit_erase_non_input_shape_information": erase_non_input_shapes,
    "torch._C._jit_symbolic_shapes_test_mode_enabled": lambda: _test_mode[0],
    "torch._C._jit_set_symbolic_shapes_test_mode": set_test_mode,
    "torch._C._new_symbolic_shape_symbol": new_symbol,
    "torch.jit._passes._property_propagation.apply_input_props_using_example": apply_input_props_using_example,
    **{f"torch.jit._shapes.{kind.partition('::')[2]}": partial(output_sizes, kind) for kind in RULES},
}
"""Functions by their names in PyTorch."""
