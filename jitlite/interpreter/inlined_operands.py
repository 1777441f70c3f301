"""Which nodes bytecode computes right where their value is needed."""

from __future__ import annotations

from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.traits import Trait


def find_inlined(graph: Graph) -> set[Node]:
    """The nodes to emit where their value is used, so that it never leaves the stack.

    A node qualifies if its one value has one use, and computing it there keeps the order of all computations: walking
    the operands of the user backwards, it is the nearest node not accounted for yet.
    """
    inlined: set[Node] = set()

    def scan_block(block: Block) -> None:
        scan_tree(block.return_node)
        for node in block.reversed_nodes:
            if node not in inlined:
                scan_tree(node)

    def scan_tree(root: Node) -> None:
        # depth first over the operands, last to first; a loop, for expressions can be thousands deep
        pending: list[Value] = []
        point = visit(root, pending)
        while pending:
            value = pending.pop()
            node = value.node
            if node is point and not node.has(Trait.NEVER_NESTED) and value.use_count == 1 and len(node.outputs) == 1:
                inlined.add(node)
                point = visit(node, pending)

    def visit(node: Node, pending: list[Value]) -> Node | None:
        for block in node.blocks:
            scan_block(block)
        if node.kind != "prim::Exit":  # it leaves what was entered last, and does not look at its operand
            pending.extend(node.inputs)
        return _previous_computation(node)

    scan_block(graph.block)
    return inlined


def _previous_computation(node: Node) -> Node | None:
    before = node.prev
    while before is not None and before.kind == "prim::Constant":
        before = before.prev
    return before
