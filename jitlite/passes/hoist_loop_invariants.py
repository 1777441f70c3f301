"""Loop-invariant code motion: compute before a loop what is the same in every round.

     = prim::Loop(%n, %true)                      %m : int = aten::sub(%k, %1)
      block0(%i : int):                            = prim::Loop(%n, %true)
        %m : int = aten::sub(%k, %1)        =>      block0(%i : int):
        %w : int[] = aten::append(%l, %m)             %w : int[] = aten::append(%l, %m)
        -> (%true)                                    -> (%true)

A computation moves if all it needs is there before the loop, and

- it cannot raise; or nothing before it in the round raises or is seen: then it raises where it did, provided that there
  is a round. If that is not certain, the loop is put into an `if` that asks;
- the loop writes nothing that it reads, and nobody writes what it makes;
- what it makes is no object of which there would be one for each round, unless nobody could tell;
- no mode changes in the loop, for tensor computations.

From inside an `if`, only arithmetic on plain values moves, which costs next to nothing where it turns out not to be
needed. Random draws, reads of state, and nodes with blocks stay, and so do casts (and all that depends on them): they
are true only where a test has been passed. So does what is computed from a value that may be uninitialized there.
"""

from __future__ import annotations

from jitlite.analysis.alias import AliasDb, aliases_of
from jitlite.analysis.effects import any_inside, changes_modes, effect_of, may_raise, raises_itself
from jitlite.analysis.memory_kinds import reachable_kinds
from jitlite.ir.analysis import may_use
from jitlite.ir.graph import Block, Graph, Node, constant_of
from jitlite.ir.ops import Effect
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait
from jitlite.passes.loop_copies import may_be_uninitialized, says_it_starts, starts
from jitlite.passes.registry import graph_pass


@graph_pass
def hoist_loop_invariants(graph: Graph) -> bool:
    """Move invariant computations out of loops, innermost loops first."""
    if not any(node.kind == "prim::Loop" for node in graph.all_nodes()):
        return False
    return _hoist_in(graph.block, aliases_of(graph))


def _hoist_in(block: Block, db: AliasDb) -> bool:
    changed = False
    for node in list(block.nodes):
        for inner in node.blocks:
            changed = _hoist_in(inner, db) or changed
        if node.kind == "prim::Loop":
            changed = _Mover(node, db).run() or changed
    return changed


class _Mover:
    def __init__(self, loop: Node, db: AliasDb) -> None:
        self.loop = loop
        self.db = db
        self.written = db.writes(loop)
        self.sets_modes = changes_modes(loop)
        self.changed = False

    def run(self) -> bool:
        """Move what may be moved in front of the loop."""
        runs = _runs_a_round(self.loop)
        self.move(runs)
        if not runs and self.would_raise_first():
            self.guard()
            self.move(certain=True)
        return self.changed

    def move(self, certain: bool) -> None:
        """Move what may be moved; `certain`: there is a first round."""
        for node in self.loop.blocks[0].nodes:
            if self.may_move(node, certain):
                node.move_before(self.loop)
                self.changed = True
            else:
                certain = certain and not self.is_seen(node)
                for inner in node.blocks if node.kind != "prim::Loop" else ():
                    self.nested(inner)

    def would_raise_first(self) -> bool:
        """Is there a node that could move if there were a first round?"""
        for node in self.loop.blocks[0].nodes:
            if self.may_move(node, certain=True):
                return True
            if self.is_seen(node):
                return False
        return False

    def guard(self) -> None:
        """Put the loop into an if that holds where there is a first round."""
        loop, graph = self.loop, self.loop.graph
        with graph.inserting_before(loop):
            runs = starts(loop)
            branch = graph.insert("prim::If", (runs,), (o.type for o in loop.outputs), range=loop.range)
        branch.call_stack, branch.scope = loop.call_stack, loop.scope
        run, skip = branch.add_block(), branch.add_block()
        loop.move_before(run.return_node)
        length = Loop(loop).max_iterations.node
        if length.kind == "aten::__range_length" and length.output.use_count == 1 and length.block is branch.block:
            length.move_before(loop)  # to where a loop over a range is found
        for output, start, joined in zip(loop.outputs, Loop(loop).starts, branch.outputs, strict=True):
            output.replace_all_uses_with(joined)
            joined.copy_metadata(output)
            run.add_output(output)
            skip.add_output(start)

    def nested(self, block: Block) -> None:
        for node in block.nodes:
            if not any(reachable_kinds(v.type) for v in (*node.inputs, *node.outputs)) and self.may_move(node, False):
                node.move_before(self.loop)
                self.changed = True
            for inner in node.blocks if node.kind != "prim::Loop" else ():
                self.nested(inner)

    def may_move(self, node: Node, certain: bool) -> bool:
        """May the node run before the loop? `certain`: it is the first thing that is sure to be run in it."""
        if node.has(Trait.STAYS_IN_LOOPS) or node.blocks or not node.outputs or effect_of(node) is not Effect.PURE:
            return False
        if not all(may_use(self.loop, value) for value in node.inputs):
            return False
        if raises_itself(node) and not certain:
            return False
        if any(map(may_be_uninitialized, node.inputs)):
            return False
        values = (*node.inputs, *node.outputs)
        if not any(reachable_kinds(v.type) for v in values):
            return True
        return not self.sets_modes and self.is_unwritten(node) and self.is_anonymous(node)

    def is_unwritten(self, node: Node) -> bool:
        locations = self.db.reads(node)
        for output in node.outputs:
            locations |= self.db.reachable(output)
        return not locations & self.written

    def is_anonymous(self, node: Node) -> bool:
        """Could nobody tell that the rounds share what the node makes? Nobody may write it later either."""
        return not any(
            self.db.is_new(output) and (self.db.escapes(output) or self.db.has_writers(output))
            for output in node.outputs
        )

    def is_seen(self, node: Node) -> bool:
        """Might the node raise, or do what is seen by somebody if one behind it raises?"""
        if may_raise(node) or self.db.writes(node):
            return True
        return any_inside(node, lambda n: effect_of(n) in (Effect.SIDE, Effect.RANDOM))


def _runs_a_round(loop: Node) -> bool:
    """Is it certain that there is a first round?"""
    count, condition = constant_of(loop.inputs[0], None), constant_of(loop.inputs[1], None)
    owner = loop.block.owner if loop.block is not None else None
    if owner is not None and owner.kind == "prim::If" and loop.block is owner.blocks[0]:
        if condition is True and says_it_starts(owner.input, loop.inputs[0]):
            return True
        condition = condition or owner.input is loop.inputs[1]
    return type(count) is int and count > 0 and condition is True
