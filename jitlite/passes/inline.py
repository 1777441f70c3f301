"""Put the bodies of called functions in the place of the calls.

    %f : Function = prim::Constant[name="double"]()          %f : Function = prim::Constant[name="double"]()
    %y : Tensor = prim::CallFunction(%f, %x)           =>    %2 : Tensor = aten::add(%x, %x, %1)
    return (%y)                                              return (%2)

Calls in the inlined bodies are inlined too. Each node remembers the calls it was inlined through, so that tracebacks
stay. What runs, on what objects and in which order, is what the call would have run. A function that may call itself is
left alone, and so is what is no compiled function. The constants of inlined functions are left for `dce`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.unit import Function, called_function
from jitlite.passes.registry import graph_pass


@graph_pass
def inline_calls(graph: Graph) -> bool:
    """Inline every call of a function that does not call itself."""
    recursive: dict[Function, bool] = {}
    pending = [node for node in graph.all_nodes() if _callee(node, recursive) is not None]
    changed = bool(pending)
    while pending:
        call = pending.pop()
        function = _callee(call, recursive)
        assert function is not None
        copied = inline_call(graph, call, function)
        pending += [node for node in copied if _callee(node, recursive) is not None]
    return changed


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
        recursive[function] = _may_call_itself(function)
    return None if recursive[function] else function


def _may_call_itself(function: Function) -> bool:
    """Can a call of the function lead to another one? It counts as if it could while its body is not known."""
    seen: set[Function] = set()
    pending = [function]
    while pending:
        caller = pending.pop()
        if not caller.is_compiled:
            caller.ensure_compiled()
        if not caller.is_compiled:  # it is being compiled right now
            return True
        for node in _nodes_and_subgraphs(caller.graph):
            called = called_function(node)
            if called is function:
                return True
            if called is not None and called not in seen:
                seen.add(called)
                pending.append(called)
    return False


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
    arguments = call.inputs[1:] if call.kind == "prim::CallFunction" else call.inputs
    with graph.inserting_before(call):
        results = graph.inline_call(function.graph, arguments, copied.append)
    everything = [inner for node in copied for inner in _with_nested(node)]
    path = (*call.call_stack, (function.name, call.range))
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
