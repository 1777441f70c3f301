"""ONNX: graphs of core ATen as ONNX models, and the engine that onnxruntime is."""

from typing import TYPE_CHECKING

from jitlite.base.on_demand import modules_on_demand

if TYPE_CHECKING:
    from jitlite.engines.onnx import model, runtime

__all__ = ["model", "runtime"]

__getattr__, __dir__ = modules_on_demand(globals(), "jitlite.engines.onnx.model", "jitlite.engines.onnx.runtime")
