"""Dead code elimination: drop what nobody can tell was run.

    %1 : int = aten::len(%xs)
    %l : int[] = prim::ListConstruct(%n)
    %2 : int[] = aten::append(%l, %n)     =>    return (%n)
    return (%n)

A node stays if somebody could miss it:

- what it computes is used by a node that stays, or returned;
- it prints, raises, warns, sets a mode, calls, or draws random numbers (later draws would differ);
- it may raise: an unused `xs[10]` still has to raise;
- it writes memory that a node that stays reads, that is returned, or that others hold (an argument, an element of
  a container, a view of either);
- it is a loop of which it is not certain that it ends.

Outputs of `prim::If`, `prim::Try` and regions and values carried by `prim::Loop` that nobody reads go as well. A
carried value that only feeds itself stays. Which object is which is not touched.
"""

from __future__ import annotations

from collections.abc import Iterable

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.effects import effect_of, raises_itself
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.ops import Effect, Op
from jitlite.ir.regions import REGION
from jitlite.ir.structure import Loop
from jitlite.passes.registry import graph_pass


@graph_pass
def eliminate_dead_code(graph: Graph) -> bool:
    """Remove every node, output and carried value that makes no difference."""
    return _sweep(graph.block, _Liveness(graph).nodes)


class _Liveness:
    """The nodes that have to stay: marked from those that cannot be missed backwards."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: set[Node] = set()
        self._values: set[Value] = set()
        self._pending: list[Value] = []
        writers: list[Node] = []
        self._keep_values(graph.outputs)
        for node in graph.all_nodes():
            if node.kind == "prim::Constant":  # half of all nodes
                continue
            resolved = node.op
            if effect_of(node) in (Effect.SIDE, Effect.RANDOM) or raises_itself(node):
                self._keep(node)
            elif resolved is not None and resolved.schema.is_mutable:
                if _writes_what_came_in(graph, node, resolved):
                    self._keep(node)
                else:
                    writers.append(node)
            if node.kind == "prim::Loop":
                self._keep_carried(node)
        self._propagate()
        undecided = [node for node in writers if node not in self.nodes]
        if undecided:  # most graphs have none that could go, and do without the analysis
            self._keep_writers(AliasDb(graph), undecided)

    def _keep_carried(self, loop: Node) -> None:
        """What the next round needs: the condition, and the carried values that are read in the body."""
        self._keep_values([Loop(loop).condition])
        self._keep_values(c.following for c in Loop(loop).carried if c.parameter.has_uses)

    def _keep_writers(self, db: AliasDb, writers: list[Node]) -> None:
        """Keep what writes memory that somebody outside, or what stays, reads."""
        found = [node for node in writers if db.writes_visibly(node)]
        read = 0
        seen: set[Value] = set()
        while True:
            for node in found:
                self._keep(node)
            self._propagate()
            for value in self._values - seen:
                read |= db.reachable(value)
            seen |= self._values
            found = [node for node in writers if node not in self.nodes and db.writes(node) & read]
            if not found:
                return

    def _keep(self, node: Node) -> None:
        while node not in self.nodes:
            self.nodes.add(node)
            self._keep_values(node.inputs)
            if node.block is None or node.block.owner is None:
                return
            node = node.block.owner

    def _keep_values(self, values: Iterable[Value]) -> None:
        for value in values:
            if value not in self._values:
                self._values.add(value)
                self._pending.append(value)

    def _propagate(self) -> None:
        while self._pending:
            value = self._pending.pop()
            maker = value.node
            if maker.kind == "prim::Param":
                self._keep_start(value)
                continue
            self._keep(maker)
            first = 1 if maker.kind == "prim::Loop" else 0
            for block in maker.blocks:
                self._keep_values(block.outputs[first + value.offset : first + value.offset + 1])

    def _keep_start(self, parameter: Value) -> None:
        """A block that is run for a value that stays is run by a node that stays."""
        block = parameter.node.block
        if block is not None and block.owner is not None:
            self._keep(block.owner)


def _writes_what_came_in(graph: Graph, node: Node, op: Op) -> bool:
    """Does the node certainly write an argument of the graph or what an attribute holds, which others see?"""
    written = (v.node for v, a in zip(node.inputs, op.schema.arguments, strict=False) if a.is_write)
    return any(maker.kind == "prim::GetAttr" or maker is graph.block.param_node for maker in written)


def _sweep(block: Block, live: set[Node]) -> bool:
    changed = False
    for node in block.reversed_nodes:
        changed = _drop_unused_outputs(node) or changed
        for inner in node.blocks:
            changed = _sweep(inner, live) or changed
        if node not in live and not any(output.has_uses for output in node.outputs):
            node.destroy()
            changed = True
    return changed


def _drop_unused_outputs(node: Node) -> bool:
    if not node.blocks:
        return False
    unused = [position for position, output in enumerate(node.outputs) if not output.has_uses]
    if node.kind in ("prim::If", "prim::Try", REGION):
        for position in reversed(unused):
            erase_branch_output(node, position)
    elif node.kind == "prim::Loop":
        unused = [position for position in unused if not Loop(node).parameters[position].has_uses]
        for position in reversed(unused):
            erase_carried(node, position)
    else:
        return False
    return bool(unused)


def erase_branch_output(branch: Node, position: int) -> None:
    """Remove an output that nobody uses from a `prim::If`, `prim::Try` or region."""
    branch.erase_output(position)
    for block in branch.blocks:
        block.erase_output(position)


def erase_carried(loop: Node, position: int) -> None:
    """Remove a carried value, whose output and parameter nobody uses, from a loop."""
    (body,) = loop.blocks
    body.erase_output(position + 1)
    body.erase_input(position + 1)
    loop.remove_input(position + 2)
    loop.erase_output(position)
