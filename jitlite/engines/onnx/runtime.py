"""onnxruntime as an engine: a group becomes an ONNX model that a session of it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnx
import onnxruntime
import torch

from jitlite.base.records import Record
from jitlite.engines.converters import Ref, ref_of
from jitlite.engines.engine import CompiledGroup, Engine, EngineRefusal, Operand
from jitlite.engines.onnx import layers, pointwise, views
from jitlite.engines.onnx.builder import CONVERTERS, OPSET, OnnxBuilder, element_type
from jitlite.ir.graph import Graph, Node, Value

_SUBJECTS = (layers, pointwise, views)
"""The modules that declare converters."""
IR_VERSION = 10
"""The version of the format, which onnxruntime 1.19 and later reads."""


class OnnxRuntime(Engine):
    """Runs groups with onnxruntime, on the CPU, with as many threads as torch has when a group is compiled."""

    name = "onnxruntime"
    version = onnxruntime.__version__

    def supports(self, node: Node) -> str | None:
        return CONVERTERS.why_not(node)

    def compile(self, graph: Graph) -> CompiledGroup:
        model, inputs, outputs = model_of(graph)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        settings.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        return _OnnxSession(session, inputs, outputs)


class _OnnxSession(Record):
    session: Any
    inputs: Sequence[Ref]
    outputs: Sequence[Ref]

    def __call__(self, given: Sequence[Operand]) -> list[Operand]:
        feeds = {ref.name: _array(value, ref) for ref, value in zip(self.inputs, given, strict=True)}
        found = self.session.run(None, feeds)
        return [_operand(array, ref) for array, ref in zip(found, self.outputs, strict=True)]


def _array(value: Operand, ref: Ref) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().resolve_neg().contiguous().numpy()
    return numpy.asarray(value, dtype=numpy.int64 if ref.dtype is torch.int64 else numpy.float64)


def _operand(array: Any, ref: Ref) -> Operand:
    if ref.is_number:
        return array.item()  # type: ignore[no-any-return]
    return torch.from_numpy(numpy.asarray(array))


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
    outputs = [_output(builder, value, values) for value in graph.outputs]
    helper = onnx.helper
    made = helper.make_graph(
        [helper.make_node(n.op, list(n.inputs), list(n.outputs), **n.attributes) for n in builder.nodes],
        name,
        [_declared(ref, value) for ref, value in zip(inputs, graph.inputs, strict=True)],
        [_declared(ref, None) for ref in outputs],
        [onnx.numpy_helper.from_array(t.numpy(), key) for key, t in builder.initializers.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="jitlite")
    model.ir_version = IR_VERSION
    return model, inputs, outputs


def _output(builder: OnnxBuilder, value: Value, values: dict[Value, Ref]) -> Ref:
    """An output of the model, under a name of its own."""
    found = values.get(value)
    if found is None:
        raise EngineRefusal("an output of the group is a list or a constant")
    return Ref(builder.like("Identity", found).name, found.dtype, found.rank, found.is_number)


def _declared(ref: Ref, value: Value | None) -> Any:
    sizes = None if value is None else getattr(value.type, "sizes", None)
    shape = [None] * ref.rank if sizes is None else list(sizes)
    return onnx.helper.make_tensor_value_info(ref.name, element_type(ref.dtype), shape)
