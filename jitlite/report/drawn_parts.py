"""What a graph is drawn as: parts that open one another.

The outermost block is a part, and so is each block inside a node. What a call of a submodule left in a block after
inlining becomes one item, which opens a part of its own. Neighbours in program order are put together and no others, so
that items depend on one another in that order: a module that is called twice is two items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jitlite.base.records import Record
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.unit import MethodName

_LEFT_OUT = ("prim::Constant", "prim::GetAttr")
"""They would be most of the boxes and say least."""
_FEWEST = 2
"""Nodes of a submodule that are put together."""


class DrawnItem(Record):
    """A node, or the nodes of a call of a submodule, which is named then."""

    nodes: Sequence[Node]
    module: str = ""

    @property
    def first(self) -> Node:
        return self.nodes[0]

    def reads(self) -> Iterator[Value]:
        """What its nodes use, themselves or in their blocks."""
        for node in self.nodes:
            yield from _read_by(node)


class DrawnPart(Record):
    """What is drawn on its own.

    Attributes:
        id, title: of the drawing.
        items: in program order.
        inputs: values from around it.
        results: values that are used around it.
        module: the submodule whose call it is inside of, empty for none.
    """

    id: str
    title: str
    items: list[DrawnItem]
    inputs: Sequence[Value]
    results: Sequence[Value]
    module: str = ""


def whole(graph: Graph) -> DrawnPart:
    """The part of the outermost block."""
    return _part_of_block(graph.block, "block", "The whole function", "")


def opened(part: DrawnPart, number: int, item: DrawnItem) -> list[DrawnPart]:
    """The parts that an item of a part opens: its nodes, or the blocks of its node."""
    id = f"{part.id}-{number}"
    if item.module:
        return [_part_of_module(item, id)]
    node = item.first
    return [
        _part_of_block(block, f"{id}-{i}", f"block{i} of {node.kind}", part.module)
        for i, block in enumerate(node.blocks)
    ]


def _part_of_block(block: Block, id: str, title: str, module: str) -> DrawnPart:
    nodes = [node for node in block.nodes if node.kind not in _LEFT_OUT]
    return DrawnPart(id, title, _items(nodes, module), block.inputs, block.outputs, module)


def _part_of_module(item: DrawnItem, id: str) -> DrawnPart:
    block, inside = item.first.block, set(item.nodes)
    inputs = [
        v for v in item.reads() if v.node.block is block and v.node not in inside and v.node.kind not in _LEFT_OUT
    ]
    results = [
        v for node in item.nodes for v in node.outputs if any(_holder(u.user, block) not in inside for u in v.uses)
    ]
    title = f"{item.module}, {len(item.nodes)} operations"
    return DrawnPart(id, title, _items(item.nodes, item.module), list(dict.fromkeys(inputs)), results, item.module)


def _holder(node: Node, block: Block | None) -> Node:
    """The node of a block that a node is in, or is itself."""
    while node.block is not block and node.block is not None and node.block.owner is not None:
        node = node.block.owner
    return node


def _items(nodes: Sequence[Node], module: str) -> list[DrawnItem]:
    """The nodes, with neighbours that are of one submodule of the module as one item."""
    found: list[DrawnItem] = []
    run: list[Node] = []
    of_run = ""
    for node in nodes:
        name = _submodule(node, module)
        if run and name != of_run:
            found += _as_items(run, of_run)
            run = []
        run.append(node)
        of_run = name
    return [*found, *_as_items(run, of_run)]


def _as_items(run: list[Node], module: str) -> list[DrawnItem]:
    if module and len(run) >= _FEWEST:
        return [DrawnItem(tuple(run), module)]
    return [DrawnItem((node,)) for node in run]


def _submodule(node: Node, module: str) -> str:
    """The path of the submodule of a module that a node was inlined from; empty where it is from no submodule."""
    inside = f"{module}." if module else ""
    path = module_of(node)
    return inside + path[len(inside) :].split(".")[0] if path.startswith(inside) else ""


def module_of(node: Node) -> str:
    """The path of the submodule in whose method a node stood before it was inlined; empty for none."""
    modules = (name.module for name, _ in reversed(node.call_stack) if isinstance(name, MethodName))
    return next(modules, "")


def _read_by(node: Node) -> Iterable[Value]:
    yield from node.inputs
    for block in node.blocks:
        for inner in block.nodes:
            yield from _read_by(inner)
        yield from block.outputs
