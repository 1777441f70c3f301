"""Gather operators that are differentiated symbolically into groups, which autograd will see as one node each.

    graph(%x, %y):                            graph(%x, %y):
      %a = aten::mul(%x, %y)                    %b = prim::DifferentiableGraph_0(%x, %y)
      %b = aten::tanh(%a)             =>        %l = aten::len(%xs)
      %l = aten::len(%xs)                       return (%b, %l)
      return (%b, %l)                         with prim::DifferentiableGraph_0 = graph(%x, %y): ...

A group is a run of neighbouring nodes of one block. It grows upwards: a node that makes one of its inputs, or that
node's own group, joins when what stands between the two may move out of the way, before the one or behind the other.
Nothing that is ordered by memory, random draws, printing or the like changes places, nor do two nodes that may raise,
unless that is allowed (`errors_may_swap`). Displays of tensors belong to the node that takes them, `ListUnpack`s to the
one that gives them.

Left outside:

- what is not differentiated symbolically, writes memory (but for the statistics of a normalization), or has blocks;
- a node whose result is seen outside while it may be a view or an argument: autograd treats views, and arguments that
  are returned, in ways of its own;
- a node whose result is written by others: what it keeps for its own gradient would be lost to the whole group;
- lists of tensors that go in or out;
- groups of fewer nodes than the threshold, and those that no gradient goes through: no input may require one, or no
  result is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.analysis.alias import AliasDb
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, is_constant
from jitlite.ir.types import Type
from jitlite.operators.aliasing_ops import results_may_be_inputs, unmarked_writes
from jitlite.passes.autodiff_sources import is_differentiable, wants_gradient
from jitlite.passes.registry import graph_pass

KIND = "prim::DifferentiableGraph"
DEFAULT_THRESHOLD = 2
"""torch.jit's: a single node gains nothing."""

DEFAULT_INLINE_THRESHOLD = 5
"""torch.jit's: of fewer nodes, the group costs more than it saves."""

_REACH = 64
"""How many nodes may stand between two that are brought together: bounds the time."""


@graph_pass
def create_autodiff(graph: Graph) -> bool:
    """Form groups of at least two nodes."""
    slicer = _Slicer(AliasDb(graph), DEFAULT_THRESHOLD, False)
    return bool(_create(graph, slicer)) or slicer.has_moved


def create_autodiff_subgraphs(
    graph: Graph, threshold: int = DEFAULT_THRESHOLD, *, errors_may_swap: bool = False
) -> list[Node]:
    """Form groups; gives the new `prim::DifferentiableGraph` nodes.

    Args:
        graph: changed in place.
        threshold: dissolve groups of fewer nodes (constants and lists not counted).
        errors_may_swap: of two nodes that would both raise, it may be the other one that does.
    """
    return _create(graph, _Slicer(AliasDb(graph), threshold, errors_may_swap))


def _create(graph: Graph, slicer: _Slicer) -> list[Node]:
    groups = [members for block in list(_blocks(graph.block)) for members in slicer.groups_of(block)]
    return [make_group(graph, members) for members in groups]


def inline_autodiff_subgraphs(graph: Graph, threshold: int = DEFAULT_INLINE_THRESHOLD) -> bool:
    """Put groups of fewer nodes back where they came from; says whether there were any."""
    found = [n for n in graph.all_nodes() if n.kind == KIND and count(n.attributes["Subgraph"].nodes) < threshold]
    for node in found:
        with graph.inserting_before(node):
            results = graph.inline_call(node.attributes["Subgraph"], node.inputs)
        for output, result in zip(node.outputs, results, strict=True):
            output.replace_all_uses_with(result)
        node.destroy()
    return bool(found)


def count(nodes: Iterable[Node]) -> int:
    """How many of the nodes compute something."""
    return sum(node.kind not in ("prim::Constant", "prim::ListConstruct", "prim::ListUnpack") for node in nodes)


