"""What peephole rules are given: questions about a node's surroundings, and a place for new nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from jitlite.analysis.alias import AliasDb, aliases_of
from jitlite.base.computed_once import cached_property
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.traits import Trait

Rule = Callable[[Node, "RewriteContext"], Sequence[Value] | None]
"""Gives the values that replace the outputs of a node, or None."""

Table = dict[str, tuple[Rule, ...]]
"""Rules by the kind of node."""


class RewriteContext(Record, eq=True, frozen=False):
    """What rules may ask and make."""

    graph: Graph
    unsettled: list[Value] = field(default_factory=list)
    """Values whose aliasing a replacement changed, so that `db` may be out of date about them."""

    @cached_property
    def db(self) -> AliasDb:
        """Who may write what, as it was when a rule first asked: most graphs have no node that it matters for."""
        return aliases_of(self.graph)

    def node(self, kind: str, inputs: Sequence[Value], type: T.Type, like: Node) -> Sequence[Value]:
        """A new node, standing where `like` stands; its output alone replaces a node."""
        return [self.graph.insert(kind, inputs, (type,), range=like.range).output]

    def constant(self, value: object, type: T.Type | None = None) -> Value:
        return self.graph.insert_constant(value, type)

    def may_be_input(self, output: Value, input: Value) -> bool:
        """May the new tensor `output` be replaced by `input`, an equal one that is there already?

        Nobody may write either, and nobody else may get hold of the new one: it would be seen to be the old one.
        """
        if self.db.has_writers((output, input)) or self.db.escapes(output):
            return False
        if any(use.user.has(Trait.OBSERVES_HISTORY) or use.user.kind == "prim::Return" for use in output.uses):
            return False
        return not self.db.may_contain_alias((output, input), self.unsettled)

    def now_input(self, output: Value, input: Value) -> Sequence[Value]:
        """Take note that `input` stands for `output` from now on."""
        self.unsettled += [output, input]
        return [input]
