"""How often each line of a call begins, counted as Python's own tracing does.

The optimized graph does not know: it has moved, merged and dropped what the lines say. So the call is made once more,
as it is written, where nobody would notice that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jitlite.analysis.repeatable import why_not_repeatable
from jitlite.executor.executor import Executor, debug_code_for
from jitlite.interpreter import vm
from jitlite.interpreter.debugging.moments import Tracker
from jitlite.interpreter.frames import CallFrame, Machine
from jitlite.interpreter.line_profiler import LineCost, LineKey
from jitlite.interpreter.watching import Watcher, watched_by

_MOST_STEPS = 1_000_000
"""Instructions of a call that is counted; the machine takes about a second for them."""


class _LineCounter(Watcher):
    """Counts lines that begin.

    Attributes:
        counts: by lines.
        functions: the names of the functions that the lines are in.
    """

    def __init__(self) -> None:
        self.counts: Counter[LineKey] = Counter()
        self.functions: dict[LineKey, str] = {}
        self._tracker = Tracker()
        self._steps = 0

    def before(self, frame: CallFrame) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise vm.StepLimit("the call has more instructions than are counted")
        moment = self._tracker.moment(frame)
        if moment.is_line and moment.range is not None:
            key = LineKey(moment.range.source, moment.range.line, moment.range.line)
            self.counts[key] += 1
            self.functions.setdefault(key, moment.name)

    def end(self, machine: Machine) -> None:
        self._tracker.forget(machine)


def count_lines(executor: Executor, bound: Sequence[object], costs: dict[LineKey, LineCost]) -> str:
    """Give lines their counts as Python has them, by making the call once more; says what the counts are of.

    Args:
        bound: what the call was made with.
        costs: of lines; the counts of those of machine code stay.
    """
    function = None if executor.function is None else executor.function()
    if function is None or function.as_written is None:
        return ""
    reason = why_not_repeatable(executor.general.graph)
    counter = _LineCounter()
    if reason is None:
        try:
            with watched_by(counter):
                vm.run(executor.debug_code, list(bound), debug_code_for)
        except vm.StepLimit:
            reason = "it is a long one"
    if reason is not None:
        return f" Counts are those of the optimized graph: the call was not made again to count, as {reason}."
    for key, cost in costs.items():
        cost.count = cost.count if key.is_region else counter.counts[key]
    for key, name in counter.functions.items():
        if key not in costs:
            costs[key] = LineCost(key, name, counter.counts[key])
    return " Counts are those of the program as it is written, which ran once more."
