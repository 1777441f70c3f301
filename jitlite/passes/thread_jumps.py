"""Jump threading: where one branch decides the next, go there at once.

    %f : bool = prim::If(%a)                     prim::If(%a)
      block0():                                    block0():
        -> (%true)                                    = prim::Print(%x)
      block1():                                      -> ()
        %b : bool = aten::eq(%x, %y)       =>      block1():
        -> (%b)                                      %b : bool = aten::eq(%x, %y)
    prim::If(%f)                                     prim::If(%b)
      block0():                                        block0():
         = prim::Print(%x)                                = prim::Print(%x)
        -> ()                                            -> ()
      block1():                                        block1():
        -> ()                                            -> ()
                                                     -> ()

That is what `or`, `and` and exits (`break`, `return`) are compiled to: a bool that says where to go, and is tested
afterwards. The second `prim::If`, and what stands between the two, go to the ends of the blocks of the first; the one
whose result is known loses the test. Likewise the end of a loop's body goes into a last `prim::If` of which one branch
ends the loop, so that this branch returns False as the condition, and nothing is computed there for a next round.

Every path runs what it ran, in the same order, so nothing else is to be asked: only the code may grow. What would be
there twice is limited for each step, and for the whole graph. Computations in between that do not matter to the second
`prim::If` stay behind it where they neither read memory nor raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.analysis.effects import effect_of, raises_itself
from jitlite.analysis.memory_kinds import reachable_kinds
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.analysis import ancestor_in
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.ops import Effect
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait
from jitlite.passes.dce import eliminate_dead_code
from jitlite.passes.loop_copies import size_of
from jitlite.passes.registry import graph_pass

LARGEST_COPY = 12
"""Nodes that one step may put into both branches."""

DEEPEST = 60
"""How deep merged ifs may be nested: code generated from graphs has its limits."""

LARGEST_BETWEEN = 32
"""How many nodes there may be between two ifs."""


@graph_pass
def thread_jumps(graph: Graph) -> bool:
    """Merge every if with a later one, or with the end of a loop, that it decides."""
    threader = _Threader(graph)
    threader.block(graph.block)
    if threader.changed:
        eliminate_dead_code(graph)
    return threader.changed


class _Branch(Record, frozen=False):
    """What a branch of an if knows of values behind the if."""

    node: Node
    taken: bool
    values: dict[Value, Value]
    """For values of and behind the if, what they are at the end of the branch."""

    @staticmethod
    def both(node: Node) -> tuple[_Branch, _Branch]:
        then, other = (dict(zip(node.outputs, block.outputs, strict=True)) for block in node.blocks)
        return _Branch(node, True, then), _Branch(node, False, other)

    @property
    def block(self) -> Block:
        return self.node.blocks[0 if self.taken else 1]

    def decided(self, value: Value) -> bool | None:
        """The value of a bool, if it is known in this branch."""
        if value.type is not T.BOOL:
            return None
        if value is self.node.input:
            return self.taken
        node = value.node
        if node is self.node:
            return self.decided(self.block.outputs[value.offset])
        constant = constant_of(value, None)
        if type(constant) is bool:
            return constant
        if node.block is not self.node.block:
            return None
        return self._computed(node)

    def _computed(self, node: Node) -> bool | None:
        if not node.has(Trait.CONNECTIVE):
            return None
        if node.kind == "aten::__not__":
            inner = self.decided(node.input)
            return None if inner is None else not inner
        left, right = (self.decided(v) for v in node.inputs)
        decisive = node.kind == "aten::__or__"
        if decisive in (left, right):
            return decisive
        return None if left is None or right is None else not decisive


class _Threader:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.changed = False
        self.budget = size_of(graph.block) + LARGEST_COPY
        """How many nodes may still be added."""

    def block(self, block: Block, depth: int = 0) -> None:
        for node in block.nodes:
            while node.kind == "prim::If" and self.merge(node, DEEPEST - depth):
                self.changed = True
            for inner in node.blocks:
                self.block(inner, depth + 1)
            if node.kind == "prim::Loop":
                self.changed = self.leave(node.blocks[0], 0) or self.changed
                self.changed = _forget_carried(node) or self.changed
                self.changed = _keep_carried(node) or self.changed

    # -- an if that decides a later one

    def merge(self, first: Node, room: int) -> bool:
        """Merge the if with a later one of its block that it decides, if it is not too deep for the `room` there is."""
        branches = _Branch.both(first)
        between: list[Node] = []
        node, cost = first.next, 0
        while node is not None and cost <= LARGEST_BETWEEN:
            if node.kind == "prim::If" and any(branch.decided(node.input) is not None for branch in branches):
                return _is_within(node, room - 2) and self.merge_with(between, node, branches)
            between.append(node)
            cost += _size(node)
            node = node.next
        return False

    def merge_with(self, between: list[Node], second: Node, branches: Sequence[_Branch]) -> bool:
        fixed = _fixed(between, branches[0].node)
        passed = _not_needed([node for node in between if node not in fixed], second)
        moved = [node for node in between if node not in passed and node not in fixed]
        outcomes = [branch.decided(second.input) for branch in branches]
        if not self.affords(sum(map(_size, moved)) + _shared_size(second, outcomes)):
            return False
        for node in fixed:
            node.move_before(branches[0].node)
        place = second
        for node in passed:
            node.move_after(place)
            place = node
        for branch, outcome in zip(branches, outcomes, strict=True):
            self.copy(moved, branch)
            self.copy_outcome(second, outcome, branch)
        _replace([*moved, second], branches)
        return True

    def copy_outcome(self, second: Node, outcome: bool | None, branch: _Branch) -> None:
        """Put what an if does in a branch to its end: one of its blocks where it is known which."""
        if outcome is None:
            self.copy([second], branch)
            return
        chosen = second.blocks[0 if outcome else 1]
        self.copy(chosen.nodes, branch)
        for output, value in zip(second.outputs, chosen.outputs, strict=True):
            branch.values[output] = branch.values.get(value, value)

    # -- an if that decides whether a loop goes on

    def leave(self, block: Block, position: int) -> bool:
        """Move the end of a block, of which result `position` is a loop's condition, into an if that ends the loop."""
        last, tail = _last_if(block)
        if last is None:
            return False
        branches = _Branch.both(last)
        outcomes = [branch.decided(block.outputs[position]) for branch in branches]
        if outcomes in ([None, None], [True, True]):
            return False
        fixed = _fixed(tail, last)
        tail = [node for node in tail if node not in fixed]
        changed = bool(tail) and self.affords(sum(map(_size, tail)))
        if changed:
            for node in fixed:
                node.move_before(last)
            for branch in branches:
                self.copy(tail, branch)
            _replace(tail, branches)
        if False in outcomes:
            changed = self.decide(block, position, branches, outcomes) or changed
        condition = block.outputs[position]
        if condition.node is last:
            for branch in branches:
                changed = self.leave(branch.block, condition.offset) or changed
        return changed

    def decide(self, block: Block, position: int, branches: Sequence[_Branch], outcomes: Sequence[bool | None]) -> bool:
        """Let the if give the condition, where it is computed before the if."""
        condition, last = block.outputs[position], branches[0].node
        if condition.node is last or not condition.node.is_before(last):
            return False
        for branch, outcome in zip(branches, outcomes, strict=True):
            with self.graph.inserting_at_end(branch.block):
                branch.block.add_output(condition if outcome is None else self.graph.insert_constant(outcome))
        block.replace_output(position, last.add_output(condition.type))
        return True

    # -- copies

    def affords(self, cost: int) -> bool:
        if cost > min(LARGEST_COPY, self.budget):
            return False
        self.budget -= cost
        return True

    def copy(self, nodes: Iterable[Node], branch: _Branch) -> None:
        """Put copies of nodes to the end of a branch; what is decided there is a constant."""
        with self.graph.inserting_at_end(branch.block):
            for node in nodes:
                known = branch.decided(node.output) if node.has(Trait.CONNECTIVE) else None
                if known is None:
                    self.graph.clone_node(node, branch.values).insert_before(self.graph.insert_point)
                else:
                    branch.values[node.output] = self.graph.insert_constant(known, None, node.range)


