"""Counted loops: a loop that compares a number it counts up or down with a bound gets an iteration count instead.

    %c : bool = aten::lt(%0, %n)
    %r : int, %s : int = prim::Loop(%max, %c, %0, %x)         %s : int = prim::Loop(%n, %true, %x)
      block0(%k : int, %i : int, %p : int):                     block0(%i : int, %p : int):
        %q : int = aten::mul(%p, %i)                     =>       %q : int = aten::mul(%p, %i)
        %j : int = aten::add(%i, %1)                              -> (%true, %q)
        %d : bool = aten::lt(%j, %n)                          return (%s)
        -> (%d, %j, %q)
    return (%s)

So `while i < n: ...; i += 1`, and `for` loops with `break`, which are loops with a condition as well, become what
`for i in range(...)` is. What else the condition asks for stays: of `i < n and c`, `c`. Where `c` is only computed when
`i < n` holds, that has to be something that can be computed once more, at the end.

The number has to start anywhere, change by a constant in every round, and be compared with a value from outside of the
loop, before the first round as well as at the end of each. Ints have no limit, so the count is exact. If the number is
read after the loop and the iteration count is not all that ends it, it is carried on as before.
"""

from __future__ import annotations

from jitlite.analysis.effects import effect_of, raises_itself
from jitlite.analysis.memory_kinds import reachable_kinds
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.analysis import may_use
from jitlite.ir.graph import Graph, Node, Value, constant_of, is_constant
from jitlite.ir.ops import Effect
from jitlite.ir.structure import If, Loop
from jitlite.ir.traits import Link
from jitlite.passes.loop_copies import may_be_uninitialized
from jitlite.passes.registry import graph_pass


@graph_pass
def count_loops(graph: Graph) -> bool:
    """Give an iteration count to every loop whose condition counts."""
    changed = False
    for node in list(graph.all_nodes()):
        if node.kind == "prim::Loop" and not Loop(node).is_bounded:
            found = _find(node)
            if found is not None:
                _count(node, found)
                changed = True
    return changed


class _Counter(Record, eq=True):
    """A carried number that bounds a loop.

    Attributes:
        position: of the carried value.
        step: what a round adds.
        bound: what the number is compared with.
        inclusive: may the number be the bound?
        start: the rest of the start condition; None where there is none.
        rest: the rest of the condition at the end of a round; None where there is none.
        branch: the `prim::If` that computes the rest only where the comparison holds, if it does.
    """

    position: int
    step: int
    bound: Value
    inclusive: bool
    start: Value | None
    rest: Value | None
    branch: Node | None


# -- finding


class _LoopBound(Record, eq=True):
    """`value < bound` or the like, and what else a condition asks for."""

    kind: str
    value: Value
    bound: Value
    rest: Value | None = None
    branch: Node | None = None


def _find(loop: Node) -> _Counter | None:
    for comparison in _comparisons(Loop(loop).condition, loop):
        for position, carried in enumerate(Loop(loop).carried):
            if carried.following is not comparison.value:
                continue
            step = _step(carried.following, carried.parameter)
            if step is None or (step > 0) is not (comparison.kind in ("aten::lt", "aten::le")):
                continue
            start = _start(loop, position, comparison)
            if start is not None:
                inclusive = comparison.kind in ("aten::le", "aten::ge")
                rest, branch = comparison.rest, comparison.branch
                return _Counter(position, step, comparison.bound, inclusive, start[0], rest, branch)
    return None


def _comparisons(condition: Value, loop: Node) -> list[_LoopBound]:
    """The comparisons with a value from outside of the loop that have to hold for the condition to."""
    node = condition.node
    if node.block is not loop.blocks[0] or not _is_only_condition(condition):
        return []
    if node.kind in Link.MIRRORED.by_kind:
        return _compared(node, loop)
    if node.kind == "aten::__and__" and all(v.type is T.BOOL for v in node.inputs):
        left, right = node.inputs
        return [*_compared_beside(left, right, loop), *_compared_beside(right, left, loop)]
    if node.kind == "prim::If" and node.input.node.block is node.block and _is_short_cut(node):
        return _compared_beside(node.input, node.blocks[0].outputs[0], loop, node)
    return []


def _compared_beside(part: Value, rest: Value, loop: Node, branch: Node | None = None) -> list[_LoopBound]:
    """The comparisons that one side of an `and` makes, whose other side is `rest`."""
    if part.node.kind not in Link.MIRRORED.by_kind or part.node.block is not loop.blocks[0]:
        return []
    return [_LoopBound(b.kind, b.value, b.bound, rest, branch) for b in _compared(part.node, loop)]


def _is_short_cut(node: Node) -> bool:
    """Is the if an `and`, the right side of which may as well be computed where the left side is False?"""
    computed, other = node.blocks
    if len(node.outputs) != 1 or not other.is_empty or constant_of(other.outputs[0], None) is not False:
        return False
    return all(map(_may_run_once_more, computed.nodes))


def _is_only_condition(condition: Value) -> bool:
    """Does nothing but the loop itself read it?"""
    return condition.use_count == 1


def _may_run_once_more(node: Node) -> bool:
    if node.blocks or effect_of(node) is not Effect.PURE or raises_itself(node):
        return False
    if any(map(may_be_uninitialized, node.inputs)):
        return False
    return not any(reachable_kinds(v.type) for v in (*node.inputs, *node.outputs))


