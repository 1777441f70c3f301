"""Which pass is to blame? `bisect` finds it, with a graph of a few nodes that shows the fault.

A call is run without passes, which is right by definition, and after more and more passes of the pipeline, by bisection
over their number. The first pass after which the call does something else (another result, exception, printed text,
state of the arguments, or a graph that is not well formed) is the guilty one. The graph it was given is then made as
small as it can be while that pass still breaks it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from typing import Any

from jitlite.base.records import Record
from jitlite.base.source import CompileError
from jitlite.debug.outcome import Outcome, compare, observe
from jitlite.debug.reduce import Reproducer, reduce
from jitlite.executor.executor import plain_code_for
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.ir.graph import Graph
from jitlite.ir.unit import called_functions
from jitlite.objects.function import ScriptFunction, compile_function
from jitlite.passes.pipelines import OPTIMIZE, Pipeline
from jitlite.passes.registry import PassHook
from jitlite.passes.registry import run as run_passes

_MOST_STEPS = 2_000_000
"""Instructions a run may take: a pass may make a loop endless."""

_MOST_STEPS_REDUCED = 100_000


class GuiltyPass(Record, eq=True):
    """A pass that changes what a call does.

    Attributes:
        pass_name: the pass.
        number, of: it was this one of so many passes that the pipeline ran.
        fault: what is different after it.
        before: the graph it was given.
        reproducer: a small graph, and arguments, with which it does wrong too.
        reproducer_fault: what is different with these.
        after: what the pass makes of the small graph; the error where it fails.
    """

    pass_name: str
    number: int
    of: int
    fault: str
    before: Graph
    reproducer: Reproducer
    reproducer_fault: str
    after: str

    def __str__(self) -> str:
        arguments = ", ".join(map(repr, self.reproducer.arguments))
        called = [f"where {f.name} is {f.graph.to_text(ranges=False)}" for f in called_functions(self.reproducer.graph)]
        return "\n".join([
            f"The pass '{self.pass_name}' is at fault, number {self.number} of {self.of} that ran.",
            f"After it, the call differs: {self.fault}",
            "",
            f"A graph with {self.reproducer.size} nodes shows it; arguments: ({arguments})",
            self.reproducer.graph.to_text(ranges=False),
            *called,
            f"After {self.pass_name}: {self.reproducer_fault}",
            self.after,
        ])  # fmt: skip


def bisect(
    function: Graph | Callable[..., object],
    *args: object,
    passes: Pipeline | str | None = None,
    seconds: float = 30.0,
    **kwargs: object,
) -> GuiltyPass | None:
    """The first pass after which a call does not do what it does without passes; None where all is well.

    Args:
        function: what is called: compiled, or Python to be compiled; or a graph, then with an argument for each input.
        args, kwargs: the arguments of the call. They are not changed.
        passes: the passes to suspect, as text or as a pipeline; by default those that run before every call.
        seconds: how long to look for a small graph.

    Raises:
        CompileError: where the function does not compile.
        RuntimeError, TypeError: where the arguments are not those of the function, or of the graph.
    """
    graph, arguments = _call(function, args, kwargs)
    if passes is None:
        pipeline = OPTIMIZE
    else:
        pipeline = passes if isinstance(passes, Pipeline) else Pipeline(once=tuple(_names(passes)))
    expected = observe(_runner(graph, _MOST_STEPS), arguments)

    def fault_after(limit: int) -> tuple[str | None, int]:
        copy = graph.copy()
        numbers = itertools.count(1)
        error = _failure(lambda hook: pipeline(copy, hook), limit, numbers)
        found = error or _difference(expected, copy, arguments)
        return found, next(numbers) - 1

    fault, total = fault_after(1 << 40)
    if fault is None:
        return None
    good, bad = 0, total
    while bad - good > 1:
        middle = (good + bad) // 2
        found, _ = fault_after(middle)
        if found is None:
            good = middle
        else:
            bad, fault = middle, found
    before = graph.copy()
    hook = PassHook(bisect_limit=good, numbers=itertools.count(1))
    pipeline(before, hook)
    name = _name_of(pipeline, graph, bad)
    return _finding(name, bad, total, fault, before, arguments, seconds)


def _names(passes: str) -> list[str]:
    return [name.strip() for name in passes.split(",") if name.strip()]


def _call(function: object, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Graph, list[Any]]:
    if isinstance(function, Graph):
        if kwargs or len(args) != len(function.inputs):
            raise TypeError(f"the graph takes {len(function.inputs)} argument(s), {len(args) + len(kwargs)} were given")
        return function, list(args)
    compiled = function if isinstance(function, ScriptFunction) else compile_function(function)
    return compiled.graph, compiled._bind(args, kwargs)


def _runner(graph: Graph, step_limit: int) -> Callable[..., Any]:
    code = lower(graph)
    return lambda *arguments: vm.run(code, arguments, plain_code_for, step_limit=step_limit)


def _failure(run: Callable[[PassHook], object], limit: int, numbers: Any) -> str | None:
    """The error that passes, or the verifier after them, end with."""
    try:
        run(PassHook(verify=True, bisect_limit=limit, numbers=numbers))
    except Exception as error:
        return str(error).splitlines()[0]
    return None


def _difference(expected: Outcome, graph: Graph, arguments: Any, step_limit: int = _MOST_STEPS) -> str | None:
    try:
        run = _runner(graph, step_limit)
    except Exception as error:
        return f"the graph cannot be run: {error}"
    return compare(expected, observe(run, arguments))


class _Tried(PassHook, frozen=False):
    """A hook that writes down which passes were to run."""

    tried: list[str] = field(default_factory=list)

    def around(self, name: str, function: Any, graph: Graph) -> bool:
        self.tried.append(name)
        return super().around(name, function, graph)


def _name_of(pipeline: Pipeline, graph: Graph, number: int) -> str:
    hook = _Tried(verify=True, bisect_limit=number, numbers=itertools.count(1))
    with suppress(Exception):
        pipeline(graph.copy(), hook)
    return hook.tried[number - 1]


def _finding(
    name: str, number: int, total: int, fault: str, before: Graph, arguments: list[object], seconds: float
) -> GuiltyPass:
    def after(reproducer: Reproducer) -> tuple[str | None, str]:
        """What is wrong after the pass, and the graph it makes."""
        expected = observe(_runner(reproducer.graph, _MOST_STEPS_REDUCED), reproducer.arguments)
        if expected.raised == vm.StepLimit.__name__:
            return None, ""
        copy = reproducer.graph.copy()
        error = _failure(lambda hook: run_passes(copy, name, hook), 1, itertools.count(1))
        if error is not None:
            return error, error
        return _difference(expected, copy, reproducer.arguments, _MOST_STEPS_REDUCED), copy.to_text(ranges=False)

    def has_fault(reproducer: Reproducer) -> bool:
        try:
            return after(reproducer)[0] is not None
        except CompileError:
            return False  # the small graph cannot be run as it is

    small = Reproducer(before, tuple(arguments))
    if has_fault(small):
        small = reduce(small, has_fault, seconds=seconds)
    found, text = after(small)
    return GuiltyPass(name, number, total, fault, before, small, found or fault, text)