def _shared_size(second: Node, outcomes: Sequence[bool | None]) -> int:
    """How much of an if is copied: both branches may run the block that one is known to run."""
    if None not in outcomes and outcomes[0] is not outcomes[1]:
        return 0
    return size_of(second.blocks[0 if True in outcomes else 1])


def _fixed(nodes: Iterable[Node], place: Node) -> list[Node]:
    """The nodes that mean the same everywhere, and so can stand in front of `place`.

    These are constants, functions among them, and modules within modules: no if can give a function.
    """
    found: list[Node] = []
    for node in nodes:
        known = (v.node in found or v.node.kind == "prim::Param" or v.node.is_before(place) for v in node.inputs)
        if _is_fixed(node) and all(known):
            found.append(node)
    return found


def _is_fixed(node: Node) -> bool:
    if node.kind == "prim::Constant":
        return True
    found = node.output.type if node.kind == "prim::GetAttr" else None
    return isinstance(found, T.ClassType) and found.is_module


def _is_within(node: Node, levels: int) -> bool:
    """Are the blocks of the node nested no deeper than so many levels?"""
    return levels >= 0 and all(_is_within(inner, levels - 1) for block in node.blocks for inner in block.nodes)


def _size(node: Node) -> int:
    return (node.kind != "prim::Constant") + sum(map(size_of, node.blocks))


