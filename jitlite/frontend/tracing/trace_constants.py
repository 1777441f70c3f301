"""Tensors that are made of Python's numbers while a function is traced, such as by `torch.tensor([1, 2])`."""

from __future__ import annotations

import torch

from jitlite.base.records import Record
from jitlite.frontend.tracing.trace_values import tensors
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value


class _Made(Record, frozen=False):
    """A tensor, what it was at first, and the node that stands for it once it is used."""

    tensor: torch.Tensor
    original: torch.Tensor
    version: int | None
    node: Node | None = None


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


class MadeTensors:
    """The tensors made on the way. Each is a constant; one that the function changes is a copy of a constant."""

    def __init__(self) -> None:
        self._made: dict[int, _Made] = {}

    def add(self, tensor: torch.Tensor) -> None:
        """Note a tensor that has just been made."""
        self._made[id(tensor)] = _Made(tensor, tensor.detach().clone(), _version(tensor))

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._made

    def is_used(self, tensor: torch.Tensor) -> bool:
        """Has the tensor a value?"""
        return self._made[id(tensor)].node is not None

    def insert(self, graph: Graph, tensor: torch.Tensor) -> Value:
        """Insert the value of such a tensor."""
        made = self._made[id(tensor)]
        made.node = graph.insert("aten::lift_fresh", [graph.insert_constant(made.original)], [T.TENSOR])
        return made.node.output

    def settle(self, graph: Graph, result: object) -> None:
        """Use the constants of tensors that nothing writes; where a run could change one, give each run its own."""
        outside = {t.untyped_storage().data_ptr() for t in tensors(result) if t.layout is torch.strided}
        for made in self._made.values():
            node, tensor = made.node, made.tensor
            if node is None:
                continue
            escapes = tensor.layout is not torch.strided or tensor.untyped_storage().data_ptr() in outside
            if made.version is None or made.version != _version(tensor) or escapes:
                none = graph.create_constant(None).insert_before(node)
                node.change_kind("aten::clone")
                node.add_input(none.output)
            else:
                node.output.replace_all_uses_with(node.input)
                node.destroy()
