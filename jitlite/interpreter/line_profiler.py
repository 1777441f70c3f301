"""Which lines of a script take how long: looks on while the stack machine runs, and keeps accounts of lines.

The time between two instructions is that of the first one; what the profiler takes itself is left out. A line's time
has the time of the calls in it, its own time has not. A region that machine code runs is one entry for all its lines,
as nothing is known of what is within.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch.autograd.profiler import record_function

from jitlite.base.source import Source, SourceRange
from jitlite.interpreter.debugging.moments import Moment, Tracker
from jitlite.interpreter.frames import CallFrame, Machine
from jitlite.interpreter.watching import Watcher
from jitlite.ir.graph import Node

_MOST_EVENTS = 100_000
"""Events kept for a trace; a viewer takes no more, and memory has an end."""
_REGION = "prim::Region"


class LineKey(NamedTuple):
    """Lines that are accounted for as one: a line, or those of a region of machine code."""

    source: Source
    line: int
    last_line: int
    is_region: bool = False


@dataclass
class LineCost:
    """What a line has cost.

    Attributes:
        key: which lines.
        function: in which function they are.
        count: how often the line began; of machine code, how often it ran.
        seconds: with the calls in it.
        own_seconds: without them.
        operators: how often each operator was called.
        allocated: bytes of the tensors that its operators have made, views not counted.
        bailouts: of machine code: how often it could not do it, so that Python ran the lines.
    """

    key: LineKey
    function: str
    count: int = 0
    seconds: float = 0.0
    own_seconds: float = 0.0
    operators: Counter[str] = field(default_factory=Counter)
    allocated: int = 0
    bailouts: int = 0

    @property
    def text(self) -> str:
        """The line in the source."""
        return self.key.source.line_text(self.key.line - self.key.source.first_line)

    @property
    def filename(self) -> str:
        return self.key.source.filename or "<string>"


class LineEvent(NamedTuple):
    """A stretch of time in which one line ran, for a trace."""

    cost: LineCost
    start: float
    end: float


@dataclass
class _ProfiledRun:
    """A run of the machine: what is running in it, and the memory that the inputs of its last operator are in."""

    running: LineCost | None = None
    chain: tuple[LineCost, ...] = ()
    began: float = 0.0
    results: int = 0
    inputs: frozenset[int] = frozenset()
    range: ExitStack = field(default_factory=ExitStack)


class LineProfiler(Watcher):
    """Accounts for lines.

    Attributes:
        costs: by lines, in the order in which they ran first.
        events: what ran when, for a trace; the first hundred thousand.
        total: the time of all runs.
    """

    def __init__(self) -> None:
        self.costs: dict[LineKey, LineCost] = {}
        self.events: list[LineEvent] = []
        self.total = 0.0
        self._tracker = Tracker()
        self._machines: list[Machine] = []
        self._runs: list[_ProfiledRun] = []
        self._regions: dict[Node, LineKey] = {}
        self._last: dict[CallFrame, LineKey] = {}
        self._since = 0.0

    # -- what the machine tells

    def begin(self, machine: Machine) -> None:
        self._charge()
        self._machines.append(machine)
        self._runs.append(_ProfiledRun())
        self._since = time.perf_counter()

    def end(self, machine: Machine) -> None:
        self._charge()
        self._switch(self._runs[-1], None)
        self._runs.pop()
        self._machines.remove(machine)
        self._tracker.forget(machine)
        self._last = {frame: key for frame, key in self._last.items() if frame.machine is not machine}
        self._since = time.perf_counter()

    def before(self, frame: CallFrame) -> None:
        self._charge()
        run = self._runs[-1]
        self._account_for_results(run, frame)
        moment = self._tracker.moment(frame)
        key = self._key(frame, moment)
        if key is not None:
            cost = self._cost(key, moment)
            is_begun = moment.opcode == "PY_CALL" if key.is_region else moment.is_line
            cost.count += is_begun
            if cost is not run.running or is_begun:
                self._switch(run, cost)
                run.chain = (cost, *self._callers(frame, moment))
            self._note_operator(run, cost, frame, moment)
        self._since = time.perf_counter()

    # -- accounts

    def _charge(self) -> None:
        """Put the time since the last look down to what ran."""
        if not self._runs:
            return
        spent = time.perf_counter() - self._since
        self.total += spent
        chains = [cost for run in self._runs for cost in run.chain]
        for cost in {id(cost): cost for cost in chains}.values():
            cost.seconds += spent
        running = self._runs[-1].running
        if running is not None:
            running.own_seconds += spent

    def _switch(self, run: _ProfiledRun, cost: LineCost | None) -> None:
        """Let another line be the one that runs; a profiler of torch sees it as a range."""
        now = time.perf_counter()
        if run.running is not None and len(self.events) < _MOST_EVENTS:
            self.events.append(LineEvent(run.running, run.began, now))
        run.range.close()
        run.running, run.began, run.chain = cost, now, ()
        if cost is not None:
            run.range.enter_context(record_function(f"{cost.filename}:{cost.key.line} {cost.function}"))

    def _key(self, frame: CallFrame, moment: Moment) -> LineKey | None:
        node = frame.code.nodes[frame.pc] if frame.code.nodes else None
        if node is not None and node.kind == _REGION and moment.range is not None:
            if node not in self._regions:
                self._regions[node] = _lines_of(node, moment.range)
            return self._regions[node]
        return self._line_key(frame, moment)

    def _line_key(self, frame: CallFrame, moment: Moment) -> LineKey | None:
        if moment.range is None:
            return self._last.get(frame)
        key = LineKey(moment.range.source, moment.range.line, moment.range.line)
        self._last[frame] = key
        return key

    def _cost(self, key: LineKey, moment: Moment) -> LineCost:
        found = self.costs.get(key)
        if found is None:
            found = self.costs[key] = LineCost(key, moment.name)
        return found

    def _callers(self, frame: CallFrame, moment: Moment) -> Iterator[LineCost]:
        """The lines whose calls are running, those of inlined calls among them."""
        for name, called_at in _calls(moment.path, frame.code.name):
            if called_at is not None:
                yield self._cost_of_call(called_at, name)
        for outer in frame.machine.frames[:-1]:
            place = outer.place
            for name, called_at in (*_calls(place.call_stack, outer.code.name), (outer.code.name, place.range)):
                if called_at is not None:
                    yield self._cost_of_call(called_at, name)

    def _cost_of_call(self, called_at: SourceRange, function: str) -> LineCost:
        key = LineKey(called_at.source, called_at.line, called_at.line)
        return self.costs.setdefault(key, LineCost(key, function))

    # -- operators and memory

    def _note_operator(self, run: _ProfiledRun, cost: LineCost, frame: CallFrame, moment: Moment) -> None:
        code, pc = frame.code, frame.pc
        opcode, x, n = code.instructions[pc]
        if opcode in ("OP", "OPN"):
            operator = code.operators[x]
            cost.operators[operator.name] += 1
            inputs, run.results = n if opcode == "OPN" else operator.inputs, operator.outputs
        elif opcode == "PY_CALL":
            inputs, run.results = n, 1
        else:
            return
        run.inputs = frozenset(_memory(frame.stack[len(frame.stack) - inputs :]))

    def _account_for_results(self, run: _ProfiledRun, frame: CallFrame) -> None:
        """Count the memory of what the last operator has made: what is not in the memory of its inputs."""
        if run.results and run.running is not None:
            made = _memory(frame.stack[len(frame.stack) - run.results :])
            run.running.allocated += sum(size for where, size in made.items() if where not in run.inputs)
            run.running.bailouts += run.running.key.is_region and frame.stack[-1] is None
        run.results = 0


def _calls(path: tuple[tuple[str, SourceRange | None], ...], name: str) -> Iterator[tuple[str, SourceRange | None]]:
    """The function that each inlined call stands in, and where."""
    for callee, called_at in path:
        yield name, called_at
        name = callee


def _lines_of(region: Node, place: SourceRange) -> LineKey:
    """The lines that the nodes of a region come from, as far as they are in one source."""
    lines = [place.line]
    todo = list(region.blocks)
    while todo:
        for node in todo.pop().nodes:
            todo += node.blocks
            if node.range is not None and node.range.source is place.source and node.kind != "prim::Constant":
                lines.append(node.range.line)
    return LineKey(place.source, min(lines), max(lines), is_region=True)


def _memory(values: list[object]) -> dict[int, int]:
    """Where the tensors among some values are in memory, and how many bytes are there."""
    found: dict[int, int] = {}
    for value in values:
        for item in value if isinstance(value, list | tuple) else (value,):
            if type(item) in (torch.Tensor, torch.nn.Parameter) and item.layout is torch.strided:
                storage = item.untyped_storage()
                found[storage.data_ptr()] = storage.nbytes()
    return found
