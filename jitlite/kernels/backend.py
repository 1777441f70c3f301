"""Regions of the kind `tensors`: programs over tensors, which become machine code once they are hot.

Python runs a region until that has taken about as long as compiling it takes. Then a kernel is made for the arguments
of a call, as far as facts go; arguments of which other facts hold get a kernel of their own, up to `MOST` of them, once
Python has spent as much on them.

In the background a large kernel is compiled twice: quickly first, so that calls have machine code soon, and then, when
nothing else waits, as well as can be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from jitlite.base import background, options
from jitlite.base.locks import ObjectLock
from jitlite.interpreter.modes import is_intercepted
from jitlite.ir.graph import Graph
from jitlite.ir.regions import Backend, FormedRegions, Implementation, PlanContext, Region, Runner
from jitlite.kernels.attribute_reads import read_attributes_early
from jitlite.kernels.compiled import CompiledKernel
from jitlite.kernels.facts import Fact, fact_of, recorded_fact_of, text_of_facts
from jitlite.kernels.heat import EARLY, EARLY_RUNS, HEAT
from jitlite.kernels.hoist import hoist_packing
from jitlite.kernels.lower import lower
from jitlite.kernels.race import RACES, REST, Race
from jitlite.kernels.recording import Key, Part, RecordingFactory, Recordings, needs_of
from jitlite.kernels.regions import TensorRun, fault_of, give_own_lists, may_have_regions
from jitlite.kernels.reuse import reuse_memory
from jitlite.kernels.torch_abi import torch_abi
from jitlite.kernels.verify import verify
from jitlite.native.code import NotNative
from jitlite.native.emit import unset_boxes
from jitlite.native.entry import is_loaded
from jitlite.native.policy import BAILOUTS, COMPILE_SECONDS, IMPORT_SECONDS, NODE_SECONDS
from jitlite.native.regions import NativeRegion
from jitlite.passes.form_regions import form_regions

KIND = "tensors"

MOST = 4
"""Kernels of one region."""


ASKED, UNASKED = 8, 256
"""Where there are no kernels for the arguments, they are asked in so many runs, and then not in so many."""


def _records(arguments: Sequence[object]) -> bool:
    """Is a gradient recorded? A tensor of another class is not asked; there is no kernel for it."""
    return torch.is_grad_enabled() and not is_intercepted() and any(needs_of(arguments))


def _give_up(*arguments: object) -> None:
    """What is called for a region that is given up."""


class KernelState(Implementation):
    """What becomes of one region of a plan.

    Attributes:
        region: what may become machine code.
        kernels: those there are, the latest one first.
        refused: why there is no kernel for some facts.
        recordings: what runs the region where it records a gradient; None where that is left to Python.
        is_tried: is a trial to find out first whether recording by kernels is faster?
    """

    is_adaptive = True

    def __init__(
        self, region: NativeRegion, name: str, gives_tuple: bool, mode: str, recordings: Recordings | None = None
    ) -> None:
        super().__init__(
            self._make_and_run if mode == "now" else None, "not compiled yet, for it has run only a little"
        )
        self.recordings = recordings
        self.is_tried = mode != "now"
        self.fact_of: Callable[[object], Fact] = fact_of
        self.is_raced = mode != "now"
        self.is_uniform = False
        self.region = region
        self.name = name
        self.kernels: list[CompiledKernel] = []
        self.refused: dict[tuple[Fact, ...], str] = {}
        self._last = 0.0
        self._fastest = float("inf")
        self._gives_tuple = gives_tuple
        self._is_now = mode == "now"
        self._least = COMPILE_SECONDS + NODE_SECONDS * region.size
        self._compiling = ObjectLock()
        self._is_given_up = False
        self._is_full = False
        self._race: Race | None = None
        self._python_runs = 0
        self._expected = 0.0
        self._unasked = 0
        self._settled_runs = -1
        self._lost = 0
        self._rest = 0.0
        self._may_be_unset = frozenset(unset_boxes(region))

    @property
    def runs(self) -> int:
        """How often it ran as machine code."""
        return sum(kernel.runs for kernel in self.kernels)

    @property
    def is_compiled(self) -> bool:
        return not self._is_given_up and bool(self.kernels or self.recordings)

    @property
    def _least_seconds(self) -> float:
        """What a run in Python took at least, 0 where there was none."""
        return 0.0 if self._fastest == float("inf") else self._fastest

    @property
    def operations(self) -> int:
        refused = self.refused or (self.recordings is not None and self.recordings.refused)
        is_left = self._is_given_up or (bool(refused) and not self.is_compiled)
        return 0 if is_left else self.region.size

    @property
    def bailouts(self) -> int:
        """How often machine code could not do it."""
        return sum(kernel.bailouts for kernel in self.kernels)

    @property
    def misses(self) -> int:
        """How often there was no kernel for the arguments."""
        return min((kernel.misses for kernel in self.kernels), default=0)

    # -- when
    def record_run(self, since: float) -> None:
        """Python has run the region, from `since` on."""
        if self._unasked:
            self._unasked -= 1
            if not self._unasked:
                self.publish(self._entry)
            return
        if self._is_now or (self._has_all and self.recordings is None):
            return
        spent = time.perf_counter() - since
        self.seconds += spent
        self._python_runs += 1
        HEAT.ran(spent)
        self._last, self._fastest = spent, min(spent, self._fastest)
        if self._race is not None:
            self._race.python.append(spent)
        elif self._rest:
            self._rest -= spent
            if self._rest <= 0.0:
                self._begin_race()
        elif not self._is_given_up and self.bailouts >= BAILOUTS and self.bailouts > self.runs:
            self._abandon(f"given up, for it could not be done {self.bailouts} times of {self.bailouts + self.runs}")
        elif self.seconds * EARLY > self._least * HEAT.cost and self._is_hot():
            self.seconds = 0.0
            self._least *= 2  # for the next kernel, or another try
            self.publish(self._make_and_run)
        else:
            self._leave_alone()
            background.wait_a_turn(self._compiling, spent)

    def _leave_alone(self) -> None:
        """Do not ask the kernels for a while: none has run since there was found to be none for some arguments."""
        if not self.recordings and self._settled_runs == self.runs and self._python_runs % ASKED == 0:
            self._unasked = UNASKED
            self.publish(_give_up)

    def _is_hot(self) -> bool:
        """Is a kernel to be made: has the region taken long enough, or all regions together?"""
        least = self._least * HEAT.cost + (0.0 if is_loaded() else IMPORT_SECONDS)
        is_early = self._python_runs >= EARLY_RUNS and HEAT.pays(2 * least)
        if self.seconds <= least and not is_early:
            return False
        self._expected = 2 * least
        HEAT.ask(self._expected)
        return True

    def _abandon(self, why: str) -> None:
        self._is_given_up = True
        self._rest = 0.0
        self.status = why
        self.publish(self._entry)  # not None: generated code of another thread may be about to call what it has seen

    @property
    def _has_all(self) -> bool:
        """Is no kernel to be made any more?"""
        return self._is_given_up or self._is_full

    def compile_next(self) -> None:
        """Have the next run make a kernel for its arguments, hot or not."""
        if not self._has_all:
            self.publish(self._make_and_run)

    def warm_up(self, seconds: float) -> None:
        if seconds > self._least and self.run is None:
            self.compile_next()
        else:
            self.seconds = seconds

    def prepare(self, arguments: Sequence[object]) -> None:
        """Have a kernel for these arguments, now and on this thread.

        Raises:
            NotNative: there is none for them.
        """
        with self._compiling:
            facts = tuple(map(self.fact_of, arguments))
            if self._make(facts) is None:
                raise NotNative(self.refused.get(facts, self.status))

    def settle(self) -> None:
        """Have calls find the kernels there are, whatever the mode."""
        self._rest = 0.0
        self.publish(self._entry)

    # -- how
    def _make_and_run(self, *arguments: object) -> object:
        """Have a kernel for these arguments, and run it. Threads that come meanwhile stay with Python."""
        if _records(arguments):
            return self._record_and_run(arguments)
        if self.kernels and not self._is_given_up and not self._rest:
            found = self._plain_entry(*arguments)
            if found is not None:
                return found
        if self._has_all:
            self._find_nothing()
            return None
        if not self._compiling.acquire(blocking=False):
            return None
        try:
            facts = self._facts(arguments)
            if facts is None:
                return None
            if options.current().background and not self._is_now:
                self._go_on()
                background.submit(partial(self._make_later, facts), self._last)
                return None
            entry = self._make(facts)
        finally:
            self._compiling.release()
        return None if entry is None else entry(*arguments)

    def _record_and_run(self, arguments: tuple[object, ...]) -> object:
        """The same where a gradient is recorded."""
        recordings = self.recordings
        key = None if recordings is None else recordings.key_of(arguments)
        if recordings is None or key is None or torch_abi() is None:
            self._find_nothing()
            return None if recordings is None else recordings.run(arguments)
        if not self._compiling.acquire(blocking=False):
            return None
        try:
            if options.current().background and not self._is_now:
                self._go_on()
                both = 3 * self._last  # the backward pass takes about twice as long
                background.submit(partial(self._record_later, recordings, key, arguments), both)
                return None
            recordings.make(key, arguments, trial=self.is_tried, forward_seconds=self._least_seconds)
        finally:
            self._compiling.release()
        self._go_on()
        return recordings.run(arguments)

    def _record_later(self, recordings: Recordings, key: Key, arguments: tuple[object, ...]) -> None:
        with self._compiling:
            recordings.make(key, arguments, trial=True, forward_seconds=self._least_seconds)
        self._go_on()

    def _facts(self, arguments: tuple[object, ...]) -> tuple[Fact, ...] | None:
        """What a kernel is to be made for; None where none is to be made."""
        if is_intercepted():
            self._go_on()  # no kernel would run here, and a mode would see what is asked to make one
            return None
        try:
            facts = tuple(map(self.fact_of, arguments))
        except NotNative as reason:
            self.status = str(reason)
            self._find_nothing()
            return None
        if facts in self.refused or any(kernel.facts == facts for kernel in self.kernels):
            self._find_nothing()
            return None
        return facts

    def _find_nothing(self) -> None:
        """There is nothing to make for the arguments."""
        self._settled_runs = self.runs
        self._go_on()

    def _go_on(self) -> None:
        """Have calls find the kernels there are, or Python."""
        if not self._is_now:
            self.publish(self._entry if self._race is None else self._compete)

    def _make_later(self, facts: tuple[Fact, ...]) -> None:
        expected, was_loaded, since = self._expected, is_loaded(), time.thread_time()
        with self._compiling:
            self._make(facts)
        if was_loaded:
            HEAT.note(expected, time.thread_time() - since)

    def _make(self, facts: tuple[Fact, ...]) -> Runner | None:
        """Make the kernel for facts."""
        if any(kernel.facts == facts for kernel in self.kernels):
            return self._entry  # another call was first
        try:
            if torch_abi() is None:
                self._abandon("no kernels here: torch is laid out in another way")
                return None
            made = self._lowered(facts)
            if not made.compile(quickly=self._is_quick_first):
                self._abandon("no machine code here: llvmlite is missing, or does not work with this Python")
                return None
        except NotNative as reason:
            self.refused[facts] = str(reason)
            self.status = f"no kernel for {text_of_facts(facts, self.region.inputs)}: {reason}"
            if len(self.refused) >= MOST and not self.kernels:
                self._abandon(self.status)
            self._go_on()
            return None
        except Exception as error:  # a fault of ours is no reason for the program to stop
            if self._is_now:
                raise
            self._abandon(f"no kernel: making one failed with {type(error).__name__}")
            return None
        if self.kernels:
            made.ask_next(self.kernels[0])
        self.kernels.insert(0, made)
        self._tell_kernels()
        if made.is_quick:
            background.submit(self._improve_later, self._last)
        self._begin_race()
        return self._entry

    def _lowered(self, facts: tuple[Fact, ...]) -> CompiledKernel:
        """The kernel for facts, before it is compiled."""
        kernel = lower(self.region, facts, self.name, self._gives_tuple, is_uniform=self.is_uniform)
        hoist_packing(kernel)
        reuse_memory(kernel)
        if options.current().verify:
            verify(kernel)
        return CompiledKernel(facts, kernel, self._may_be_unset)

    def _tell_kernels(self) -> None:
        count = len(self.kernels)
        self.status = f"machine code for {'one kind' if count == 1 else f'{count} kinds'} of arguments"

    @property
    def _is_quick_first(self) -> bool:
        return options.current().background and not self._is_now

    def _begin_race(self) -> None:
        self._rest = 0.0
        if self.is_raced:
            self._race = Race(self._entry, self._fastest)
            self.publish(self._compete)
        elif not self._is_now:
            self.publish(self._entry)

    def _improve_later(self) -> None:
        """Have the better code of kernels that were compiled quickly, and see how fast that is."""
        with self._compiling:
            if self.improve() and self.is_raced and not self._is_given_up:
                self._begin_race()

    def improve(self) -> bool:
        """Have the better code of kernels that were compiled quickly; says whether there were any."""
        found = [kernel for kernel in self.kernels if kernel.is_quick]
        for kernel in found:
            kernel.improve()
        return bool(found)

    def _compete(self, *arguments: object) -> object:
        """Run by turns as machine code and in Python, until it is known which one is faster."""
        race = self._race
        if race is None or _records(arguments):
            return self._entry(*arguments)
        found = race.turn(*arguments)
        if race.is_over:
            self._race = None
            if race.is_lost:
                self._lose(race)
            else:
                self._is_full = len(self.kernels) >= MOST
                self._tell_kernels()
                self.publish(self._entry)
        return found

    def _lose(self, race: Race) -> None:
        """Python was faster. What is slower by little may have been unlucky: it is compared again later."""
        if not any(kernel.is_quick for kernel in self.kernels):  # these are compared again once they are improved
            self._lost += 1
            if race.is_hopeless or self._lost >= RACES:
                self._abandon("given up, for Python runs it faster")
                return
        self._rest = REST * race.seconds
        self.status = "Python ran it faster; the two are compared again later"
        self.publish(self._entry)

    @property
    def _entry(self) -> Runner:
        """What asks the kernels there are."""
        is_asked = self.kernels and not self._is_given_up and not self._rest
        plain = self._plain_entry if is_asked else _give_up
        recordings = self.recordings
        if not recordings:
            return plain

        def ask(*arguments: object) -> object:
            found = plain(*arguments)
            return recordings.run(arguments) if found is None and not is_intercepted() else found

        return ask

    @property
    def _plain_entry(self) -> Runner:
        entry = self.kernels[0].entry
        assert entry is not None, "it has been compiled"
        dtypes = {kernel.default_dtype for kernel in self.kernels} - {None}
        if not dtypes:
            return entry
        if len(dtypes) > 1:
            return _give_up
        (wanted,) = dtypes
        asked = entry
        return lambda *arguments: asked(*arguments) if torch.get_default_dtype() is wanted else None


class KernelPart(Part):
    """A forward or backward pass, and its kernels."""

    def __init__(self, region: NativeRegion, name: str) -> None:
        self.state = KernelState(region, name, gives_tuple=True, mode=options.current().native)
        self.state.is_raced = False
        self.state.is_uniform = True
        self.state.fact_of = recorded_fact_of
        self.attempt = self.state.attempt  # type: ignore[method-assign]
        self.record_run = self.state.record_run  # type: ignore[method-assign]

    def prepare(self, arguments: Sequence[object]) -> None:
        self.state.prepare(arguments)

    def improve(self) -> bool:
        return self.state.improve()

    def settle(self) -> None:
        self.state.settle()


def _may_form(graph: Graph, context: PlanContext) -> bool:
    """The stack machine, which is the reference, runs operators itself."""
    asked = context.tier == "python" and options.current().native != "off"
    return asked and may_have_regions(graph)


def form_tensor_regions(graph: Graph) -> FormedRegions:
    """Make regions of what may be kernels."""
    give_own_lists(graph)
    read_attributes_early(graph)
    return form_regions(graph, KIND, TensorRun)


def _implement(region: Region, context: PlanContext) -> KernelState | str:
    fault = fault_of(region)  # texts have regions that nobody has asked about
    if fault is not None:
        return fault
    recordings = Recordings(RecordingFactory(region.graph(), KernelPart, context.run_graph))
    return KernelState(NativeRegion.of(region), KIND, region.gives_tuple, options.current().native, recordings)


TENSORS = Backend(_implement, lambda graph, context: form_tensor_regions(graph), _may_form)
