"""What the tensor regions of a function have become, to look at: `fn.kernels`.

kernels = fn.kernels.compile(x)
print(kernels.graph)  # the optimized graph with its regions
print(kernels[0].loops)  # the kernel as loops, one line a statement
print(kernels[0].llvm)  # the same in LLVM's language
print(kernels[0].asm)  # and in the processor's
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar, overload

import torch

from jitlite.base import options
from jitlite.base.shown_paths import shown_location
from jitlite.executor.executor import Executor
from jitlite.executor.implementations import with_regions
from jitlite.executor.observed_call import ObservedCall, observe
from jitlite.executor.plans import RegionPlan
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.regions import PlanContext, Runner
from jitlite.kernels.backend import KIND, KernelPart, KernelState, form_tensor_regions
from jitlite.kernels.compiled import CompiledKernel
from jitlite.kernels.facts import text_of_facts
from jitlite.kernels.placed_text import PlacedLine, assembly_lines, llvm_lines, loop_lines
from jitlite.kernels.printing import text_of
from jitlite.kernels.table import VIEWS, is_tensor_node

_Result = TypeVar("_Result")
Binder = Callable[[Sequence[object], dict[str, object]], Sequence[object]]
"""Gives an argument for each input of a graph."""


class KernelView:
    """One kernel. It prints as loops.

    Attributes:
        place: where in the script its region begins.
        facts: what arguments of the region it is for.
        runs: how often it was done.
        bailouts: how often it gave up, so that Python ran the region.
        misses: how often it was asked about arguments that it is not for.
        loops: what it computes, as loops: see `jitlite.kernels.printing`.
        llvm: the module in LLVM's language, before LLVM's passes.
        asm: the module in the language of this processor, after them.
    """

    def __init__(self, place: str, state: KernelState, compiled: CompiledKernel) -> None:
        self.place = place
        self.facts = text_of_facts(compiled.facts, state.region.inputs)
        self._compiled = compiled

    @property
    def runs(self) -> int:
        return self._compiled.runs

    @property
    def bailouts(self) -> int:
        return self._compiled.bailouts

    @property
    def misses(self) -> int:
        return self._compiled.misses

    @property
    def loops(self) -> str:
        return text_of(self._compiled.kernel)

    @property
    def llvm(self) -> str:
        return self._compiled.text

    @property
    def asm(self) -> str:
        return self._compiled.assembly

    @property
    def placed_loops(self) -> list[PlacedLine]:
        """The lines of `loops`, each with the places in the source that it comes from."""
        return loop_lines(self._compiled.kernel)

    @property
    def placed_llvm(self) -> list[PlacedLine]:
        """The same of `llvm`."""
        return llvm_lines(self._compiled.kernel, self._compiled.may_be_unset)

    @property
    def placed_asm(self) -> list[PlacedLine]:
        """The same of `asm`."""
        return assembly_lines(self._compiled.kernel, self._compiled.may_be_unset)

    def __str__(self) -> str:
        return f"# {self.place}, for {self.facts}\n{self.loops}"

    __repr__ = __str__


class Kernels(Sequence[KernelView]):
    """The kernels of a function, those of its general plan first.

    Attributes:
        why: why there are none, as a sentence; empty where there are some.
    """

    def __init__(self, executor: Executor, bind: Binder) -> None:
        self._executor = executor
        self._bind = bind
        self._found = [
            KernelView(f"{plan.place}{which}", part, compiled)
            for plan, state in tensor_regions(executor)
            for which, part in _parts_of(state)
            for compiled in part.kernels
        ]
        self.why = "" if self._found else _why_none(executor)

    @property
    def graph(self) -> Graph:
        """The optimized graph as it is run: what something else may run is a region in it."""
        context = PlanContext(self._executor.name, "python", _no_runner)
        return with_regions(self._executor.plan_graph, context)

    def compile(self, *args: object, **kwargs: object) -> Kernels:
        """The kernels, with those for such arguments, none of which has to be hot.

        The function is called once, without recording gradients, and does what it does. The regions that it meets get
        kernels for what they are given.
        """
        with torch.no_grad():
            self._call(self._bind(args, kwargs), self._executor.run)
        return Kernels(self._executor, self._bind)

    def compile_with_gradients(self, *args: object, **kwargs: object) -> Kernels:
        """The same for a call that records gradients: for those of arguments and parameters that require one.

        Regions get a kernel for the forward pass and one for the backward pass, whether that is faster or not. Where
        there are none, `fn.explain` says why.
        """
        with torch.enable_grad():
            self._call(self._bind(args, kwargs), self._executor.run)
        return Kernels(self._executor, self._bind)

    def observe(self, args: Sequence[object], kwargs: dict[str, object]) -> tuple[Kernels, ObservedCall]:
        """The kernels for such arguments, and what each step of the call that makes them gave.

        The function is called once. Where one of the arguments requires a gradient, the call records gradients.
        """
        records = any(isinstance(value, torch.Tensor) and value.requires_grad for value in (*args, *kwargs.values()))
        with torch.enable_grad() if records else torch.no_grad():
            observed = self._call(self._bind(args, kwargs), partial(observe, self._executor))
        return Kernels(self._executor, self._bind), observed

    def _call(self, bound: Sequence[object], run: Callable[[Sequence[object]], _Result]) -> _Result:
        with options.override(background=False):
            return self._call_at_once(bound, run)

    def _call_at_once(self, bound: Sequence[object], run: Callable[[Sequence[object]], _Result]) -> _Result:
        self._executor.graph_for(bound)  # have the plans
        states = [state for _, state in tensor_regions(self._executor)]
        tried = [state.is_tried for state in states]
        for state in states:
            state.is_tried = False
            state.compile_next()
        try:
            return run(bound)
        finally:
            for state, before in zip(states, tried, strict=True):
                state.is_tried = before

    @overload
    def __getitem__(self, index: int) -> KernelView: ...

    @overload
    def __getitem__(self, index: slice) -> list[KernelView]: ...

    def __getitem__(self, index: int | slice) -> KernelView | list[KernelView]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __str__(self) -> str:
        return self.why or "\n".join(map(str, self._found))

    __repr__ = __str__


def _no_runner(*arguments: object) -> Runner:
    raise AssertionError("the graph is only looked at")


def tensor_regions(executor: Executor) -> list[tuple[RegionPlan, KernelState]]:
    """The tensor regions of all plans there are that something may run."""
    found = [(plan, plan.implementation) for plan in executor.regions]
    return [(plan, state) for plan, state in found if isinstance(state, KernelState)]


def _parts_of(state: KernelState) -> Iterator[tuple[str, KernelState]]:
    """What of a region has kernels, and what to call it behind its place."""
    yield "", state
    for recording in () if state.recordings is None else state.recordings.made.values():
        for which, part in (("forward", recording.forward), ("backward", recording.backward)):
            if isinstance(part, KernelPart):
                yield f" ({which} pass)", part.state


def why_no_regions() -> str | None:
    """Why no plan has tensor regions, whatever its graph."""
    now = options.current()
    if now.native == "off":
        return "the switch `native` is off"
    if now.executor in ("off", "debug"):
        return f"the switch `executor` is {now.executor}"
    if now.tier != "python":
        return "the stack machine runs operators one by one"
    return None


def _why_none(executor: Executor) -> str:
    reason = why_no_regions()
    if reason is not None:
        return f"no kernels: {reason}"
    graph = executor.plan_graph  # so that there is a plan
    found = tensor_regions(executor)
    if found:
        told = "; ".join(f"the region at {plan.place}: {state.status}" for plan, state in found)
        return f"no kernels yet: {told}"
    refused = next(refused_operators(graph)[1], None)
    return "no kernels: no part of it is a tensor region" + (f"; {refused}" if refused else "")


# -- why not


def refused_operators(graph: Graph) -> tuple[Graph, Iterator[str]]:
    """A copy of the graph with its tensor regions, and sentences about the operators on tensors that are in none."""
    formed, values = graph.copy_with_map()
    for value, copied in values.items():
        copied.id = value.id  # so that reasons name values as the graph does
    return formed, _sentences(form_tensor_regions(formed).refused)


def _sentences(refused: dict[Node, str]) -> Iterator[str]:
    """One for each reason, with the operators and places that it is about."""
    by_reason: dict[str, list[Node]] = {}
    for node, reason in refused.items():
        if is_tensor_node(node) and node.kind not in VIEWS and not node.blocks:
            by_reason.setdefault(reason, []).append(node)
    for reason, nodes in by_reason.items():
        kinds = ", ".join(dict.fromkeys(node.kind for node in nodes))
        places = [shown_location(n.range) for n in nodes if n.range is not None and n.range.filename]
        yield f"not {kinds} at {', '.join(dict.fromkeys(places)) or '?'}: {reason}"


# -- what there is


def told_of_kernels(executor: Executor) -> Iterator[str]:
    """What became of the tensor regions, and why other operators are in none, in sentences."""
    reason = why_no_regions()
    if reason is not None:
        yield f"no: {reason}"
        return
    for plan in executor.regions:
        state = plan.implementation
        if plan.kind == KIND and not isinstance(state, KernelState):
            yield f"the region at {plan.place}: {plan.status}"
        elif isinstance(state, KernelState):
            yield f"the region at {plan.place}, of {state.region.size} operations: {state.status}"
            yield from _told_of(state)
    yield from refused_operators(executor.plan_graph)[1]


def _told_of(state: KernelState) -> Iterator[str]:
    for kernel in state.kernels:
        counts = [
            f"it ran {_times(kernel.runs)}",
            f"gave up {_times(kernel.bailouts)}",
            f"was asked about other arguments {_times(kernel.misses)}",
        ]
        yield f"a kernel for {text_of_facts(kernel.facts, state.region.inputs)}: {', '.join(counts)}"
    yield from _told_of_gradients(state)
    for facts, reason in state.refused.items():
        sentence = f"no kernel for {text_of_facts(facts, state.region.inputs)}: {reason}"
        if sentence != state.status:
            yield sentence


def _told_of_gradients(state: KernelState) -> Iterator[str]:
    if state.recordings is None:
        return
    inputs = state.region.inputs
    for (needs, facts), recording in state.recordings.made.items():
        runs = [part.state.runs for part in (recording.forward, recording.backward) if isinstance(part, KernelPart)]
        yield (
            f"a gradient {_for_what(needs, inputs)} is recorded by kernels for {text_of_facts(facts, inputs)}: "
            f"forward {_times(runs[0])}, backward {_times(runs[-1])}"
        )
    for (needs, _), reason in state.recordings.refused.items():
        yield f"a gradient {_for_what(needs, inputs)} is recorded by Python: {reason}"


def _for_what(needs: Sequence[bool], inputs: Sequence[Value]) -> str:
    return "for " + ", ".join(f"%{v.name}" for v, need in zip(inputs, needs, strict=True) if need)


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
