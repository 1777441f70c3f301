"""Other graphs of a function, one of which may be faster, and the trials that decide which one runs.

`optimize_for_inference` names passes that make such graphs: convolutions in another layout, for instance. What is
faster depends on the machine and on the sizes of tensors. So calls tell: for arguments of a kind that is new, a call
runs the function as it is, and one of the other graphs beside it, a few times. Then the fastest graph runs, and the
function as it is where none is faster by more than noise. After some hundred calls that is done once more, with those
that were not hopeless: by then all that is hot has become machine code, and the machine may be less busy.

A trial changes nothing. It is made only of functions that can run twice unseen, and its calls give what the function
as it is gives. A graph that raises, or gives results of other sizes, strides, dtypes or numbers, is out.

The other graphs run for plain tensors on the CPU that lie in the usual order, while no gradient is recorded and no mode
of torch wants to see operators; for everything else the function runs as it is, as it does where a chosen graph raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import torch

from jitlite.analysis.repeatable import why_not_repeatable
from jitlite.base import background, options
from jitlite.base.locks import ObjectLock
from jitlite.compiler import program as compiler
from jitlite.executor.trial import Trial
from jitlite.interpreter.autograd import is_transformed
from jitlite.interpreter.guards import PLAIN
from jitlite.interpreter.modes import is_intercepted
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.regions import Runner
from jitlite.ir.types import Type
from jitlite.passes.convert_to_channels_last import lies_in_order
from jitlite.passes.registry import run as run_passes

LAYOUT_PASSES = ("convert_to_channels_last", "convert_to_mkldnn")
"""Passes that make a graph faster or slower, as the sizes of tensors and the machine will have it."""

MOST_CHOICES = 4
"""Trials of a function, each for other arguments. For more kinds of arguments it runs as it is."""

MOST_KINDS = 256
"""Kinds of arguments that are remembered at a time."""

AGAIN = 256
"""Calls from a decision to the second one, which is the last."""


_len_torch_function_stack = torch._C._len_torch_function_stack


def _seconds() -> float:
    """The time by which graphs are compared: where no other thread helps, that which this one had a processor for."""
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()


class Runs(Protocol):
    """What runs a graph: an executor."""

    way: list[Runner]


Made = TypeVar("Made", bound=Runs)
Kind = tuple[object, ...]
"""What is asked of the tensors among arguments: equal for those that are alike."""


class _Choice(Generic[Made]):
    """What is known for arguments of about the same sizes."""

    def __init__(self, passes: Sequence[str]) -> None:
        self.trial = Trial(passes)
        self.winner: Made | None = None
        self.name: str | None = None
        self.is_settled = False
        self.is_repeated = False
        self.calls = 0

    @property
    def is_over(self) -> bool:
        """Is it certain which graph runs, from now on?"""
        return self.is_settled and (self.is_repeated or not self.trial.left)

    def tells(self) -> str:
        """What was decided, in words."""
        if not self.is_settled:
            return "not decided yet"
        return f"{'as it is' if self.name is None else self.name} ({self.trial})"


class Alternatives(Generic[Made]):
    """Other graphs of a function, and which one runs.

    Args:
        graph: the function as it is.
        passes: names of passes; each makes another graph of it.
        make: makes what runs such a graph.
        usual: runs the function as it is.
        clock: gives the time in seconds, if not `_seconds` does.
    """

    def __init__(
        self,
        graph: Graph,
        passes: Sequence[str],
        make: Callable[[Graph], Made],
        usual: Runner,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.passes = tuple(passes)
        self.why_not = _why_none(graph)
        self._graph = graph
        self._make = make
        self._usual = usual
        self._clock = clock or _seconds
        self._tensors = [i for i, v in enumerate(graph.inputs) if T.without_none(v.type) is T.TENSOR]
        self._made: dict[str, Made] = {}
        self._useless: set[str] = set()
        """Passes that change nothing, or fail."""
        self._is_making = False
        self._choices: dict[Kind, _Choice[Made]] = {}
        self._known: dict[Kind, _Choice[Made]] = {}
        self._turn = ObjectLock()
        """Held by the thread that makes a trial. Nobody waits for it."""

    # -- a call

    def run(self, *arguments: object) -> object:
        """The result of a call."""
        if self.why_not is not None or _len_torch_function_stack():  # which would see what is asked of tensors
            return self._usual(*arguments)
        kind = self._kind_of(arguments)
        choice = self._known.get(kind) if kind is not None else None
        if choice is not None and choice.is_over and choice.winner is None:
            return self._usual(*arguments)
        if kind is None or self._records_gradient(arguments) or _is_watched():
            return self._usual(*arguments)
        if choice is not None and choice.is_settled:
            return self._run_chosen(choice, arguments)
        return self._run_undecided(kind, arguments)

    def _kind_of(self, arguments: Sequence[object]) -> Kind | None:
        """Of what kind the arguments are; None for those that no other graph is run for."""
        found: list[object] = []
        for position in self._tensors:
            value: Any = arguments[position]
            if value is None:
                found.append(None)
            elif value.__class__ not in PLAIN or value.layout is not torch.strided or not value.is_cpu:
                return None
            else:
                found.append((value.shape, value.stride(), value.dtype, value.is_neg()))
        return tuple(found)

    def _records_gradient(self, arguments: Sequence[object]) -> bool:
        given = [arguments[position] for position in self._tensors] if torch.is_grad_enabled() else []
        return any(isinstance(value, torch.Tensor) and value.requires_grad for value in given)

    def _run_chosen(self, choice: _Choice[Made], arguments: Sequence[object]) -> object:
        winner = choice.winner
        choice.calls += 1
        if choice.calls == AGAIN and not choice.is_over:
            choice.is_repeated = True
            choice.trial = Trial(choice.trial.left)
            choice.is_settled = False
        if winner is None:
            return self._usual(*arguments)
        try:
            return winner.way[0](*arguments)
        except Exception:  # whatever is wrong, the function as it is tells
            return self._usual(*arguments)

    # -- a trial

    def _run_undecided(self, kind: Kind, arguments: Sequence[object]) -> object:
        """A call while it is not known which graph to run. Threads that come meanwhile run the function as it is."""
        if not self._turn.acquire(blocking=False):
            return self._usual(*arguments)
        try:
            choice = self._choice_for(kind, arguments)
            if not choice.is_settled and self._is_ready(choice):
                return self._compare(choice, arguments)
        finally:
            self._turn.release()
        return self._run_chosen(choice, arguments) if choice.is_settled else self._usual(*arguments)

    def _choice_for(self, kind: Kind, arguments: Sequence[object]) -> _Choice[Made]:
        """What is known for such arguments, or will be."""
        choice = self._known.get(kind)
        if choice is None:
            given = [arguments[position] for position in self._tensors]
            about = tuple(None if not isinstance(t, torch.Tensor) else _about(t) for t in given)
            in_order = all(t is None or (isinstance(t, torch.Tensor) and lies_in_order(t)) for t in given)
            choice = self._choices.get(about) if in_order else _SETTLED
            if choice is None:
                choice = _Choice(self.passes) if len(self._choices) < MOST_CHOICES else _SETTLED
                if choice is not _SETTLED:
                    self._choices[about] = choice
            if len(self._known) >= MOST_KINDS:
                self._known.clear()
            self._known[kind] = choice
        return choice

    def _is_ready(self, choice: _Choice[Made]) -> bool:
        """Are there the graphs to compare? If not, they are made."""
        wanted = choice.trial.next
        if wanted is None or wanted in self._made or wanted in self._useless:
            return True
        if not self._is_making:
            self._is_making = True
            if options.current().background:
                background.submit(self._make_all)
            else:
                self._make_all()
        return wanted in self._made or wanted in self._useless

    def _make_all(self) -> None:
        try:
            for name in self.passes:
                if name not in self._made and name not in self._useless:
                    self._make_one(name)
            if self._useless.issuperset(self.passes):
                self.why_not = "there is no other graph"
        finally:
            self._is_making = False

    def _make_one(self, name: str) -> None:
        with compiler.compiling():
            graph = self._graph.copy()
            try:
                changed = run_passes(graph, name)
            except Exception:  # a fault of ours is no reason for the program to stop
                changed = False
            if changed:
                self._made[name] = self._make(graph)
            else:
                self._useless.add(name)

    def _compare(self, choice: _Choice[Made], arguments: Sequence[object]) -> object:
        """The result of the function as it is, after another graph has run beside it."""
        trial = choice.trial
        name = trial.next
        if name in self._useless:
            trial.drop(name, "is the same")
        begin = self._clock()
        result = self._usual(*arguments)
        trial.note_usual(self._clock() - begin)
        name = trial.next
        made = self._made.get(name) if name is not None else None
        if name is not None and made is not None:
            self._try(trial, name, made, arguments, result)
        if trial.next is None:
            self._settle(choice)
        return result

    def _try(self, trial: Trial, name: str, made: Made, arguments: Sequence[object], expected: object) -> None:
        begin = self._clock()
        try:
            found = made.way[0](*arguments)
        except Exception as error:
            trial.drop(name, f"raised {type(error).__name__}")
            return
        trial.note(name, self._clock() - begin)
        if not _agree(found, expected):
            trial.drop(name, "gave something else")

    def _settle(self, choice: _Choice[Made]) -> None:
        name = choice.trial.winner
        choice.name, choice.winner = name, None if name is None else self._made[name]
        choice.calls, choice.is_settled = 0, True
        if all(c.is_settled for c in self._choices.values()):
            used = {c.name for c in self._choices.values()}
            for other in set(self._made) - used:  # they hold weights, too
                self._made.pop(other, None)

    # -- for those who look

    def chosen(self, arguments: Sequence[object]) -> Made | None:
        """What runs for such arguments now; None where the function runs as it is."""
        kind = self._kind_of(arguments) if self.why_not is None else None
        choice = self._known.get(kind) if kind is not None else None
        return None if choice is None or not choice.is_settled else choice.winner

    def told(self, arguments: Sequence[object]) -> list[str]:
        """What was decided, and what for such arguments, in sentences."""
        if self.why_not is not None:
            return [f"it runs as it is: {self.why_not}"]
        kind = self._kind_of(arguments)
        choice = self._known.get(kind) if kind is not None else None
        if choice is _SETTLED:
            here = "as it is, for they lie in another order, or too many others were tried"
        elif kind is None:
            here = "as it is, for there are other tensors than plain ones on the CPU"
        else:
            here = "not decided yet" if choice is None else choice.tells()
        others = [c.tells() for c in self._choices.values() if c is not choice]
        return [f"such arguments: {here}", *(f"other arguments: {told}" for told in others)]


_SETTLED: _Choice[Any] = _Choice(())
_SETTLED.is_settled = True


def _is_watched() -> bool:
    """Is there a mode in which somebody might see which operators run?"""
    return is_intercepted() or is_transformed() or torch.are_deterministic_algorithms_enabled()


def _about(tensor: torch.Tensor) -> Kind:
    """Of about what size a tensor is."""
    return tensor.dtype, tensor.dim(), tensor.numel().bit_length()


def _why_none(graph: Graph) -> str | None:
    """Why no other graph is run in place of one."""
    for value in graph.inputs:
        if not _is_looked_at(value.type):
            return f"nothing is known of %{value.name} : {value.type}"
    return why_not_repeatable(graph)


def _is_looked_at(t: Type) -> bool:
    """Is a parameter a tensor, or a value that has nothing to do with tensors?"""
    bare = T.without_none(t)
    is_module = isinstance(bare, T.ClassType) and bare.is_module
    return is_module or bare in (T.TENSOR, T.FLOAT, T.BOOL, T.STRING, T.NONE)


def _agree(found: object, expected: object) -> bool:
    """Are two results the same, but for rounding?"""
    if isinstance(expected, torch.Tensor):
        return isinstance(found, torch.Tensor) and _tensors_agree(found, expected)
    if isinstance(expected, list | tuple):
        return (
            type(found) is type(expected)
            and isinstance(found, list | tuple)
            and len(found) == len(expected)
            and all(map(_agree, found, expected))
        )
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and list(found) == list(expected)
            and all(map(_agree, found.values(), expected.values()))
        )
    return type(found) is type(expected) and (found == expected or found != found)


_TOLERANCE = 1e-2
"""How much numbers may differ, as a part of the largest one: it is for faults, and not for rounding."""


def _tensors_agree(found: torch.Tensor, expected: torch.Tensor) -> bool:
    kinds = [(t.shape, t.dtype, t.layout, t.device, t.requires_grad) for t in (found, expected)]
    if kinds[0] != kinds[1] or found.layout is not torch.strided or found.stride() != expected.stride():
        return False
    if not expected.is_floating_point() or not expected.numel():
        return torch.equal(found, expected)
    scale = float(expected[expected.isfinite()].abs().max()) if bool(expected.isfinite().any()) else 1.0
    return torch.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True)
