"""From a compiled function to the stages of its report."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

import torch

from jitlite.base.records import Record
from jitlite.base.source import SourceRange
from jitlite.executor.executor import Executor
from jitlite.executor.explain import OptimizedOnceMore, explain, optimized_once_more, sentence_of
from jitlite.executor.graph_runners import generated
from jitlite.executor.kernels import Kernels, KernelView
from jitlite.executor.observed_call import ObservedCall
from jitlite.executor.stages import ABOUT_STAGES
from jitlite.frontend.syntax.tree import Def
from jitlite.interpreter.disassemble import disassemble
from jitlite.interpreter.line_profiler import LineCost
from jitlite.ir.graph import Graph, Value
from jitlite.ir.types import TensorType, Type
from jitlite.operators.python_forms import CannotTranslate
from jitlite.passes.example_facts import facts_of
from jitlite.passes.registry import Lines, PassHook, PassRecord, lines_of, summary
from jitlite.report.content import CostRow, SourceLine, Sources, SourceView, Stage, Timing, shorten
from jitlite.report.diffs import side_by_side
from jitlite.report.drawing import draw

Compile = Callable[[Callable[[str, Graph], None], PassHook], object]
"""Compiles a function once more: says each step and the graph after it, with a hook around its passes."""

_MOST_OPERATORS = 3
"""Operators of a line that are named beside its time."""
FRONT, MIDDLE, BACK, ABOUT = "From source to graph", "Optimization", "What runs", "Why and how long"


class Subject(Record):
    """What is reported on.

    Attributes:
        name: of the function.
        signature: its schema.
        tree: its abstract syntax, None where there is no source.
        compile: compiles it once more, None where there is no source.
        bound: an argument for each input of the graph, None where none were given.
        observed: what a call with these arguments did, None where there was none.
        module: the module of a method.
        kernels: what its tensor regions are, after the call where there are arguments.
        executor: its plans.
        index: the file of the page that lists this one among others, empty where there is none.
    """

    name: str
    signature: str
    tree: Def | None
    compile: Compile | None
    bound: Sequence[Any] | None
    observed: ObservedCall | None
    module: Any
    kernels: Kernels
    executor: Executor
    index: str = ""


class Gathered(Record, frozen=False):
    """Stages, what passes there were, and sources."""

    sources: Sources = field(default_factory=Sources)
    views: list[SourceView] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    optimized: OptimizedOnceMore | None = None

    def add(self, id: str, name: str, group: str, about: str, lines: list[SourceLine]) -> Stage:
        stage = Stage(f"stage-{id}", name, group, about, lines=lines)
        self.stages.append(stage)
        return stage

    def add_pass(self, record: PassRecord, group: str) -> None:
        """A pass: a part of its own if it changed something."""
        nodes = f"{record.nodes_before} → {record.nodes_after}"
        if not record.before or record.before == record.after:
            self.unchanged.append(record.name)
            self.timings.append(Timing(record.name, "", record.seconds, nodes))
            return
        stage = self._add_change(record.name, group, record.before, record.after, record.seconds)
        names = sentence_of(record.name, record.gone, record.new)
        stage.about, stage.purpose = names, summary(record.name)
        self.timings.append(Timing(record.name, stage.id, record.seconds, nodes))

    def add_step(self, name: str, before: Lines, after: Lines, kinds: list[Counter[str]], seconds: float) -> None:
        """A step of the front end, which is no pass."""
        nodes = " → ".join(str(k.total()) for k in kinds)
        if before == after:
            self.unchanged.append(name)
            self.timings.append(Timing(name, "", seconds, nodes))
            return
        stage = self._add_change(name, FRONT, before, after, seconds)
        stage.about = sentence_of(name, kinds[0] - kinds[1], kinds[1] - kinds[0])
        stage.purpose = ABOUT_STAGES.get(name, "")
        self.timings.append(Timing(name, stage.id, seconds, nodes))

    def _add_change(self, name: str, group: str, before: Lines, after: Lines, seconds: float) -> Stage:
        id = f"stage-{len(self.stages)}-{name.replace(' ', '-')}"
        rows = side_by_side(before, after, self.sources.line)
        stage = Stage(id, name, group, "", rows=rows, seconds=seconds, is_pass=True)
        self.stages.append(stage)
        return stage


def gather(subject: Subject) -> Gathered:
    """All stages of the function, in order."""
    found = Gathered()
    gather_into(subject, found)
    finish(found)
    return found


def gather_into(subject: Subject, found: Gathered) -> None:
    """Add all stages of the function, in order."""
    found.sources.place(None if subject.tree is None else subject.tree.range)
    _front(subject, found)
    graph = subject.executor.graph
    facts = _known(subject, graph)
    found.add("graph", "graph", FRONT, ABOUT_STAGES["graph"], found.sources.graph_lines(graph, facts))
    _middle(subject, found)
    _back(subject, found)
    _about(subject, found)


def finish(found: Gathered) -> None:
    """Add the sources that the stages came from, and leave out what is too much."""
    found.views = found.sources.views()
    for stage in found.stages:
        _put_beside_source(stage.costs, found.views)
    shorten(found.stages, found.views)


def _front(subject: Subject, found: Gathered) -> None:
    if subject.tree is not None:
        lines = [SourceLine(text) for text in str(subject.tree).splitlines()]
        found.add("tree", "tree", FRONT, ABOUT_STAGES["tree"], lines)
    if subject.compile is None:
        return
    hook = PassHook(count_kinds=True, keeps_lines=True)
    steps = _CompilerSteps(found, hook)
    subject.compile(steps.observe, hook)
    for record in hook.records:
        found.add_pass(record, FRONT)


class _CompilerSteps:
    """Looks at the graph after each step of the front end."""

    def __init__(self, found: Gathered, hook: PassHook) -> None:
        self.found = found
        self.hook = hook
        self.before: Lines = ()
        self.kinds: Counter[str] = Counter()
        self.since = time.perf_counter()

    def observe(self, name: str, graph: Graph) -> None:
        seconds = time.perf_counter() - self.since
        after = lines_of(graph)
        kinds = Counter(node.kind for node in graph.all_nodes())
        if name == "emitted":
            stage = self.found.add(name, name, FRONT, ABOUT_STAGES[name], self.found.sources.lines(after))
            stage.seconds = seconds
            self.found.timings.append(Timing(name, stage.id, seconds, str(kinds.total())))
        elif name != "graph":  # which the passes have made, and they are told of one by one
            self.found.add_step(name, self.before, after, [self.kinds, kinds], seconds)
        self.before, self.kinds, self.since = after, kinds, time.perf_counter()


def _middle(subject: Subject, found: Gathered) -> None:
    found.optimized = optimized_once_more(subject.executor, PassHook(count_kinds=True, keeps_lines=True))
    for record in found.optimized.records:
        found.add_pass(record, MIDDLE)
    graph = subject.executor.optimized_graph
    seen = None if subject.observed is None else subject.observed.seen_in(graph)
    facts = _known(subject, graph) if seen is None else seen
    lines = found.sources.graph_lines(graph, facts)
    found.add("opt", "opt", MIDDLE, ABOUT_STAGES["optimized"], lines)
    drawings = draw(graph, found.sources, facts)
    if drawings:
        about = (
            "The optimized graph: values flow downward. A box with a coloured border opens: what a call of a submodule "
            "became, or a block. Constants and attributes are left out."
        )
        found.stages.append(Stage("stage-drawing", "drawing", MIDDLE, about, drawings=drawings))


def _known(subject: Subject, graph: Graph) -> dict[Value, str]:
    """What follows from the arguments, without a call, of tensors."""
    if subject.bound is None:
        return {}
    given = subject.bound if subject.module is None else subject.bound[1:]
    inputs = {
        value: TensorType.from_tensor(argument)
        for value, argument in zip(graph.inputs, subject.bound, strict=True)
        if isinstance(argument, torch.Tensor)
    }
    types: dict[Value, Type] = {**facts_of(graph, given, subject.module), **inputs}
    return {v: str(t) for v, t in types.items() if isinstance(t, TensorType) and str(t) != "Tensor"}


def _back(subject: Subject, found: Gathered) -> None:
    sources, graph = found.sources, subject.executor.optimized_graph
    regions = subject.kernels.graph
    if any(node.kind == "prim::Region" for node in regions.all_nodes()):
        about = "The optimized graph as it is run: what machine code may do is a region."
        found.add("regions", "regions", BACK, about, sources.graph_lines(regions))
    code = subject.executor.code
    places = [None, *(place.range for place in code.places)]
    listing = zip(disassemble(code).splitlines(), places, strict=True)
    about = ABOUT_STAGES["bytecode"]
    found.add("code", "code", BACK, about, [sources.line(_bare(text), range) for text, range in listing])
    try:
        written = generated(graph, subject.executor.name).lines
    except CannotTranslate as error:  # the stack machine runs it then
        written = [(str(error), None)]
    found.add("python", "python", BACK, ABOUT_STAGES["python"], sources.lines(written))
    _kernels(subject, found)


def _kernels(subject: Subject, found: Gathered) -> None:
    for name, about, most, view in _KERNEL_VIEWS:
        shown = subject.kernels[:most]
        lines: list[SourceLine] = []
        for kernel in shown:
            lines.append(SourceLine(f"# {found.sources.with_short_names(kernel.place)}, for {kernel.facts}"))
            lines += [found.sources.line_of(text, places) for text, places in view(kernel)]
        if len(shown) < len(subject.kernels):
            about += f" These are {len(shown)} of {len(subject.kernels)}; `fn.kernels` has all of them."
        if lines:
            found.add(name, name, BACK, about, lines)


_KERNEL_VIEWS: tuple[tuple[str, str, int, Callable[[KernelView], list[tuple[str, Sequence[SourceRange]]]]], ...] = (
    ("kernels", "Tensor regions as loops.", 12, lambda kernel: kernel.placed_loops),
    ("llvm", "The same in LLVM's language, before LLVM's passes.", 4, lambda kernel: kernel.placed_llvm),
    ("asm", "The same in the language of this processor, after them.", 2, lambda kernel: kernel.placed_asm),
)
"""What of kernels is shown, and of how many: the last two are long, and assembly takes a third of a second."""


def _bare(text: str) -> str:
    """A line of a listing of bytecode without the place behind it."""
    return text.rpartition("  # ")[0].rstrip() or text


def _about(subject: Subject, found: Gathered) -> None:
    about = "What was done, what was not and why."
    sections = {
        title: [found.sources.with_short_names(sentence) for sentence in sentences]
        for title, sentences in _sentences(subject, found.optimized)
    }
    found.stages.append(Stage("stage-explain", "explain", ABOUT, about, sections=sections))
    if subject.observed is not None and subject.observed.lines:
        found.stages.append(_line_costs(subject.observed, found.sources))
    milliseconds = 1e3 * sum(t.seconds for t in found.timings)
    about = f"Steps and passes, {milliseconds:.1f} ms in all. Each bar is a share of the longest one."
    found.stages.append(Stage("stage-times", "times", ABOUT, about, timings=found.timings))


def _line_costs(observed: ObservedCall, sources: Sources) -> Stage:
    """The lines that ran, those that took longest first."""
    total = observed.seconds or 1.0
    rows = [_row(cost, total, sources) for cost in observed.lines]
    about = (
        f"The lines of this one call, {1e3 * observed.seconds:.2f} ms on the stack machine, where each operator is a "
        "step and nothing is fused. Each bar is a share of the call. fn.profile() measures with machine code."
    )
    longest = sorted(rows, key=lambda row: -row.own_seconds)
    return Stage("stage-lines", "lines", ABOUT, about, costs=longest)


def _put_beside_source(costs: Sequence[CostRow], views: Sequence[SourceView]) -> None:
    by_prefix = {view.prefix: view for view in views}
    for row in costs:
        view = by_prefix.get(row.line.place.rpartition("-")[0])
        if view is not None:
            view.costs[row.line.number] = row


def _row(cost: LineCost, total: float, sources: Sources) -> CostRow:
    source, number = cost.key.source, cost.key.line
    place = sources.place_of_line(source, number)
    operators = ", ".join(f"{name} {count}" for name, count in cost.operators.most_common(_MOST_OPERATORS))
    more = len(cost.operators) - _MOST_OPERATORS
    return CostRow(
        SourceLine(cost.text.strip(), place, number),
        f"{os.path.basename(cost.filename)}:{number}",
        cost.count,
        cost.seconds,
        cost.own_seconds,
        cost.own_seconds / total,
        f"{operators} and {more} more" if more > 0 else operators,
    )


def _sentences(subject: Subject, optimized: OptimizedOnceMore | None) -> Iterator[tuple[str, list[str]]]:
    if subject.bound is not None:
        yield from explain(subject.executor, subject.bound, optimized).sections.items()
    elif subject.kernels.why:
        yield "Machine code for tensors", [subject.kernels.why]
    if subject.bound is None:
        yield "Arguments", ["none were given: with arguments, the page tells of shapes, kernels and calls"]
