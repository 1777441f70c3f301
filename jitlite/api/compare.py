"""`compare`: how far what an engine computes is from what jitlite computes, for one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial

import torch

from jitlite.api.engine_arguments import check_number
from jitlite.api.engine_variants import callable_of, groups_of
from jitlite.api.optimize import OptimizedFunction, OptimizedModule
from jitlite.base.keywords import checks_keywords
from jitlite.base.records import Record
from jitlite.engines.engine import Engine, Operand
from jitlite.engines.group_cache import Failure, compile_for, types_of
from jitlite.engines.running import ObservedGroup, with_weights_as_inputs
from jitlite.ir.graph import Graph, Value
from jitlite.objects.function import function_of_graph
from jitlite.passes.cluster import is_display, may_cross


class ComparedValue(Record, frozen=False):
    """How far the results of a group, or of a node in it, are from those of jitlite.

    Attributes:
        group: its name, with the line where it begins.
        node: the kind of the node and its line; "" for a whole group.
        absolute: the largest difference of two elements; infinite where only one is a nan, or shapes or dtypes differ.
        relative: the largest difference divided by what jitlite has there, of elements that are not 0.
        exceeds: is an element beyond the tolerance?
        failure: why the engine gave nothing to compare.
    """

    group: str
    node: str
    absolute: float = 0.0
    relative: float = 0.0
    exceeds: bool = False
    failure: str | None = None

    @property
    def place(self) -> str:
        """The node, or the group where it is about all of it."""
        return f"{self.node} in {self.group}" if self.node else self.group


class Comparison(Record):
    """What `compare` has found; its `repr` is a table.

    Attributes:
        engine: its name and version.
        tolerance: relative and absolute, as `torch.testing.assert_close` takes them.
        rows: in the order of the program.
    """

    engine: str
    tolerance: tuple[float, float]
    rows: list[ComparedValue] = field(default_factory=list)

    @property
    def first_beyond(self) -> ComparedValue | None:
        """Where the tolerance is first passed."""
        return next((row for row in self.rows if row.exceeds), None)

    def __repr__(self) -> str:
        relative, absolute = self.tolerance
        lines = [f"engine {self.engine} beside jitlite, within {absolute:g} + {relative:g} of the value"]
        width = max((len(row.place) for row in self.rows), default=0)
        lines += [f"  {'':{width}}   absolute   relative"] if self.rows else ["  there are no groups"]
        lines += [f"  {row.place:{width}} {_figures(row)}" for row in self.rows]
        first = self.first_beyond
        lines.append("all within" if first is None else f"first beyond: {first.place}")
        return "\n".join(lines)


def _figures(row: ComparedValue) -> str:
    if row.failure is not None:
        return f"  not compared: {row.failure}"
    return f"{row.absolute:10.3g} {row.relative:10.3g}{'  beyond' if row.exceeds else ''}"


@checks_keywords
def compare(
    fast: OptimizedModule | OptimizedFunction[..., object],
    *inputs: object,
    by: str = "group",
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> Comparison:
    """Run what `optimize` made with these inputs, each group by its engine and by jitlite, and compare.

    A group gets the inputs that jitlite computes, so that no group is blamed for another. The model runs once, by
    jitlite, with all its effects.

    Args:
        fast: what `optimize` gave.
        inputs: the arguments of the call.
        by: "group" compares what groups give. "node" compares what each node in them gives, too: the groups are
            compiled once more, with all these values as results.
        rtol, atol: a difference of up to `atol + rtol * abs(value)` is within the tolerance.

    Raises:
        TypeError: `fast` is something else, or a tolerance is no number.
        ValueError: `by` is something else.
        RuntimeError: the model runs as it was for such inputs; the text says why.
    """
    if not isinstance(fast, OptimizedModule | OptimizedFunction):
        raise TypeError(f"fast: expected what jitlite.optimize gives, got {type(fast).__name__}")
    check_number("rtol", rtol)
    check_number("atol", atol)
    if by not in ("group", "node"):
        raise ValueError(f"by is 'group' or 'node', not {by!r}")
    dispatcher = fast._dispatcher
    variant = dispatcher.prepare(inputs)
    if isinstance(variant, str):
        raise RuntimeError(f"there are no groups to compare, the model runs as it was: {variant}")
    engine = dispatcher.limits.engine
    found = Comparison(f"{engine.name} {engine.version}", (rtol, atol))
    graph = variant.graph.copy()
    for use, node in zip(variant.uses, groups_of(graph), strict=True):
        rows = _GroupComparison(use.name, engine, found, by == "node")
        node.attributes["engine"] = ObservedGroup(rows.observe)
    callable_of(variant.name, variant.owner, graph)(*inputs)
    return found


class _GroupComparison(Record, frozen=False):
    """The rows of one group, which may run several times."""

    group: str
    engine: Engine
    comparison: Comparison
    by_node: bool
    known: list[ComparedValue] = field(default_factory=list)

    def observe(self, body: Graph, inputs: Sequence[Operand]) -> None:
        """Compare for these inputs."""
        graph, weights = with_weights_as_inputs(body)
        values = list(_values_in(graph)) if self.by_node else list(graph.outputs)
        for i in reversed(range(len(graph.outputs))):
            graph.block.erase_output(i)
        for value in values:
            graph.add_output(value)
        names = [_name(value) if self.by_node else "" for value in values]
        rows = self._rows_for(names if self.by_node else [""])
        given = (*inputs, *weights)
        run = partial(_results, function_of_graph("group", graph.copy()))
        compiled = self._compiled(graph, given, run)
        if isinstance(compiled, Failure):
            for row in rows:
                row.failure = compiled.reason
            return
        expected, found = run(given), compiled(given)
        for row, ours, theirs in zip(rows if self.by_node else rows * len(values), expected, found, strict=True):
            self._note(row, ours, theirs)

    def _rows_for(self, names: Sequence[str]) -> list[ComparedValue]:
        if not self.known:
            self.known = [ComparedValue(self.group, name) for name in names]
            self.comparison.rows.extend(self.known)
        return self.known

    def _compiled(
        self, graph: Graph, given: Sequence[Operand], run: Callable[[Sequence[Operand]], Sequence[Operand]]
    ) -> Callable[[Sequence[Operand]], Sequence[Operand]] | Failure:
        if self.engine.runs_graphs:
            return run
        compiled = compile_for(self.engine, graph, types_of(self.engine, graph, given))
        if isinstance(compiled, Failure):
            return compiled
        try:
            compiled(given)
        except Exception as error:
            return Failure(f"{type(error).__name__}: {error}", False)
        return compiled

    def _note(self, row: ComparedValue, ours: Operand, theirs: Operand) -> None:
        absolute, relative, exceeds = _difference(ours, theirs, *self.comparison.tolerance)
        row.absolute, row.relative = max(row.absolute, absolute), max(row.relative, relative)
        row.exceeds = row.exceeds or exceeds


def _values_in(graph: Graph) -> Iterator[Value]:
    """What the nodes of a group give, in order, as far as it may be a result of a group."""
    for node in graph.nodes:
        if node.kind != "prim::Constant" and not is_display(node):
            yield from (v for v in node.outputs if may_cross(v.type) and (v.has_uses or v is node.outputs[0]))


def _name(value: Value) -> str:
    place = value.node.range
    return value.node.kind if place is None else f"{value.node.kind} ({place.location()})"


def _results(run: Callable[..., object], given: Sequence[Operand]) -> list[Operand]:
    found = run(*given)
    return list(found) if isinstance(found, tuple) else [found]  # type: ignore[list-item]


def _difference(ours: Operand, theirs: Operand, rtol: float, atol: float) -> tuple[float, float, bool]:
    """The largest differences, absolute and relative, and whether one is beyond the tolerance."""
    a, b = torch.as_tensor(ours), torch.as_tensor(theirs)
    if a.shape != b.shape or a.dtype != b.dtype:
        return _INF, _INF, True
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    a, b = a.detach().double(), b.detach().double()
    same = (a == b) | (a.isnan() & b.isnan())
    distance = (a - b).abs().nan_to_num(_INF, _INF).masked_fill(same, 0)
    relative = (distance / a.abs()).nan_to_num(_INF, _INF).masked_fill(same | (a == 0), 0)
    exceeds = bool((~same & ~(distance <= atol + rtol * a.abs().nan_to_num(posinf=0))).any())
    return _largest(distance), _largest(relative), exceeds


_INF = float("inf")


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
