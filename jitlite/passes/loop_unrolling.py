"""Loop unrolling: repeat a small body, so that there are fewer rounds to go.

A constant iteration count below 64: the body as often, and no loop.

    %a : Tensor = prim::Loop(%2, %true, %x)           %p1 : Tensor = aten::add(%x, %0, %1)
      block0(%i : int, %p : Tensor):             =>   %p2 : Tensor = aten::add(%p1, %one, %1)
        %q : Tensor = aten::add(%p, %i, %1)           return (%p2)
        -> (%true, %q)
    return (%a)

Any other: a loop of eight copies that runs `n / 8` rounds, then the loop itself for the rest. The iteration number,
where it is read, is carried from copy to copy.

Only small loops that their iteration count alone ends, and that have no loop in them, are unrolled: `break` and `while`
would need a test after every copy. Every copy is run exactly when its round was, in the same order, so effects,
exceptions and random draws stay. The division rounds towards zero, for which a negative count runs no round of either
loop, and ints have no limit. A loop that is the result of unrolling is not unrolled again.
"""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.structure import Loop
from jitlite.passes.dce import eliminate_dead_code
from jitlite.passes.loop_copies import has_inner_loop, insert_copy, is_counted, replace_by, size_of
from jitlite.passes.registry import graph_pass

FACTOR = 8
"""How many iterations of a loop with an unknown iteration count become one."""

LARGEST_BODY = 31
"""Nodes of a body beyond which its own time counts, and not that of the loop around it."""

LARGEST_COUNT = 63
"""Constant iteration counts up to this are unrolled to the end."""

LARGEST_RESULT = 10_000
"""Nodes that one loop may become: nested loops would multiply without a bound."""


@graph_pass
def unroll_loops(graph: Graph) -> bool:
    """Unroll small loops: to the end where the iteration count is a small constant, else by the factor."""
    return unroll(graph)


def unroll(graph: Graph, *, constant_only: bool = False) -> bool:
    """Unroll loops; with `constant_only`, those of a constant iteration count, whatever the size of their bodies."""
    changed = _unroll_in(graph.block, constant_only)
    if changed:
        eliminate_dead_code(graph)
    return changed


def _unroll_in(block: Block, constant_only: bool) -> bool:
    changed = False
    for node in block.nodes:
        for inner in node.blocks:
            changed = _unroll_in(inner, constant_only) or changed
        if is_counted(node):
            changed = _unroll_loop(node, constant_only) or changed
    return changed


def _unroll_loop(loop: Node, constant_only: bool) -> bool:
    (body,) = loop.blocks
    count = constant_of(loop.inputs[0], None)
    is_known = type(count) is int
    size = size_of(body)
    if (constant_only and not is_known) or (not constant_only and size > LARGEST_BODY):
        return False
    if is_known and count <= LARGEST_COUNT:
        if max(count, 0) * size > LARGEST_RESULT:
            return False
        _repeat_all(loop, max(count, 0))
        return True
    if FACTOR * size > LARGEST_RESULT or has_inner_loop(body) or _is_unrolled(loop.inputs[0]):
        return False
    _repeat_some(loop)
    return True


def _repeat_all(node: Node, count: int) -> None:
    graph, loop = node.graph, Loop(node)
    carried = list(loop.starts)
    with graph.inserting_before(node):
        for number in range(count):
            index = graph.insert_constant(number) if loop.index.has_uses else loop.max_iterations
            carried = insert_copy(graph, loop.body, [index, *carried])[1:]
    replace_by(node, carried)


def _repeat_some(loop: Node) -> None:
    """Make the loop one of eight copies, followed by one of what it was."""
    graph = loop.graph
    if Loop(loop).index.has_uses:
        _carry_counter(loop)
    rest = graph.clone_node(loop, {}).insert_after(loop)
    loop.replace_all_uses_with(rest)
    for position, output in enumerate(loop.outputs):
        rest.replace_input(position + 2, output)

    count = loop.inputs[0]
    with graph.inserting_before(loop):
        factor = graph.insert_constant(FACTOR)
        rounds = graph.insert("aten::__round_to_zero_floordiv", (count, factor), (T.INT,), range=loop.range).output
        done = graph.insert("aten::mul", (rounds, factor), (T.INT,), range=loop.range).output
        left = graph.insert("aten::sub", (count, done), (T.INT,), range=loop.range).output
    loop.replace_input(0, rounds)
    rest.replace_input(0, left)

    (body,) = loop.blocks
    results = list(body.outputs)
    with graph.inserting_at_end(body):
        for _ in range(FACTOR - 1):
            results = insert_copy(graph, rest.blocks[0], [body.inputs[0], *results[1:]])
    for position, value in enumerate(results):
        body.replace_output(position, value)


def _carry_counter(loop: Node) -> None:
    """Let the body read a carried value for its iteration number."""
    graph, (body,) = loop.graph, loop.blocks
    with graph.inserting_before(loop):
        loop.insert_input(2, graph.insert_constant(0))
    loop.insert_output(0, T.INT)
    number = body.insert_input(1, T.INT)
    body.inputs[0].replace_all_uses_with(number)
    with graph.inserting_at_end(body):
        one = graph.insert_constant(1)
        following = graph.insert("aten::add", (number, one), (T.INT,), range=loop.range).output
    body.insert_output(1, following)


def _is_unrolled(count: Value) -> bool:
    """Is it the iteration count of a loop that unrolling has made?"""
    node = count.node
    if node.kind == "aten::sub":  # what is left
        node = node.inputs[1].node
        node = node.inputs[0].node if node.kind == "aten::mul" else node
    return node.kind == "aten::__round_to_zero_floordiv" and constant_of(node.inputs[1], None) == FACTOR
