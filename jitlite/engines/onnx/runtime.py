"""onnxruntime as an engine: a group becomes an ONNX model that a session of it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnxruntime
import torch

from jitlite.base.records import Record
from jitlite.engines.converters import Ref
from jitlite.engines.engine import CompiledGroup, Engine, Operand
from jitlite.engines.onnx.builder import CONVERTERS
from jitlite.engines.onnx.model import model_of
from jitlite.ir.graph import Graph, Node
from jitlite.ir.types import TensorType


class OnnxRuntime(Engine):
    """Runs groups with onnxruntime, on the CPU, with as many threads as torch has when a group is compiled."""

    name = "onnxruntime"
    version = onnxruntime.__version__

    def supports(self, node: Node) -> str | None:
        if any(
            isinstance(v.type, TensorType) and v.type.dtype is torch.bfloat16 for v in (*node.inputs, *node.outputs)
        ):
            return "onnxruntime has few operators on bfloat16"
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
    return torch.tensor(value, dtype=ref.dtype).numpy()


def _operand(array: Any, ref: Ref) -> Operand:
    if ref.is_number:
        return array.item()  # type: ignore[no-any-return]
    return torch.from_numpy(numpy.asarray(array))
