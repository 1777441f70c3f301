"""What became of the calls of a function, in sentences: what ran, which plan, how often, and why not another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from jitlite.base import options
from jitlite.executor.executor import Executor
from jitlite.interpreter.frames import ScriptTraceback, notes_of
from jitlite.interpreter.value_words import in_brief

_MOST_REASONS = 4
_COUNTED = {
    "misses": "waited until a plan was made",
    "fallbacks": "ran the general plan for want of a specialized one",
    "profiled": "recorded the types of arguments",
    "evictions": "made room: plans for other arguments were forgotten",
    "native_runs": "times machine code ran loops",
    "native_misses": "times it could not, so that Python did",
}
"""What to say of the counters that need no more than their number."""


def story(executor: Executor) -> Iterator[str]:
    """What became of the calls so far."""
    counters = executor.state().counters
    is_counted = options.current().executor == "profiling"
    if is_counted and not executor.is_settled and not executor.counted_calls and not any(counters.values()):
        yield "none: the sentences above say what a call would do; with arguments, explain makes one"
        return
    yield from _general(executor)
    for step in executor.chain():
        yield from _specialized(step)
    if options.current().executor == "legacy" and counters["hits"]:
        yield f"{_calls(counters['hits'])} found a specialized plan for their kind of arguments"
    for name, said in _COUNTED.items():
        if counters[name]:
            yield f"{counters[name]} {said}"


def _general(executor: Executor) -> Iterator[str]:
    """How the general plan runs, and how many calls of it are known."""
    mode = options.current().executor
    if mode in ("off", "debug"):
        yield f"the stack machine runs them, without passes: the switch `executor` is {mode}"
        return
    runs = "the stack machine runs" if executor.runs_on_stack else "generated Python runs"
    counted = executor.counted_calls
    if mode != "profiling":
        yield f"{runs} the plans (executor: {mode}), and calls are not counted"
    elif executor.is_settled:
        yield (
            f"{runs} the plans; the first {_calls(counted)} were counted, until it was decided which plan the others "
            "take"
        )
    elif executor.wanted_at_first:
        yield f"{_calls(counted)} ran the plan for {executor.wanted_at_first}; {runs} it"
    else:
        yield f"{_calls(counted)} ran the general plan, which is right for all arguments; {runs} it"


def _specialized(step: Executor) -> Iterator[str]:
    """What became of one specialized plan."""
    misses = step.guard_misses
    if misses is None:
        return
    hits, failures = step.counters.hits.value, step.counters.guard_failures.value
    yield f"{_calls(hits)} found a specialized plan: its guard let them pass"
    if failures:
        yield f"{_calls(failures)} were turned away by the guard of a specialized plan, and ran another one"
    for reason, count in misses.reasons.most_common(_MOST_REASONS):
        yield f"turned away {_times(count)}: {reason}"


def run_and_tell(executor: Executor, bound: Sequence[object]) -> list[str]:
    """Run a call, and say what ran it, how it ended, and what it was given."""
    given = ", ".join(
        f"{value.name.partition('.')[0]}: {in_brief(argument)}"
        for value, argument in zip(executor.graph.inputs, bound, strict=True)
        if not isinstance(argument, torch.nn.Module)
    )
    chosen = executor.chosen(bound)
    before = chosen.state().counters
    ended = "it returned"
    try:
        executor.run(bound)
    except Exception as error:
        ended = f"it raised {type(error).__name__}: {str(error).partition(chr(10))[0]}{_circumstances(error)}"
    chosen = executor.chosen(bound)
    now = chosen.state().counters
    return [*_what_ran(chosen, {name: now[name] - before.get(name, 0) for name in now}), ended,
            *([f"it was given {given}"] if given else [])]  # fmt: skip


def _circumstances(error: BaseException) -> str:
    """In which module an exception was raised, and what the operator that raised it was given."""
    found = [detail for note in notes_of(error) if isinstance(note, ScriptTraceback) for detail in note.details]
    return f" ({', '.join(found)})" if found else ""


def _what_ran(executor: Executor, more: dict[str, int]) -> Iterator[str]:
    mode = options.current().executor
    if mode in ("off", "debug"):
        yield f"the stack machine ran it, without passes: the switch `executor` is {mode}"
        return
    how = "on the stack machine" if executor.runs_on_stack else "as generated Python"
    if more["guard_failures"]:
        yield f"the guard of the specialized plan turned it away, and another plan ran {how}"
    elif more["hits"]:
        yield f"the plan for such arguments ran {how}"
    elif executor.wanted_at_first:
        yield f"the plan for {executor.wanted_at_first} ran {how}"
    else:
        yield f"the general plan, which is right for all arguments, ran {how}"
    if more["native_runs"]:
        yield f"machine code ran loops in it, {_times(more['native_runs'])}"


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
