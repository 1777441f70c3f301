"""Memory that belongs to one value: who else could see a write to it.

A pass that lets a write make a new value instead has to know that nobody looks at the old one afterwards. `Ownership`
answers that for one graph. `replaced` keeps it true while writes are removed: the new values count as the old memory.

    %a = aten::mul(%x, %y)
    %v = aten::t(%a)            sees what is written to %a; if it is used after the write, the write has to stay
    %b = aten::add_(%a, %y, %1)
    return (%b)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.analysis import promotion
from jitlite.analysis.alias import AliasDb
from jitlite.analysis.effects import changes_modes, effect_of
from jitlite.analysis.memory_kinds import TENSOR, reachable_kinds
from jitlite.analysis.points_to import Locations
from jitlite.ir import types as T
from jitlite.ir.analysis import ancestor_in
from jitlite.ir.graph import Block, Graph, Node, Use, Value
from jitlite.ir.ops import Effect
from jitlite.operators.aliasing_ops import observes_identity
from jitlite.operators.in_place import keeps_form

_FAR = 100
"""How many values are looked at to find out whether one may require gradients."""


class Ownership:
    """Who may see the memory of the values of a graph, and when."""

    def __init__(self, graph: Graph, interesting: Iterable[Value] = ()) -> None:
        """`interesting` are values that may be asked about although nobody writes them."""
        self.db = AliasDb(graph)
        self._sharing: dict[Locations, list[Value]] = {}
        """The values from which each location, one bit, can be reached."""
        self._writers: dict[Locations, list[Node]] = {}
        """The nodes that write each location, one bit."""
        self._modes: dict[Node, int] = {}
        """How many nodes that may set a mode have been passed before each node."""
        self._reshaped: Locations = 0
        self._observed: Locations = 0
        self._interesting: Locations = 0
        for value in interesting:
            self._interesting |= self.db.locations(value)
        for node in graph.all_nodes():
            self._note_writes(node)
        self._number_modes(graph.block, 0)
        for value in _values(graph):
            self._note_sharing(value)

    def _note_writes(self, node: Node) -> None:
        if observes_identity(node):
            for value in node.inputs:
                self._observed |= self.db.locations(value)
        if node.blocks:
            return
        written = self.db.writes(node)
        resolved = node.op
        if written and (resolved is None or not keeps_form(resolved)):
            self._reshaped |= written
        self._interesting |= written
        while written:
            location = written & -written
            written ^= location
            self._writers.setdefault(location, []).append(node)

    def _number_modes(self, block: Block, count: int) -> int:
        for node in block.nodes:
            self._modes[node] = count
            for inner in node.blocks:
                count = self._number_modes(inner, count)
            if not node.blocks and changes_modes(node):
                count += 1
        self._modes[block.return_node] = count
        return count

    def _note_sharing(self, value: Value) -> None:
        found = self.db.reachable(value) & self._interesting
        while found:
            location = found & -found
            found ^= location
            self._sharing.setdefault(location, []).append(value)

    # -- questions

    def sharers(self, value: Value) -> list[Value]:
        """The values from which memory that the value may be can be reached, itself included."""
        found: dict[Value, None] = {}
        locations = self.db.locations(value)
        while locations:
            location = locations & -locations
            locations ^= location
            found.update(dict.fromkeys(self._sharing.get(location, ())))
        return [v for v in found if v.node.block is not None]

    def is_private(self, value: Value) -> bool:
        """Is the value certainly new, in no container or caller's hands, and never asked who it is?

        Nor may it be changed but by operators that write its elements.
        """
        locations = self.db.locations(value)
        return bool(locations) and not locations & (self.db.held | self._observed | self._reshaped)

    @property
    def reshapes_tensors(self) -> bool:
        """May something in the graph change more of a tensor than its elements?"""
        return bool(self.db.of_kinds(TENSOR) & self._reshaped)

    def same_modes(self, start: Node, end: Node) -> bool:
        """Is it certain that no mode is set from `start`, with what is in it, to `end`, later in its block?"""
        return self._modes.get(start) == self._modes.get(end)

    def writers(self, value: Value) -> list[Node]:
        """The nodes that may write the value itself."""
        found: dict[Node, None] = {}
        locations = self.db.locations(value)
        while locations:
            location = locations & -locations
            locations ^= location
            found.update(dict.fromkeys(self._writers.get(location, ())))
        return [node for node in found if node.block is not None]

    def may_need_grad(self, value: Value) -> bool:
        """May the tensor, or one that the value holds, require gradients at any time?

        It may if something it is made of, or something written to it, may.
        """
        waiting, seen = [value], {value}
        while waiting:
            at = waiting.pop()
            node, writers = at.node, self.writers(at)
            if isinstance(at.type, T.TensorType) and _needs_no_grad(at, at.type, writers):
                continue
            if len(seen) > _FAR or any(map(promotion.may_start_gradients, (node, *writers))):
                return True
            inputs = [v for n in (node, *writers) for v in n.inputs if promotion.holds_tensor(v) and v not in seen]
            seen.update(inputs)
            waiting += inputs
        return False

    def replaced(self, write: Node, old: Value, new: Value) -> None:
        """Take note that `new`, made right before the node `write`, is what that wrote to the memory of `old`."""
        self._modes[new.node] = self._modes[write]
        self.db.put_in_place_of(old, new)
        self._note_sharing(new)


def is_used_after(value: Value, node: Node) -> bool:
    """Is the value used by something that runs after `node`, or by what `node` is in?"""
    return any(use.user is not node and use.user.is_after(node) for use in value.uses)


def is_plain_read(use: Use) -> bool:
    """Does the use neither keep the value, for a backward pass say, nor give anything made of it but numbers?"""
    user = use.user
    return effect_of(user) is Effect.PURE and not user.blocks and not any(reachable_kinds(o.type) for o in user.outputs)


def place_in(block: Block | None, node: Node) -> Node | None:
    """The node of `block` that is `node` or holds it."""
    return None if block is None else ancestor_in(node, block)


def _values(graph: Graph) -> Iterable[Value]:
    yield from graph.inputs
    for node in graph.all_nodes():
        yield from node.outputs
        for block in node.blocks:
            yield from block.inputs


def _needs_no_grad(value: Value, t: T.TensorType, writers: Sequence[Node]) -> bool:
    """Is it certain of a tensor that it requires no gradients, now or later?"""
    return not promotion.is_differentiable(value) or (not writers and t.requires_grad is False)