def _not_needed(between: Sequence[Node], second: Node) -> list[Node]:
    """The nodes between two ifs that can as well run behind the second one."""
    block = second.block
    assert block is not None
    needed = {second}
    passed = []
    for node in reversed(between):
        users = (ancestor_in(use.user, block) for output in node.outputs for use in output.uses)
        if _is_plain(node) and not any(user in needed for user in users):
            passed.append(node)
        else:
            needed.add(node)
    return passed[::-1]


def _is_plain(node: Node) -> bool:
    """Is it all the same when the node runs?"""
    if node.blocks or effect_of(node) is not Effect.PURE or raises_itself(node):
        return False
    return not any(reachable_kinds(v.type) for v in (*node.inputs, *node.outputs))


def _replace(nodes: Sequence[Node], branches: Sequence[_Branch]) -> None:
    """Let the if give what copies of the nodes in its branches give; the nodes go."""
    first = branches[0].node
    block = first.block
    assert block is not None
    gone = set(nodes)
    for value in (output for node in nodes for output in node.outputs):
        if any(ancestor_in(use.user, block) not in gone for use in value.uses):
            for branch in branches:
                branch.block.add_output(branch.values.get(value, value))
            value.replace_all_uses_with(first.add_output().copy_metadata(value))
    for node in reversed(nodes):
        node.destroy()


def _last_if(block: Block) -> tuple[Node | None, list[Node]]:
    """The last if of a block, and the nodes behind it."""
    tail: list[Node] = []
    for node in block.reversed_nodes:
        if node.kind == "prim::If":
            return node, tail[::-1]
        tail.append(node)
    return None, tail


def _forget_carried(loop: Node) -> bool:
    """Where a branch ends a loop, let it not compute carried values for a next round that nobody reads afterwards."""
    (body,) = loop.blocks
    changed = False
    for position, output in enumerate(loop.outputs):
        if not output.has_uses:
            changed = _forget(body, 0, position + 1, body.inputs[position + 1]) or changed
    return changed


def _forget(block: Block, condition: int, position: int, instead: Value) -> bool:
    """Let result `position` of the block be `instead` where result `condition` is False."""
    value = block.outputs[position]
    if constant_of(block.outputs[condition], None) is False:
        if value is instead or value.type is not instead.type:
            return False
        block.replace_output(position, instead)
        return True
    last = block.outputs[condition].node
    if last.kind != "prim::If" or last.block is not block or value.node is not last or value.use_count > 1:
        return False
    offset = block.outputs[condition].offset
    changed = False
    for inner in last.blocks:
        changed = _forget(inner, offset, value.offset, instead) or changed
    return changed


def _keep_carried(loop: Node) -> bool:
    """Where a round leaves it open what is carried, carry what there is: that costs nothing."""
    changed = False
    for position, parameter in enumerate(Loop(loop).parameters, 1):
        changed = _fill(Loop(loop).body, position, parameter) or changed
    return changed


def _fill(block: Block, position: int, instead: Value) -> bool:
    value = block.outputs[position]
    if value.node.kind == "prim::Uninitialized":
        if value.type is not instead.type:
            return False
        block.replace_output(position, instead)
        return True
    if value.node.kind != "prim::If" or value.node.block is not block or value.use_count > 1:
        return False
    changed = False
    for inner in value.node.blocks:
        changed = _fill(inner, value.offset, instead) or changed
    return changed
