"""Graphs as models of the package `onnx`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import torch

from jitlite.base.whole_files import replacing
from jitlite.engines.converters import Ref, ref_of
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.onnx import arithmetic, control_flow, images, indexing, layers, pointwise, views
from jitlite.engines.onnx.builder import CONVERTERS, OPSET, OnnxBuilder, OnnxGraph, OnnxNode, bits_of, element_type
from jitlite.engines.whole_graphs import WholeGraph, check_supported
from jitlite.ir.graph import Graph, Value, constant_of, is_constant

_SUBJECTS = (arithmetic, control_flow, images, indexing, layers, pointwise, views)
"""The modules that declare converters."""
IR_VERSION = 10
"""The version of the format, which onnxruntime 1.19 and later reads."""
Shape = Sequence[int | str | None]
"""Sizes; a text is the name of one that varies."""


def model_of(graph: Graph, name: str = "group") -> tuple[onnx.ModelProto, list[Ref], list[Ref]]:
    """The graph as an ONNX model, and what goes in and out of it.

    Args:
        graph: one whose values have types that say dtype and rank.

    Raises:
        EngineRefusal: a node has no translation, or an input or output is of a type that ONNX has not.
    """
    builder = OnnxBuilder()
    values: dict[Value, Ref] = {value: ref_of(value, builder.new_name()) for value in graph.inputs}
    inputs = list(values.values())
    CONVERTERS.write(graph, builder, values)
    outputs = [_output(builder, value, values, None) for value in graph.outputs]
    shapes = [_sizes(value) for value in graph.inputs]
    return _model(builder, name, inputs, outputs, shapes), inputs, outputs


def model_of_whole(whole: WholeGraph, name: str, shapes: Sequence[Shape | None]) -> onnx.ModelProto:
    """A model with its weights.

    Args:
        whole: what the model computes.
        name: of the model.
        shapes: of its inputs.

    Raises:
        UnsupportedOperators: nodes have no translation; it lists all.
        EngineRefusal: an input or output is of a type that ONNX has not.
    """
    check_supported(whole.graph, "ONNX", CONVERTERS.why_not)
    builder, values = OnnxBuilder(), dict[Value, Ref]()
    builder.names.update(whole.outputs)
    given = whole.graph.inputs[: len(whole.inputs)]
    inputs = [ref_of(value, builder.new_name(text)) for value, text in zip(given, whole.inputs, strict=True)]
    values.update(zip(given, inputs, strict=True))
    for value, (text, tensor) in zip(whole.graph.inputs[len(given) :], whole.weights.items(), strict=True):
        values[value] = builder.tensor(tensor, text)
    CONVERTERS.write(whole.graph, builder, values)
    outputs = [_output(builder, v, values, text) for v, text in zip(whole.graph.outputs, whole.outputs, strict=True)]
    model = _model(builder, name, inputs, outputs, shapes)
    for i, condition in enumerate(whole.conditions):
        model.metadata_props.add(key=f"condition {i}", value=condition)
    return model


def save_with_data(model: onnx.ModelProto, path: Path) -> None:
    """Write a model, and its weights to a file beside it. Neither is there before both are complete."""
    beside = path.with_name(f"{path.name}.data")
    with replacing(path) as made, replacing(beside) as data:
        with open(data, "wb") as file:
            for tensor in model.graph.initializer:
                onnx.external_data_helper.set_external_data(tensor, beside.name, file.tell(), len(tensor.raw_data))
                file.write(tensor.raw_data)
                tensor.ClearField("raw_data")
        made.write_bytes(model.SerializeToString())
    onnx.load_external_data_for_model(model, str(path.parent))  # whoever has the model has its weights


def _model(
    builder: OnnxBuilder, name: str, inputs: Sequence[Ref], outputs: Sequence[Ref], shapes: Sequence[Shape | None]
) -> onnx.ModelProto:
    helper = onnx.helper
    made = helper.make_graph(
        [_node(n) for n in builder.nodes],
        name,
        [_declared(ref, shape) for ref, shape in zip(inputs, shapes, strict=True)],
        [_declared(ref, None) for ref in outputs],
        [_initializer(key, t) for key, t in builder.initializers.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="jitlite")
    model.ir_version = IR_VERSION
    return model


def _node(node: OnnxNode) -> onnx.NodeProto:
    attributes = {
        k: _graph(v, f"{node.outputs[0]}_{k}") if isinstance(v, OnnxGraph) else v for k, v in node.attributes.items()
    }
    return onnx.helper.make_node(node.op, list(node.inputs), list(node.outputs), **attributes)


def _graph(graph: OnnxGraph, name: str) -> onnx.GraphProto:
    """A graph within a node. The sizes of what it takes may change from one iteration to the next."""
    inputs, outputs = ([_declared(ref, None) for ref in refs] for refs in (graph.inputs, graph.outputs))
    return onnx.helper.make_graph([_node(n) for n in graph.nodes], name, inputs, outputs)


def _initializer(name: str, tensor: torch.Tensor) -> onnx.TensorProto:
    """A tensor of the file. numpy has no bfloat16, whose bits are handed on as those of another type."""
    found = onnx.numpy_helper.from_array(bits_of(tensor).numpy(), name)
    found.data_type = element_type(tensor.dtype)
    return found


def _output(builder: OnnxBuilder, value: Value, values: dict[Value, Ref], name: str | None) -> Ref:
    """An output of the model, under a name of its own."""
    found = builder.number(constant_of(value)) if is_constant(value) else values.get(value)
    if found is None:
        raise EngineRefusal("an output is a list")
    if name is None:
        name = builder.new_name()
    builder.nodes.append(OnnxNode("Identity", (found.name,), (name,), {}))
    return Ref(name, found.dtype, found.rank, found.is_number)


def _sizes(value: Value) -> Shape | None:
    return getattr(value.type, "sizes", None)


def _declared(ref: Ref, sizes: Shape | None) -> Any:
    shape = [None] * ref.rank if sizes is None else list(sizes)
    return onnx.helper.make_tensor_value_info(ref.name, element_type(ref.dtype), shape)
