"""How a function is run: its plans, which plan a call takes, and when a new one is made.

A *plan* is an optimized graph together with what runs it. The general plan of a function is right for all arguments. It
runs from the first call, or a plan for flags of modules as that call has them (`flag_plans.py`). What happens then
depends on the switch `executor`:

- `profiling`: a function that is called often, and asks things that the types of its arguments answer, is profiled for
  a call or two. If a graph for the types that were seen has less to do, it becomes the function's plan, behind a guard;
  calls that the guard turns away go on as a function of their own, which may be specialized again
  (`set_fusion_strategy`). If nothing is gained, the general plan goes on without any further check.
- `legacy`: each kind of arguments (`ArgumentSpec`) has a plan. The latest `cached_plans` are kept.
- `simple`: the general plan and nothing else.
- `off`: no passes, the stack machine.
- `debug`: the function as it is written, with its variables, on the stack machine; see `debug_plans.py`. A function in
  which there is a `breakpoint()` is always run so.

A function may have other graphs, one of which is run where trials show it to be faster: see `alternatives.py`.

`Executor.entry` is the callable for calls, and is exchanged whenever something changes, so that a function whose plan
is settled runs it at once. Locks are taken only where plans are made; counters that are kept without them are exact
under the GIL.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from jitlite.analysis.module_flags import flag_reads, flag_test, may_have_flags
from jitlite.base import background, options
from jitlite.base.computed_once import cached_property
from jitlite.compiler import program as compiler
from jitlite.executor import last_run
from jitlite.executor.alternatives import Alternatives
from jitlite.executor.argument_types import ArgumentTypes
from jitlite.executor.debug_plans import debug_code, run_debugged
from jitlite.executor.flag_plans import FlagPlan, first_plan
from jitlite.executor.guard_misses import GuardMisses
from jitlite.executor.plans import (
    Counter,
    Counters,
    ExecutorState,
    Plan,
    RegionPlan,
    region_states_of,
    strategy_at,
    take_place,
)
from jitlite.executor.spec_plans import SpecPlans
from jitlite.executor.specialize import Specialized, fallback_function, may_gain, specialize
from jitlite.executor.tiers import Calls, lowered, plan_for
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.code import Code
from jitlite.interpreter.entry import Exchanged
from jitlite.interpreter.guards import ArgumentSpec, dispatcher
from jitlite.interpreter.profiler import Profile
from jitlite.interpreter.python_code import add_script_traceback
from jitlite.ir.graph import Graph
from jitlite.ir.int_codes import holds_object
from jitlite.ir.object_flow import may_hold
from jitlite.ir.regions import Runner
from jitlite.ir.types import Type
from jitlite.ir.unit import Function, stops_in_debugger
from jitlite.native.policy import RegionState
from jitlite.passes.guarded import guarded
from jitlite.passes.insert_profiles import profile_with

_NOT_CALLED = "not called yet"
_SOON = 8
"""After this many calls, the general plan is made where others have another one."""
_FAILURES = 64
"""After this many guard failures, check whether the specialized plan still pays."""


class Executor(Exchanged):
    """The plans of one function.

    Args:
        graph: the graph as the front end left it.
        name: of the function, for tracebacks.
        level: how often the function was specialized already, for what a guard turns away.
        general: its general plan if it has one.
        objects: may it be given objects for ints? It is made ready for them when it first is.

    Attributes:
        entry: the callable that runs a call; it takes an argument for each input of the graph. Look it up for each
            call: it is exchanged when plans are made and when switches change.
    """

    def __init__(
        self, graph: Graph, name: str, level: int = 0, general: Plan | None = None, objects: bool = False
    ) -> None:
        self.graph = graph
        self.name = name
        self.objects = objects
        self.counters = Counters()
        self._decision = _NOT_CALLED
        self._level = level
        self._general = general
        self._first: FlagPlan | None = None
        """The plan of calls until it is settled which plan there will be, if that is not the general one."""
        self._unoptimized: Plan | None = None
        self._code: Code | None = None
        self._plain_code: Code | None = None
        self._debug_code: Code | None = None
        self.function: weakref.ref[Function] | None = None
        """What the graph is of, if it is known: how that is written is what a debugger shows."""
        self._calls = Counter()
        self._patience = 1
        self._seen: ArgumentTypes | None = None
        self._profile_code: Code | None = None
        self._profiled_types: dict[str, Type] = {}
        self._specialized: Plan | None = None
        self._for: Specialized | None = None
        self.guard_misses: GuardMisses | None = None
        """Why the guard of the specialized plan turned calls away."""
        self._rest: Executor | None = None
        self._given_up = False
        self._before: weakref.ref[Executor] | None = None
        self._committed: Runner | None = None
        self._pending: set[str] = set()
        """The steps that are being taken in the background."""
        self.alternatives: Alternatives[Executor] | None = None
        self._by_spec = SpecPlans(graph, self._make_spec_plan, self.counters)
        super().__init__(self._start)
        last_run.register(self)

    def __repr__(self) -> str:
        return f"<jitlite executor of {self.name}: {self._decision}>"

    def run(self, bound: Sequence[object]) -> Any:
        """The result of a call; `bound` has an argument for each input. An exception gets the script's traceback."""
        if not self.objects and self._takes_ints and any(map(holds_object, bound)):
            self.admit_objects()
        try:
            return self.way[0](*bound)
        except BaseException as error:
            add_script_traceback(error)
            raise

    @cached_property
    def _takes_ints(self) -> bool:
        return any(may_hold(v.type) for v in self.graph.inputs)

    def admit_objects(self) -> None:
        """Make plans anew that are right where ints are objects such as dtypes: see `ir/object_flow.py`."""
        with compiler.compiling():
            if self.objects:
                return
            self.objects = True
            if self._general is not None:
                self._general = self._make_plan(self._general.base)
            self._code = self._plain_code = self._unoptimized = self._seen = self._profile_code = None
            self._debug_code = None
            self._specialized = self._for = self._rest = self._committed = self._first = None
            self._given_up = False
            self._by_spec.forget()
            self._invalidate_chain()

    # -- which way calls go

    def invalidate_entry(self) -> None:
        """Have the next call look at the switches, and choose its plan anew."""
        self.entry = self._start

    def _start(self, *arguments: object) -> Any:
        mode = options.current().executor
        last_run.note(self, mode)
        way = self._way(mode)
        self.entry = way
        if (
            options.is_overridden() or last_run.is_followed() or way != self._way(mode)
        ):  # or another thread has settled it
            self.entry = self._start
        return way(*arguments)

    def _way(self, mode: str) -> Runner:
        if mode == "debug" or self._has_breakpoint:
            return self._debugged
        if self.alternatives is not None and self.alternatives.why_not is None and mode != "off":
            return self.alternatives.run
        return self._usual_way(mode)

    @cached_property
    def _has_breakpoint(self) -> bool:
        return stops_in_debugger(self.graph)

    def _debugged(self, *arguments: object) -> Any:
        return run_debugged(self.debug_code, arguments, debug_code_for, self._has_breakpoint)

    def _usual_way(self, mode: str) -> Runner:
        """The way without alternatives."""
        if mode == "profiling":
            if self._given_up and self._rest is not None:
                return self._rest._way(mode)
            return self._committed or self._count_call
        if mode == "legacy":
            return self._by_spec.call
        if mode == "off":
            return self.unoptimized.run
        return self.general.run

    def _commit_entry(self, way: Runner, why: str) -> None:
        self._committed = way
        self._decision = why
        self._invalidate_chain()

    def _invalidate_chain(self) -> None:
        """The same for the executors that may have handed their calls to this one for good."""
        self.invalidate_entry()
        before = None if self._before is None else self._before()
        if before is not None:
            before._invalidate_chain()

    def _make_plan(self, graph: Graph) -> Plan:
        return plan_for(graph, self.name, self.objects, tier_calls())

    def _make_spec_plan(self, graph: Graph) -> Plan:
        self._decision = "a plan for each kind of arguments"
        return self._make_plan(graph)

    def _run_usual(self, *arguments: object) -> Any:
        return self._usual_way(options.current().executor)(*arguments)

    def add_alternatives(self, passes: Sequence[str]) -> None:
        """Have trials decide between the graph as it is and what each of some passes, by name, makes of it."""
        self.alternatives = Alternatives(self.graph, passes, partial(Executor, name=self.name), self._run_usual)
        self.invalidate_entry()

    def chosen(self, bound: Sequence[object]) -> Executor:
        """The executor of the graph that is run for such arguments now."""
        found = None if self.alternatives is None else self.alternatives.chosen(bound)
        return self if found is None else found

    # -- plans for all arguments

    @property
    def general(self) -> Plan:
        """The plan that is right for all arguments."""
        found = self._general
        if found is None:
            with compiler.compiling():
                if self._general is None:
                    self._get_background_ready()
                    self._general = self._make_plan(compiler.optimized(self.graph))
                found = self._general
        return found

    def _get_background_ready(self) -> None:
        if options.current().background:
            background.get_ready()

    @property
    def unoptimized(self) -> Plan:
        """The graph as it is, on the stack machine."""
        if self._unoptimized is None:
            code = self.plain_code
            self._unoptimized = Plan(self.graph, lambda *arguments: vm.run(code, arguments, plain_code_for))
        return self._unoptimized

    @property
    def code(self) -> Code:
        """The bytecode of the general plan."""
        if self._code is None:
            with compiler.compiling():
                general = self.general
                if self._code is None:  # another thread may have been first
                    self._code = general.code or lowered(general.graph, self.name, self.objects, tier_calls())[0]
                return self._code
        return self._code

    @property
    def plain_code(self) -> Code:
        """The bytecode of the graph without passes."""
        if self._plain_code is None:
            with compiler.compiling():
                if self._plain_code is None:
                    self._plain_code = lower(self.graph, self.name, self.objects)
                return self._plain_code
        return self._plain_code

    @property
    def debug_code(self) -> Code:
        """The bytecode of the function as it is written."""
        if self._debug_code is None:
            with compiler.compiling():
                if self._debug_code is None:
                    function = None if self.function is None else self.function()
                    self._debug_code = debug_code(self.graph, function, self.name, self.objects)
        return self._debug_code

    # -- profiling, then specializing

    def _count_call(self, *arguments: object) -> Any:
        """Run the plan that there is and count, until the function has turned out to be called often."""
        self._calls.bump()
        if self._calls.value >= options.current().specialize_after * self._patience:
            return self._run_and_take(self._decide_specialization, arguments)
        if self._calls.value == _SOON and self._first is not None and options.current().background:
            self._in_time(self._make_general)
        return self._plan_of(arguments).run(*arguments)

    def _make_general(self) -> None:
        """Have the general plan ready for a call with other flags, which would have to wait for it."""
        self._general = self.general

    @property
    def _current(self) -> Plan:
        """The plan of calls until it is settled which plan there will be."""
        first = self._first
        return self.general if first is None else first.plan

    def _plan_of(self, arguments: Sequence[object]) -> Plan:
        """The plan of such a call until it is settled which plan there will be."""
        first = self._first
        if first is not None:
            if first.fits(arguments):
                return first.plan
            self._drop_first(first)
        elif self._may_have_first:
            with compiler.compiling():
                if self._may_have_first:
                    self._get_background_ready()
                    self._general, self._first = first_plan(self.graph, arguments, self._make_plan)
            return self._plan_of(arguments)  # it may be another thread's
        return self._specialized or self.general

    @property
    def _may_have_first(self) -> bool:
        plans = (self._general, self._first, self._specialized)
        return plans == (None, None, None) and strategy_at(self._level) is not None

    def _drop_first(self, first: FlagPlan) -> None:
        """Go on with the general plan, from the start: flags are not always set as in the first calls."""
        with compiler.compiling():
            if self._first is first:
                self._first = self._seen = self._profile_code = self._committed = None
                self._general = self.general
                self.invalidate_entry()

    def _run_and_take(self, step: Callable[[], None], arguments: tuple[object, ...]) -> Any:
        """Run the plan that there is, and take a step towards another one. How long the run took is told to who does
        that in the background, so it comes behind it."""
        if not options.current().background:
            plan = self._plan_of(arguments)
            self._in_time(step)
            return plan.run(*arguments)
        since = time.perf_counter()
        try:
            return self._plan_of(arguments).run(*arguments)
        finally:
            self._in_time(step, time.perf_counter() - since)

    def _in_time(self, step: Callable[[], None], call: float = 0.0) -> None:
        """Take a step towards another plan: now, or in the background, once, while calls go on as they did."""
        if not options.current().background:
            step()
        elif step.__name__ not in self._pending:
            self._pending.add(step.__name__)

            def job() -> None:
                try:
                    step()
                except Exception as error:  # a fault of ours is no reason for the program to stop
                    why = f"general plan: making another one failed with {type(error).__name__}"
                    self._commit_entry(self.general.run, why)
                    raise
                finally:
                    self._pending.discard(step.__name__)

            background.submit(job, call)

    def _decide_specialization(self) -> None:
        """Decide whether it is worth trying to specialize the function."""
        with compiler.compiling():
            if self._committed is not None:
                self.invalidate_entry()  # another thread was first
                return
            plan = self._current
            if strategy_at(self._level) is None:
                self._settle("specialized as often as the fusion strategy allows")
            elif not may_gain(plan.base):
                self._settle("nothing in it depends on the types of arguments")
            elif options.current().background and plan.is_left_to_regions and not may_have_flags(plan.base):
                if plan.has_machine_code:
                    self._settle("nearly all of it is machine code")
                else:
                    self._patience *= 4  # until it is known what becomes of them
            elif options.current().background:
                self._seen = ArgumentTypes(plan.base.inputs, Profile(), flag_reads(plan.base))
                self._commit_entry(self._watched, "being profiled")
            else:
                self._commit_entry(self._profiled, "being profiled")

    def _settle(self, why: str) -> None:
        """Have calls go on with the plan that they have."""
        first = self._first
        if first is None:
            self._commit_entry(self.general.run, f"general plan: {why}")
        else:
            self._install(first.specialized())

    def _watched(self, *arguments: object) -> Any:
        """Run the plan that there is, and note of what types arguments are until enough has been seen.

        That is all that specializing asks. The machine would tell of all values, and take many times as long.
        """
        seen = self._seen
        if seen is not None:
            seen.note(arguments)
            self.counters.profiled.bump()
            if self.counters.profiled.value >= options.current().profiled_runs:
                return self._run_and_take(self._specialize_watched, arguments)
        return self._plan_of(arguments).run(*arguments)

    def _specialize_watched(self) -> None:
        seen = self._seen
        if seen is not None:
            self._specialize(seen)

    def _profiled(self, *arguments: object) -> Any:
        """Run the plan that there is on the stack machine, with profiles, until enough has been seen."""
        with compiler.compiling():
            self._plan_of(arguments)
            code, seen = self._profiling()
            seen.note_others(arguments)
        try:
            return vm.run(code, arguments, code_for)
        finally:
            self.counters.profiled.bump()
            if self.counters.profiled.value >= options.current().profiled_runs:
                self._specialize(seen)

    def _profiling(self) -> tuple[Code, ArgumentTypes]:
        if self._seen is None or self._profile_code is None:
            profile, copy = Profile(), self._current.base.copy()
            profile_with(copy, profile.recorder)
            self._profile_code = lower(copy, self.name, self.objects)
            self._seen = ArgumentTypes(copy.inputs, profile, flag_reads(self._current.base))
        return self._profile_code, self._seen

    def _specialize(self, seen: ArgumentTypes) -> None:
        with compiler.compiling():
            if self._committed not in (self._profiled, self._watched):
                self.invalidate_entry()  # another thread was first
                return
            kind = strategy_at(self._level)
            made = None
            if kind is not None:
                made = specialize(self._current.base, seen.seen(), seen.flags(), with_sizes=kind == "STATIC")
            self._profiled_types = seen.profile.describe()
            self._seen = self._profile_code = None
            if made is not None:
                self._install(made if self._first is None else self._first.specialized(made))
            else:
                self._settle("knowing the types of arguments would save nothing")

    def _install(self, made: Specialized) -> None:
        before = self._current
        rest = self._rest = Executor(self.graph, self.name, self._level + 1, self._general, self.objects)
        rest._before = weakref.ref(self)
        fallback = fallback_function(self.graph, rest)
        self.counters.specializations.bump()
        self._for, self._first = made, None
        specialized = before if made.graph is before.base else self._make_plan(made.graph)
        if specialized is not before:
            take_place(before.regions, specialized.regions)
        inputs = before.graph.inputs
        test = flag_test(inputs, made.flags) if made.flags else None
        graph = guarded(inputs, specialized.graph, made.types, fallback, test)
        misses = self.guard_misses = GuardMisses(inputs, made.types, made.flags)
        failures, no_plan = self.counters.guard_failures, self.counters.fallbacks.bump

        def on_guard_failure(*arguments: object) -> Any:
            failures.bump()
            misses.note(arguments)
            if failures.value % _FAILURES == 0:
                self._drop_if_unprofitable(made)
            if rest._specialized is None:
                no_plan()
            return rest.way[0](*arguments)

        declared = [v.type for v in inputs]
        passes = None if test is None else self._make_plan(test).run
        run = dispatcher(declared, made.types, specialized.run, on_guard_failure, self.counters.hits.bump, passes)
        self._specialized = Plan(graph, run, regions=specialized.regions)
        why = f"specialized for {made.wanted(inputs)}: {made.saved} steps fewer a call, for {made.guard} to check"
        self._commit_entry(run, why)

    def _drop_if_unprofitable(self, made: Specialized) -> None:
        """Give a specialized plan up if its guard has cost more than the plan has saved."""
        spent = self.counters.guard_failures.value * made.guard
        if self.counters.hits.value * made.gain < spent:
            self._in_time(self._give_up)

    def _give_up(self) -> None:
        with compiler.compiling():
            if not self._given_up:
                self._given_up, self._specialized, self._for = True, None, None
                self._decision += "; given up, for few calls are of that kind"
                self._invalidate_chain()

    # -- for those who look

    @property
    def optimized_graph(self) -> Graph:
        """The graph of the general plan."""
        return self.general.graph

    @property
    def plan_graph(self) -> Graph:
        """The graph of the general plan, or of the one that there is in its place."""
        if self._for is not None and self._general is None:
            return self._for.graph
        return self._current.graph

    @property
    def runs_on_stack(self) -> bool:
        """Does the stack machine run the plan that calls have?"""
        return (self._specialized or self._current).code is not None

    @property
    def wanted_at_first(self) -> str:
        """What the plan of the first calls asks, in words; empty where they have the general plan."""
        first = self._first
        return "" if first is None else first.specialized().wanted(self.graph.inputs)

    def graph_for(self, bound: Sequence[object]) -> Graph:
        """The graph that a call with these arguments runs now."""
        mode = options.current().executor
        chosen = self.chosen(bound)
        if mode in ("off", "debug"):
            return self.graph
        if chosen is not self:
            return chosen.graph_for(bound)
        if mode == "legacy":
            return self._by_spec.graph_for(bound)
        if mode == "profiling" and self._specialized is not None:
            return self._specialized.graph
        if self._given_up and self._rest is not None:
            return self._rest.graph_for(bound)
        first = self._first
        if mode != "profiling" or (first is not None and not first.fits(bound)):  # to look drops no plan
            return self.general.graph
        return self._plan_of(bound).graph

    @property
    def decision(self) -> str:
        """Why the function is run as it is, as a sentence."""
        if self._given_up and self._rest is not None:
            return f"{self._decision}; {self._rest.decision}"
        if self._decision == _NOT_CALLED and self._first is not None:
            return f"a plan for {self.wanted_at_first}, from the first call on; the general plan waits for other calls"
        if self._decision == _NOT_CALLED and self._calls.value:
            return "general plan: the function was not yet called often enough to be specialized"
        return self._decision

    def last_graph(self, mode: str) -> Graph:
        """The graph of the plan that ran last, in the given mode."""
        found = self._by_spec.last_graph() if mode == "legacy" else None
        if found is not None:
            return found
        if mode == "profiling" and self._specialized is not None:
            return self._specialized.graph
        if mode == "profiling" and self._given_up and self._rest is not None:
            return self._rest.last_graph(mode)
        if mode == "profiling":
            return self._current.graph
        return self.graph if mode in ("off", "debug") else self.general.graph

    @property
    def profile(self) -> dict[str, Type]:
        """The types that profiled calls have seen, by name of value."""
        return self._profiled_types if self._seen is None else self._seen.profile.describe()

    @property
    def specialized(self) -> Specialized | None:
        """What the function is specialized for."""
        return self._rest.specialized if self._given_up and self._rest is not None else self._for

    def chain(self) -> Iterator[Executor]:
        """The executor, and those that calls go on to which a guard has turned away."""
        step: Executor | None = self
        while step is not None:
            yield step
            step = step._rest

    @property
    def counted_calls(self) -> int:
        """How many calls ran the general plan while it was open whether there would be another one."""
        return self._calls.value

    @property
    def is_settled(self) -> bool:
        """Is it decided which plan calls take? From then on they are not counted."""
        return self._committed is not None

    def state(self) -> ExecutorState:
        """What the executor has now."""
        plans = self._by_spec.by_spec()
        totals = dict.fromkeys(self.counters.as_dict(), 0)
        for step in self.chain():
            if step._specialized is not None and step._for is not None:
                plans[ArgumentSpec((True, step._level), step._for.types)] = step._specialized
            for name, number in step.counters.as_dict().items():
                totals[name] += number
        states = region_states_of(self._regions_of(plans.values()))
        totals["native_runs"] = sum(state.runs for state in states)
        totals["native_misses"] = sum(state.bailouts for state in states)
        return ExecutorState(self.graph, self._general, plans, totals, self.decision)

    @property
    def regions(self) -> list[RegionPlan]:
        """What becomes of the regions of all plans."""
        return self._regions_of(self.state().execution_plans.values())

    @property
    def region_states(self) -> list[RegionState]:
        """What becomes of those that can be machine code."""
        return region_states_of(self.regions)

    def _regions_of(self, plans: Iterable[Plan]) -> list[RegionPlan]:
        first = None if self._first is None else self._first.plan
        every = [plan for plan in (self._general, first, *plans) if plan is not None]
        return [region for plan in every for region in plan.regions]

    def __deepcopy__(self, memo: object) -> Executor:
        return Executor(self.graph, self.name)

    def __reduce__(self) -> Any:
        return Executor, (self.graph, self.name)


# -- functions that functions call


def executor_of(function: Function) -> Executor:
    """The executor of a function, made the first time."""
    found = function.compiled
    if not isinstance(found, Executor):
        with compiler.compiling():
            found = function.compiled
            if not isinstance(found, Executor):
                found = Executor(function.graph, function.name)
                found.function = weakref.ref(function)
                if function.alternatives:
                    found.add_alternatives(function.alternatives)
                function.compiled = found
    if function.is_given_objects and not found.objects:
        found.admit_objects()
    return found


def tier_calls() -> Calls:
    """How functions that a graph calls are run."""
    return Calls(lambda function: executor_of(function).general.run, code_for)


def code_for(function: Function) -> Code:
    """The bytecode of a called function, optimized like the caller's."""
    return executor_of(function).code


def debug_code_for(function: Function) -> Code:
    """The bytecode of a called function as it is written."""
    return executor_of(function).debug_code


def plain_code_for(function: Function) -> Code:
    """The bytecode of a called function, without passes."""
    return executor_of(function).plain_code
