"""The two forms of a loop that may end early: with a bound and a condition, and with a condition alone."""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, constant_of
from jitlite.ir.structure import UNBOUNDED, Loop


def canonicalize_modified_loops(graph: Graph) -> bool:
    """Rewrite loops with both a bound and a condition as loops with a condition, which Python spells `while`.

    They come from `for` loops that may be left early. The iteration number becomes a carried value:

        for i in range(n):                 i, go = 0, 0 < n
            if i == x: break        =>     while go:
                                               go = i != x
                                               i, go = i + 1, i + 1 < n and go
    """
    changed = False
    for node in graph.all_nodes():
        if node.kind == "prim::Loop" and _is_modified(node):
            _canonicalize(node)
            changed = True
    return changed


def _is_modified(node: Node) -> bool:
    loop = Loop(node)
    return loop.has_condition and (loop.is_bounded or loop.index.has_uses)


def _canonicalize(loop: Node) -> None:
    graph, body = loop.graph, loop.blocks[0]
    max_iterations, start_condition = Loop(loop).max_iterations, Loop(loop).start_condition
    with graph.inserting_before(loop):
        zero = graph.insert_constant(0)
        one = graph.insert_constant(1)
        start = graph.insert("aten::gt", (max_iterations, zero), (T.BOOL,)).output
        loop.replace_input(0, graph.insert_constant(UNBOUNDED))
        if not constant_of(start_condition, False):
            start = graph.insert("aten::__and__", (start, start_condition), (T.BOOL,)).output
    loop.replace_input(1, start)
    loop.add_output(T.INT)
    loop.add_input(zero)

    trip_number = body.add_input(T.INT)
    body.inputs[0].set_name(None)
    body.inputs[0].replace_all_uses_with(trip_number)
    with graph.inserting_at_end(body):
        following = graph.insert("aten::add", (trip_number, one), (T.INT,)).output
        body.add_output(following)
        in_bound = graph.insert("aten::lt", (following, max_iterations), (T.BOOL,)).output
        go_on = graph.insert("aten::__and__", (in_bound, body.outputs[0]), (T.BOOL,)).output
    body.replace_output(0, go_on)
