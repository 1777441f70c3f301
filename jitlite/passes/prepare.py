"""Prepare a graph for what takes few operators: one call, whose steps are data and are written down as they run.

    done = prepare(graph, [x], module=traced, casting=CastingOptions(policy=AutocastPolicy()))
    print(done)          # each step, whether it changed the graph, and how many nodes there were then
    done.unsupported     # what is left that is not of core ATen

`STEPS` is the order. The casting policy comes first, for it goes by the modules that calls are in, which are gone once
calls are inlined. What a user says how to write (`handlers`) comes before what jitlite knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import torch

from jitlite.base.records import Record
from jitlite.ir.graph import Graph
from jitlite.passes.casting_policy import CastingOptions, cast_by_policy
from jitlite.passes.narrowing import narrow_dtypes
from jitlite.passes.registry import run
from jitlite.passes.to_core_aten import CanonicalizationError, Unsupported, lower_to_core_aten


class StepDone(Record):
    """What a step has done.

    Attributes:
        name: of the step.
        changed: did the graph change?
        nodes: how many there were afterwards.
        seconds: it took.
        notes: what it has to say.
    """

    name: str
    changed: bool
    nodes: int
    seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = f"{self.name}: {'changed' if self.changed else 'nothing to do'}, {self.nodes} nodes"
        return "\n".join([first, *(f"    {note}" for note in self.notes)])


class Preparation(Record, frozen=False):
    """A graph that is being prepared, and what was done so far.

    Attributes:
        graph: it is changed in place.
        example_inputs, module, casting, lacks: as they were given to `prepare`.
        handlers: what operators are made of, by kind; None for those that may stay.
        log: the steps that ran, in order.
        unsupported: what is left that is not of core ATen.
        notes: what the step that runs has to say.
    """

    graph: Graph
    example_inputs: Sequence[object] | None
    module: torch.nn.Module | None
    casting: CastingOptions
    handlers: Mapping[str, Graph | None]
    lacks: Mapping[torch.dtype, torch.dtype]
    log: list[StepDone] = field(default_factory=list)
    unsupported: list[Unsupported] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.log), *(f"left: {u}" for u in self.unsupported)])

    def take(self, step: PreparationStep) -> None:
        """Run a step, and write down what it did."""
        self.notes.clear()
        begun = time.perf_counter()
        changed = step.run(self)
        seconds = time.perf_counter() - begun
        nodes = sum(1 for _ in self.graph.all_nodes())
        self.log.append(StepDone(step.name, changed, nodes, seconds, tuple(self.notes)))


class PreparationStep(Record):
    """One step: its name, and what it does to a graph, which says whether it changed it."""

    name: str
    run: Callable[[Preparation], bool]


def passes(names: str) -> Callable[[Preparation], bool]:
    """What runs these passes on the graph."""
    return lambda made: run(made.graph, names)


def _cast(made: Preparation) -> bool:
    return cast_by_policy(made.graph, made.casting, made.example_inputs, made.module)


def _handle(made: Preparation) -> bool:
    """Put in what users say that operators are made of."""
    changed = False
    for node in list(made.graph.all_nodes()):
        body = made.handlers.get(node.kind)
        if body is None:
            continue
        if (len(body.inputs), len(body.outputs)) != (len(node.inputs), len(node.outputs)):
            raise ValueError(
                f"handlers: the graph for {node.kind} takes {len(body.inputs)} and gives {len(body.outputs)} values, "
                f"the operator takes {len(node.inputs)} and gives {len(node.outputs)}"
            )
        with made.graph.inserting_before(node):
            results = made.graph.inline_call(body, list(node.inputs))
        for old, new in zip(node.outputs, results, strict=True):
            old.replace_all_uses_with(new)
        made.notes.append(f"{node.kind}{'' if node.range is None else f' at {node.range.location()}'}")
        node.destroy()
        changed = True
    return changed


def _lower(made: Preparation) -> bool:
    allowed = [kind for kind, body in made.handlers.items() if body is None]
    report = lower_to_core_aten(made.graph, made.example_inputs, module=made.module, allow=allowed, strict=False)
    made.unsupported = report.unsupported
    made.notes += [f"{kind}, {times} times" for kind, times in report.decomposed.most_common()]
    made.notes += [f"assumed: {text}" for text in report.assumptions]
    return report.changed


def _narrow(made: Preparation) -> bool:
    found = narrow_dtypes(made.graph, made.lacks, made.example_inputs, made.module)
    made.notes += found.kept
    return found.changed


STEPS = (
    PreparationStep("casting policy", _cast),
    PreparationStep("calls", passes("inline,inline_fork_wait")),
    PreparationStep("tuples", passes("lower_simple_tuples")),
    PreparationStep("writes", passes("remove_mutation,remove_view_mutation")),
    PreparationStep("constants", passes("constant_propagation,constant_pooling")),
    PreparationStep("handlers", _handle),
    PreparationStep("core ATen", _lower),
    PreparationStep("dtypes that are lacking", _narrow),
    PreparationStep("dead code", passes("cse,constant_pooling,dce")),
)
"""What `prepare` does, in this order."""


def prepare(
    graph: Graph,
    example_inputs: Sequence[object] | None = None,
    *,
    module: torch.nn.Module | None = None,
    casting: CastingOptions | None = None,
    handlers: Mapping[str, object] | None = None,
    lacks: Mapping[torch.dtype, torch.dtype] | None = None,
    strict: bool = True,
    steps: Sequence[PreparationStep] = STEPS,
) -> Preparation:
    """Write a graph with the few operators of core ATen, without calls, tuples and writes; gives the log.

    Args:
        graph: changed in place.
        example_inputs: arguments of the graph; what its types say if not given.
        module: the module, if the graph is that of a method; then `example_inputs` are the others.
        casting: how halves are treated; PyTorch's own way if not given.
        handlers: what operators are made of, by kind (`aten::silu`): graphs with the inputs of the operator, or
            functions that have one, such as scripts; None for operators that may stay.
        lacks: dtypes that the graph is to do without, and what takes their place, such as `{torch.int64: torch.int32}`.
        strict: raise where operators are left that are not of core ATen.
        steps: what to do.

    Raises:
        CanonicalizationError: operators are left; it lists all.
        TypeError: `graph` is no graph, or what a handler is has none.
        ValueError: a handler takes or gives another number of values than its operator.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"expected a graph, such as the .graph of a script, got {type(graph).__name__}")
    bodies = {kind: _graph_of(kind, handler) for kind, handler in (handlers or {}).items()}
    made = Preparation(graph, example_inputs, module, casting or CastingOptions(), bodies, lacks or {})
    for step in steps:
        made.take(step)
    if made.unsupported and strict:
        raise CanonicalizationError(made.unsupported)
    return made


def _graph_of(kind: str, handler: object) -> Graph | None:
    if handler is None:
        return None
    found = handler if isinstance(handler, Graph) else getattr(handler, "graph", None)
    if not isinstance(found, Graph):
        raise TypeError(f"handlers: expected a graph or a script for {kind}, got {type(handler).__name__}")
    return found
