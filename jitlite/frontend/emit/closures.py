"""Closures become functions of their own, and forked ones the bodies of fork nodes.

The emitter leaves a closure as a node with a block, which may use values of the blocks around it:

    %f : NoneType = prim::Closure()
      block0():
        %1 : Tensor = aten::neg(%x)
        -> (%1)
    %2 : Future[Tensor] = prim::forkClosure(%f)

`lift_closures` packs the values that the block uses into a tuple, its only input, and makes it a graph:

    %f : NoneType = prim::Closure[Subgraph=graph(%context): ...]()
    %3 : (Tensor) = prim::TupleConstruct(%x)
    %4 : (NoneType, (Tensor)) = prim::TupleConstruct(%f, %3)
    %2 : Future[Tensor] = prim::forkClosure(%4)

`inline_forked_closures` then makes that graph the fork's, with an input for each value:

    %2 : Future[Tensor] = prim::fork[Subgraph=graph(%x): ...](%x)

`inline_local_calls` puts the block of each call of a nested function in place of the call.

All need values instead of variables (see `ssa.py`), and treat closures within closures too. Subgraphs are left for
the caller to clean up.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitlite.base.errors.calls import NO_FORK
from jitlite.frontend.emit.loops import move_nodes_before
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.traits import Link


def lift_closures(graph: Graph) -> bool:
    """Turn the block of every `prim::Closure` into a subgraph. Says whether there was any."""
    closures = [node for node in graph.all_nodes() if node.kind == "prim::Closure" and node.blocks]
    for closure in closures:
        if closure.block is not None:  # else it was inside one that has been lifted, and so was its copy
            lift_closures(_lift(closure))
    return bool(closures)


def _lift(closure: Node) -> Graph:
    graph, (block,) = closure.graph, closure.blocks
    captured = _captured_values(block)
    context_type = T.TupleType.of([value.type for value in captured])

    subgraph = Graph()
    context = subgraph.add_input(context_type, "context")
    unpack = subgraph.insert("prim::TupleUnpack", (context,), (), range=closure.range)
    inside: dict[Value, Value] = {}
    for value in captured:
        inside[value] = unpack.add_output().copy_metadata(value)
    subgraph.block.clone_from(block, inside)

    packed = graph.create("prim::TupleConstruct", captured, (context_type,), range=closure.range).insert_after(closure)
    pair_type = T.TupleType.of([closure.output.type, context_type])
    pair = graph.create("prim::TupleConstruct", (), (pair_type,), range=closure.range).insert_after(packed)
    closure.output.replace_all_uses_with(pair.output)
    pair.add_input(closure.output)
    pair.add_input(packed.output)
    closure.erase_block(0)
    closure.attributes["Subgraph"] = subgraph
    return subgraph


def _captured_values(block: Block) -> list[Value]:
    """The values from outside `block` that are used in it, in order of first use."""
    captured: dict[Value, None] = {}
    defined: set[Value] = set()
    for node in _nodes_and_returns(block):
        captured.update((value, None) for value in node.inputs if value not in defined)
        defined.update(node.outputs)
        for inner in node.blocks:
            defined.update(inner.inputs)
    return [value for value in captured if value not in block.inputs]


def _nodes_and_returns(block: Block) -> Iterator[Node]:
    """The nodes of a block and those below, with the return nodes, as they are met when copying."""
    for node in block.nodes:
        yield node
        for inner in node.blocks:
            yield from _nodes_and_returns(inner)
    yield block.return_node


def inline_local_calls(graph: Graph) -> None:
    """Put the body of every `prim::LocalCall` in place of the call; its nodes remember by which call they came."""
    for call in [node for node in graph.all_nodes() if node.kind == "prim::LocalCall"]:
        (body,) = call.blocks
        path = (*call.call_stack, (call.attributes["name"], call.range))
        for node in _nodes_below(body):
            node.call_stack = (*path, *node.call_stack)
        move_nodes_before(body, call)
        result = body.outputs[0]
        call.output.replace_all_uses_with(result)
        call.destroy()


def _nodes_below(block: Block) -> Iterator[Node]:
    for node in block.nodes:
        yield node
        for inner in node.blocks:
            yield from _nodes_below(inner)


def inline_forked_closures(graph: Graph) -> bool:
    """Replace `prim::forkClosure` and `prim::awaitableClosure` by `prim::fork` and `prim::awaitable`.

    Closures that nothing else uses are removed. Says whether there was any fork.

    Raises:
        CompileError: what is forked is no closure, or takes arguments.
    """
    changed = False
    for node in graph.all_nodes():
        if node.kind in Link.LIFTED.by_kind:
            changed = True
            inline_forked_closures(_inline_fork(node))
    return changed


def _inline_fork(fork_closure: Node) -> Graph:
    graph, pair = fork_closure.graph, fork_closure.input.node
    parts = [value.node for value in pair.inputs]
    if [part.kind for part in parts] != ["prim::Closure", "prim::TupleConstruct"]:
        raise NO_FORK("only a function can be forked", fork_closure.range)
    closure, context = parts
    subgraph: Graph = closure.attributes["Subgraph"].copy()
    if len(subgraph.inputs) != 1:
        raise NO_FORK("a function that takes arguments cannot be forked as it stands", fork_closure.range)

    fork = graph.create(
        Link.LIFTED.by_kind[fork_closure.kind], context.inputs, (fork_closure.output.type,), range=fork_closure.range
    )
    fork.insert_after(fork_closure)
    fork.attributes["Subgraph"] = subgraph
    (unpack_use,) = subgraph.inputs[0].uses
    unpack = unpack_use.user
    for index, (value, unpacked) in enumerate(zip(context.inputs, unpack.outputs, strict=True)):
        parameter = subgraph.block.insert_input(index, value.type)
        unpacked.replace_all_uses_with(parameter)
        name = unpacked.name if unpacked.has_name else None
        unpacked.set_name(None)
        parameter.set_name(name)
    unpack.destroy()
    subgraph.block.erase_input(len(subgraph.inputs) - 1)

    fork.output.copy_metadata(fork_closure.output)
    fork_closure.output.replace_all_uses_with(fork.output)
    fork_closure.destroy()
    for node in (pair, context, closure):
        if not any(value.has_uses for value in node.outputs):
            node.destroy()
    return subgraph
