"""Gather nodes that an engine supports into groups, as few and as large as their dependencies allow.

    graph(%x, %y):                              graph(%x, %y):
      %a = aten::mul(%x, %y)                      %l = aten::len(%xs)
      %l = aten::len(%xs)                  =>     %b = prim::EngineGroup_0(%x, %y)
      %b = aten::tanh(%a)                         return (%b, %l)
      return (%b, %l)                           with prim::EngineGroup_0 = graph(%x, %y): ...

Each block is grouped for itself. Constants are in no group: each group has copies of those it reads.

1. `supported` says which nodes may belong. Tensors, ints, floats and bools may cross the border of a group; lists,
   tuples and all else may not. So the ends of an edge that carries one of these are in one group or in none, and where
   several such edges make a circle with other nodes, all of the circle are in one group or in none.
2. Two groups are joined if no path leads from one to the other through something else: one graph of groups without
   circles stays one without circles. Groups are tried from the last to the first, those that are connected before those
   that are not, in the order of the graph. So one graph has one result, and no two of its groups could be joined.
3. Groups of fewer nodes than `least` are left.

The graph does what it did. The edges are those of data and all else that has an order by `AliasDb.must_precede`:
writes and what reads the same memory, random draws, prints, exceptions and what is seen when they are raised. Nodes
stay in an order that the edges allow, and the members of a group become neighbours only where that is such an order.
Run as a pass by its name, it groups the operators on tensors that neither write nor draw random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

import networkx as nx

from jitlite.analysis import effects
from jitlite.analysis.alias import AliasDb
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.analysis import ancestor_in, captured_values
from jitlite.ir.graph import Block, Graph, Node, Value, is_constant
from jitlite.ir.ops import Effect
from jitlite.ir.regions import ENGINE_GROUP
from jitlite.passes.form_regions import make_region
from jitlite.passes.registry import graph_pass

Supported = Callable[[Node], str | None]
"""May the node be in a group? None if it may, else why not."""

LEAST = 3
"""Of fewer nodes, a call of an engine costs more than it saves."""


class Clusters(Record, frozen=False):
    """What `cluster` has made.

    Attributes:
        groups: the new nodes, in order.
        left: the other nodes, without constants, each with the reason.
    """

    groups: list[Node] = field(default_factory=list)
    left: dict[Node, str] = field(default_factory=dict)


@graph_pass
def cluster_tensor_operators(graph: Graph) -> bool:
    """Form groups of at least three operators that compute tensors from tensors."""
    return bool(cluster(graph, _computes_tensors).groups)


def _computes_tensors(node: Node) -> str | None:
    if is_display(node):
        return None
    if node.blocks or "Subgraph" in node.attributes or node.op is None or node.op.fn is None:
        return "it is no operator"
    if node.op.schema.is_mutable or effects.effect_of(node) is not Effect.PURE:
        return "it has effects"
    return None if any(isinstance(v.type, T.TensorType) for v in node.outputs) else "it gives no tensor"


def cluster(graph: Graph, supported: Supported, *, least: int = LEAST, errors_may_swap: bool = False) -> Clusters:
    """Form groups.

    Args:
        graph: changed in place.
        supported: which nodes may be in groups. A node with blocks may be in one as a whole.
        least: how many nodes a group has to have, constants and displays of lists not counted.
        errors_may_swap: of two nodes that would both raise, it may be the other one that does.
    """
    made = Clusters()
    db = AliasDb(graph)
    blocks, found = [graph.block], []
    for block in blocks:  # all before any is changed: groups hide from others what they do
        found.append(_BlockClusters(block, supported, db, errors_may_swap))
        blocks += [inner for node in found[-1].left for inner in node.blocks]
    for clusters in found:
        clusters.put_in_order()
        for members in clusters.groups:
            if _count(members) < least:
                made.left.update(dict.fromkeys(members, f"fewer than {least} nodes can be run together here"))
            else:
                made.groups.append(_make_group(graph, members))
        made.left.update(clusters.left)
    return made


def inline_engine_groups(graph: Graph) -> bool:
    """Put the nodes of all groups back where they came from; says whether there were any."""
    found = [node for node in graph.all_nodes() if node.kind == ENGINE_GROUP]
    for node in found:
        with graph.inserting_before(node):
            results = graph.inline_call(node.attributes["Subgraph"], node.inputs)
        for output, result in zip(node.outputs, results, strict=True):
            output.replace_all_uses_with(result)
        node.destroy()
    return bool(found)


def _make_group(graph: Graph, members: Sequence[Node]) -> Node:
    """Replace neighbouring nodes, in order, by one that carries them as a graph."""
    region = make_region("engine", members)
    types = [value.type for value in region.outputs]
    group = graph.create(ENGINE_GROUP, region.inputs, types, {"Subgraph": region.graph()}, region.node.range)
    group.call_stack = region.node.call_stack
    group.insert_after(region.node)
    for old, new in zip(region.outputs, group.outputs, strict=True):
        name, new.example_type = old.name if old.has_name else None, old.example_type
        old.replace_all_uses_with(new)
        old.set_name(None)
        new.set_name(name)
    region.node.destroy()
    return group


def _count(members: Sequence[Node]) -> int:
    """How many of the nodes, and of those in their blocks, compute something."""
    nested = [_count(list(block.computations)) for node in members for block in node.blocks]
    return sum(not is_display(node) for node in members) + sum(nested)


def is_display(node: Node) -> bool:
    """Does the node belong to what takes its result, or to what gives its input?"""
    return node.kind in ("prim::ListConstruct", "prim::ListUnpack")


def may_cross(t: T.Type) -> bool:
    """May a value of this type go into a group or come out of one?"""
    return isinstance(t, T.TensorType) or t in (T.INT, T.FLOAT, T.BOOL)


class _BlockClusters:
    """The groups of one block.

    Nodes are known by their positions in the block, sets of them are the bits of an int.

    Attributes:
        groups: the members of each group, in the order of the block.
        left: why other nodes are in no group.
    """

    def __init__(self, block: Block, supported: Supported, db: AliasDb, errors_may_swap: bool) -> None:
        self._block = block
        self._nodes = list(block.computations)
        self._position = {node: i for i, node in enumerate(self._nodes)}
        self.left = {node: why for node in self._nodes for why in (supported(node),) if why is not None}
        self._order = nx.DiGraph()
        self._order.add_nodes_from(range(len(self._nodes)))
        data = list(self._data_edges())
        self._order.add_edges_from(data)
        self._order.add_edges_from(_order_edges(self._nodes, data, db, errors_may_swap))
        self._joined = _Joined(self._order, self._uncut_sets())
        self._join_all()

    def _data_edges(self) -> Iterator[tuple[int, int]]:
        for i, node in enumerate(self._nodes):
            for user in {self._user(use.user) for output in node.outputs for use in output.uses}:
                if user is not None:
                    yield i, user

    def _user(self, user: Node) -> int | None:
        """The node of this block that is the user or holds it; None for what the block returns."""
        return self._position.get(ancestor_in(user, self._block) or user)

    # -- edges that no border may cut
    def _uncut_sets(self) -> list[set[int]]:
        """Nodes that are in one group or in none, those of each set; what may be in none has become unsupported."""
        edges = list(self._uncut_edges())
        while True:
            self._leave_ends(edges)
            inside = [(i, j) for i, j in edges if i is not None and j is not None and self._may_join(i, j)]
            sets = list(nx.connected_components(nx.Graph(inside)))
            around = self._circles(sets)
            broken = [circle for circle in around if not all(self._nodes[i] not in self.left for i in circle)]
            if not broken:
                return around
            uncut = {i for pair in inside for i in pair}
            for i in sorted(set().union(*broken) & uncut):
                self.left.setdefault(
                    self._nodes[i], "what it shares a list with depends on a node that is not supported"
                )

    def _uncut_edges(self) -> Iterator[tuple[int | None, int | None]]:
        """From the maker to the user of a value that may cross no border; None for what is not in this block."""
        for j, node in enumerate(self._nodes):
            for value in _read_by(node):
                is_unset = value.node.kind == "prim::Uninitialized"  # nothing can be handed over
                if (is_unset or not may_cross(value.type)) and not is_constant(value):
                    yield self._position.get(value.node), j
        for value in self._block.outputs:
            if not may_cross(value.type):
                yield self._position.get(value.node), None

    def _leave_ends(self, edges: Sequence[tuple[int | None, int | None]]) -> None:
        """Where one end of such an edge is in no group, neither is the other."""
        changed = True
        while changed:
            changed = False
            for i, j in edges:
                ends = [self._nodes[k] for k in (i, j) if k is not None]
                if len(ends) == 2 and not any(end in self.left for end in ends):
                    continue
                for end in ends:
                    if end not in self.left:
                        self.left[end] = "a value of it that is no tensor or number is used outside"
                        changed = True

    def _may_join(self, i: int, j: int) -> bool:
        return self._nodes[i] not in self.left and self._nodes[j] not in self.left

    def _circles(self, sets: Sequence[set[int]]) -> list[set[int]]:
        """The sets, those that lie on a circle with others joined to one."""
        owner = {i: min(s) for s in sets for i in s}
        joined = nx.DiGraph()
        joined.add_nodes_from(owner.get(i, i) for i in self._order)
        joined.add_edges_from((owner.get(i, i), owner.get(j, j)) for i, j in self._order.edges)
        members = {min(s): s for s in sets}
        circles = [set().union(*(members.get(i, {i}) for i in c)) for c in nx.strongly_connected_components(joined)]
        return [circle for circle in circles if len(circle) > 1]

    # -- joining
    def _join_all(self) -> None:
        """Join what may be joined, as long as there is any."""
        connected = True
        while self._join_once(connected) or connected:
            connected = False

    def _join_once(self, connected: bool) -> bool:
        """Go once over all groups, from the last to the first; says whether two were joined."""
        changed = False
        for later in reversed(range(len(self._nodes))):
            if not self._may_join(later, later) or self._joined.last_of(later) != later:
                continue
            while self._join_one(later, connected):
                changed = True
        return changed

    def _join_one(self, later: int, connected: bool) -> bool:
        """Join the group that ends with this node and the nearest one before it that may be joined with it."""
        for earlier in reversed(range(later)):
            if self._nodes[earlier] in self.left or self._joined.last_of(earlier) != earlier:
                continue
            if connected and not self._joined.are_neighbours(earlier, later):
                continue
            if self._joined.join(earlier, later):
                return True
        return False

    # -- the result
    @property
    def groups(self) -> list[list[Node]]:
        found = [[self._nodes[i] for i in members] for members in self._joined.members()]
        return [members for members in found if members[0] not in self.left]

    def put_in_order(self) -> None:
        """Move nodes so that the members of a group are neighbours."""
        ordered = [self._nodes[i] for i in self._joined.order()]
        if ordered != self._nodes:
            for node in ordered:
                node.move_before(self._block.return_node)


class _Joined:
    """A graph of sets of nodes without circles, in which sets are joined.

    Args:
        order: edges between nodes; these are ints from 0 on, and edges lead from lower to higher ones.
        sets: those that are joined from the beginning.
    """

    def __init__(self, order: nx.DiGraph, sets: Iterable[set[int]]) -> None:
        self._edges = order
        self._of: list[int] = list(order)
        self._mask = {i: 1 << i for i in order}
        self._next = {i: _bits(order.successors(i)) for i in order}
        self._before = {i: _bits(order.predecessors(i)) for i in order}
        self._above: dict[int, int] = {}
        self._below: dict[int, int] = {}
        for joined in sets:
            self._unite(sorted(joined))
        for group in nx.topological_sort(self._quotient()):
            self._above[group] = self._closure(group, self._before, self._above)
        for group in reversed(list(nx.topological_sort(self._quotient()))):
            self._below[group] = self._closure(group, self._next, self._below)

    def last_of(self, node: int) -> int:
        """The last node of the set of this one, which is its name."""
        return self._of[node]

    def _unite(self, members: Sequence[int]) -> None:
        name = members[-1]
        for table in (self._mask, self._next, self._before):
            table[name] = _union(table.pop(i) for i in members)
        for i in members:
            self._of[i] = name
        self._next[name] &= ~self._mask[name]
        self._before[name] &= ~self._mask[name]

    def _quotient(self) -> nx.DiGraph:
        made = nx.DiGraph()
        made.add_nodes_from(self._mask)
        made.add_edges_from((self._of[i], self._of[j]) for i, j in self._edges.edges if self._of[i] != self._of[j])
        return made

    def _closure(self, group: int, direct: dict[int, int], known: dict[int, int]) -> int:
        near = {self._of[i] for i in _positions(direct[group])}
        return _union(self._mask[g] | known[g] for g in near)

    def are_neighbours(self, a: int, b: int) -> bool:
        """Does an edge lead from the one set to the other?"""
        return bool((self._next[a] | self._before[a]) & self._mask[b])

    def join(self, a: int, b: int) -> bool:
        """Make one set of two, unless a path leads from one to the other through a third."""
        both = self._mask[a] | self._mask[b]
        between = (self._below[a] & self._above[b]) | (self._below[b] & self._above[a])
        if between & ~both:
            return False
        above = (self._above.pop(a) | self._above.pop(b)) & ~both
        below = (self._below.pop(a) | self._below.pop(b)) & ~both
        members = _positions(both)
        name = members[-1]
        for table in (self._mask, self._next, self._before):
            table[name] = table.pop(min(a, b)) | table[max(a, b)]
        for i in members:
            self._of[i] = name
        self._next[name] &= ~both
        self._before[name] &= ~both
        self._above[name], self._below[name] = above, below
        for group, mask in self._mask.items():
            if mask & above:
                self._below[group] |= below | both
            elif mask & below:
                self._above[group] |= above | both
        return True

    def members(self) -> list[list[int]]:
        """The sets, in order."""
        return [_positions(self._mask[group]) for group in self._sorted()]

    def order(self) -> list[int]:
        """All nodes, those of a set as neighbours."""
        return [i for members in self.members() for i in members]

    def _sorted(self) -> list[int]:
        return list(nx.lexicographical_topological_sort(self._quotient(), key=lambda g: self._mask[g] & -self._mask[g]))


def _order_edges(
    nodes: Sequence[Node], data: Iterable[tuple[int, int]], db: AliasDb, errors_may_swap: bool
) -> Iterator[tuple[int, int]]:
    """The pairs of nodes whose order can be seen, but for those that other edges put in order already.

    Args:
        data: the edges of data, from lower to higher numbers.
    """
    ordered = {i for i, node in enumerate(nodes) if _has_order(node, db, errors_may_swap)}
    makers: dict[int, list[int]] = {}
    for i, j in data:
        makers.setdefault(j, []).append(i)
    above: list[int] = []
    for j, second in enumerate(nodes):
        before = _union(above[i] | 1 << i for i in makers.get(j, ()))
        for i in reversed(range(j) if j in ordered else sorted(k for k in ordered if k < j)):
            if not before >> i & 1 and db.must_precede(nodes[i], second, errors_may_swap=errors_may_swap):
                before |= above[i] | 1 << i
                yield i, j
        above.append(before)


def _has_order(node: Node, db: AliasDb, errors_may_swap: bool) -> bool:
    """Can it be seen when the node runs, even by nodes that write nothing, draw nothing and print nothing?"""
    if db.writes(node) or effects.any_inside(node, lambda n: effects.effect_of(n) in (Effect.SIDE, Effect.RANDOM)):
        return True
    return effects.may_raise(node) and (not errors_may_swap or effects.is_protected(node))


def _read_by(node: Node) -> Iterator[Value]:
    """What the node and those within it read from outside of it."""
    yield from node.inputs
    yield from captured_values(node)


def _bits(positions: Iterable[int]) -> int:
    return _union(1 << i for i in positions)


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _positions(mask: int) -> list[int]:
    """The bits that are set, in order."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
