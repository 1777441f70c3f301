"""Constant propagation: compute at once what depends on constants only, and drop what can never run.

    %2 : int = prim::Constant[value=2]()
    %3 : int = aten::mul(%2, %2)              =>    %3 : int = prim::Constant[value=4]()
    %c : bool = aten::gt(%3, %2)                    %b : int = aten::neg(%n)
    %a : int = prim::If(%c)                         return (%b)
      block0():
        %b : int = aten::neg(%n)
        -> (%b)
      block1():
        -> (%n)
    return (%a)

A node is folded by calling its operator. It stays where

- it is not pure, or its operator raises or warns: that is to happen when the program runs, each time;
- what it reads or makes is written, or its result is an object that others could get hold of: each run has to make
  a new one;
- tensors take part: their values depend on modes, and a tensor that is a constant may be written by its owner;
- the result is large, or of another type than the graph says (an int where a float is expected).

A `prim::If` with a constant condition gives way to the block that is taken, a `prim::Try` whose body cannot raise to
that, a `prim::Loop` that never runs to its start values. Outputs that are the same value either way (refined or not),
or equal constants, become that value; a carried value that the body hands on unchanged is the start value. Dead code is
eliminated at the end if anything changed.
"""

from __future__ import annotations

from jitlite.analysis.alias import AliasDb, aliases_of
from jitlite.analysis.effects import may_raise
from jitlite.analysis.folding import fold
from jitlite.analysis.memory_kinds import reachable_kinds
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.structure import Loop
from jitlite.ir.value_keys import value_key
from jitlite.passes.dce import eliminate_dead_code, erase_branch_output, erase_carried
from jitlite.passes.registry import graph_pass


@graph_pass
def propagate_constants(graph: Graph) -> bool:
    """Fold nodes, prune branches and loops."""
    return propagate(graph, immutable_only=False)


def propagate(graph: Graph, *, immutable_only: bool) -> bool:
    """Constant propagation; with `immutable_only`, of nodes that neither read nor make objects that can be written."""
    propagator = _Propagator(graph, immutable_only)
    propagator.block(graph.block)
    if propagator.changed:
        eliminate_dead_code(graph)
    return propagator.changed


class _Propagator:
    def __init__(self, graph: Graph, immutable_only: bool) -> None:
        self.graph = graph
        self.immutable_only = immutable_only
        self.changed = False
        self._db: AliasDb | None = None

    @property
    def db(self) -> AliasDb:
        self._db = self._db or aliases_of(self.graph)
        return self._db

    def block(self, block: Block) -> None:
        for node in block.nodes:
            if node.kind == "prim::Constant":  # half of all nodes
                continue
            if node.kind == "prim::If":
                self.branch(node)
            elif node.kind == "prim::Loop":
                self.loop(node)
            elif node.kind == "prim::Try":
                self.attempt(node)
            elif node.blocks:
                for inner in node.blocks:
                    self.block(inner)
            elif all(map(is_constant, node.inputs)) and self.may_fold(node):
                self.fold(node)

    # -- folding

    def may_fold(self, node: Node) -> bool:
        values = (*node.inputs, *node.outputs)
        if not any(reachable_kinds(v.type) for v in values):
            return True
        if self.immutable_only or self.db.has_writers(values):
            return False
        return not any(self.db.escapes(output) for output in node.outputs)

    def fold(self, node: Node) -> None:
        results = fold(node)
        if results is None:
            return
        with self.graph.inserting_before(node):
            for output, (value, type) in zip(node.outputs, results, strict=True):
                output.replace_all_uses_with(self.graph.insert_constant(value, type, node.range))
        node.destroy()
        self.changed = True

    # -- branches

    def branch(self, node: Node) -> None:
        condition = constant_of(node.input, None)
        if isinstance(condition, bool):
            taken = node.blocks[0 if condition else 1]
            self.block(taken)
            _put_in_place(node, taken)
            self.changed = True
            return
        for block in node.blocks:
            self.block(block)
        self.join(node)

    def attempt(self, node: Node) -> None:
        body, handler = node.blocks
        self.block(body)
        if not any(may_raise(inner) for inner in body.nodes):
            _put_in_place(node, body)
            self.changed = True
            return
        self.block(handler)
        self.join(node)

    def join(self, node: Node) -> None:
        """Replace outputs that are the same whichever block gives them."""
        for position in reversed(range(len(node.outputs))):
            same = self.same_either_way(node, position)
            if same is not None:
                node.outputs[position].replace_all_uses_with(same)
                erase_branch_output(node, position)
                self.changed = True

    def same_either_way(self, node: Node, position: int) -> Value | None:
        """The value that both blocks give, put before the node if it is a constant."""
        first, second = (block.outputs[position] for block in node.blocks)
        if first is second:
            return first
        same = _before_casts(first)
        if same is _before_casts(second) and not self.immutable_only:
            return same if T.is_subtype(same.type, node.outputs[position].type) else None
        if not (is_constant(first) and is_constant(second)) or first.type is not second.type:
            return None
        if reachable_kinds(first.type) or "name" in first.node.attributes:
            return None
        value = constant_of(first)
        if value_key(value) != value_key(constant_of(second)):
            return None
        with self.graph.inserting_before(node):
            return self.graph.insert_constant(value, first.type, first.node.range)

    # -- loops

    def loop(self, node: Node) -> None:
        loop = Loop(node)
        count, condition = constant_of(loop.max_iterations, None), constant_of(loop.start_condition, None)
        if condition is False or (type(count) is int and count <= 0):
            for carried in loop.carried:
                carried.result.replace_all_uses_with(carried.start)
            node.destroy()
            self.changed = True
            return
        (body,) = node.blocks
        self.block(body)
        for position in reversed(range(len(node.outputs))):
            parameter = body.inputs[position + 1]
            if body.outputs[position + 1] is parameter:
                start = node.inputs[position + 2]
                node.outputs[position].replace_all_uses_with(start)
                body.replace_output(position + 1, start)
                parameter.replace_all_uses_with(start)
                erase_carried(node, position)
                self.changed = True


def _before_casts(value: Value) -> Value:
    """The value itself, as it was before refinement gave it other types."""
    while value.node.kind == "prim::unchecked_cast":
        value = value.node.input
    return value


def _put_in_place(node: Node, taken: Block) -> None:
    for inner in list(taken.nodes):
        inner.move_before(node)
    for output, value in zip(node.outputs, taken.outputs, strict=True):
        output.replace_all_uses_with(value)
    node.destroy()
