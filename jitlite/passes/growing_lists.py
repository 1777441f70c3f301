"""Loops over lists that change their length meanwhile: look at the length in every round, as Python does.

    %n : int = aten::len(%l)                        %n : int = aten::len(%l)
     = prim::Loop(%n, %true)                        %c : bool = aten::gt(%n, %0)
      block0(%i : int):                              = prim::Loop(%max, %c)
        %x : int = aten::__getitem__(%l, %i)          block0(%i : int):
        %m : int[] = aten::append(%l, %x)     =>        %x : int = aten::__getitem__(%l, %i)
        -> (%true)                                      %m : int[] = aten::append(%l, %x)
                                                        %j : int = aten::add(%i, %1)
                                                        %o : int = aten::len(%l)
                                                        %d : bool = aten::lt(%j, %o)
                                                        -> (%d)

TorchScript fixes the number of rounds before the first one; a Python list iterator compares its position with the
length before every round, which is what the new condition does. Loops over `zip` and `enumerate`, whose number of
rounds is the least of several lengths, likewise. A condition of the loop's own (from `break`) still has to hold too.

A loop is changed only if a node in its body may change the length of (an alias of) the list: for all others the two
meanings agree, as the length read before the loop is the length at every round. Runs right after early exits are
removed, while the trip count of a loop is still the length itself.
"""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.passes.alias import AliasDb
from jitlite.passes.registry import graph_pass

_NO_BOUND = 2**63 - 1
_SAME_LENGTH = frozenset({"aten::_set_item", "aten::sort", "aten::reverse"})
"""Operators that write a list and leave its length."""


@graph_pass
def follow_growing_lists(graph: Graph) -> bool:
    """Let loops over lists that may change their length test it in every round."""
    candidates = [n for n in graph.all_nodes() if n.kind == "prim::Loop" and _lists(n.inputs[0])]
    candidates = [n for n in candidates if any(_may_resize(inner) for inner in _inside(n))]
    if not candidates:
        return False
    aliases = AliasDb(graph)
    changing = [n for n in candidates if _resizes(aliases, n)]
    for loop in changing:
        _test_every_round(graph, loop)
    return bool(changing)


def _lists(trip_count: Value) -> list[Value]:
    """The lists whose length, or whose least length, is the trip count."""
    lengths = [trip_count]
    if trip_count.node.kind == "prim::min" and trip_count.node.inputs[0].node.kind == "prim::ListConstruct":
        lengths = list(trip_count.node.inputs[0].node.inputs)
    measured = [v.node.inputs[0] for v in lengths if v.node.kind == "aten::len"]
    return [v for v in measured if isinstance(v.type, T.ListType)]


def _inside(loop: Node) -> list[Node]:
    found: list[Node] = []
    waiting = list(loop.blocks)
    while waiting:
        for node in waiting.pop().nodes:
            found.append(node)
            waiting.extend(node.blocks)
    return found


def _may_resize(node: Node) -> bool:
    op = node.op
    if node.blocks or node.kind in _SAME_LENGTH or node.kind in ("prim::Print", "prim::RaiseException"):
        return False
    if op is None or op.fn is None:
        return node.kind in ("prim::CallFunction", "prim::CallMethod", "prim::PythonOp", "aten::wait")
    return any(
        argument.is_write and isinstance(value.type, T.ListType)
        for argument, value in zip(op.schema.arguments, node.inputs, strict=False)
    )


def _resizes(aliases: AliasDb, loop: Node) -> bool:
    lists = 0
    for value in _lists(loop.inputs[0]):
        lists |= aliases.locations(value)
    return any(aliases.writes(node) & lists for node in _inside(loop) if _may_resize(node))


def _test_every_round(graph: Graph, loop: Node) -> None:
    trip_count, condition = loop.inputs[0], loop.inputs[1]
    (body,) = loop.blocks
    with graph.inserting_before(loop):
        graph.current_range = loop.range
        zero = graph.insert_constant(0)
        starts = graph.insert("aten::gt", (trip_count, zero), (T.BOOL,)).output
        loop.replace_input(0, graph.insert_constant(_NO_BOUND))
        loop.replace_input(1, _both(graph, starts, condition))
    with graph.inserting_at_end(body):
        following = graph.insert("aten::add", (body.inputs[0], graph.insert_constant(1)), (T.INT,)).output
        goes_on = graph.insert("aten::lt", (following, _measure_again(graph, trip_count)), (T.BOOL,)).output
        body.replace_output(0, _both(graph, goes_on, body.outputs[0]))
        graph.current_range = None


def _measure_again(graph: Graph, length: Value) -> Value:
    if length.node.kind == "aten::len":
        return graph.insert("aten::len", length.node.inputs, (T.INT,)).output
    if length.node.kind == "prim::min":
        lengths = [_measure_again(graph, v) for v in length.node.inputs[0].node.inputs]
        listed = graph.insert("prim::ListConstruct", lengths, (T.ListType.of(T.INT),)).output
        return graph.insert("prim::min", (listed,), (T.INT,)).output
    return length


def _both(graph: Graph, first: Value, second: Value) -> Value:
    if constant_of(second, None) is True:
        return first
    return graph.insert("aten::__and__", (first, second), (T.BOOL,)).output
