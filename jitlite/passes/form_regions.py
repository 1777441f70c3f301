"""Gather neighbouring nodes into regions, which something else may run.

    graph(%x : Tensor, %n : int):               graph(%x : Tensor, %n : int):
      %1 : int = prim::Constant[value=1]()        %1 : int = prim::Constant[value=1]()
      %a : Tensor = aten::mul(%x, %n)             %b : Tensor = prim::Region[kind="tensors"](%x, %n)
      %b : Tensor = aten::add(%a, %x, %1)    =>     block0(%5 : Tensor, %6 : int):
      return (%b)                                     %a : Tensor = aten::mul(%5, %6)
                                                      %7 : int = prim::Constant[value=1]()
                                                      %4 : Tensor = aten::add(%a, %5, %7)
                                                      -> (%4)
                                                  return (%b)

A region is a run of nodes of one block with nothing but constants between them, as long as possible. Which nodes may
belong, and behind which others, is asked of a `NodeRun`; what it refuses is kept with the reason. Run as a pass by its
name, it gathers two or more operators on tensors into regions of the kind `tensors`.

The graph does what it did. No node passes another one, but for constants, whose place does not matter: effects, random
draws and exceptions keep their order. The nodes are moved, not copied, and work on the same objects: what comes in are
the objects themselves, what goes out too, a write is a write to the same memory, and what shares memory goes on doing
so. A constant is copied as a node whose value is the same object. `inline_regions` is the inverse, up to the
places of constants.

What may run a region in place of its nodes has to keep all that as well: it may write what the nodes write and nothing
else, and where it cannot do all of it, it has to say so before anybody could see what it has done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from typing import Protocol

from jitlite.ir import types as T
from jitlite.ir.analysis import ancestor_in
from jitlite.ir.graph import Block, Graph, Node, Value, is_constant
from jitlite.ir.regions import REGION, FormedRegions, Region, exchange_names
from jitlite.ir.structure import Loop
from jitlite.operators.prims import OVER_RANGE
from jitlite.passes.registry import graph_pass

Belongs = Callable[[Node], str | None]
"""May the node belong to a region? None if it may, else why not."""


class NodeRun(Protocol):
    """Nodes that are gathered for a region, one behind the other."""

    def add(self, nodes: Sequence[Node]) -> str | None:
        """Take the next nodes of the block in, all or none; gives why they may not belong, at all or behind the others.

        It is one node, or a loop over a range with the node before it, which is written in its head.
        """

    def finish(self) -> Sequence[Node]:
        """The nodes that become a region, none if they are not worth one."""

    def refused(self) -> dict[Node, str]:
        """What has been taken in and yet is in no region, and why."""


class PlainRun:
    """Nodes of which each is asked for itself.

    Args:
        belongs: may a node belong to a region?
        least: how many nodes there have to be.
    """

    def __init__(self, belongs: Belongs, least: int = 2) -> None:
        self._belongs = belongs
        self._least = least
        self._nodes: list[Node] = []
        self._refused: dict[Node, str] = {}

    def add(self, nodes: Sequence[Node]) -> str | None:
        reason = next((found for found in map(self._belongs, nodes) if found is not None), None)
        if reason is None:
            self._nodes += nodes
        return reason

    def finish(self) -> Sequence[Node]:
        if len(self._nodes) >= self._least:
            return self._nodes
        self._refused = dict.fromkeys(self._nodes, f"there are fewer than {self._least} neighbours that may belong")
        return ()

    def refused(self) -> dict[Node, str]:
        return self._refused


@graph_pass
def form_tensor_regions(graph: Graph) -> bool:
    """Make regions of the kind `tensors` of two or more neighbouring operators on tensors."""
    return bool(form_regions(graph, "tensors", lambda: PlainRun(_computes_tensors)).regions)


def _computes_tensors(node: Node) -> str | None:
    if node.blocks or "Subgraph" in node.attributes or node.op is None or node.op.fn is None:
        return "it is no operator"
    return None if any(isinstance(v.type, T.TensorType) for v in node.outputs) else "it gives no tensor"


def form_regions(graph: Graph, kind: str, new_run: Callable[[], NodeRun]) -> FormedRegions:
    """Make regions of a graph, none of them within another one.

    Args:
        graph: changed in place.
        kind: who may run the regions.
        new_run: gives what gathers the nodes of one region.
    """
    formed = FormedRegions()
    blocks = [graph.block]
    while blocks:
        blocks += _form_in(blocks.pop(), kind, new_run, formed)
    return formed


def _form_in(block: Block, kind: str, new_run: Callable[[], NodeRun], formed: FormedRegions) -> list[Block]:
    """Make the regions of this very block; gives the blocks to look in for others."""
    inner: list[Block] = []
    run = new_run()

    def close() -> NodeRun:
        nodes = run.finish()
        if nodes:
            formed.regions.append(make_region(kind, nodes))
        formed.refused.update(run.refused())
        return new_run()

    for nodes in list(_units(block)):
        if nodes[0].kind == REGION:
            run = close()
            continue
        reason = run.add(nodes)
        if reason is not None:
            run = close()
            if run.add(nodes) is not None:  # what they are refused for is not what stood before them
                run = new_run()
                inner += [b for node in nodes for b in node.blocks]
                formed.refused.update(dict.fromkeys(nodes, reason))
    close()
    return inner


def _units(block: Block) -> Iterator[Sequence[Node]]:
    """What goes into a region together: each node, but a loop over a range with the node that computes its length."""
    pending: list[Node] = []
    for node in block.computations:
        if pending and not (node.attributes.get(OVER_RANGE) and Loop(node).max_iterations.node is pending[0]):
            yield pending
            pending = []
        pending.append(node)
    if pending:
        yield pending


# -- making one


def make_region(kind: str, nodes: Sequence[Node]) -> Region:
    """Move neighbouring nodes, in order, into a region where the last one was."""
    first, graph = nodes[0], nodes[0].graph
    inputs, outputs = inputs_of(nodes), outputs_of(nodes)
    made = graph.create(REGION, inputs, [v.type for v in outputs], {"kind": kind}, first.range)
    made.call_stack = first.call_stack
    made.insert_after(nodes[-1])
    body = made.add_block()
    for node in nodes:
        node.move_before(body.return_node)
    within = dict.fromkeys(_nested(nodes))
    for value, output in zip(outputs, made.outputs, strict=True):
        _hand_out(value, output, within)
        body.add_output(value)
    own = {value: body.add_input(value.type) for value in inputs}
    for value, parameter in own.items():
        parameter.example_type = value.example_type
    _close(within, own, first)
    return Region(made)


def _hand_out(value: Value, output: Value, within: Container[Node]) -> None:
    """Let an output of a region stand for a value of it, under its name, everywhere else."""
    output.example_type = value.example_type
    exchange_names(value, output)
    for use in value.uses:
        if use.user not in within:
            use.user.replace_input(use.offset, output)


def _close(within: Collection[Node], own: dict[Value, Value], first: Node) -> None:
    """Have nodes read the parameters of their region, and constants of its own, which come before the first of them."""
    for node in within:
        for offset, value in enumerate(node.inputs):
            if is_constant(value) and value not in own and value.node not in within:
                own[value] = _copy_of(value).insert_before(first).output
            if value in own:
                node.replace_input(offset, own[value])


def inputs_of(nodes: Sequence[Node]) -> list[Value]:
    """What the nodes, with all that is in them, read from elsewhere, constants left out, in order of first use."""
    made: set[Value] = set()
    found: dict[Value, None] = {}
    for node in _nested(nodes):
        found.update((v, None) for v in node.inputs if v not in made and not is_constant(v))
        made.update(node.outputs)
    return list(found)


def outputs_of(nodes: Sequence[Node]) -> list[Value]:
    """What other nodes read of what these make."""
    inside, block = set(nodes), nodes[0].block
    assert block is not None, "the nodes are in a block"
    values = [v for node in nodes for v in node.outputs]
    return [v for v in values if any(ancestor_in(use.user, block) not in inside for use in v.uses)]


def _nested(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes and those of their blocks, each block from its param node to its return node."""
    for node in nodes:
        yield node
        for block in node.blocks:
            yield block.param_node
            yield from _nested(block.nodes)
            yield block.return_node


def _copy_of(constant: Value) -> Node:
    """The constant once more, of the same object. The name stays with the one that has it."""
    source = constant.node
    copied = source.graph.create(source.kind, (), (constant.type,), source.attributes)
    copied.range, copied.scope, copied.call_stack = source.range, source.scope, source.call_stack
    return copied
