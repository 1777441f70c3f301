"""Loops over ranges, as passes and the stack machine know them: they count, and each iteration derives its element."""

from __future__ import annotations

from jitlite.base.errors.types import NOT_ITERABLE
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node
from jitlite.ir.structure import Loop
from jitlite.operators.prims import OVER_RANGE


def count_range_loops(graph: Graph) -> bool:
    """Have all loops of a graph count; the inverse of `codegen.range_loops.with_range_loops`, in place.

    Returns:
        Were there any others?
    """
    changed = False
    for node in list(graph.all_nodes()):
        if node.kind == "prim::Loop" and node.attributes.pop(OVER_RANGE, False):
            _derive_element(node)
            changed = True
    return changed


def _derive_element(node: Node) -> None:
    loop = Loop(node)
    length = loop.max_iterations.node
    if length.kind != "aten::__range_length":
        raise NOT_ITERABLE("a loop over a range counts something else", node.range)
    start, _, step = length.inputs
    if not loop.index.has_uses:
        return
    uses, graph = list(loop.index.uses), node.graph
    element = graph.create("aten::__derive_index", (loop.index, start, step), (T.INT,), range=node.range)
    node.blocks[0].prepend(element)
    for use in uses:
        use.user.replace_input(use.offset, element.output)
