"""Is a graph well formed?

`verify(graph)` raises where an invariant is broken. It is run after every pass in tests, so it takes one walk over
the graph. In order: the list of nodes, ownership, uses, scope and dominance, names, and each node's own rule.

A graph that breaks a rule is a bug of what made it (a pass, the front end), never of the user's program.
"""

from __future__ import annotations

from collections.abc import Mapping

from jitlite.ir.graph import Block, Graph, Node, Use, Value
from jitlite.ir.node_rules import rule_fault
from jitlite.ir.printer import graph_lines
from jitlite.ir.types import Type

_CONTEXT = 5
"""Lines of the graph that are shown before and after the faulty one."""


class VerifyError(AssertionError):
    """A graph that is not well formed: a fault of jitlite or of a pass, not of the program.

    Attributes:
        reason: the broken invariant, in one sentence.
        node: where it is broken, if at one node.
    """

    def __init__(self, reason: str, node: Node | None = None, excerpt: str = "") -> None:
        self.reason = reason
        self.node = node
        place = f"\n{excerpt}" if excerpt else ""
        if node is not None and node.range is not None:
            place += f"\nmade for {node.range.location()}: {node.range.excerpt().splitlines()[0].strip()}"
        super().__init__(
            f"the graph is not well formed: {reason}{place}\n"
            "This is a fault of jitlite, or of a pass of yours. If it is not yours, please report it with the program."
        )


class _Broken(Exception):
    """What is wrong, and at which node."""

    def __init__(self, reason: str, node: Node | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.node = node


def verify(graph: Graph) -> None:
    """Check every invariant of the graph and of the graphs in its nodes' attributes.

    Raises:
        VerifyError: the first one that is broken.
    """
    checker = _Checker(graph)
    try:
        checker.links(graph.block)
    except _Broken as fault:  # such a graph may not even print
        raise VerifyError(fault.reason, fault.node, "" if fault.node is None else f"--> {fault.node!r}") from None
    try:
        checker.block(graph.block)
        checker.uses()
        checker.names()
        checker.insert_point()
    except _Broken as fault:
        raise VerifyError(fault.reason, fault.node, _excerpt(graph, fault.node)) from None
    for node in graph.all_nodes():
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                verify(attribute)


def _excerpt(graph: Graph, node: Node | None) -> str:
    lines = graph_lines(graph, ranges=False)
    at = next((i for i, (_, shown) in enumerate(lines) if shown is node), None)
    if at is None:
        return "" if node is None else f"--> {node!r}"
    first, last = max(0, at - _CONTEXT), min(len(lines), at + _CONTEXT + 1)
    shown = [f"{'-->' if i == at else '   '} {lines[i][0]}" for i in range(first, last)]
    return "\n".join(["    ..."] * (first > 0) + shown + ["    ..."] * (last < len(lines)))


class _Checker:
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        """Every node that is in the graph, param and return nodes included."""
        self.placed: set[Node] = set()
        self.visible: set[Value] = set()

    # -- structure
    def links(self, block: Block) -> None:
        """The list of nodes holds together, forwards and backwards, and positions grow."""
        previous, node = None, block.param_node
        while True:
            if node in self.placed:
                raise _Broken("the node is in two places, or the list of nodes has a loop", node)
            self.placed.add(node)
            self.nodes.append(node)
            self._link(block, previous, node)
            for inner in node.blocks:
                if inner.owner is not node:
                    raise _Broken("a block of the node has another owner", node)
                self.links(inner)
            if node is block.return_node:
                break
            if node._next is None:
                raise _Broken("the list of nodes ends before the block's return node", node)
            previous, node = node, node._next
        if node._next is not None:
            raise _Broken("there are nodes behind the block's return node", node)

    def _link(self, block: Block, previous: Node | None, node: Node) -> None:
        is_end = node in (block.param_node, block.return_node)
        if (node.kind in ("prim::Param", "prim::Return")) != is_end:
            raise _Broken(f"{node.kind} is in the wrong place of its block", node)
        if node.graph is not self.graph or block.graph is not self.graph:
            raise _Broken("the node belongs to another graph", node)
        if node.block is not block:
            raise _Broken("the node's `block` is not the block it is in", node)
        if node._prev is not previous:
            raise _Broken("the node's `prev` is not the node before it", node)
        if previous is not None and previous._position >= node._position:
            raise _Broken("the node's position is not above that of the node before it", node)

    # -- scope, dominance, rules
    def block(self, block: Block) -> None:
        """Nodes use what is defined before them, and fit their kinds."""
        defined: list[Value] = []
        node: Node | None = block.param_node
        while node is not None:
            for value in node.inputs:
                if value not in self.visible:
                    raise _Broken(f"%{value.name} is used here but {self._why_invisible(value)}", node)
            for inner in node.blocks:
                self.block(inner)
            for offset, value in enumerate(node.outputs):
                if value.node is not node or value.offset != offset:
                    raise _Broken(f"%{value.name} is output {offset} but has another definition", node)
                if not isinstance(value.type, Type):
                    raise _Broken(f"the type of %{value.name} is no type: {value.type!r}", node)
                self.visible.add(value)
                defined.append(value)
            reason = rule_fault(node)
            if reason:
                raise _Broken(reason, node)
            node = node._next
        self.visible.difference_update(defined)

    def _why_invisible(self, value: Value) -> str:
        if value.node not in self.placed:
            return "its definition is not in the graph"
        if value.offset >= len(value.node.outputs) or value.node.outputs[value.offset] is not value:
            return "is no output of any node"
        return "is defined later, or in a block that does not enclose this node"

    # -- uses, names, insertion point
    def uses(self) -> None:
        """Use lists say the same as inputs."""
        expected: dict[Value, set[Use]] = {}
        for node in self.nodes:
            for offset, value in enumerate(node.inputs):
                expected.setdefault(value, set()).add(Use(node, offset))
        for node in self.nodes:
            for value in node.outputs:
                wanted, found = expected.get(value, set()), set(value.uses)
                for use in found - wanted:
                    where = "is another value" if use.user in self.placed else "is not in the graph"
                    reason = f"%{value.name} says that input {use.offset} of {use.user.kind} uses it, which {where}"
                    raise _Broken(reason, use.user if use.user in self.placed else node)
                for use in wanted - found:
                    raise _Broken(f"input {use.offset} is %{value.name}, which does not list this use", use.user)

    def names(self) -> None:
        """The table of names and the values' own names agree."""
        table = self.graph._names
        outputs = [value for node in self.nodes for value in node.outputs]
        for value in outputs:
            if value.has_name and table.get(value.name) is not value:
                raise _Broken(f"%{value.name} is not in the graph's table of names", value.node)
        self._names_of_table(table)
        numbers: dict[int, Value] = {}
        for value in outputs:
            if numbers.setdefault(value.id, value) is not value:
                raise _Broken(f"two values have the number {value.id}", value.node)

    def _names_of_table(self, table: Mapping[str, Value]) -> None:
        for name, value in table.items():
            if value._name != name:
                raise _Broken(f"the table of names gives {name} to %{value.name}", self._if_placed(value))
            if value.node not in self.placed or value not in value.node.outputs:
                raise _Broken(f"the table of names holds %{name}, which is not in the graph")

    def _if_placed(self, value: Value) -> Node | None:
        return value.node if value.node in self.placed else None

    def insert_point(self) -> None:
        if self.graph.insert_point not in self.placed:
            raise _Broken("the insertion point is not in the graph")
