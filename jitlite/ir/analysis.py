"""Questions about a graph: dominance, liveness, loops; and the graph as drawings and networkx graphs.

Everything here only reads. The answers hold until the graph is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.printer import node_text
from jitlite.ir.structure import Loop

if TYPE_CHECKING:
    import networkx as nx


# -- blocks and dominance
def enclosing_blocks(node: Node) -> Iterator[Block]:
    """The block of the node, the one around it, and so on to the top block."""
    block = node.block
    while block is not None:
        yield block
        block = block.owner.block if block.owner is not None else None


def common_block(a: Node, b: Node) -> Block:
    """The innermost block that holds both nodes, themselves or nested.

    Raises:
        ValueError: where they are of different graphs.
    """
    around_a = set(enclosing_blocks(a))
    for block in enclosing_blocks(b):
        if block in around_a:
            return block
    raise ValueError("the nodes are of different graphs")


def ancestor_in(node: Node, block: Block) -> Node | None:
    """The node of `block` that is `node` or holds it; None where it is not inside the block."""
    at: Node | None = node
    while at is not None and at.block is not block:
        at = at.block.owner if at.block is not None else None
    return at


def dominates(a: Node, b: Node) -> bool:
    """Has `a` run whenever `b` runs? A node does not dominate itself, nor what is in its own blocks."""
    if a.block is None or a is b:
        return False
    counterpart = ancestor_in(b, a.block)
    return counterpart is not None and counterpart is not a and a.is_before(counterpart)


def may_use(node: Node, value: Value) -> bool:
    """Is the value defined before the node, in a block that holds the node?"""
    return dominates(value.node, node)


def captured_values(node: Node) -> list[Value]:
    """What the blocks of the node use from around them, in order of first use."""
    inside = {inner for block in node.blocks for inner in _nodes_of(block)}
    found: dict[Value, None] = {}
    for block in node.blocks:
        for inner in _nodes_of(block):
            found.update((value, None) for value in inner.inputs if value.node not in inside)
    return list(found)


def _nodes_of(block: Block) -> Iterator[Node]:
    """Param and return node of the block, and every node between them, nested ones included."""
    yield block.param_node
    for node in block.nodes:
        yield node
        for inner in node.blocks:
            yield from _nodes_of(inner)
    yield block.return_node


# -- liveness
def last_user(value: Value) -> Node | None:
    """The last node of the value's own block that uses it, itself or in a block of its own; None if nothing does.

    A use inside a loop counts for the loop: the next round may come back to it.
    """
    block = value.node.block
    assert block is not None, "the value is not in a graph"
    users = [user for use in value.uses if (user := ancestor_in(use.user, block)) is not None]
    return max(users, key=lambda node: node._position, default=None)


def last_uses(graph: Graph) -> dict[Node, list[Value]]:
    """For each node, the values of its block that nothing needs after it (its unused outputs included)."""
    found: dict[Node, list[Value]] = {node: [] for node in _nodes_of(graph.block)}
    for node in list(found):
        for value in node.outputs:
            found[last_user(value) or node].append(value)
    return found


def live_after(graph: Graph) -> dict[Node, frozenset[Value]]:
    """For each node, the values that are still needed when it has run.

    Nodes in a loop's body need what the next round needs. What the results of a block become is not counted: they are
    needed up to the block's return node and no longer.
    """
    found: dict[Node, frozenset[Value]] = {}
    _liveness(graph.block, frozenset(), found)
    return found


def _liveness(block: Block, after: frozenset[Value], found: dict[Node, frozenset[Value]]) -> frozenset[Value]:
    """Fills `found` for the block, given what is needed behind it; gives what is needed before it."""
    found[block.return_node] = after
    live = after | set(block.outputs)
    for node in block.reversed_nodes:
        found[node] = live
        live = live - set(node.outputs)
        behind = live | set(captured_values(node)) if node.kind == "prim::Loop" else live
        if node.kind == "prim::Try":  # the body may be left for the handler anywhere
            handler = _liveness(node.blocks[1], behind, found)
            live = behind = live | handler
        for inner in node.blocks[:1] if node.kind == "prim::Try" else node.blocks:
            live = live | _liveness(inner, behind, found)
        live = live | set(node.inputs)
    found[block.param_node] = live
    return live - set(block.inputs)


# -- loops
class NestedLoop(Loop):
    """A loop and where it stands."""

    __slots__ = ("depth", "parent")

    def __init__(self, node: Node, parent: NestedLoop | None, depth: int) -> None:
        """
        Args:
            parent: the loop around it.
            depth: 1 for a loop in no other loop.
        """
        super().__init__(node)
        self.parent = parent
        self.depth = depth

    def holds(self, node: Node) -> bool:
        """Is the node in the body?"""
        return node.is_inside(self.body)

    def is_invariant(self, value: Value) -> bool:
        """Is the value computed outside the body, so the same in each round?"""
        return not self.holds(value.node)


def loops(graph: Graph) -> list[NestedLoop]:
    """All loops, each before those in its body."""
    found: list[NestedLoop] = []
    _find_loops(graph.block, None, found)
    return found


def _find_loops(block: Block, parent: NestedLoop | None, found: list[NestedLoop]) -> None:
    for node in block.nodes:
        within = parent
        if node.kind == "prim::Loop":
            within = NestedLoop(node, parent, 1 if parent is None else parent.depth + 1)
            found.append(within)
        for inner in node.blocks:
            _find_loops(inner, within, found)


# -- networkx
@cache
def networkx() -> Any:
    """The module, read when it is first asked for: that takes longer than a small function takes to be compiled."""
    return import_module("networkx")


def to_networkx(graph: Graph) -> nx.MultiDiGraph[Any]:
    """Data flow: the nodes (param and return nodes too), and an edge from definition to use for each input.

    Nodes have the attributes `kind`, `block` and `index` (position in the walk); edges have `value`, `output` (its
    offset at the source) and `input` (its offset at the target), which is the edge's key.
    """
    flow: nx.MultiDiGraph[Any] = networkx().MultiDiGraph()
    for index, node in enumerate(_nodes_of(graph.block)):
        flow.add_node(node, kind=node.kind, block=node.block, index=index)
    for node in list(flow):
        for offset, value in enumerate(node.inputs):
            flow.add_edge(value.node, node, key=offset, value=value, output=value.offset, input=offset)
    return flow


def control_tree(graph: Graph) -> nx.DiGraph[Any]:
    """What holds what: the top block holds its nodes, which hold their blocks, and so on. Edges have `index`."""
    tree: nx.DiGraph[Any] = networkx().DiGraph()

    def add(block: Block) -> None:
        tree.add_node(block)
        for index, node in enumerate(block.nodes):
            tree.add_edge(block, node, index=index)
            for number, inner in enumerate(node.blocks):
                tree.add_edge(node, inner, index=number)
                add(inner)

    add(graph.block)
    return tree


# -- DOT
def to_dot(graph: Graph, name: str = "graph") -> str:
    """The graph for Graphviz: a box for each node, a cluster for each block, an arrow for each input."""
    numbers = {node: index for index, node in enumerate(_nodes_of(graph.block))}
    lines = [f"digraph {dot_quote(name)} {{", "  node [shape=box, fontname=monospace];"]
    _dot_block(graph.block, "  ", numbers, lines)
    for node, number in numbers.items():
        for value in node.inputs:
            label = dot_quote(f"%{value.name} : {value.type}")
            lines.append(f"  n{numbers[value.node]} -> n{number} [label={label}];")
    return "\n".join([*lines, "}", ""])


def _dot_block(block: Block, indent: str, numbers: dict[Node, int], lines: list[str]) -> None:
    ends = ((block.param_node, "inputs"), (block.return_node, "outputs"))
    for node, label in ends:
        lines.append(f"{indent}n{numbers[node]} [label={dot_quote(label)}, shape=ellipse];")
    for node in block.nodes:
        lines.append(f"{indent}n{numbers[node]} [label={dot_quote(_dot_label(node))}];")
        for index, inner in enumerate(node.blocks):
            lines.append(f"{indent}subgraph cluster_{numbers[node]}_{index} {{")
            lines.append(f"{indent}  label={dot_quote(f'{node.kind} block{index}')};")
            _dot_block(inner, indent + "  ", numbers, lines)
            lines.append(f"{indent}}}")


def _dot_label(node: Node) -> str:
    text = node_text(node)
    before = ", ".join(f"%{v.name} : {v.type}" for v in node.outputs) + " = "
    arguments = f"({', '.join(f'%{v.name}' for v in node.inputs)})"
    return text.removeprefix(before).removesuffix(arguments)


def dot_quote(text: str) -> str:
    """A quoted string of DOT, shown literally: backslashes and quotes escaped, line ends as `\\n`."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
