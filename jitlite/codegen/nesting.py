"""Which operations are written as expressions where their value is used.

An operation is nested if its value has one use, and computing it there keeps the order of all computations: walking
the operands of the user from last to first, it is the nearest computation not accounted for yet. A `prim::If` whose
branches are nothing but expressions is nested as a conditional expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jitlite.ir.graph import Block, Graph, Node, Value

DEEPEST = 8
"""Operations within one another: beyond it lines are hard to read, and Python's parser has limits of its own."""

_LARGEST = 6
"""Operations in the branches of a conditional expression."""

Question = Callable[[Node], bool]


class Nesting:
    """The nested nodes of a graph.

    Args:
        is_expression: can the node be written as an expression? (Not asked of nodes with blocks.)
        is_in_order: are its operands evaluated from first to last?
        deepest: how many operations may be within one another.
        parts: nodes of a part are not nested in nodes of another one, or of none.
    """

    def __init__(
        self,
        graph: Graph,
        is_expression: Question,
        is_in_order: Question,
        deepest: int = DEEPEST,
        parts: Mapping[Node, object] | None = None,
    ) -> None:
        self.deepest = deepest
        self._parts = parts or {}
        self.nested: set[Node] = set()
        self.conditional: set[Node] = set()
        """The `prim::If`s that are written as conditional expressions, nested or not."""
        self._is_expression = is_expression
        self._is_in_order = is_in_order
        self._prepare(graph.block)
        self._scan(graph.block, whole=True)

    def root_in(self, node: Node, block: Block) -> Node:
        """The statement of `block` that `node` is part of."""
        while True:
            if node.block is not block:
                assert node.block is not None and node.block.owner is not None, "the node is not in the block"
                node = node.block.owner
            elif node in self.nested:
                node = node.output.uses[0].user
            else:
                return node

    def _prepare(self, block: Block) -> None:
        """Find what is nested in the blocks of a block's nodes."""
        for node in block.nodes:
            for inner in node.blocks:
                self._prepare(inner)
            if node.blocks and not self._scan_branches(node):
                for inner in node.blocks:
                    self._scan(inner)

    def _scan_branches(self, node: Node) -> bool:
        """Find what is nested in the branches of a conditional expression; False where it can be none."""
        if node.kind != "prim::If" or len(node.outputs) != 1:
            return False
        contents = [n for block in node.blocks for n in block.nodes if n.kind != "prim::Constant"]
        if len(contents) > _LARGEST or not all(map(self._can_nest, contents)):
            return False
        for block in node.blocks:
            self._scan(block, whole=True)
        if all(n in self.nested for n in contents):
            self.conditional.add(node)
            return True
        self.nested.difference_update(contents)
        return False

    def _scan(self, block: Block, whole: bool = False) -> None:
        """Find what is nested in a block. `whole`: also in what the block returns, else only in a loop's condition."""
        self._scan_tree(block.return_node, whole)
        for node in block.reversed_nodes:
            if node not in self.nested:
                self._scan_tree(node, True)

    def _scan_tree(self, root: Node, whole: bool) -> None:
        if root.kind == "prim::Constant":
            return
        pending: list[tuple[Value, int]] = []
        point = _previous_computation(root)
        self._push(root, whole, 0, point, pending)
        while pending:
            value, depth = pending.pop()
            node = value.node
            if node is not point or value.use_count != 1 or depth >= self.deepest:
                continue
            if self._parts.get(node) is self._parts.get(value.uses[0].user) and self._can_nest(node):
                self.nested.add(node)
                point = _previous_computation(node)
                self._push(node, True, depth + 1, point, pending)

    def _push(self, node: Node, whole: bool, depth: int, point: Node | None, pending: list[tuple[Value, int]]) -> None:
        """Put the operands that may be nested in a node on the list, the last one on top."""
        operands = list(node.inputs)
        if node.kind == "prim::Loop":
            # what bounds the loop is written in its head, behind the first values of what it carries
            operands = operands[:1] if operands[1].node.kind == "prim::Constant" else operands[1:2]
        elif not whole:
            owner = node.block.owner if node.block else None
            operands = operands[:1] if owner is not None and owner.kind == "prim::Loop" else []
        elif not node.blocks and node.kind != "prim::Return" and not self._is_in_order(node):
            operands = [v for v in operands if v.node is point]
        pending.extend((v, depth) for v in operands)

    def _can_nest(self, node: Node) -> bool:
        if node.blocks:
            return node in self.conditional
        return len(node.outputs) == 1 and node.kind != "prim::Param" and self._is_expression(node)


def _previous_computation(node: Node) -> Node | None:
    before = node.prev
    while before is not None and before.kind == "prim::Constant":
        before = before.prev
    return before
