"""What conditions tell: facts about values that hold where a branch has been taken.

    %c : bool = aten::eq(%x, %3)
    %r : int = prim::If(%c)          in block0 `%x` is 3 and `%c` True, in block1 `%c` is False
      block0(): ...
      block1(): ...

Every bool has facts that hold if it is True and facts that hold if it is False: those of `==` and `!=` with a constant,
of `not`, `and`, `or`, and of a `prim::If` that gives a bool, which is how `and` and `or` are compiled. Facts hold in
the branch, and behind the `prim::If` where the other branch always raises. As a value never changes, a fact about it
stays true; a fact about the length of a list is one about a list that nobody writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from jitlite.analysis.alias import AliasDb
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.analysis import may_use
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.object_flow import Likelihood, ObjectFlow
from jitlite.ir.ops import fn_with_objects


class ListLength(Record, eq=True):
    """The length of a list, as what a fact is about."""

    of: Value


Facts = dict[Value | ListLength, int | bool]
"""Values, which are these constants."""


class Truth(Record, eq=True, frozen=False):
    """What follows from a bool."""

    if_true: Facts = field(default_factory=dict)
    if_false: Facts = field(default_factory=dict)

    def given(self, outcome: bool) -> Facts:
        return self.if_true if outcome else self.if_false


class Refiner:
    """Walks a graph and lets what is known to be a constant be one.

    Args:
        wanted: which values to replace.
    """

    def __init__(self, graph: Graph, wanted: Callable[[Value], bool]) -> None:
        self.graph = graph
        self.wanted = wanted
        self.changed = False
        self._truths: dict[Value, Truth] = {}
        self._scopes: list[Facts] = []
        """What is known in the current block and in those around it."""
        self._raising: set[Block] = set()
        self._db: AliasDb | None = None
        self._flow: ObjectFlow | None = None

    def run(self) -> bool:
        if any(node.kind == "prim::If" for node in self.graph.all_nodes()):
            self._walk(self.graph.block, {})
        return self.changed

    # -- walking

    def _walk(self, block: Block, facts: Facts) -> Facts:
        """Refines a block; gives what is known at its end (besides what is known around it)."""
        self._scopes.append(facts)
        for node in block.nodes:
            self._refine_inputs(node)
            self._refine_length(node)
            if node.kind == "prim::If":
                self._branch(node)
            else:
                for inner in node.blocks:
                    self._walk(inner, {})
                self._learn(node)
                if _always_raises(node):
                    self._raising.add(block)
        self._refine_inputs(block.return_node)
        return self._scopes.pop()

    def _branch(self, node: Node) -> None:
        condition = self._truth_of(node.input)
        ends = [
            self._walk(block, dict(condition.given(taken)))
            for block, taken in zip(node.blocks, (True, False), strict=True)
        ]
        raising = [block in self._raising for block in node.blocks]
        if all(raising) and node.block is not None:
            self._raising.add(node.block)
        elif any(raising):
            self._scopes[-1].update(ends[raising.index(False)])
        for position, output in enumerate(node.outputs):
            self._join(node, position, output, ends, raising)
            self._same_either_way(node, position, output, ends)

    def _join(self, node: Node, position: int, output: Value, ends: list[Facts], raising: list[bool]) -> None:
        """The facts that follow from a bool that an if gives."""
        if output.type is not T.BOOL:
            return
        results = [block.outputs[position] for block in node.blocks]
        truth = Truth()
        for outcome in (True, False):
            possible = [
                {**facts, **self._truth_of(result).given(outcome)}
                for facts, result, never in zip(ends, results, raising, strict=True)
                if not never and constant_of(result, outcome) is outcome
            ]
            if possible:
                shared = possible[0].items() & possible[-1].items()
                truth.given(outcome).update(shared)
        self._truths[output] = self._with_itself(output, truth)

    def _same_either_way(self, node: Node, position: int, output: Value, ends: list[Facts]) -> None:
        """`3 if x == 3 else x` is x."""
        results = [block.outputs[position] for block in node.blocks]
        for here, other, facts in ((0, 1, ends[0]), (1, 0, ends[1])):
            value = results[other]
            if not (is_constant(results[here]) and value in facts and self.wanted(value) and output.has_uses):
                continue
            if self._is_equal(value, facts, constant_of(results[here])) and may_use(node, value):
                output.replace_all_uses_with(value)
                self.changed = True

    def _is_equal(self, value: Value, facts: Facts, constant: object) -> bool:
        """Is the value the constant, where the facts hold?"""
        return not self._may_be_object(value) and type(constant) is type(facts[value]) and constant == facts[value]

    # -- learning

    def _learn(self, node: Node) -> None:
        if len(node.outputs) != 1 or node.output.type is not T.BOOL or node.blocks:
            return
        truth = _TRUTHS[node.kind](self, node) if node.kind in _TRUTHS else Truth()
        self._truths[node.output] = self._with_itself(node.output, truth)

    def _with_itself(self, value: Value, truth: Truth) -> Truth:
        return Truth({**truth.if_true, value: True}, {**truth.if_false, value: False})

    def _truth_of(self, value: Value) -> Truth:
        found = self._truths.get(value)
        if found is None:
            found = Truth() if is_constant(value) else self._with_itself(value, Truth())
        return found

    def _set_equal(self, facts: Facts, value: Value, constant: int) -> None:
        """Note what an int is equal to, and the length of the list whose length it is."""
        facts[value] = constant
        listed = _measured(value)
        if listed is not None and self._is_fixed(listed):
            facts[ListLength(listed)] = constant

    def _of_equality(self, node: Node) -> Truth:
        truth = Truth()
        equal = truth.given(node.kind == "aten::eq")
        for value, other in (node.inputs, tuple(reversed(node.inputs))):
            constant = constant_of(other, None)
            if value.type is T.INT and other.type is T.INT and type(constant) is int and not is_constant(value):
                self._set_equal(equal, value, constant)
            elif value.type is T.BOOL and other.type is T.BOOL and type(constant) is bool:
                same = self._truth_of(value)
                outcome = constant is (node.kind == "aten::eq")
                return same if outcome else Truth(same.if_false, same.if_true)
        return truth

    def _of_negation(self, node: Node) -> Truth:
        inner = self._truth_of(node.input)
        return Truth(inner.if_false, inner.if_true)

    def _of_connective(self, node: Node) -> Truth:
        left, right = (self._truth_of(v) for v in node.inputs)
        decided = node.kind == "aten::__and__"  # both have the outcome if it is this one
        truth = Truth()
        truth.given(decided).update(left.given(decided) | right.given(decided))
        truth.given(not decided).update(left.given(not decided).items() & right.given(not decided).items())
        return truth

    def _is_fixed(self, listed: Value) -> bool:
        self._db = self._db or AliasDb(self.graph)
        return not self._db.is_written(listed)

    # -- using

    def _known(self, about: Value | ListLength) -> int | bool | None:
        for facts in reversed(self._scopes):
            if about in facts:
                return facts[about]
        return None

    def _refine_inputs(self, node: Node) -> None:
        for position, value in enumerate(node.inputs):
            if not is_constant(value) and self.wanted(value):
                known = self._known(value)
                if known is not None and not (self._may_be_object(value) and _tells_apart(node)):
                    with self.graph.inserting_before(node):
                        node.replace_input(position, self.graph.insert_constant(known, None, node.range))
                    self.changed = True

    def _may_be_object(self, value: Value) -> bool:
        """Might the value be an object, such as a dtype, that only equals the number?"""
        if value.type is not T.INT:
            return False
        self._flow = self._flow or ObjectFlow(self.graph, given=True)
        return self._flow.of(value) is not Likelihood.NUMBER

    def _refine_length(self, node: Node) -> None:
        if node.kind != "aten::len" or not node.output.has_uses or not self.wanted(node.input):
            return
        known = self._known(ListLength(node.input))
        if known is not None:
            with self.graph.inserting_before(node):
                node.output.replace_all_uses_with(self.graph.insert_constant(known, None, node.range))
            self.changed = True


_TRUTHS: dict[str, Callable[[Refiner, Node], Truth]] = {
    "aten::eq": Refiner._of_equality,
    "aten::ne": Refiner._of_equality,
    "aten::__not__": Refiner._of_negation,
    "aten::__and__": Refiner._of_connective,
    "aten::__or__": Refiner._of_connective,
}


def _tells_apart(node: Node) -> bool:
    """Is it another thing to the node to be given an object than its number?"""
    return node.op is None or (node.op.overload is None and fn_with_objects(node.op) is node.op.fn)


def _measured(value: Value) -> Value | None:
    """The list of which the value is the length."""
    node = value.node
    return node.input if node.kind == "aten::len" and isinstance(node.input.type, T.ListType) else None


def _always_raises(node: Node) -> bool:
    if node.kind == "prim::Raise":
        return node.input.type is T.EXCEPTION
    return node.kind in ("prim::RaiseException", "prim::RaiseFrom")
