"""What a call costs by lines, and what compiling costs by steps and passes.

Lines are measured on the stack machine, which runs the same optimized graph as ordinary calls: one operator is one
instruction, so that each has a line. What machine code runs in ordinary calls it runs here, too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from jitlite.base.whole_files import write_whole
from jitlite.executor.executor import Executor, executor_of, tier_calls
from jitlite.executor.implementations import implementations_of, with_regions
from jitlite.executor.line_counts import count_lines
from jitlite.executor.plans import Plan
from jitlite.executor.profile_text import table_of
from jitlite.executor.tiers import translated
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.code import Code
from jitlite.interpreter.line_profiler import LineCost, LineEvent, LineProfiler
from jitlite.interpreter.watching import watched_by
from jitlite.ir.graph import Graph
from jitlite.ir.regions import PlanContext, regions_in
from jitlite.ir.unit import Function
from jitlite.operators.python_forms import CannotTranslate
from jitlite.passes.pipelines import OPTIMIZE
from jitlite.passes.registry import PassHook

Compile = Callable[[Callable[[str, Graph], None], PassHook], object]
"""Compiles the function once more: calls the first argument after each step, and the second around each pass."""


@dataclass(frozen=True)
class StepTime:
    """How long a step of compiling took.

    Attributes:
        stage: what it belongs to: `front end`, `cleanup`, `optimization`, `tiers`.
        name: of the step or pass.
        seconds: in all its runs.
        runs: how often it ran.
    """

    stage: str
    name: str
    seconds: float
    runs: int = 1


@dataclass(frozen=True)
class LineProfile:
    """What a call has cost. Print it, or look at `lines`.

    Attributes:
        name: of the function.
        result: of the call.
        seconds: that it took, without what the profiler itself takes.
        lines: what each line has cost, in the order of files and lines.
        compiling: what compiling it costs, by steps.
        what_ran: what was measured, in a sentence or two.
        events: which line ran when.
    """

    name: str
    result: object
    seconds: float
    lines: list[LineCost]
    compiling: list[StepTime]
    what_ran: str
    events: list[LineEvent]

    def __str__(self) -> str:
        return table_of(self.name, self.seconds, self.lines, self.what_ran) + self._compiling_text()

    __repr__ = __str__

    def _compiling_text(self) -> str:
        total = sum(step.seconds for step in self.compiling)
        if not total:
            return ""
        longest = sorted(self.compiling, key=lambda step: -step.seconds)
        rows = [f"{1e3 * s.seconds:>9.3f}  {s.seconds / total:>6.1%}  {s.stage}: {s.name}" for s in longest[:12]]
        rest = len(longest) - 12
        more = [f"{'':>9}  {'':>6}  and {rest} shorter ones"] if rest > 0 else []
        head = f"\nCompiling, {1e3 * total:.1f} ms\n{'ms':>9}  {'share':>6}  step"
        return "\n".join([head, *rows, *more]) + "\n"

    def chrome_trace(self) -> dict[str, object]:
        """The events in the form that chrome://tracing and Perfetto read: lines on one track, compiling on another."""
        return {"displayTimeUnit": "ms", "traceEvents": [*self._line_events(), *self._compile_events()]}

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file.

        Raises:
            OSError: where it cannot be written.
        """
        write_whole(path, json.dumps(self.chrome_trace()))

    def _line_events(self) -> Iterator[dict[str, object]]:
        begin = min((event.start for event in self.events), default=0.0)
        for cost, start, end in self.events:
            yield {
                "name": cost.text.strip() or cost.function, "cat": "machine code" if cost.key.is_region else "line",
                "ph": "X", "ts": 1e6 * (start - begin), "dur": 1e6 * (end - start), "pid": 1, "tid": 1,
                "args": {"function": cost.function, "place": f"{cost.filename}:{cost.key.line}"},
            }  # fmt: skip

    def _compile_events(self) -> Iterator[dict[str, object]]:
        at = 0.0
        for step in self.compiling:
            yield {
                "name": step.name, "cat": step.stage, "ph": "X", "ts": 1e6 * at, "dur": 1e6 * step.seconds,
                "pid": 1, "tid": 2, "args": {"runs": step.runs},
            }  # fmt: skip
            at += step.seconds


def profile(executor: Executor, bound: Sequence[object], compile: Compile | None) -> LineProfile:
    """Run a call and measure its lines; then compile the function once more, and measure that.

    Args:
        bound: an argument for each input of the function's graph.
        compile: see `Compile`; None where there is no source.

    Raises:
        Exception: whatever the call raises.
    """
    executor = executor.chosen(bound)
    code, what_ran = _profiled_code(executor)
    watcher = LineProfiler()
    codes: dict[Function, Code] = {}

    def code_for(function: Function) -> Code:
        if function not in codes:
            codes[function] = _profiled_code(executor_of(function))[0]
        return codes[function]

    with watched_by(watcher):
        result = vm.run(code, list(bound), code_for)
    what_ran += count_lines(executor, bound, watcher.costs)
    ran = [cost for cost in watcher.costs.values() if cost.seconds or cost.count]
    lines = sorted(ran, key=lambda cost: (cost.filename, cost.key.line, -cost.key.last_line))
    return LineProfile(
        executor.name, result, watcher.total, lines, compile_times(executor, compile), what_ran, watcher.events
    )


def _profiled_code(executor: Executor) -> tuple[Code, str]:
    """The bytecode of the general plan with what runs its regions, and what to say of it."""
    general = executor.general
    said = (
        "Measured on the stack machine, where each operator has a line; it runs the same optimized graph as ordinary "
        "calls do, and takes longer between operators."
    )
    formed = with_regions(general.graph, PlanContext(executor.name, "python", _runs_nothing, frozenset()))
    if general.code is not None or not _fits(general, formed):
        return lower(general.graph, executor.name, executor.objects, keep_nodes=True), said
    regions = implementations_of(general.regions)
    code = lower(formed, executor.name, executor.objects, regions, keep_nodes=True)
    compiled = sum(made is not None and made.is_compiled for made in regions)
    if compiled:
        said += f" {compiled} region(s) are machine code, here as there: each is one entry for all its lines."
    return code, said


def _fits(general: Plan, formed: Graph) -> bool:
    """Are the regions of the graph those of the plan?"""
    found = [region.kind for region in regions_in(formed.block)]
    return bool(found) and found == [region.kind for region in general.regions]


def _runs_nothing(*arguments: object) -> Callable[..., object]:
    raise AssertionError("regions are formed only")


# -- compiling


def compile_times(executor: Executor, compile: Compile | None) -> list[StepTime]:
    """What compiling costs, step by step, measured by doing it once more."""
    steps = [] if compile is None else _front_end_times(compile)
    graph, hook = executor.graph.copy(), PassHook()
    OPTIMIZE(graph, hook)
    steps += _pass_times("optimization", hook)
    since = time.perf_counter()
    with suppress(CannotTranslate):
        translated(graph, executor.name, executor.objects, tier_calls())
        steps.append(StepTime("tiers", "generated Python", time.perf_counter() - since))
    since = time.perf_counter()
    lower(graph, executor.name, executor.objects)
    return [*steps, StepTime("tiers", "bytecode", time.perf_counter() - since)]


def _front_end_times(compile: Compile) -> list[StepTime]:
    steps: list[StepTime] = []
    hook = PassHook()
    since = time.perf_counter()

    def observe(name: str, graph: Graph) -> None:
        nonlocal since
        now = time.perf_counter()
        if name != "graph":  # the passes tell of the rest themselves
            steps.append(StepTime("front end", name, now - since))
        since = time.perf_counter()

    compile(observe, hook)
    return [*steps, *_pass_times("cleanup", hook)]


def _pass_times(stage: str, hook: PassHook) -> list[StepTime]:
    """One entry for each pass, however often it ran."""
    found: dict[str, StepTime] = {}
    for record in hook.records:
        before = found.get(record.name, StepTime(stage, record.name, 0.0, 0))
        found[record.name] = StepTime(stage, record.name, before.seconds + record.seconds, before.runs + 1)
    return list(found.values())
