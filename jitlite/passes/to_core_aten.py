"""Write operators with the few of core ATen: those that torch tags with `torch.Tag.core`.

    graph(%x : Float(4, 3)):                       %s : Tensor = aten::sigmoid(%x)
      %y : Tensor = aten::silu(%x)           =>    %y : Tensor = aten::mul(%x, %s)

Each operator that is not of the set gives way to what it is made of: a graph of `rules/core_aten.py`, or what is
recorded when it runs on stand-ins (`decomposing.py`), by torch's own table. Control flow stays, and so does what has to
do with numbers and containers.

Numbers may be rounded otherwise. What is left: operators that write, that draw random numbers (they would draw others),
and those of which rank, dtype or sizes of arguments are not known. The pass alone knows what types say, and leaves
operators whose results may share memory with their arguments, that autocast may cast for, or that are made of others
for other sizes.

`lower_to_core_aten` removes writes first, is told example inputs, lets copies take the place of views, takes it that
autocast is off, and reports all that is left at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Any

import torch

from jitlite.analysis.result_types import autocast_may_change
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of, is_constant
from jitlite.ir.ops import Effect, Op
from jitlite.ir.traits import Trait
from jitlite.ir.types import TensorType, Type
from jitlite.operators.aliasing_ops import only_makes
from jitlite.passes.decomposing import Number, Recording, Undecomposable
from jitlite.passes.example_facts import facts_of
from jitlite.passes.recordings import RecordingCache
from jitlite.passes.registry import inexact_pass, run
from jitlite.passes.rules import core_aten

_BEFORE = "inline,inline_fork_wait,constant_propagation,remove_mutation,remove_view_mutation,dce"


class Unsupported(Record, eq=True):
    """Nodes of one kind that are not of core ATen, for one reason."""

    kind: str
    reason: str
    count: int
    places: tuple[str, ...]

    def __str__(self) -> str:
        shown = "".join(f"\n    {place}" for place in self.places[:3])
        more = f"\n    and {len(self.places) - 3} more places" if len(self.places) > 3 else ""
        return f"{self.kind}, {self.count} time{'s'[: self.count != 1]}: {self.reason}{shown}{more}"


class CanonicalizationError(RuntimeError):
    """Operators are left that are not of core ATen.

    Attributes:
        unsupported: all of them.
    """

    def __init__(self, unsupported: Sequence[Unsupported]) -> None:
        self.unsupported = tuple(unsupported)
        total = sum(u.count for u in unsupported)
        lines = [f"{total} operator{'s'[: total != 1]} cannot be written with those of core ATen:"]
        super().__init__("\n".join([*lines, *(f"  {u}" for u in unsupported)]))


class CoreAtenReport(Record, eq=True, frozen=False):
    """What `lower_to_core_aten` has done.

    Attributes:
        changed: did the graph change?
        decomposed: how many nodes of each kind gave way.
        assumptions: what the graph takes for granted about sizes, with the line of the operator it is for.
        unsupported: what is left that is not of core ATen.
    """

    changed: bool = False
    decomposed: Counter[str] = field(default_factory=Counter)
    assumptions: list[str] = field(default_factory=list)
    unsupported: list[Unsupported] = field(default_factory=list)


@inexact_pass
def to_core_aten(graph: Graph) -> bool:
    """Decompose what types say enough about."""
    return _CoreAtenLowering(graph, {}, may_assume=False, keeps_memory=True).run().changed


def _makes_its_results(graph: Graph) -> bool:
    """Do the results of the graph share no memory with what it is given?"""
    makers = [v.node.op for v in graph.outputs]
    return all(op is not None and only_makes(op) for op in makers)


def lower_to_core_aten(
    graph: Graph,
    example_inputs: Sequence[object] | None = None,
    *,
    allow: Collection[str] = (),
    module: torch.nn.Module | None = None,
    strict: bool = True,
    may_assume: bool = True,
) -> CoreAtenReport:
    """Write all operators of a graph with those of core ATen, for runs without autocast.

    Args:
        graph: changed in place.
        example_inputs: arguments of the graph, for the ranks, dtypes and sizes of all tensors; what the types of the
            graph say if not given. The graph holds for other sizes.
        allow: kinds of nodes, such as `aten::gru`, that may stay.
        module: the module, if the graph is that of a method; then `example_inputs` are the others.
        strict: raise where something is left.
        may_assume: may what is put in depend on how sizes compare in the example? The report says where it does.

    Raises:
        CanonicalizationError: operators are left; it lists all.
        TypeError: `graph` is no graph.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"expected a graph, such as the .graph of a script, got {type(graph).__name__}")
    changed = run(graph, _BEFORE)
    report = _CoreAtenLowering(graph, facts_of(graph, example_inputs, module), may_assume, frozenset(allow)).run()
    report.changed = report.changed or changed
    if report.unsupported and strict:
        raise CanonicalizationError(report.unsupported)
    return report