def make_group(graph: Graph, members: Sequence[Node]) -> Node:
    """Replace neighbouring nodes by one that carries them as a graph."""
    body, inputs = Graph(), []
    values: dict[Value, Value] = {}
    for node in members:
        for value in node.inputs:
            if value in values:
                continue
            if is_constant(value):
                body.block.append(body.clone_node(value.node, values))
            else:
                values[value] = body.add_input().copy_metadata(value)
                inputs.append(value)
        body.block.append(body.clone_node(node, values))
    outputs = results_of(members)
    for value in outputs:
        body.add_output(values[value])
    group = graph.create(KIND, inputs, [v.type for v in outputs], {"Subgraph": body}, members[-1].range)
    group.insert_after(members[-1])
    for value, output in zip(outputs, group.outputs, strict=True):
        type, name = value.type, value.name if value.has_name else None
        value.replace_all_uses_with(output)
        output.type = type
        if name is not None:
            value.set_name(None)
            output.set_name(name)
    for node in reversed(members):
        node.destroy()
    return group


def results_of(members: Sequence[Node]) -> list[Value]:
    """The values that are used outside of these nodes, in order."""
    inside = set(members)
    return [v for node in members for v in node.outputs if any(use.user not in inside for use in v.uses)]


def arguments_of(members: Sequence[Node]) -> list[Value]:
    """The values from outside, constants left out, in order."""
    inside = set(members)
    found = dict.fromkeys(v for node in members for v in node.inputs if v.node not in inside and not is_constant(v))
    return list(found)


def _blocks(block: Block) -> Iterable[Block]:
    yield block
    for node in block.nodes:
        for inner in node.blocks:
            yield from _blocks(inner)


