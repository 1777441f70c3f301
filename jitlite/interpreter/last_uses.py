"""Values that nothing reads go, and the last use of each other one is marked, so that it is freed in time."""

from __future__ import annotations

from collections.abc import Iterable

from jitlite.ir.graph import Block, Graph, Node, Value


def drop_unused(block: Block) -> None:
    """Let a `prim::Drop` use whatever nothing uses."""

    def drop(values: Iterable[Value]) -> Node | None:
        unused = [v for v in values if not v.has_uses and v.node.kind != "prim::Constant"]
        return block.graph.create("prim::Drop", unused) if unused else None

    dropped = drop(block.inputs)
    if dropped is not None:
        block.prepend(dropped)
    for node in block.nodes:
        dropped = drop(node.outputs)
        if dropped is not None:
            dropped.insert_after(node)
        for inner in node.blocks:
            drop_unused(inner)


def insert_last_uses(graph: Graph) -> None:
    """Where the last use of a value is in a nested block, drop it behind the node that holds that block.

    The nested block may run many times or not at all, so the value cannot be given up there.
    """
    seen: set[Value] = set()
    drops: dict[Node, Node] = {}

    def scan_block(block: Block) -> None:
        scan_node(block.return_node)
        for node in block.reversed_nodes:
            scan_node(node)

    def scan_node(node: Node) -> None:
        for block in node.blocks:
            scan_block(block)
        for value in reversed(node.inputs):
            if value in seen:
                continue
            seen.add(value)
            holder = _holder(node, value.node.block)
            if holder is not node and value.node.kind != "prim::Constant":
                if holder not in drops:
                    drops[holder] = graph.create("prim::Drop").insert_after(holder)
                drops[holder].add_input(value)

    scan_block(graph.block)


def _holder(node: Node, block: Block | None) -> Node:
    """The node of `block` that is `node` or has it somewhere inside."""
    while node.block is not block:
        assert node.block is not None and node.block.owner is not None, "the value is not in scope"
        node = node.block.owner
    return node
