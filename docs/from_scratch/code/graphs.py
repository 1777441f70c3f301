"""The intermediate representation: values, nodes, blocks and graphs, and their text.

Chapter 2 explains it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from operators import OPERATORS


@dataclass(eq=False)
class Value:
    """What a node computes: it is computed once, and used any number of times."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(eq=False)
class Node:
    """One operation. Control flow has blocks; a constant has its value as attribute."""

    kind: str
    inputs: list[Value]
    line: int
    attribute: object = None
    outputs: list[Value] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


@dataclass(eq=False)
class Block:
    """Nodes in the order in which they run, with what comes in and what goes out."""

    params: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    returns: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Graph(Block):
    """The block of a whole function. It numbers the values."""

    numbers: Iterator[int] = field(default_factory=itertools.count)

    def value(self, type_: str) -> Value:
        return Value(str(next(self.numbers)), type_)

    def add(self, block: Block, node: Node, *types: str) -> Node:
        """Put a node at the end of a block; it gets a new output for each type."""
        node.outputs = [self.value(t) for t in types]
        block.nodes.append(node)
        return node

    def __str__(self) -> str:
        return "\n".join([f"graph({typed(self.params)}):", *lines(self), f"  return ({names(self.returns)})"])


def names(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values))


def typed(values: Sequence[Value]) -> str:
    return ", ".join(f"{v} : {v.type}" for v in values)


def lines(block: Block) -> Iterator[str]:
    """The text of the nodes of a block."""
    for node in block.nodes:
        value = int(node.attribute) if isinstance(node.attribute, bool) else node.attribute
        attribute = "" if value is None or callable(value) else f"[value={value}]"
        yield f"  {typed(node.outputs)}{' = ' if node.outputs else ''}{node.kind}{attribute}({names(node.inputs)})"
        for number, inner in enumerate(node.blocks):
            yield f"    block{number}({typed(inner.params)}):"
            yield from ("    " + line for line in lines(inner))
            yield f"      -> ({names(inner.returns)})"


def all_nodes(block: Block) -> Iterator[Node]:
    """The nodes of a block and of the blocks in it."""
    for node in block.nodes:
        yield node
        for inner in node.blocks:
            yield from all_nodes(inner)


def read_in(block: Block) -> Iterator[Value]:
    """The values that the nodes of a block, and of the blocks in it, use."""
    for node in all_nodes(block):
        yield from node.inputs
        for inner in node.blocks:
            yield from inner.returns


@dataclass
class Writer:
    """Adds nodes to a block: `w("mul", x, 2.0)` adds an `aten::mul` and gives its output."""

    graph: Graph
    block: Block
    line: int = 0

    def __call__(self, name: str, *inputs: Value | int | float) -> Value:
        values = [v if isinstance(v, Value) else self.constant(v) for v in inputs]
        kind = f"aten::{name}"
        type_ = OPERATORS[kind].result(*(v.type for v in values))
        assert type_ is not None
        return self.graph.add(self.block, Node(kind, values, self.line), type_).outputs[0]

    def constant(self, value: int | float) -> Value:
        return self.graph.add(self.block, Node("prim::Constant", [], self.line, value), type(value).__name__).outputs[0]
