"""What nodes with blocks read and write."""

from __future__ import annotations

from jitlite.ir.graph import Node
from jitlite.ir.graph import Value as GraphValue
from jitlite.kernels.rules import WRITES
from jitlite.kernels.values import TensorValue, Value


def writes(node: Node) -> bool:
    """Does a node write tensors, or something in its blocks?"""
    return node.kind in WRITES or any(writes(inner) for block in node.blocks for inner in block.nodes)


def read_in(node: Node, values: dict[GraphValue, Value]) -> list[Value]:
    """What the blocks of a node read of what is known, and the node itself."""
    found: dict[int, Value] = {}

    def note(value: GraphValue) -> None:
        pending = [values.get(value)]
        while pending:
            one = pending.pop()
            if isinstance(one, list):
                pending += one
            elif isinstance(one, TensorValue):
                found[id(one)] = one

    def walk(inner: Node) -> None:
        for value in inner.inputs:
            note(value)
        for block in inner.blocks:
            for value in block.outputs:
                note(value)
            for each in block.nodes:
                walk(each)

    walk(node)
    return list(found.values())
