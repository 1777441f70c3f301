"""What loops come from: `range(start, stop, step)`, and conditions that are the same before each iteration."""

from __future__ import annotations

from collections.abc import Container

from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.ops import Effect
from jitlite.ir.structure import Loop
from jitlite.operators import scalars
from jitlite.operators.prims import OVER_RANGE


def with_range_loops(graph: Graph) -> Graph:
    """The graph, or a copy of it in which loops over ranges iterate over the elements.

    In TorchScript's graphs they count, and each iteration derives the element from the count.
    """
    if not any(_range_loop(node) for node in graph.all_nodes()):
        return graph
    copied = graph.copy()
    for node in list(copied.all_nodes()):
        derived = _range_loop(node)
        if derived is None:
            continue
        counter = Loop(node).index
        for element in derived:
            if element.output.has_name and not counter.has_name:
                counter.set_name(element.output.name)
            element.output.replace_all_uses_with(counter)
            element.destroy()
        Loop(node).max_iterations.node.move_before(node)
        node.attributes[OVER_RANGE] = True
    return copied


def _range_loop(node: Node) -> list[Node] | None:
    """What derives the elements in a loop over a range; None for other loops, and where the count is read otherwise."""
    if node.kind != "prim::Loop" or node.attributes.get(OVER_RANGE):
        return None
    length = Loop(node).max_iterations.node
    if length.op is None or length.op.fn is not scalars.range_length or length.output.use_count > 1:
        return None
    start, _, step = length.inputs
    adjacent = length.next is node
    if length.block is not node.block or not (adjacent or constant_of(step, 0)):  # a step of 0 raises, in its place
        return None
    derived = [use.user for use in Loop(node).index.uses]
    for element in derived:
        if element.op is None or element.op.fn is not scalars.derive_index or element.inputs[0].node is length:
            return None
        if not all(map(_same, element.inputs[1:], (start, step))):
            return None
    return derived


def _same(a: Value, b: Value) -> bool:
    if a is b:
        return True
    return is_constant(a) and is_constant(b) and constant_of(a) == constant_of(b)


def same_at_start(first: Value, again: Value, start: dict[Value, Value], body: Block, nested: Container[Node]) -> bool:
    """Is `first` what the expression `again`, computed at the end of the body, is for the values the loop starts with?

    Both have to be expressions and nothing else: what a statement computes happens at another time, and on the first
    iteration a variable of the body has no value yet.

    Args:
        first: a value computed before the loop.
        again: a value computed in the body.
        start: for each value that the body hands on to the next iteration, what the first iteration is given.
        nested: the nodes that are written as expressions where their value is used.
    """
    if again in start:
        return _is_same(first, start[again])
    if first is again:
        return True
    inside = again.node
    if is_constant(again) or inside.kind == "prim::Param" or not inside.is_inside(body):
        return _is_same(first, again)
    if inside not in nested:
        return False
    if is_constant(first):
        return _is_equal(_at_start(again, start, body, nested), constant_of(first))
    outside = first.node
    if outside not in nested or not _is_same_operation(outside, inside):
        return False
    pairs = list(zip(outside.inputs, inside.inputs, strict=True))
    for branch, other in zip(outside.blocks, inside.blocks, strict=True):
        pairs += zip(branch.outputs, other.outputs, strict=True)
    return all(same_at_start(a, b, start, body, nested) for a, b in pairs)


_UNKNOWN = object()


def _is_same_operation(a: Node, b: Node) -> bool:
    """Do two expressions do the same with their operands?"""
    alike = a.kind == b.kind and a.op is b.op and a.attributes == b.attributes
    return alike and len(a.inputs) == len(b.inputs) and len(b.outputs) <= 1


def _is_equal(found: object, wanted: object) -> bool:
    return found is not _UNKNOWN and type(found) is type(wanted) and found == wanted


def _is_same(a: Value, b: Value) -> bool:
    if a is b:
        return True
    known = is_constant(a) and is_constant(b)
    return known and type(constant_of(a)) is type(constant_of(b)) and bool(constant_of(a) == constant_of(b))


def _at_start(value: Value, start: dict[Value, Value], body: Block, nested: Container[Node]) -> object:
    """The number that an expression of numbers is for the values the loop starts with; unknown where it is none."""
    value = start.get(value, value)
    if is_constant(value):
        found = constant_of(value)
        return found if isinstance(found, int | float | bool) else _UNKNOWN
    node = value.node
    if (
        not node.is_inside(body)
        or node not in nested
        or node.blocks
        or node.op is None
        or node.op.effect is not Effect.PURE
        or node.op.fn is None
    ):
        return _UNKNOWN
    operands = [_at_start(v, start, body, nested) for v in node.inputs]
    if _UNKNOWN in operands or node.op.overload is not None or node.op.attributes:
        return _UNKNOWN
    try:
        return node.op.fn(*operands)
    except Exception:
        return _UNKNOWN
