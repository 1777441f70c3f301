"""One call with a look at everything: the values that each step gave, and the time that each line took.

The call runs on the stack machine, so each operator is an instruction of its own. Machine code is made for the regions
that the call meets, and then the nodes of these regions run one by one, since machine code does not tell what happens
within it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field

import torch

from jitlite.analysis.effects import effect_of
from jitlite.base.records import Record
from jitlite.executor.executor import Executor, executor_of
from jitlite.executor.implementations import with_regions
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.code import Code
from jitlite.interpreter.debugging.moments import Moment
from jitlite.interpreter.frames import CallFrame
from jitlite.interpreter.line_profiler import LineCost, LineKey, LineProfiler
from jitlite.interpreter.value_words import in_words
from jitlite.interpreter.watching import watched_by
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.ops import Effect
from jitlite.ir.regions import Implementation, PlanContext, Region, Runner, regions_in
from jitlite.ir.unit import Function
from jitlite.kernels.backend import KernelState
from jitlite.native.code import NotNative

_REGION = "prim::Region"
_RAISES = "prim::RaiseException"
_REPEATABLE = (Effect.PURE, Effect.STATE)
"""Effects of what may be done once by machine code and then again."""
_MOST_KINDS = 3
"""Different things seen of one value that are told, such as the shapes of a tensor in a loop."""


class ObservedCall(Record):
    """What a call did.

    Attributes:
        seen: what the values of the optimized graph were, in words; those that were never computed are missing.
        lines: what each line has cost, in the order of files and lines.
        seconds: that the call took, without what the observer itself took and without making machine code.
    """

    seen: dict[Value, str] = field(default_factory=dict)
    lines: list[LineCost] = field(default_factory=list)
    seconds: float = 0.0

    def seen_in(self, graph: Graph) -> dict[Value, str] | None:
        """What was seen, by the values of this graph; None where the call ran another one."""
        found = {value: words for value, words in self.seen.items() if value.node.graph is graph}
        return found or None


def observe(executor: Executor, bound: Sequence[object]) -> ObservedCall:
    """Call a function once, and note what each of its steps gave.

    Args:
        executor: of the function.
        bound: an argument for each input of its graph.

    Raises:
        Exception: whatever the call raises.
    """
    executor = executor.chosen(bound)
    graph, values = executor.general.graph.copy_with_map()
    names = _name_values(values)
    watcher = _Observer()
    code = _observed_code(executor, graph, watcher)
    others: dict[Function, Code] = {}

    def code_for(function: Function) -> Code:
        if function not in others:
            callee = executor_of(function)
            others[function] = lower(callee.general.graph, callee.name, callee.objects, keep_nodes=True)
        return others[function]

    watcher.code = code
    with watched_by(watcher):
        vm.run(code, list(bound), code_for)
    ran = [cost for cost in watcher.costs.values() if cost.count]
    return ObservedCall(
        {names[name]: _joined(found) for name, found in watcher.seen.items() if name in names},
        sorted(ran, key=lambda cost: (cost.filename, cost.key.line)),
        watcher.total,
    )


def _joined(kinds: Iterable[str]) -> str:
    """What was seen of a value, in the order in which it was; a semicolon ends what is told of a value."""
    found = [kind.replace("; ", ", ") for kind in kinds]
    return ", then ".join([*found[:_MOST_KINDS], *(["others"] if len(found) > _MOST_KINDS else [])])


def _name_values(values: Mapping[Value, Value]) -> dict[str, Value]:
    """Name the values of a copy, so that they are found again in copies of it; gives those they are copies of."""
    found: dict[str, Value] = {}
    for number, (ours, copied) in enumerate(values.items()):
        name = f"observed_{number}"
        copied.set_name(name)
        found[name] = ours
    return found


def _observed_code(executor: Executor, graph: Graph, watcher: _Observer) -> Code:
    """The bytecode of the general plan, in which the result of each node is stored."""
    plan = executor.general
    formed = with_regions(graph, PlanContext(executor.name, "python", _runs_nothing))
    regions = list(regions_in(formed.block))
    if plan.code is not None or [r.kind for r in regions] != [p.kind for p in plan.regions]:
        return lower(graph, executor.name, executor.objects, keep_nodes=True, inline=False)
    made = [_observed(r, p.implementation, watcher) for r, p in zip(regions, plan.regions, strict=True)]
    return lower(formed, executor.name, executor.objects, made, keep_nodes=True, inline=False)


def _runs_nothing(*arguments: object) -> Runner:
    raise AssertionError("regions are formed only")


def _observed(region: Region, made: Implementation | None, watcher: _Observer) -> Implementation | None:
    """What is called before the nodes of a region run, or instead of them."""
    if made is None:
        return None
    may_run_twice = all(effect_of(node) in _REPEATABLE or node.kind == _RAISES for node in region.graph().all_nodes())
    return _Rehearsed(made, may_run_twice, watcher)


class _Rehearsed(Implementation):
    """Has machine code made, and the nodes of the region run after it, with who looks on.

    What may not be done twice is only made ready. Where that is not possible, machine code runs alone.
    """

    def __init__(self, inner: Implementation, may_run_twice: bool, watcher: _Observer) -> None:
        super().__init__(self._try, inner.status)
        self._inner = inner
        self._may_run_twice = may_run_twice
        self._watcher = watcher

    def _try(self, *inputs: object) -> object:
        result = None
        if self._may_run_twice:
            self._inner.attempt(*inputs)
        elif isinstance(self._inner, KernelState) and not _records_gradients(inputs):
            with suppress(NotNative):
                self._inner.prepare(inputs)
        else:
            result = self._inner.attempt(*inputs)
        self._watcher.leave_out_time()
        return result


def _records_gradients(inputs: Sequence[object]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in inputs)


class _Observer(LineProfiler):
    """Accounts for lines, and notes what is stored into registers: each result of a node, argument and loop variable.

    Attributes:
        code: the code whose values are noted.
        seen: what was seen of each value, by its name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.code: Code | None = None
        self.seen: dict[str, dict[str, None]] = {}

    def before(self, frame: CallFrame) -> None:
        super().before(frame)
        if frame.code is self.code:
            self._note(frame)
            self.leave_out_time()

    def leave_out_time(self) -> None:
        """Count no time from the last instruction until now."""
        self._since = time.perf_counter()

    def _note(self, frame: CallFrame) -> None:
        code, pc = frame.code, frame.pc
        opcode = code.instructions[pc].opcode
        node = code.nodes[pc]
        if opcode not in ("STORE", "STOREN") or (pc and _is_attempt(code, pc - 1, node)):
            return
        outputs = node.outputs
        for value, found in zip(outputs, frame.stack[len(frame.stack) - len(outputs) :], strict=False):
            kinds = self.seen.setdefault(value.name, {})
            if len(kinds) <= _MOST_KINDS and not isinstance(found, torch.nn.Module):
                kinds.setdefault(in_words(found))

    def _key(self, frame: CallFrame, moment: Moment) -> LineKey | None:
        """The line; a region is none of its own, for its nodes run."""
        return self._line_key(frame, moment)


def _is_attempt(code: Code, pc: int, node: Node) -> bool:
    return node.kind == _REGION and code.instructions[pc].opcode == "PY_CALL"
