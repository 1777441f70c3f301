"""What is known about the values of a graph for arguments that serve as an example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.ir.types import TensorType, TupleType, Type
from jitlite.passes.shapes import propagate


def facts_of(
    graph: Graph, examples: Sequence[object] | None, module: torch.nn.Module | None, *, halves_as_float: bool = False
) -> dict[Value, Type]:
    """What is known about each value for these arguments; with `halves_as_float`, were they float32 for half.

    Raises:
        ValueError: there are more or fewer of them than inputs.
    """
    copy, values = graph.copy_with_map()
    types = _types_of(copy, examples, module)
    if module is not None:
        _insert_attributes(copy, module)
    if halves_as_float:
        types = [_as_float(t) for t in types or [value.type for value in copy.inputs]]
        _constants_as_float(copy)
    propagate(copy, types)
    return {ours: theirs.type for ours, theirs in values.items()}


def _types_of(graph: Graph, examples: Sequence[object] | None, module: torch.nn.Module | None) -> list[Type] | None:
    """The types of the inputs, as precise as the examples are."""
    if examples is None:
        return None
    given = [*([] if module is None else [module]), *examples]
    if len(given) != len(graph.inputs):
        hint = "" if module is not None else "; the graph of a method needs its module, too: module="
        raise ValueError(f"the graph has {len(graph.inputs)} inputs, and {len(given)} were given{hint}")
    return [_refined(value.type, e) for value, e in zip(graph.inputs, given, strict=True)]


def _insert_attributes(graph: Graph, module: torch.nn.Module) -> None:
    """Have constants instead of the tensors that are read of a module."""
    for node in list(graph.all_nodes()):
        found = attribute_of(node, graph.inputs[0], module)
        if isinstance(found, torch.Tensor):
            with graph.inserting_before(node):
                node.output.replace_all_uses_with(graph.insert_constant(found))
            node.output.type = TensorType.from_tensor(found)


def _as_float(t: Type) -> Type:
    """The type with float32 for half, in tuples, too."""
    if isinstance(t, TensorType):
        return TensorType.of(torch.float32, t.sizes, t.strides, t.device) if t.dtype is torch.float16 else t
    return t.with_contained([_as_float(part) for part in t.contained]) if isinstance(t, TupleType) else t


def _constants_as_float(graph: Graph) -> None:
    for node in list(graph.all_nodes()):
        found = constant_of(node.output) if node.kind == "prim::Constant" else None
        if isinstance(found, torch.Tensor) and found.dtype is torch.float16:
            with graph.inserting_before(node):
                node.output.replace_all_uses_with(graph.insert_constant(found.float()))


def _refined(t: Type, example: object) -> Type:
    """The type of an input, as precise as the example is; tensors in tuples, too."""
    if isinstance(example, torch.Tensor):
        return TensorType.from_tensor(example)
    if isinstance(t, TupleType) and isinstance(example, tuple) and len(example) == len(t.elements):
        return t.with_contained([_refined(part, e) for part, e in zip(t.elements, example, strict=True)])
    return t


def attribute_of(node: Node, owner: Value, module: object) -> Any:
    """What a `prim::GetAttr` on the module or its submodules gives; None for any other node."""
    if node.kind != "prim::GetAttr":
        return None
    holder = module if node.input is owner else attribute_of(node.input.node, owner, module)
    return getattr(holder, node.attributes["name"], None)