class _CoreAtenLowering(Record, frozen=False):
    graph: Graph
    facts: dict[Value, Type]
    may_assume: bool
    allow: frozenset[str] = frozenset()
    keeps_memory: bool = False
    report: CoreAtenReport = field(default_factory=CoreAtenReport)
    left: dict[tuple[str, str], list[Node]] = field(default_factory=dict)
    recordings: RecordingCache = field(default_factory=lambda: RecordingCache(core_aten.table(), core_aten.is_core))
    runs: RecordingCache = field(default_factory=lambda: RecordingCache({}, lambda overload: True))
    """Those of operators that stay, for what their results look like."""
    placed: list[Node] = field(default_factory=list)
    """What a rule has put in, which is to be looked at next."""

    def run(self) -> CoreAtenReport:
        waiting = list(self.graph.all_nodes())[::-1]
        while waiting:
            node = waiting.pop()
            if self.facts:
                self._learn(node)
            reason = self._lower(node)
            waiting += reversed(self.placed)
            self.placed.clear()
            if reason is not None:
                self.left.setdefault((node.kind, reason), []).append(node)
        for (kind, reason), nodes in self.left.items():
            places = tuple(dict.fromkeys(n.range.location() for n in nodes if n.range is not None))
            self.report.unsupported.append(Unsupported(kind, reason, len(nodes), places))
        return self.report

    def _lower(self, node: Node) -> str | None:
        """Replace the node, if it is not of the set; gives why it stays although it should not."""
        if node.kind in self.allow:
            return None
        if node.has(Trait.CALL) or node.has(Trait.PYTHON_CALL):
            return "it calls what is not part of the graph"
        op = node.op
        if op is None or core_aten.is_supported(op):
            return None
        return self._why_irreplaceable(node, op) or self._replace(node, op)

    def _why_irreplaceable(self, node: Node, op: Op) -> str | None:
        """Why an operator cannot be made of others, whatever these are."""
        if op.schema.is_mutable:
            return "it writes, and cannot be written as an operator that makes a new tensor"
        if op.effect is Effect.RANDOM and not self._is_idle(node):
            return "it draws random numbers, and would draw others"
        if self.keeps_memory and not only_makes(op):
            return "what it gives may share memory with what it is given"
        return None

    def _replace(self, node: Node, op: Op) -> str | None:
        rule = core_aten.rule_of(op.schema.qualified)
        if self.keeps_memory and op.schema.qualified not in Trait.CORE_EXACT.kinds:
            rule = None
            if autocast_may_change(op):
                return "autocast may cast for it, and would not for what it is made of"
        try:
            if rule is None:
                return self._record(node)
            self._put_in(node, rule, node.inputs, self.placed)
            return None
        except Undecomposable as why:
            return str(why)

    @staticmethod
    def _is_idle(node: Node) -> bool:
        """Is it a layer that draws in training only and does not train, or one that drops nothing?"""
        assert node.op is not None
        train, p = (node.op.schema.argument_index(name) for name in ("train", "dropout_p"))
        if p is not None and constant_of(node.inputs[p], None) == 0:
            return True
        return train is not None and constant_of(node.inputs[train], True) is False

    def _record(self, node: Node) -> str | None:
        assert node.op is not None
        if node.op.overload is None:
            return "it is not one of torch's operators"
        inputs: list[Value] = []
        args = [self._argument(v, inputs) for v in node.inputs]
        recording = self.recordings.find(node.op.overload, args)
        reason = self._why_not(node, recording)
        if reason is not None:
            return reason
        place = "" if node.range is None else f"{node.range.location()}: "
        self.report.assumptions += [f"{place}{node.kind}: {text}" for text in recording.assumptions]
        for output, t in zip(node.outputs, recording.results, strict=False):
            self.facts[output] = t
        self._put_in(node, recording.graph, inputs)
        return None

    def _why_not(self, node: Node, recording: Recording) -> str | None:
        """Why what was recorded of a node may not replace it; None where it may."""
        made_of = recording.graph
        left = sorted({n.kind for n in made_of.nodes if n.op is not None and not core_aten.is_supported(n.op)})
        if left:
            is_own = left == [node.kind]
            return "there is no decomposition for it" if is_own else f"it is made of {', '.join(left)}"
        if len(made_of.outputs) != len(node.outputs):
            return "what it is made of gives another number of results"
        if recording.assumptions and not self.may_assume:
            return "what it is made of depends on sizes"
        if self.keeps_memory and not _makes_its_results(made_of):
            return "what it is made of may share memory with what it is given"
        return None

    def _learn(self, node: Node) -> None:
        """Find out what a node of the set gives for the example, where that is not known."""
        if node.op is None or node.op.overload is None or all(_is_complete(self.facts.get(v)) for v in node.outputs):
            return
        inputs: list[Value] = []
        try:
            args = [self._argument(v, inputs) for v in node.inputs]
            found = self.runs.find(node.op.overload, args).results
        except Undecomposable:
            return
        self.facts.update(zip(node.outputs, found, strict=False))

    def _put_in(self, node: Node, body: Graph, inputs: Sequence[Value], placed: list[Node] | None = None) -> None:
        def place(made: Node) -> None:
            if placed is not None:
                placed.append(made)
            made.range, made.scope, made.call_stack = node.range, node.scope, node.call_stack
            for output in made.outputs:
                output.set_name(None)
                output.type = T.unshaped(output.type)  # what stand-ins had is not so under autocast

        with self.graph.inserting_before(node):
            results = self.graph.inline_call(body, inputs, place)
        for old, new in zip(node.outputs, results, strict=True):
            if old in self.facts and not _is_complete(self.facts.get(new)):
                self.facts[new] = self.facts[old]
            if new not in inputs:
                new.type = old.type
            if old.has_name and not new.has_name:
                new.set_name(old.name)
            old.replace_all_uses_with(new)
        self.report.decomposed[node.kind] += 1
        self.report.changed = True
        node.destroy()

    # -- arguments
    def _argument(self, value: Value, inputs: list[Value]) -> Any:
        """What `record` is to be told of an argument; tensors and numbers are added to the inputs."""
        known = self.facts.get(value, value.type)
        if is_constant(value) and not isinstance(constant_of(value), torch.Tensor):
            return constant_of(value)
        if value.node.kind == "prim::ListConstruct":
            return [self._argument(v, inputs) for v in value.node.inputs]
        if is_constant(value):
            known = TensorType.from_tensor(constant_of(value))
        if isinstance(known, TensorType):
            inputs.append(value)
            return _complete(known)
        if value.type is T.INT:
            inputs.append(value)
            return Number(self._example(value))
        raise Undecomposable(f"its argument of type {value.type} is not known")

    def _example(self, value: Value) -> int:
        """What an int is for the example."""
        node = value.node
        if is_constant(value):
            return int(constant_of(value))
        known = self.facts.get(node.inputs[0]) if node.inputs else None
        if node.kind == "aten::size" and isinstance(known, TensorType) and known.sizes is not None:
            size: int | None = known.sizes[constant_of(node.inputs[1])] if is_constant(node.inputs[1]) else None
            if size is not None:
                return size
        if node.op is not None and node.op.fn is not None and all(v.type is T.INT for v in node.inputs):
            return int(node.op.fn(*map(self._example, node.inputs)))
        raise Undecomposable("an int among its arguments is not known")


def _is_complete(t: Type | None) -> bool:
    if not isinstance(t, TensorType):
        return t is not None
    return t.dtype is not None and t.sizes is not None and None not in t.sizes


def _complete(t: TensorType) -> TensorType:
    if t.dtype is None or t.sizes is None:
        raise Undecomposable("rank and dtype of an argument are not known: give example inputs")
    return TensorType.of(t.dtype, [_SOME_SIZE if n is None else n for n in t.sizes], None, t.device)


_SOME_SIZE = 4
"""What a size that is not known is taken to be: what is recorded does not depend on it, or says that it does."""
