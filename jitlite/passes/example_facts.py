"""What is known about the values of a graph for arguments that serve as an example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.types import TensorType, TupleType, Type
from jitlite.passes.shapes import propagate


def facts_of(graph: Graph, examples: Sequence[Any] | None, module: torch.nn.Module | None) -> dict[Value, Type]:
    """What is known about each value for these arguments.

    Raises:
        ValueError: there are more or fewer of them than inputs.
    """
    copy, values = graph.copy_with_map()
    types = None
    if examples is not None:
        given = [*([] if module is None else [module]), *examples]
        if len(given) != len(copy.inputs):
            hint = "" if module is not None else "; the graph of a method needs its module, too: module="
            raise ValueError(f"the graph has {len(copy.inputs)} inputs, and {len(given)} were given{hint}")
        types = [_refined(value.type, e) for value, e in zip(copy.inputs, given, strict=True)]
    for node in list(copy.all_nodes()) if module is not None else ():
        found = attribute_of(node, copy.inputs[0], module)
        if isinstance(found, torch.Tensor):
            with copy.inserting_before(node):
                node.output.replace_all_uses_with(copy.insert_constant(found))
            node.output.type = TensorType.from_tensor(found)
    propagate(copy, types)
    return {ours: theirs.type for ours, theirs in values.items()}


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
