"""Common subexpression elimination: compute equal things once.

    %2 : Tensor = aten::mul(%a, %b)
    %3 : Tensor = aten::mul(%a, %b)       =>    %2 : Tensor = aten::mul(%a, %b)
    %4 : Tensor = aten::add(%2, %3, %1)         %4 : Tensor = aten::add(%2, %2, %1)

A node is replaced by an earlier one of the same kind, inputs, attributes and types which is always run before it. If
the later one would raise, the earlier one has raised already. Refused:

- nodes that are not pure: random draws, reads of state, writes, prints, calls;
- nodes whose inputs, or what these hold, are written anywhere: two reads may see different values;
- nodes with new objects as outputs where somebody could tell that two objects became one: one of them is written, or
  both are returned, put into a container or compared by `is`; in a loop, one of them is enough, for it stands for many;
- tensor computations with a node between them that sets a mode (grad mode, default dtype): they may differ.
"""

from __future__ import annotations

from jitlite.analysis.alias import aliases_of
from jitlite.analysis.effects import changes_modes, effect_of
from jitlite.analysis.memory_kinds import reachable_kinds
from jitlite.ir.graph import Block, Graph, Node
from jitlite.ir.ops import Effect
from jitlite.ir.traits import Trait
from jitlite.ir.value_keys import attributes_key
from jitlite.passes.registry import graph_pass

_Seen = list[dict[object, Node]]
"""Nodes by key, for the current block and those around it."""


@graph_pass
def eliminate_common_subexpressions(graph: Graph) -> bool:
    """Let every pure node that repeats an earlier one borrow its outputs."""
    return _SubexpressionEliminator(graph).run()


class _SubexpressionEliminator:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.db = aliases_of(graph)
        self.modes = 0
        """Counts the places where modes may have changed."""

    def run(self) -> bool:
        return self.block(self.graph.block, [])

    def block(self, block: Block, around: _Seen) -> bool:
        seen: _Seen = [*around, {}]
        changed = False
        for node in block.nodes:
            sets_mode = changes_modes(node)
            if sets_mode and node.kind == "prim::Loop":
                self.modes += 1  # its body may run after itself
            for inner in node.blocks:
                changed = self.block(inner, [] if node.has(Trait.CLOSED) else seen) or changed
            if sets_mode:
                self.modes += 1
            elif not node.blocks:
                changed = self.merge(node, seen) or changed
        return changed

    def merge(self, node: Node, seen: _Seen) -> bool:
        key = self.key(node)
        if key is None:
            return False
        for level in reversed(seen):
            first = level.get(key)
            if first is not None and self.db.may_merge(first.outputs, node.outputs, _is_repeated(node, first)):
                self.db.merged(first.outputs, node.outputs)
                node.replace_all_uses_with(first)
                node.destroy()
                return True
        seen[-1].setdefault(key, node)
        return False

    def key(self, node: Node) -> object | None:
        """What equal nodes have in common; None for a node that may equal no other."""
        if effect_of(node) is not Effect.PURE or not node.outputs or self.db.has_writers(node.inputs):
            return None
        attributes = attributes_key(node)
        if attributes is None:
            return None
        values = (*node.inputs, *node.outputs)
        modes = self.modes if any(reachable_kinds(v.type) for v in values) else 0
        types = tuple(output.type for output in node.outputs)
        return node.kind, node.op, tuple(node.inputs), attributes, types, modes


def _is_repeated(node: Node, first: Node) -> bool:
    """Is `node` in a loop that `first` is not in?"""
    block = node.block
    while block is not None and block is not first.block and block.owner is not None:
        if block.owner.kind not in ("prim::If", "prim::Try"):
            return True
        block = block.owner.block
    return False
