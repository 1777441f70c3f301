"""Loops and copies of their bodies: what the passes that change loops have in common."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.structure import Loop


def is_counted(node: Node) -> bool:
    """Does the iteration count alone end the loop, as in `for` without `break`?"""
    return node.kind == "prim::Loop" and Loop(node).is_bounded and not Loop(node).has_condition


def starts(loop: Node) -> Value:
    """Put to the insertion point whether the loop runs a first round."""
    graph, count, condition = loop.graph, loop.inputs[0], loop.inputs[1]
    limit = constant_of(count, None)
    if type(limit) is int and limit > 0:
        return condition
    kind, left, right = _positive(count) or ("aten::gt", count, graph.insert_constant(0))
    positive = graph.insert(kind, (left, right), (T.BOOL,), range=loop.range).output
    if constant_of(condition, None) is True:
        return positive
    return graph.insert("aten::__and__", (positive, condition), (T.BOOL,), range=loop.range).output


def _positive(count: Value) -> tuple[str, Value, Value] | None:
    """The comparison that holds where the length of a range is positive; None where `count` is none."""
    if count.node.kind != "aten::__range_length":
        return None
    start, stop, step = count.node.inputs
    known = constant_of(step, None)
    if type(known) is not int or known == 0:
        return None
    return ("aten::gt" if known > 0 else "aten::lt"), stop, start


def says_it_starts(condition: Value, count: Value) -> bool:
    """Is it the comparison that `starts` makes for a loop with this iteration count?"""
    node, wanted = condition.node, _positive(count)
    if wanted is not None:
        return node.kind == wanted[0] and tuple(node.inputs) == wanted[1:]
    return node.kind == "aten::gt" and node.inputs[0] is count and constant_of(node.inputs[1], None) == 0


def has_inner_loop(block: Block) -> bool:
    """Is there a loop in the block, however deep?"""
    return any(node.kind == "prim::Loop" or any(map(has_inner_loop, node.blocks)) for node in block.nodes)


def size_of(block: Block) -> int:
    """How many nodes the block has, with those in their blocks; constants are free."""
    return sum(1 + sum(map(size_of, node.blocks)) for node in block.computations)


def insert_copy(graph: Graph, body: Block, arguments: Sequence[Value]) -> list[Value]:
    """Put a copy of a block to the insertion point, with `arguments` for its parameters; gives what it returns."""
    values = dict(zip(body.inputs, arguments, strict=True))
    for node in body.nodes:
        graph.clone_node(node, values).insert_before(graph.insert_point)
    return [values.get(output, output) for output in body.outputs]


def replace_by(node: Node, values: Sequence[Value]) -> None:
    """Let `values` stand for the outputs of the node, which goes."""
    for output, value in zip(node.outputs, values, strict=True):
        output.replace_all_uses_with(value)
    node.destroy()


def ends_a_loop(value: Value) -> bool:
    """Is the value what a loop's body returns as the condition, as it is or through the ifs at its end?"""
    for user, offset in value.uses:
        owner = user.block.owner if user.kind == "prim::Return" and user.block is not None else None
        if owner is None:
            continue
        if owner.kind == "prim::Loop" and offset == 0:
            return True
        if owner.kind == "prim::If" and owner.next is None and ends_a_loop(owner.outputs[offset]):
            return True
    return False


def may_be_uninitialized(value: Value) -> bool:
    """May it be a `prim::Uninitialized`? Then what is computed from it may only run where it has run before."""
    pending, seen = [value], set()
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        node, offset = at.node, at.offset
        owner = node.block.owner if node.kind == "prim::Param" and node.block is not None else None
        if node.kind == "prim::Uninitialized":
            return True
        if node.kind in ("prim::If", "prim::Try"):
            pending += [block.outputs[offset] for block in node.blocks]
        elif node.kind == "prim::Loop":
            pending += Loop(node).sources(offset)
        elif owner is not None and owner.kind == "prim::Loop" and offset > 0:
            pending += Loop(owner).sources(offset - 1)
        elif node.kind in ("prim::unchecked_cast", "prim::unchecked_unwrap_optional"):
            pending.append(node.input)
    return False