class _Slicer:
    """Finds the groups. Moves nodes, but makes none."""

    def __init__(self, db: AliasDb, threshold: int, errors_may_swap: bool) -> None:
        self.db = db
        self.threshold = threshold
        self.errors_may_swap = errors_may_swap
        self.group_of: dict[Node, list[Node]] = {}
        self.has_moved = False

    def groups_of(self, block: Block) -> list[list[Node]]:
        """The groups of a block, each a run of nodes in order."""
        self.group_of = {}
        for node in list(block.reversed_nodes):
            if node not in self.group_of and self.is_candidate(node):
                self.start(node)
        while sum(self.grow(group) for group in self.current(block)):
            pass
        return [kept for group in self.current(block) for kept in (self.trim(group),) if kept]

    def current(self, block: Block) -> list[list[Node]]:
        """The groups as they are, last first."""
        found: list[list[Node]] = []
        for node in block.reversed_nodes:
            group = self.group_of.get(node)
            if group is not None and (not found or found[-1] is not group):
                found.append(group)
        return found

    def is_candidate(self, node: Node) -> bool:
        if node.kind in ("prim::Constant", "prim::ListConstruct", "prim::AutogradZero"):
            return False
        if not any(_is_tensor_like(o.type) for o in node.outputs) or not is_differentiable(node):
            return False
        return not self.db.writes(node) or (node.op is not None and any(unmarked_writes(node, node.op)))

    def start(self, node: Node) -> None:
        """A group of one node, with the display it takes or the node whose result it unpacks."""
        group = [node]
        self.group_of[node] = group
        parts = [v.node for v in node.inputs if _is_tensor_list(v.type)]
        for part in parts:
            if not self.join([part], group):
                self.dissolve(group)
                return

    def dissolve(self, group: list[Node]) -> None:
        for member in group:
            self.group_of.pop(member, None)

    def grow(self, group: list[Node]) -> bool:
        """Let one group that makes an input of this one join it."""
        if self.group_of.get(group[0]) is not group:
            return False  # it has joined another one
        for value in sorted(arguments_of(group), key=lambda v: -v.node._position):
            maker = self.group_of.get(value.node)
            if maker is not None and maker is not group and self.join(maker, group):
                return True
        return False

    def join(self, earlier: list[Node], later: list[Node]) -> bool:
        """Bring two runs of nodes together, if what is between them may move."""
        if earlier[0].block is not later[0].block or not earlier[-1].is_before(later[0]):
            return False
        between: list[Node] = []
        step = earlier[-1].next
        while step is not None and step is not later[0]:
            between.append(step)
            if len(between) > _REACH:
                return False
            step = step.next
        down = self.following(earlier, between)
        if any(self.precedes(node, second) for node in down for second in later):
            return False
        for node in between:
            if node not in down:
                node.move_before(earlier[0])
        for node in reversed(down):
            node.move_after(later[-1])
        self.has_moved = self.has_moved or bool(between)
        later[:0] = earlier
        self.group_of.update(dict.fromkeys(earlier, later))
        return True

    def following(self, start: Sequence[Node], between: Sequence[Node]) -> list[Node]:
        """Those of the nodes between that must stay behind `start`; a group stays together."""
        found: set[Node] = set()
        grew = True
        while grew:
            grew = False
            for node in between:
                if node in found:
                    continue
                fellows = self.group_of.get(node, [node])
                if any(f in found for f in fellows) or any(
                    self.precedes(first, node)
                    for first in (*start, *(n for n in between if n in found and n.is_before(node)))
                ):
                    found.add(node)
                    grew = True
        return [node for node in between if node in found]

    def precedes(self, first: Node, second: Node) -> bool:
        return self.db.must_precede(first, second, errors_may_swap=self.errors_may_swap)

    # -- what a group must not show
    def trim(self, group: list[Node]) -> list[Node] | None:
        """The group without the nodes whose results must not be seen outside; None if too little is left."""
        members = list(group)
        while True:
            offender = self.offender(members)
            if offender is None:
                break
            members = self.without(members, offender)
        wanted = any(wants_gradient(v.type) for v in arguments_of(members))
        return members if wanted and results_of(members) and count(members) >= self.threshold else None

    def offender(self, members: Sequence[Node]) -> Node | None:
        """A node that takes or gives a list, or gives a tensor that is written, or that may not be its own."""
        for value in arguments_of(members):
            if _is_tensor_list(value.type):
                return next(use.user for use in value.uses if use.user in members)
        for value in results_of(members):
            if not _is_new(value) or (count(members) > 1 and self.db.is_written(value)):
                return value.node
        return None

    def without(self, members: list[Node], node: Node) -> list[Node]:
        """The members but one: it goes before the others, if it needs none of them, else behind with what needs it.

        The pieces of a unit, a display and its user, go together, for either is an offender without the other.
        """
        index = members.index(node)
        if not any(self.precedes(first, node) for first in members[:index]):
            if index:
                node.move_before(members[0])
                self.has_moved = True
            return [*members[:index], *members[index + 1 :]]
        removed = [node]
        for later in members[index + 1 :]:
            if any(self.precedes(first, later) for first in removed):
                removed.append(later)
        kept = [m for m in members if m not in removed]
        for moved in reversed(removed):
            moved.move_after(kept[-1])
        self.has_moved = self.has_moved or members[-len(removed) :] != removed
        return kept


def _is_new(value: Value) -> bool:
    """Is the value a tensor that its node certainly makes, and no view?"""
    op = value.node.op
    if op is None or not isinstance(value.type, T.TensorType) or op.schema.is_varret:
        return False
    return op.schema.returns[value.offset].alias is None and not results_may_be_inputs(op)


def _is_tensor_list(t: Type) -> bool:
    """Is it a list of tensors, some of which may be missing as in an index?"""
    return isinstance(t, T.ListType) and isinstance(T.without_none(t.element), T.TensorType)


def _is_tensor_like(t: Type) -> bool:
    return isinstance(t, T.TensorType) or _is_tensor_list(t)
