"""Let matrix products that are added up, or that share a factor, be one node.

    %3 : Tensor = aten::mm(%a, %b)
    %4 : Tensor = aten::mm(%c, %d)
    %5 : Tensor = aten::add(%3, %4, %1)
    ...                                        =>    %9 : Tensor = prim::MMTreeReduce(%a, %c, %e, %g, %b, %d, %f, %h)
    %9 : Tensor = aten::add(%7, %8, %1)

    %3 : Tensor = aten::mm(%x, %a)
    %4 : Tensor = aten::mm(%x, %b)             =>    %3 : Tensor, %4 : Tensor, ... =
    ...                                                prim::MMBatchSide[side=0](%x, %a, %b, ...)

At least four products, added in any order and used for nothing else, become a `prim::MMTreeReduce`, which multiplies
the matrices put side by side where their shapes allow it: numbers are added up in another order, so results differ by
rounding. At least eight products of one matrix become a `prim::MMBatchSide`, whose results stay tensors of their own.

Left alone are products of matrices that anybody writes, products that depend on one another, and those between which
something happens that may not run after, or before, them: a write, a print, another operator that may raise.
"""

from __future__ import annotations

from collections.abc import Iterable

from jitlite.analysis.alias import AliasDb
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.passes.registry import inexact_pass

SMALLEST_TREE = 4
SMALLEST_SIDE = 8
"""How many products are worth it."""


@inexact_pass
def batch_matrix_products(graph: Graph) -> bool:
    """Join sums of products, then products that share a factor."""
    db = AliasDb(graph)
    changed = _join_sums(graph.block, db)
    return _join_sides(graph.block, db) or changed


def _is_product(node: Node, db: AliasDb) -> bool:
    return node.kind == "aten::mm" and not db.has_writers((*node.inputs, *node.outputs))


# -- sums


def _join_sums(block: Block, db: AliasDb) -> bool:
    changed = False
    for node in block.reversed_nodes:
        for inner in node.blocks:
            changed = _join_sums(inner, db) or changed
        if _is_sum(node):
            changed = _join_sum(node, db) or changed
    return changed


def _is_sum(node: Node) -> bool:
    if node.kind != "aten::add" or len(node.inputs) != 3 or not isinstance(node.inputs[1].type, T.TensorType):
        return False
    alpha = constant_of(node.inputs[2], None)
    return type(alpha) is int and alpha == 1


def _join_sum(root: Node, db: AliasDb) -> bool:
    sums, products = [root], []
    for node in sums:
        for value in node.inputs[:2]:
            part = value.node
            if part.block is not root.block or value.use_count != 1:
                return False
            if _is_product(part, db):
                products.append(part)
            elif _is_sum(part) and not db.has_writers(value):
                sums.append(part)
            else:
                return False
    if len(products) < SMALLEST_TREE or not _meet(products + sums, root, db):
        return False
    products = sorted(products, key=lambda node: sum(other.is_before(node) for other in products))
    graph = root.graph
    with graph.inserting_before(root):
        inputs = [node.inputs[side] for side in (0, 1) for node in products]
        joined = graph.insert("prim::MMTreeReduce", inputs, (T.TENSOR,), range=root.range).output
    joined.copy_metadata(root.output)
    root.output.replace_all_uses_with(joined)
    for node in (*sums, *products):
        node.destroy()
    return True


def _meet(nodes: Iterable[Node], last: Node, db: AliasDb) -> bool:
    """May all nodes run where the last one does?"""
    chosen = set(nodes)
    passed: list[Node] = []
    at: Node | None = last
    remaining = len(chosen)
    while at is not None and remaining:
        if at not in chosen:
            passed.append(at)
        elif not all(db.may_swap(at, other) for other in passed):
            return False
        remaining -= at in chosen
        at = at.prev
    return True


# -- shared factors


def _join_sides(block: Block, db: AliasDb) -> bool:
    changed = False
    groups: dict[tuple[Value, int], list[Node]] = {}
    for node in block.nodes:
        for inner in node.blocks:
            changed = _join_sides(inner, db) or changed
        if _is_product(node, db) and node.inputs[0] is not node.inputs[1]:
            for side in (0, 1):
                groups.setdefault((node.inputs[side], side), []).append(node)
    for (shared, side), nodes in groups.items():
        free = [node for node in nodes if node.block is not None]
        movable = free[:1] + [node for node in free[1:] if _may_run_at(node, free[0], db)]
        if len(movable) >= SMALLEST_SIDE:
            _join_side(shared, side, movable)
            changed = True
    return changed


def _may_run_at(node: Node, first: Node, db: AliasDb) -> bool:
    """May the product run right after the first one? Of two products that both would raise, one does either way."""
    at = node.prev
    while at is not None and at is not first:
        is_independent_product = at.kind == "aten::mm" and not any(use.user is node for use in at.output.uses)
        if not is_independent_product and not db.may_swap(at, node):
            return False
        at = at.prev
    return _is_known_before(node, first)


def _is_known_before(node: Node, first: Node) -> bool:
    return all(value.node.is_before(first) for value in node.inputs)


def _join_side(shared: Value, side: int, nodes: list[Node]) -> None:
    first, graph = nodes[0], nodes[0].graph
    others = [node.inputs[1 - side] for node in nodes]
    types = [node.output.type for node in nodes]
    with graph.inserting_before(first):
        joined = graph.insert("prim::MMBatchSide", (shared, *others), types, {"side": side}, range=first.range)
    for node, output in zip(nodes, joined.outputs, strict=True):
        output.copy_metadata(node.output)
        node.output.replace_all_uses_with(output)
        node.destroy()
