"""`to_onnx`: a model as one ONNX file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from jitlite.api.core_graphs import DynamicShapes, ExampleInputs
from jitlite.api.engine_arguments import file_path, texts
from jitlite.api.whole_models import whole_model
from jitlite.base.keywords import checks_keywords
from jitlite.base.whole_files import replacing
from jitlite.engines import onnx
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.shipped import need
from jitlite.engines.whole_graphs import WholeGraph, refused

_LARGEST_FILE = 2**31 - 2**20
"""A file of protocol buffers has less than 2 GiB. Weights of larger models go into a file beside it."""


class OnnxModel(Protocol):
    """An `onnx.ModelProto`."""

    def SerializeToString(self) -> bytes:
        """The bytes of the file."""
        ...


@checks_keywords
def to_onnx(
    model: Callable[..., object],
    inputs: ExampleInputs,
    path: str | os.PathLike[str] | None = None,
    dynamic_shapes: DynamicShapes = False,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> OnnxModel:
    """Write what a model does with inputs like these as one ONNX model (opset 20), with its weights.

    The model is recorded in evaluation mode, without gradients. Tuples of the arguments and tuples, lists and dicts of
    the results become the tensors in them. Numbers, strings and None among the inputs are part of the model. What else
    the model was made for, such as a range of sizes, its `metadata_props` tell, one `condition` each.

    Args:
        model: an nn.Module, scripted, traced, loaded or plain, or a function that `script` takes.
        inputs: example arguments, a tuple of them or a single tensor.
        path: where the model is written. Weights of 2 GiB and more are written beside it, to the same name with
            `.data` behind it.
        dynamic_shapes: which sizes may vary: True for all, or dimensions by the name of the argument, `{"x": [0]}`, or
            with names of their own, `{"x": {0: "batch"}}`. A size of 0 or 1 in the example does not vary.
        input_names: names of the inputs of the ONNX model; those of the parameters if not given.
        output_names: names of its outputs; `output`, or keys and positions if not given.

    Returns:
        The `onnx.ModelProto`.

    Raises:
        NotSupportedError: operators have no translation (`UnsupportedOperators`, with their names and lines), or the
            model does what no graph of operators can do.
        TypeError: an argument is of a wrong type; the text says which, and what is expected.
        ValueError: the model is in training mode, or names or dimensions do not fit.
        ImportError: the package onnx is missing.
    """
    target = file_path(path)
    wanted_inputs = None if input_names is None else texts("input_names", input_names, "names")
    wanted_outputs = None if output_names is None else texts("output_names", output_names, "names")
    need("to_onnx", "onnx", "onnx")
    found = whole_model(model, inputs, dynamic_shapes, "ONNX")
    whole = found.whole
    _rename(whole.inputs, wanted_inputs, "input")
    _rename(whole.outputs, wanted_outputs, "output")
    if shared := set(whole.inputs) & set(whole.outputs):
        raise ValueError(f"inputs and outputs are called {', '.join(sorted(shared))}: give other names to some")
    try:
        made: OnnxModel = onnx.model.model_of_whole(whole, found.name, found.shapes)
    except EngineRefusal as why:
        raise refused("ONNX", why) from None
    if target is not None:
        _write(whole, made, target)
    return made


def _rename(names: list[str], wanted: Sequence[str] | None, what: str) -> None:
    if wanted is None:
        return
    if len(wanted) != len(names) or len(set(wanted)) != len(wanted) or not all(wanted):
        raise ValueError(f"{what}_names: {len(names)} different names are needed, for {', '.join(names)}")
    names[:] = wanted


def _write(whole: WholeGraph, model: OnnxModel, path: Path) -> None:
    """Write the file, or the two files, whole: what is there stays as it is where that fails."""
    size = sum(t.numel() * t.element_size() for t in whole.weights.values())
    if size < _LARGEST_FILE:
        with replacing(path) as made:
            made.write_bytes(model.SerializeToString())
    else:
        onnx.model.save_with_data(model, path)
