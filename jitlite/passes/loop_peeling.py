"""Loop peeling: run the first round in front of the loop, where it is the only one of its kind.

    %r : bool, %s : int = prim::Loop(%n, %true, %true, %0)        %c : bool = aten::gt(%n, %0)
      block0(%i : int, %first : bool, %t : int):                  %s : int = prim::If(%c)
        %u : int = prim::If(%first)                                 block0():
          ...                                                         the body for the first round
        -> (%true, %false, %u)                              =>        %m : int = aten::sub(%n, %1)
                                                                      %s2 : int = prim::Loop(%m, %true, %u)
                                                                        ... where %first is False
                                                                      -> (%s2)
                                                                    block1():
                                                                      -> (%0)

A loop is peeled where a carried value that the body tests (as a condition, or for None) starts with a constant and is
another, known one from the second round on. In the loop that is left, values carried round after round that are one
constant become that constant, and those of which None is excluded get the narrower type.

The first round is run exactly when it was, before the others; so effects, exceptions and random draws stay. Large
bodies are left alone.
"""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.structure import UNBOUNDED, Loop
from jitlite.ir.value_keys import value_key
from jitlite.passes.loop_copies import insert_copy, replace_by, size_of, starts
from jitlite.passes.registry import graph_pass

LARGEST_BODY = 64
"""Nodes of a body beyond which it is not repeated."""


@graph_pass
def peel_loops(graph: Graph) -> bool:
    """Peel one round off the loops whose first round is the only one of its kind."""
    return _peel_in(graph.block)


def _peel_in(block: Block) -> bool:
    changed = False
    for node in list(block.nodes):
        for inner in node.blocks:
            changed = _peel_in(inner) or changed
        if node.kind == "prim::Loop" and size_of(node.blocks[0]) <= LARGEST_BODY and _first_round_differs(node):
            settle(peel(node))
            changed = True
    return changed


# -- whether


def _first_round_differs(loop: Node) -> bool:
    return any(_becomes_known(c.start, c.following) and _is_tested(c.parameter) for c in Loop(loop).carried)


def _becomes_known(start: Value, following: Value) -> bool:
    """Is the value a constant first, and then another constant or, after None, anything else?"""
    if not is_constant(start):
        return False
    if start.type is T.NONE:
        return not T.may_be_none(following.type)
    if not is_constant(following) or "name" in start.node.attributes or "name" in following.node.attributes:
        return False
    return value_key(constant_of(start)) != value_key(constant_of(following))


def _is_tested(parameter: Value) -> bool:
    return any(_decides(use.user, parameter) for use in parameter.uses)


def _decides(node: Node, parameter: Value) -> bool:
    """Is the node a condition, or a comparison with a constant, that knowing the parameter would decide?"""
    if node.kind in ("aten::__is__", "aten::__isnot__"):
        return any(v.type is T.NONE for v in node.inputs)
    if node.kind in ("aten::eq", "aten::ne"):
        return all(is_constant(v) or v is parameter for v in node.inputs)
    return node.kind == "prim::If" or (node.kind == "aten::__not__" and parameter.type is T.BOOL)


# -- how


def peel(loop: Node) -> Node:
    """Run the first iteration of a loop in front of it; gives the loop that is left."""
    graph, (body,) = loop.graph, loop.blocks
    count = loop.inputs[0]
    with graph.inserting_before(loop):
        runs = starts(loop)
        branch = None
        if constant_of(runs, None) is not True:
            branch = graph.insert("prim::If", (runs,), (output.type for output in loop.outputs), range=loop.range)
            run, skip = branch.add_block(), branch.add_block()
            for value in Loop(loop).starts:
                skip.add_output(value)
    with graph.inserting_before(loop) if branch is None else graph.inserting_at_end(run):
        first = graph.insert_constant(0)
        goes_on, *carried = insert_copy(graph, body, [first, *Loop(loop).starts])
        left = count
        if constant_of(count, None) != UNBOUNDED:
            left = graph.insert("aten::sub", (count, graph.insert_constant(1)), (T.INT,), range=loop.range).output
        rest = graph.insert("prim::Loop", (left, goes_on, *carried), (o.type for o in loop.outputs), range=loop.range)
    rest.call_stack, rest.scope = loop.call_stack, loop.scope
    rest.add_block().clone_from(body, {})
    _count_from_one(rest)
    if branch is None:
        replace_by(loop, rest.outputs)
        return rest
    for output in rest.outputs:
        run.add_output(output)
    for old, new in zip(loop.outputs, branch.outputs, strict=True):
        new.copy_metadata(old)
    replace_by(loop, branch.outputs)
    return rest


def _count_from_one(loop: Node) -> None:
    graph, (body,) = loop.graph, loop.blocks
    number = body.inputs[0]
    if not number.has_uses:
        return
    with graph.inserting_before(next(body.nodes, body.return_node)):
        one = graph.insert_constant(1)
        shifted = graph.insert("aten::add", (number, one), (T.INT,), range=loop.range)
    for use in number.uses:
        if use.user is not shifted:
            use.user.replace_input(use.offset, shifted.output)


# -- what is known then


def settle(loop: Node) -> None:
    """Let values that are one constant in every round be it; narrow carried types of which None is excluded."""
    for start, parameter, following, output in Loop(loop).carried:
        if _is_one_constant(start, following):
            parameter.replace_all_uses_with(start)
            output.replace_all_uses_with(start)
        elif T.may_be_none(parameter.type) and start.type is following.type and not T.may_be_none(start.type):
            parameter.type = output.type = start.type


def _is_one_constant(start: Value, following: Value) -> bool:
    if not (is_constant(start) and is_constant(following)) or start.type is not following.type:
        return False
    if "name" in start.node.attributes or isinstance(constant_of(start), list | dict):
        return False
    return value_key(constant_of(start)) == value_key(constant_of(following))
