"""Group what neither writes nor is written into graphs of their own.

    %3 : Tensor = aten::add_(%z, %1, %1)
    %4 : Tensor = aten::mul(%x, %x)              %3 : Tensor = aten::add_(%z, %1, %1)
    %5 : Tensor = aten::relu(%4)           =>    %5 : Tensor = prim::FunctionalGraph_0(%x)
    %6 : Tensor = aten::add(%5, %3, %1)          %6 : Tensor = aten::add(%5, %3, %1)

A node is functional if it is pure, nothing it makes is written anywhere, and nobody outside of the graph gets hold of
what it makes, so that a pass over such a graph need not think of memory. With blocks, all in them is functional.
Functional nodes join a later group when everything between may run before, or after, them; smaller groups than of six
nodes are left as they were. `inline_functional_graphs` undoes it.
"""

from __future__ import annotations

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.effects import effect_of
from jitlite.ir.graph import Block, Graph, Node, Value, is_constant
from jitlite.ir.ops import Effect
from jitlite.passes.registry import graph_pass

KIND = "prim::FunctionalGraph"

SMALLEST = 6
"""How many nodes, constants not counted, make a group."""


@graph_pass
def create_functional_graphs(graph: Graph) -> bool:
    """Move functional nodes into `prim::FunctionalGraph` nodes."""
    db = AliasDb(graph)
    functional: set[Node] = set()
    _collect(graph.block, db, functional)
    return _group_block(graph.block, db, functional)


def _collect(block: Block, db: AliasDb, functional: set[Node]) -> bool:
    """Find the functional nodes; says whether all of the block are."""
    complete = True
    for node in block.nodes:
        blocks = [_collect(inner, db, functional) for inner in node.blocks]
        pure = effect_of(node) is Effect.PURE and not db.writes(node)
        if node.kind == "prim::Constant" or "Subgraph" in node.attributes:
            complete = complete and node.kind == "prim::Constant"
        elif all(blocks) and pure and not db.has_writers(node.outputs) and not any(map(db.escapes, node.outputs)):
            functional.add(node)
        else:
            complete = False
    return complete and not any(map(db.has_writers, block.inputs))


def _group_block(block: Block, db: AliasDb, functional: set[Node]) -> bool:
    groups: list[list[Node]] = []
    """Each from the last node to the first."""
    changed = False
    for node in block.reversed_nodes:
        if node not in functional:
            for inner in node.blocks:
                changed = _group_block(inner, db, functional) or changed
        elif groups and _may_join(node, groups[-1], db):
            groups[-1].append(node)
        else:
            groups.append([node])
    for group in groups:
        if len(group) >= SMALLEST:
            _make(list(reversed(group)))
            changed = True
    return changed


def _may_join(node: Node, group: list[Node], db: AliasDb) -> bool:
    """May the node run where the group does, at its last node?"""
    members, at = set(group), node.next
    while at is not None and at is not group[0]:
        if at not in members and not db.may_swap(node, at):
            return False
        at = at.next
    return True


def _make(nodes: list[Node]) -> Node:
    """Put nodes, in order, into a group where the last one is."""
    body = Graph()
    inputs, values = _copy_into(body, nodes)
    chosen = set(nodes)
    outputs = [v for node in nodes for v in node.outputs if any(_outer(u.user, node) not in chosen for u in v.uses)]
    for value in outputs:
        body.add_output(values[value])
    last = nodes[-1]
    group = last.graph.create(KIND, inputs, [v.type for v in outputs], {"Subgraph": body}, last.range)
    group.insert_after(last)
    for value, output in zip(outputs, group.outputs, strict=True):
        value.replace_all_uses_with(output)
        output.copy_metadata(value)
    for node in reversed(nodes):
        node.destroy()
    return group


def _copy_into(body: Graph, nodes: list[Node]) -> tuple[list[Value], dict[Value, Value]]:
    """Copy the nodes, and the constants they read, into the graph of a group.

    Returns:
        The values that become inputs of the group, and what each value outside is inside.
    """
    inputs = list[Value]()
    values: dict[Value, Value] = {}
    for node in nodes:
        for value in _read(node):
            if value in values or any(value.node.is_inside(block) for n in nodes for block in n.blocks):
                continue
            if is_constant(value):
                body.block.append(body.clone_node(value.node, values))
            elif value.node not in nodes:
                values[value] = body.add_input().copy_metadata(value)
                inputs.append(value)
        body.block.append(body.clone_node(node, values))
    return inputs, values


def _read(node: Node) -> list[Value]:
    """What the node, with what is in it, reads."""
    found = list(node.inputs)
    for block in node.blocks:
        for inner in block.nodes:
            found += _read(inner)
        found += block.outputs
    return found


def _outer(user: Node, maker: Node) -> Node | None:
    """The node in the block of `maker` that is the user or holds it."""
    at: Node | None = user
    while at is not None and at.block is not maker.block:
        at = at.block.owner if at.block is not None else None
    return at
