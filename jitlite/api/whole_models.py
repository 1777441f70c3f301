"""Models as graphs that are handed out whole."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from jitlite.api.core_graphs import (
    DynamicShapes,
    ExampleInputs,
    check_dynamic_shapes,
    core_graph_of,
    fixed_sizes,
    names_of,
)
from jitlite.api.engine_arguments import example_arguments
from jitlite.api.optimize import original_of
from jitlite.base.errors.ways_out import NOT_TRANSLATED
from jitlite.base.records import Record
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.whole_graphs import WholeGraph, refused, whole_graph
from jitlite.ir.types import TensorType, TupleType, Type

Sizes = list[int | str | None]


class WholeModel(Record):
    """A model as a graph.

    Attributes:
        whole: the graph, with names for inputs and outputs.
        name: of the model.
        shapes: of the inputs, with names for the sizes that vary; None of a number.
    """

    whole: WholeGraph
    name: str
    shapes: list[Sizes | None]


def whole_model(model: object, inputs: ExampleInputs, dynamic_shapes: DynamicShapes, language: str) -> WholeModel:
    """What a model does with inputs like these.

    Args:
        model: an nn.Module in evaluation mode, or a function.
        inputs: a tuple of arguments, or a single tensor.
        dynamic_shapes: which sizes may vary.
        language: what it is to be written as, for messages.

    Raises:
        TypeError: the model or its inputs are of a wrong type.
        ValueError: the model is in training mode, or `dynamic_shapes` does not fit.
        NotSupportedError: the model does what no graph of operators can do.
    """
    args = example_arguments(inputs)
    original = original_of(model)
    if isinstance(original, torch.nn.Module) and any(m.training for m in original.modules()):
        raise ValueError("the model is in training mode: call eval() first")
    names = names_of(original)
    check_dynamic_shapes(dynamic_shapes, names, args)
    for name, value in zip(names, args, strict=False):
        _check_argument(name, value, language)
    try:
        with torch.no_grad():
            core = core_graph_of(original, args, dynamic_shapes, results_are_used_alone=True)
        inputs_of_graph = core.graph.inputs[core.owner is not None :]
        types = [
            _type(dynamic_shapes, name, value, told.type)
            for name, value, told in zip(names, args, inputs_of_graph, strict=False)
        ]
        whole = whole_graph(core.graph, core.owner, names[: len(args)], types)
    except EngineRefusal as why:
        raise refused(language, why) from None
    whole.conditions += core.report.assumptions
    given = whole.graph.inputs[: len(whole.inputs)]
    shapes = [_named(dynamic_shapes, name, value.type) for name, value in zip(whole.inputs, given, strict=True)]
    return WholeModel(whole, core.name, shapes)


def _check_argument(name: str, value: object, language: str) -> None:
    """See that an argument has parts that become inputs.

    Raises:
        NotSupportedError: it is a list, a dict, or something else.
    """
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            _check_argument(f"{name}[{i}]", part, language)
    elif not isinstance(value, torch.Tensor | bool | int | float | str | torch.dtype | torch.device | None):
        raise NOT_TRANSLATED(
            f"the model cannot be written as {language}: the argument {name} is of type {type(value).__name__}",
            hint="write a module whose forward takes tensors, and tuples of them, and calls this one",
        )


def _type(dynamic_shapes: DynamicShapes, name: str, value: object, told: Type) -> Type | None:
    """The type of an argument, with the sizes that do not vary; None where it is no tensor and has none in it."""
    if isinstance(value, tuple) and isinstance(told, TupleType):
        parts = zip(value, told.elements, strict=True)
        return told.with_contained([_type(dynamic_shapes, "", part, t) or t for part, t in parts])
    if not isinstance(value, torch.Tensor):
        return None
    return TensorType.of(value.dtype, fixed_sizes(dynamic_shapes, name, value), None, value.device)


def _named(dynamic_shapes: DynamicShapes, name: str, t: Type) -> Sizes | None:
    if not isinstance(t, TensorType) or t.sizes is None:
        return None
    told = dynamic_shapes.get(name, ()) if isinstance(dynamic_shapes, Mapping) else ()
    names = {d % max(len(t.sizes), 1): text for d, text in told.items()} if isinstance(told, Mapping) else {}
    return [names.get(d, f"{name}_{d}") if n is None else n for d, n in enumerate(t.sizes)]
