"""Regions that record a gradient: forward and backward pass are a kernel each, and one node of autograd.

The body of a region is differentiated as a graph (`passes/autodiff.py`), for the inputs that require a gradient and the
facts of a call. That gives two graphs: `f`, which keeps what is needed later, and `df`, which gives the gradients. Each
becomes a kernel. The kernel of `f` looks whether its facts hold before autograd hears of anything; where they do not,
the region runs in Python, operator by operator. Where no kernel fits a backward pass, or where it is recorded itself
(`create_graph`), `df` runs in Python.

Kernels are worth it where both passes together are faster than autograd's, which a trial finds out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from jitlite.base import torch_internals
from jitlite.base.records import Record
from jitlite.interpreter.autograd import Layout, Without, node_of
from jitlite.interpreter.guards import PLAIN
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.int_codes import INT_CODES
from jitlite.ir.regions import Runner
from jitlite.kernels.facts import Fact, fact_of
from jitlite.kernels.lowered_types import annotate
from jitlite.native.code import NotNative
from jitlite.native.entry import is_ready
from jitlite.native.regions import NativeRegion
from jitlite.operators.gradient import Gradient
from jitlite.passes.absent_gradients import gradients_without
from jitlite.passes.autodiff import differentiate, refuse_fixed, requiring
from jitlite.passes.autodiff_composites import replace_composites
from jitlite.passes.registry import run
from jitlite.passes.specialize_autogradzero import usual_gradients

MOST = 8
"""Recordings of one region: for combinations of arguments that require a gradient, and facts of all arguments."""

_TURNS = 5
_TRIAL_SECONDS = 0.5
"""A trial is over after so many turns, or so long if there have been two."""

_ASKING = 1.5e-6
"""Seconds of a call that go to finding its recording."""

_TIDY = ("peephole", "cse", "dce")
_TIDY_BACKWARD = (*_TIDY, "turn_products", "sum_products_once", "dce")
"""Passes over graphs of gradients."""


class Part:
    """A graph that kernels run: a forward or a backward pass."""

    def attempt(self, *inputs: object) -> Any:
        """What it gives, None where no kernel can do it."""
        raise NotImplementedError

    def prepare(self, arguments: Sequence[object]) -> None:
        """Have a kernel for these arguments, now and on this thread.

        Raises:
            NotNative: there is none for them.
        """
        raise NotImplementedError

    def improve(self) -> bool:
        """Have the better code of kernels that were compiled quickly; says whether there were any."""
        raise NotImplementedError

    def settle(self) -> None:
        """Make no kernel for other arguments from now on."""
        raise NotImplementedError

    def record_run(self, since: float) -> None:
        """Python has run it, from `since` on."""
        raise NotImplementedError


MakePart = Callable[[NativeRegion, str], Part]
Key = tuple[tuple[bool, ...], tuple[Fact, ...]]
"""Which arguments require a gradient, and the facts of all."""


@dataclass
class _Passes:
    """What a region's recording runs.

    Attributes:
        forward: gives the outputs of `f`, as a tuple.
        backward: gives each gradient that is different, as a tuple.
        places: for each gradient that `df` gives, where it is in that tuple.
    """

    forward: Part
    backward: Part
    places: Sequence[int]

    def improve(self) -> bool:
        """Have the better code of both; says whether there was any to have."""
        return any([self.forward.improve(), self.backward.improve()])


_Halfway = tuple[Gradient, _Passes, tuple[Runner, Runner]]
"""What there is before the forward pass has run: the gradient, kernels, and what runs the backward pass in Python."""


class GaveUp(NotNative):
    """The kernel of a forward pass could not do it for some values of its arguments, as a loop that does not run."""


class Recording(Record):
    """What runs a region and records it as one node.

    Attributes:
        run: takes the arguments; gives None where the kernel of the forward pass cannot do it.
        forward: the forward pass.
        backward: the backward pass, where all results have a gradient and it is not recorded itself.
    """

    run: Runner
    forward: Part
    backward: Part


class RecordingFactory:
    """Makes the recordings of a region.

    Args:
        body: the region's body; it is not changed.
        make_part: what kernels of a graph are made of.
        run_graph: what runs a graph in Python.
    """

    def __init__(self, body: Graph, make_part: MakePart, run_graph: Callable[[Graph, str], Runner]) -> None:
        self._body, self._make_part, self._run_graph = body, make_part, run_graph
        self._halfway: dict[Key, _Halfway] = {}

    def record(self, arguments: Sequence[object], *, trial: bool, forward_seconds: float = 0.0) -> Recording:
        """What runs the region for arguments like these, and records it as one node.

        Args:
            arguments: of a call that records.
            trial: find out first whether that is faster than what Python does.
            forward_seconds: what the forward pass alone takes at least in Python, as far as that is known.

        Raises:
            GaveUp: not for these very arguments; for others of the same kind there may be.
            NotNative: there is nothing that does, or it is not faster.
        """
        needs = needs_of(arguments)
        given = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments]
        key = needs, tuple(map(fact_of, arguments))
        if key not in self._halfway:
            self._halfway[key] = self._forward(key, given)
        gradient, passes, python = self._halfway[key]
        with torch.no_grad():
            outputs = passes.forward.attempt(*given)
            if outputs is None:
                raise GaveUp("the forward pass gave up")
            passes.backward.prepare(_backward_inputs(gradient, given, outputs))
        del self._halfway[key]
        recorded = _recorded(gradient, passes, *python, partial(self._without, gradient))
        trial_runs = _Trial(recorded, self._when_asked(self._body, "region"), arguments, needs)
        is_faster = partial(trial_runs.is_faster, forward_seconds)
        if trial and not is_faster() and not (passes.improve() and is_faster()):
            raise NotNative("Python records it faster")
        return Recording(recorded, passes.forward, passes.backward)

    def _forward(self, key: Key, given: Sequence[object]) -> _Halfway:
        """Both passes, of which the forward one has a kernel."""
        gradient, usual = self._differentiated(*key)
        passes = self._passes(gradient, usual)
        python = self._when_asked(gradient.df, "backward"), self._when_asked(usual, "backward")
        with torch.no_grad():
            passes.forward.prepare(given)
            passes.forward.settle()  # both graphs are made for the dtypes of these arguments
        return gradient, passes, python

    def _without(self, gradient: Gradient, present: Sequence[bool]) -> Runner:
        graph = gradients_without(gradient, present)
        run(graph, _TIDY)
        return self._run_graph(graph, "backward")

    def _when_asked(self, graph: Graph, name: str) -> Runner:
        """What runs a graph in Python; it is made when it runs for the first time, which may be never."""
        made: Runner | None = None

        def run_graph(*inputs: object) -> object:
            nonlocal made
            if made is None:
                made = self._run_graph(graph, name)
            return made(*inputs)

        return run_graph

    def _differentiated(self, needs: Sequence[bool], facts: Sequence[Fact]) -> tuple[Gradient, Graph]:
        graph = requiring(self._body, needs)
        annotate(graph, facts)
        while replace_composites(graph, all_parts=True):
            annotate(graph, facts)  # of the new nodes nothing was known
        run(graph, ("peephole",))  # what is asked of dtypes is known now
        try:
            refuse_fixed(graph)
            gradient = differentiate(graph, computes_again=True)
        except ValueError as error:
            raise NotNative(str(error)) from None
        if any(need and i not in gradient.f_differentiated_inputs for i, need in enumerate(needs)):
            raise NotNative("an argument requires a gradient that may be None, or is no tensor by its type")
        if not gradient.df_output_vjps:
            raise NotNative("nothing that it gives has a gradient")
        gradient.may_fill, gradient.is_total = not gradient.is_total, True
        if any(output in gradient.f.inputs for output in gradient.f.outputs[: gradient.f_real_outputs]):
            raise NotNative("it gives an argument back")
        usual = usual_gradients(gradient)
        run(gradient.f, _TIDY)
        run(usual, _TIDY_BACKWARD)
        return gradient, usual

    def _passes(self, gradient: Gradient, usual: Graph) -> _Passes:
        flat, places = _flattened(usual)
        forward = self._make_part(NativeRegion.of_block(gradient.f.block), "forward")
        return _Passes(forward, self._make_part(NativeRegion.of_block(flat.block), "backward"), places)


class Recordings:
    """What runs a region where it records a gradient.

    Where hooks see each tensor that is saved, as those of checkpoints, Python runs it: what is saved must not depend on
    what has become hot in between.

    Attributes:
        made: what does, for which arguments.
        refused: why nothing does, for some arguments.
    """

    def __init__(self, recorder: RecordingFactory) -> None:
        self._recorder = recorder
        self.made: dict[Key, Recording] = {}
        self._by_needs: dict[tuple[bool, ...], list[Recording]] = {}
        self._known: set[Key] = set()
        self.refused: dict[Key, str] = {}

    def __len__(self) -> int:
        return len(self.made)

    def run(self, arguments: tuple[object, ...]) -> object:
        """What the region gives, recorded; None where nothing can do it. No mode may be active that sees this."""
        if not torch.is_grad_enabled() or torch_internals.saved_tensor_hooks(False) is not None:
            return None
        for recording in self._by_needs.get(needs_of(arguments), ()):
            found: object = recording.run(*arguments)
            if found is not None:
                return found
        return None

    def key_of(self, arguments: Sequence[object]) -> Key | None:
        """What a recording for these arguments would be for; None where there is to be none, or there is one."""
        if len(self._known) >= MOST or any(isinstance(x, torch.Tensor) and type(x) not in PLAIN for x in arguments):
            return None
        try:
            key = needs_of(arguments), tuple(map(fact_of, arguments))
        except NotNative:
            return None
        return None if key in self._known else key

    def make(self, key: Key, arguments: Sequence[object], *, trial: bool, forward_seconds: float = 0.0) -> None:
        """Make a recording; where that cannot be, `refused` says why. `RecordingFactory.record` has the arguments."""
        self._known.add(key)
        try:
            if not is_ready():
                raise NotNative("there is no machine code here")
            made = self._recorder.record(arguments, trial=trial, forward_seconds=forward_seconds)
        except GaveUp as reason:
            self.refused[key] = f"{reason}; another call may find it different"
            self._known.discard(key)
        except NotNative as reason:
            self.refused[key] = str(reason)
        except Exception as error:  # a fault of ours is no reason for the program to stop
            if not trial:
                raise
            self.refused[key] = f"making it failed with {type(error).__name__}"
        else:
            self.refused.pop(key, None)
            self.made[key] = made
            self._by_needs.setdefault(key[0], []).append(made)


def needs_of(arguments: Sequence[object]) -> tuple[bool, ...]:
    """Which arguments require a gradient. A tensor of another class is not asked."""
    return tuple([type(x) in PLAIN and x.requires_grad for x in arguments])  # type: ignore[attr-defined]


def _flattened(graph: Graph) -> tuple[Graph, list[int]]:
    """A graph that gives each element of the tuple once, and where they are among what it gives."""
    flat = graph.copy()
    made = flat.outputs[0].node
    elements = list(made.inputs) if made.kind == "prim::TupleConstruct" else []
    if not elements:
        raise NotNative("the gradients are constants")
    flat.block.erase_output(0)
    made.destroy()
    for node in [node for node in flat.all_nodes() if node.kind == "aten::reshape"]:
        with flat.inserting_before(node):
            node.replace_input(0, _contiguous(flat, node.inputs[0]))  # whether it is a view, nobody asks
    places: list[int] = []
    known: dict[Value, int] = {}
    for value in elements:
        if value not in known:
            known[value] = len(known)
            with flat.inserting_at_end(flat.block):
                flat.add_output(_contiguous(flat, value))
        places.append(known[value])
    return flat, places


def _contiguous(graph: Graph, value: Value) -> Value:
    """The value as a tensor of its own, where it may be a view."""
    memory_format = graph.insert_constant(INT_CODES[torch.contiguous_format])
    return graph.insert("aten::contiguous", (value, memory_format), (value.type,)).output


def _backward_inputs(gradient: Gradient, inputs: Sequence[object], outputs: Sequence[object]) -> list[object]:
    """What `df` is given where all results have a gradient, and nothing that is kept has one."""
    real = gradient.f_real_outputs
    grads = [_ones_like(outputs[i]) if i < real else None for i in gradient.df_input_vjps]
    kept = [inputs[i] for i in gradient.df_input_captured_inputs]
    return [*grads, *kept, *(outputs[i] for i in gradient.df_input_captured_outputs)]


def _ones_like(value: object) -> torch.Tensor:
    assert isinstance(value, torch.Tensor)
    return torch.ones_like(value)


# -- calls


def _recorded(gradient: Gradient, passes: _Passes, general: Runner, usual: Runner, without: Without) -> Runner:
    """A function that runs the forward kernel and records one node, or gives None where no kernel can do it."""
    real = gradient.f_real_outputs
    backward, places = passes.backward, passes.places

    grads = len(gradient.df_input_vjps)

    def run_backward(*inputs: Any) -> Any:
        given = [x if x is None or x.is_contiguous() else x.contiguous() for x in inputs[:grads]]  # as in the trial
        found = backward.attempt(*given, *inputs[grads:])
        if found is not None:
            return [found[i] for i in places]
        since = time.perf_counter()
        found = usual(*inputs)
        backward.record_run(since)
        return found

    held = [c for c in map(_constant_tensor, gradient.f.all_nodes()) if c is not None]
    apply = node_of(Layout(gradient), general, run_backward, without)
    attempt = passes.forward.attempt
    set_enabled = torch._C._set_grad_enabled
    reached = {*gradient.df_output_vjps, *gradient.df_input_captured_inputs}
    apart = [i for i in range(len(gradient.f.inputs)) if i not in reached]

    def call(*inputs: object) -> Any:
        if held and any(constant.requires_grad for constant in held):
            return None  # they have no place among the inputs of the node
        set_enabled(False)
        try:
            outputs = attempt(*inputs)
        finally:
            set_enabled(True)
        if outputs is None:
            return None
        returned = apply(outputs, *(_detached(inputs, apart) if apart else inputs))
        return returned[0] if real == 1 else returned[:real]

    return call


def _detached(inputs: Sequence[Any], apart: Sequence[int]) -> Sequence[Any]:
    """The inputs, some of them without what made them: autograd would go on to that, with nothing to do there."""
    given = list(inputs)
    for i in apart:
        if isinstance(given[i], torch.Tensor):
            given[i] = given[i].detach()
    return given


def _constant_tensor(node: Node) -> torch.Tensor | None:
    found = node.attributes.get("value") if node.kind == "prim::Constant" else None
    return found if isinstance(found, torch.Tensor) else None


class _Trial:
    """Both passes, as they are recorded by kernels and as autograd records what Python does."""

    def __init__(self, recorded: Runner, python: Runner, arguments: Sequence[object], needs: Sequence[bool]) -> None:
        self._runners = recorded, python
        self._arguments, self._needs = arguments, needs

    def is_faster(self, forward_seconds: float) -> bool:
        """Do both passes take less time than in Python? Less than its forward pass alone says so at once."""
        ours, theirs = self._runners
        if min(self._seconds(ours), self._seconds(ours)) < forward_seconds:
            return True
        seconds: tuple[list[float], list[float]] = ([], [])
        started = time.perf_counter()
        while len(seconds[0]) < _TURNS:
            for runner, spent in zip((ours, theirs), seconds, strict=True):
                spent.append(self._seconds(runner))
            if len(seconds[0]) >= 2 and time.perf_counter() - started > _TRIAL_SECONDS:
                break
        ours_took, theirs_took = (min(spent[1:]) for spent in seconds)  # what else the machine does only adds to a run
        return ours_took + _ASKING < theirs_took

    def _seconds(self, runner: Runner) -> float:
        given = [_leaf(x, need) for x, need in zip(self._arguments, self._needs, strict=True)]
        since = time.perf_counter()
        _both_passes(runner, given)
        return time.perf_counter() - since


def _leaf(value: object, need: bool) -> object:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(need)


def _both_passes(run_region: Runner, arguments: Sequence[object]) -> None:
    with torch.enable_grad():
        found = run_region(*arguments)
    if found is None:
        raise NotNative("the kernel of the forward pass gives up")
    outputs = [x for x in (found if isinstance(found, tuple) else (found,)) if isinstance(x, torch.Tensor)]
    outputs = [x for x in outputs if x.requires_grad]
    wanted = [x for x in arguments if isinstance(x, torch.Tensor) and x.requires_grad]
    torch.autograd.grad(outputs, wanted, [torch.ones_like(x) for x in outputs], allow_unused=True)
