"""Put the bodies of called functions in place of the calls.

    %f : Function = prim::Constant[name="double"]()          %f : Function = prim::Constant[name="double"]()
    %y : Tensor = prim::CallFunction(%f, %x)           =>    %2 : Tensor = aten::add(%x, %x, %1)
    return (%y)                                              return (%2)

Calls in the inlined bodies are inlined too. Each node remembers the calls it was inlined through, so that tracebacks
stay. What runs, on what objects and in which order, is what the call would have run. A function that may call itself is
left alone, and so is what is no compiled function. The constants of inlined functions are left for `dce`.

A graph does not grow beyond a bound: `h1 = h0(h0(x))`, `h2 = h1(h1(x))` and so on has 2^n nodes after n functions. A
call whose function would not fit stays a call, which is right wherever a call of a recursive function is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.unit import Function, called_function, name_of_call, passed_arguments
from jitlite.passes.registry import graph_pass

LARGEST = 20_000
"""Nodes that a graph may have by inlining. Large networks have up to 10,000; each takes passes about a millisecond."""


class _InlinedSizes:
    """How many nodes functions have when all calls in them are inlined; more than `LARGEST` is not told apart."""

    def __init__(self, recursive: dict[Function, bool]) -> None:
        self._recursive = recursive
        self._known: dict[Function, int] = {}

    def of(self, function: Function) -> int:
        """The nodes that a call of the function becomes."""
        pending = [function]
        while pending:
            current = pending[-1]
            callees = [c for n in current.graph.all_nodes() if (c := _callee(n, self._recursive)) is not None]
            unknown = [c for c in dict.fromkeys(callees) if c not in self._known]
            if current in self._known or not unknown:
                pending.pop()
                own = sum(1 for _ in current.graph.all_nodes())
                self._known[current] = min(own + sum(self._known[c] for c in callees if c in self._known), LARGEST + 1)
            else:
                pending += unknown  # they call nothing that leads back, or they would count as recursive
        return self._known[function]


@graph_pass
def inline_calls(graph: Graph) -> bool:
    """Inline every call of a function that does not call itself, as far as the graph stays within its bound."""
    recursive: dict[Function, bool] = {}
    calls = [node for node in graph.all_nodes() if _callee(node, recursive) is not None]
    if not calls:
        return False
    sizes = _InlinedSizes(recursive)
    room = LARGEST - sum(1 for _ in graph.all_nodes())
    changed = False
    for call in calls:
        function = _callee(call, recursive)
        assert function is not None
        size = sizes.of(function)
        if size <= room:
            room -= size
            changed = True
            _inline_all(graph, call, recursive)
    return changed


def _inline_all(graph: Graph, call: Node, recursive: dict[Function, bool]) -> None:
    """Inline a call and all that are in it."""
    pending = [call]
    while pending:
        node = pending.pop()
        function = _callee(node, recursive)
        assert function is not None
        copied = inline_call(graph, node, function)
        pending += [n for n in copied if _callee(n, recursive) is not None]


def inline_only(graph: Graph, functions: Collection[Function]) -> bool:
    """Inline the calls of these functions, which call nothing that is compiled, and leave the others."""
    calls = [node for node in graph.all_nodes() if called_function(node) in functions]
    for call in calls:
        function = called_function(call)
        assert function is not None
        inline_call(graph, call, function)
    return bool(calls)


def _callee(node: Node, recursive: dict[Function, bool]) -> Function | None:
    """The function to inline for the node, if any."""
    if node.kind not in ("prim::CallFunction", "prim::CallMethod"):
        return None
    function = called_function(node)
    if function is None or "Subgraph" in node.attributes:
        return None
    if function not in recursive:
        _find_recursion(function, recursive)
    return None if recursive[function] else function


class _Visit:
    """A function on the way of `_find_recursion`, by Tarjan's algorithm for strongly connected components."""

    def __init__(self, function: Function, number: int) -> None:
        self.function = function
        self.number = self.lowest = number
        if not function.is_compiled:
            function.ensure_compiled()
        self.is_known = function.is_compiled  # else it is being compiled right now
        self.called = _called(function) if self.is_known else []
        self.calls_itself = function in self.called
        self.position = 0


def _find_recursion(function: Function, recursive: dict[Function, bool]) -> None:
    """Enter whether calls of the function, and of those it reaches, can lead to another call of the same.

    It counts as if they could where a body is reached that is not known.
    """
    first = _Visit(function, 0)
    visits, open_, path = {function: first}, [first], [first]
    while path:
        at = path[-1]
        if at.position < len(at.called):
            called = at.called[at.position]
            at.position += 1
            if called in recursive:
                continue
            known = visits.get(called)
            if known is None:
                known = visits[called] = _Visit(called, len(visits))
                open_.append(known)
                path.append(known)
            else:
                at.lowest = min(at.lowest, known.number)
            continue
        path.pop()
        if path:
            path[-1].lowest = min(path[-1].lowest, at.lowest)
            path[-1].is_known = path[-1].is_known and at.is_known
        if at.lowest == at.number:
            component = open_[open_.index(at) :] if open_[-1] is not at else [at]
            del open_[-len(component) :]
            for member in component:
                recursive[member.function] = len(component) > 1 or member.calls_itself or not at.is_known


def _called(function: Function) -> list[Function]:
    found = dict.fromkeys(called_function(node) for node in _nodes_and_subgraphs(function.graph))
    return [f for f in found if f is not None]


def _nodes_and_subgraphs(graph: Graph) -> Iterator[Node]:
    """All nodes, also those of forked graphs: a function that forks itself calls itself."""
    for node in graph.all_nodes():
        yield node
        forked = node.attributes.get("Subgraph")
        if isinstance(forked, Graph):
            yield from _nodes_and_subgraphs(forked)


def inline_call(graph: Graph, call: Node, function: Function) -> list[Node]:
    """Replace a call of the function by its body; gives all nodes that came in."""
    copied: list[Node] = []
    with graph.inserting_before(call):
        results = graph.inline_call(function.graph, passed_arguments(call), copied.append)
    everything = [inner for node in copied for inner in _with_nested(node)]
    path = (*call.call_stack, (name_of_call(call, function), call.range))
    for node in everything:
        node.call_stack = (*path, *node.call_stack)
    made = set(everything)
    for output, result in zip(call.outputs, results, strict=True):
        output.replace_all_uses_with(result)
        _hand_over_name(output, result, made)
    call.destroy()
    return everything


def _hand_over_name(output: Value, result: Value, made: set[Node]) -> None:
    if result.node in made and output.has_name:
        name = output.name
        output.set_name(None)
        result.set_name(name)


def _with_nested(node: Node) -> list[Node]:
    return [node, *(found for block in node.blocks for inner in block.nodes for found in _with_nested(inner))]
