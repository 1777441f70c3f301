"""Constant pooling: every constant once, at the start of the graph.

    %3 : int = aten::add(%n, %1)
    %2 : int = prim::Constant[value=1]()        %1 : int = prim::Constant[value=1]()
    %4 : int = aten::mul(%3, %2)          =>    %3 : int = aten::add(%n, %1)
                                                %4 : int = aten::mul(%3, %1)

The constant that is met last comes first. Constants are equal if type and value are (`0.0` and `-0.0` are not, tensors
and other objects only if they are one object). A constant is evaluated without effect and cannot raise, so its place
does not matter. Constant lists and dicts are merged only if nobody writes them and nobody could tell that they became
one object. The constants of a region stay in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.memory_kinds import reachable_kinds
from jitlite.ir.graph import Block, Graph, Node, constant_of
from jitlite.ir.traits import Trait
from jitlite.ir.value_keys import attributes_key
from jitlite.passes.registry import graph_pass


@graph_pass
def pool_constants(graph: Graph) -> bool:
    """Merge equal constants and move them to the front."""
    before = _constants_in_front(graph)
    seen: dict[object, Node] = {}
    db: AliasDb | None = None
    removed = False
    for block, node in list(_constants(graph.block)):
        key = (block, node.output.type, attributes_key(node))
        first = seen.setdefault(key, node)
        if first is node:
            front = next(iter(block.nodes))
            if node is not front:
                node.move_before(front)
            continue
        if reachable_kinds(node.output.type) and constant_of(first.output) is not constant_of(node.output):
            db = db or AliasDb(graph)
            if not db.may_merge(first.outputs, node.outputs):
                continue
            db.merged(first.outputs, node.outputs)
        node.replace_all_uses_with(first)
        node.destroy()
        removed = True
    return removed or _constants_in_front(graph) != before


def _constants(block: Block, top: Block | None = None) -> Iterator[tuple[Block, Node]]:
    """The constants in a block, each with the block it goes to: `top`, the outermost one that can be read there."""
    top = top or block
    for node in block.nodes:
        for inner in node.blocks:
            yield from _constants(inner, inner if node.has(Trait.CLOSED) else top)
        if node.kind == "prim::Constant":
            yield top, node


def _constants_in_front(graph: Graph) -> list[Node]:
    found: list[Node] = []
    closed = [node.blocks[0] for node in graph.all_nodes() if node.has(Trait.CLOSED)]
    for block in (graph.block, *closed):
        found += itertools.takewhile(lambda node: node.kind == "prim::Constant", block.nodes)
    return found