def _compared(node: Node, loop: Node) -> list[_LoopBound]:
    left, right = node.inputs
    if left.type is not T.INT or right.type is not T.INT:
        return []
    found = []
    if may_use(loop, right):
        found.append(_LoopBound(node.kind, left, right))
    if may_use(loop, left):
        found.append(_LoopBound(Link.MIRRORED.by_kind[node.kind], right, left))
    return found


def _step(following: Value, parameter: Value) -> int | None:
    """What the number grows by in a round, if that is a constant other than 0."""
    node = following.node
    if node.kind not in ("aten::add", "aten::sub") or node.block is not parameter.node.block or len(node.inputs) != 2:
        return None
    left, right = node.inputs
    if node.kind == "aten::add" and right is parameter:
        left, right = right, left
    amount = constant_of(right, None)
    if left is not parameter or parameter.type is not T.INT or type(amount) is not int or amount == 0:
        return None
    return amount if node.kind == "aten::add" else -amount


def _start(loop: Node, position: int, comparison: _LoopBound) -> tuple[Value | None] | None:
    """The rest of the start condition, where that compares the first number like the others; None where not."""
    number, condition = loop.inputs[position + 2], loop.inputs[1]
    if _is_same_comparison(condition, number, comparison):
        return (None,)
    values = constant_of(number, None), constant_of(comparison.bound, None)
    if all(type(v) is int for v in values) and _holds(comparison.kind, *values):
        return (None if constant_of(condition, None) is True else condition,)
    node = condition.node
    if node.kind == "aten::__and__":
        for part, rest in (node.inputs, tuple(reversed(node.inputs))):
            if _is_same_comparison(part, number, comparison):
                return (rest,)
    holds_only_then = (
        node.kind == "prim::If"
        and _is_same_comparison(node.input, number, comparison)
        and constant_of(If(node).joined[condition.offset].orelse, None) is False
    )
    return (condition,) if holds_only_then else None


def _is_same_comparison(condition: Value, number: Value, comparison: _LoopBound) -> bool:
    node = condition.node
    if node.kind not in Link.MIRRORED.by_kind or any(v.type is not T.INT for v in node.inputs):
        return False
    left, right = node.inputs
    if node.kind == comparison.kind:
        return _are_equal(left, number) and _are_equal(right, comparison.bound)
    return (
        Link.MIRRORED.by_kind[node.kind] == comparison.kind
        and _are_equal(right, number)
        and _are_equal(left, comparison.bound)
    )


def _are_equal(a: Value, b: Value) -> bool:
    if a is b:
        return True
    return is_constant(a) and is_constant(b) and type(constant_of(a)) is int and constant_of(a) == constant_of(b)


def _holds(kind: str, number: int, bound: int) -> bool:
    return {"aten::lt": number < bound, "aten::le": number <= bound, "aten::gt": number > bound,
            "aten::ge": number >= bound}[kind]  # fmt: skip


# -- rewriting


def _count(loop: Node, found: _Counter) -> None:
    graph, (body,) = loop.graph, loop.blocks
    number = loop.inputs[found.position + 2]
    with graph.inserting_before(loop):
        true = graph.insert_constant(True)
        step = graph.insert_constant(found.step)
        bound = found.bound
        if found.inclusive:
            bound = _sum(graph, bound, graph.insert_constant(1 if found.step > 0 else -1), loop)
        count = bound
        if found.step != 1 or constant_of(number, None) != 0:
            inputs = (number, bound, step)
            count = graph.insert("aten::__range_length", inputs, (T.INT,), range=loop.range).output
    loop.replace_input(0, count)
    loop.replace_input(1, true if found.start is None else found.start)

    if found.branch is not None:
        for inner in list(found.branch.blocks[0].nodes):
            inner.move_before(found.branch)
    body.replace_output(0, true if found.rest is None else found.rest)
    if found.branch is not None:
        found.branch.destroy()
    _read_trip_number(loop, found, step, bound)


def _sum(graph: Graph, left: Value, right: Value, loop: Node) -> Value:
    return graph.insert("aten::add", (left, right), (T.INT,), range=loop.range).output


def _read_trip_number(loop: Node, found: _Counter, step: Value, bound: Value) -> None:
    """Let the body, and what follows the loop, compute the number from the iteration number, if that is enough."""
    graph, (body,) = loop.graph, loop.blocks
    parameter, output = body.inputs[found.position + 1], loop.outputs[found.position]
    number, following = loop.inputs[found.position + 2], body.outputs[found.position + 1]
    if output.has_uses and found.rest is None and found.start is None and found.step == 1:
        with graph.inserting_before(loop):
            last = graph.insert("prim::max", (number, bound), (T.INT,), range=loop.range).output
        output.replace_all_uses_with(last)
    if output.has_uses:
        return
    current = body.inputs[0]
    if found.step != 1 or constant_of(number, None) != 0:
        with graph.inserting_before(next(body.nodes, body.return_node)):
            inputs = (current, number, step)
            current = graph.insert("aten::__derive_index", inputs, (T.INT,), range=loop.range).output
    parameter.replace_all_uses_with(current)
    body.replace_output(found.position + 1, current)
    if not following.has_uses:
        following.node.destroy()
    body.erase_output(found.position + 1)
    body.erase_input(found.position + 1)
    loop.remove_input(found.position + 2)
    loop.erase_output(found.position)
