"""Groups of operations that hand tensors in another layout to each other.

A group begins with a convolution and takes in the operations behind it, in the same block, that work in the layout too.
Who is outside of the group is given its results in the usual layout. A tensor that is written later by somebody outside
of the group belongs to none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.constant_weight_layers import Layer
from jitlite.ir.graph import Block, Graph, Node, Use, Value
from jitlite.ir.traits import Trait


@dataclass
class LayoutGroup:
    """Nodes that hand tensors in another layout to each other."""

    nodes: list[Node] = field(default_factory=list)

    @property
    def members(self) -> set[Value]:
        """What the nodes give."""
        return {node.output for node in self.nodes}

    def uses_outside(self, node: Node) -> list[Use]:
        """The uses of what a node of the group gives that are outside of it. Those of its shape do not count."""
        inside = set(self.nodes)
        return [use for use in node.output.uses if use.user not in inside and not use.user.has(Trait.ABOUT_SHAPE)]


class Grouping(ABC):
    """Finds the groups of one block."""

    def __init__(self, block: Block, db: AliasDb, writers: list[Node]) -> None:
        self.block = block
        self.db = db
        self._writers = writers
        self._group_of: dict[Value, LayoutGroup] = {}

    @abstractmethod
    def _convolution(self, node: Node) -> Layer | None:
        """The convolution that the node is, if a group may begin with it."""

    @abstractmethod
    def _may_follow(self, node: Node) -> bool:
        """May the node work in the layout of the group that one of its inputs is in?"""

    def groups(self) -> list[LayoutGroup]:
        """The groups of the block, without those in nested blocks."""
        for node in self.block.nodes:
            if self._convolution(node) is not None:
                self._join(node, [node.inputs[0]])
            elif self._may_follow(node):
                self._join(node, list(node.inputs))
        return list({id(group): group for group in self._group_of.values()}.values())

    def _join(self, node: Node, values: list[Value]) -> None:
        found = {id(g): g for v in values if (g := self._group_of.get(v)) is not None and self._is_settled(v)}
        groups = list(found.values()) or [LayoutGroup()]
        group = groups[0]
        for other in groups[1:]:
            group.nodes += other.nodes
            self._group_of.update((v, group) for v, g in list(self._group_of.items()) if g is other)
        group.nodes.append(node)
        self._group_of[node.output] = group

    def _is_settled(self, value: Value) -> bool:
        """Is the tensor not written from now on, or used once only, perhaps by who writes it?

        Uses of its shape do not count.
        """
        if not self.db.is_written(value):
            return True
        memory, maker = self.db.locations(value), value.node
        later = [w for w in self._writers if w is not maker and not w.is_before(maker) and self.db.writes(w) & memory]
        return not later or sum(not use.user.has(Trait.ABOUT_SHAPE) for use in value.uses) == 1

    def _inside(self, value: Value) -> bool:
        return value in self._group_of and self._is_settled(value)


def blocks_of(graph: Graph) -> Iterator[Block]:
    """The block of the graph and all that are nested in it."""
    yield graph.block
    for node in graph.all_nodes():
        yield from node.blocks


def functional(node: Node) -> str:
    """The kind of the node, without the mark of a variant that writes its first argument."""
    return node.kind.removesuffix("_") if node.kind.startswith("aten::") else node.kind
