"""How a function is run: its plans, which plan a call takes, and when a new one is made.

A *plan* is an optimized graph together with what runs it. The general plan of a function is right for all arguments. It
runs from the first call. What happens then depends on the switch `executor`:

- `profiling`: a function that is called often, and asks things that the types of its arguments answer, is profiled for
  a call or two. If a graph for the types that were seen has less to do, it becomes the function's plan, behind a guard;
  calls that the guard turns away go on as a function of their own, which may be specialized again, a bounded number of
  times (`set_fusion_strategy`). If nothing is gained, the general plan goes on without any further check.
- `legacy`: each kind of arguments (`ArgumentSpec`) has a plan. The latest `cached_plans` are kept.
- `simple`: the general plan and nothing else.
- `off`: no passes, the stack machine.

`Executor.entry` is the callable for calls, and is exchanged whenever something changes, so that a function whose plan
is settled runs it at once. Locks are taken only where plans are made; counters that are kept without them are exact
under the GIL.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import torch

from jitlite.base import background, options
from jitlite.base.locks import Lock
from jitlite.codegen.python.python_tier import translate
from jitlite.compiler import program as compiler
from jitlite.executor.autodiff_groups import with_groups
from jitlite.executor.plans import Counter, Counters, ExecutorState, Plan, Runner, strategy_at
from jitlite.executor.specialize import Specialized, compile_for, may_gain, specialize
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.code import Code
from jitlite.interpreter.guards import ArgumentSpec, dispatcher, spec_of, spec_reader, tensor_type_of
from jitlite.interpreter.profiler import Profile
from jitlite.interpreter.python_code import add_script_traceback, trials_of
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.int_codes import holds_object
from jitlite.ir.object_flow import may_hold
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.types import Type
from jitlite.ir.unit import Function
from jitlite.native.policy import Trial
from jitlite.operators.python_forms import CannotTranslate
from jitlite.passes.guarded import guarded
from jitlite.passes.insert_profiles import profile_with

# -- switches that torch.jit has as functions


def get_num_profiled_runs() -> int:
    """How many calls are profiled before a function is specialized."""
    return options.current().profiled_runs


def optimized_execution(should_optimize: bool) -> AbstractContextManager[object]:
    """A context in which functions run with (True) or without (False) being optimized."""
    if not should_optimize:
        return options.override(executor="off")
    now = options.current().executor
    return options.override(executor="profiling" if now == "off" else now)


# -- what runs a graph


def _on_stack(graph: Graph, name: str, objects: bool) -> Runner:
    code = lower(graph, name, objects)
    return lambda *arguments: vm.run(code, arguments, code_for)


def _as_python(graph: Graph, name: str, objects: bool) -> Runner:
    def run_of(function: Function) -> Runner:
        return executor_of(function).general.run

    try:
        return translate(graph, name, run_of, native=options.current().native, objects=objects).run
    except CannotTranslate:
        return _on_stack(graph, name, objects)


_TIERS: dict[str, Callable[[Graph, str, bool], Runner]] = {"stack": _on_stack, "python": _as_python}


def runner_for(graph: Graph, name: str) -> Runner:
    """A callable that runs the graph on the tier that the switches ask for, or on the machine if that cannot.

    Exceptions leave it without a script traceback unless the stack machine runs it: see `add_script_traceback`.
    """
    return _TIERS[options.current().tier](graph, name, True)


def plan_for(graph: Graph, name: str, objects: bool = True) -> Plan:
    """A plan that runs the optimized graph, in the way that the switches ask for.

    `objects` says whether there may be objects such as dtypes among the arguments that are ints.
    """
    chosen = options.current()
    tier = _TIERS[chosen.tier]

    def make(graph: Graph, name: str) -> Runner:
        return tier(graph, name, objects)

    grouped = graph
    if chosen.symbolic_gradients > 0:
        grouped = with_groups(graph, name, chosen.symbolic_gradients, make)
    run = make(grouped, name)
    return Plan(grouped, run, ungrouped=None if chosen.symbolic_gradients <= 0 else graph, trials=trials_of(run))


# -- the executor

_FAILURES = 64
"""After so many calls that a guard has turned away, it is considered whether the plan behind it is of use."""

_executors: weakref.WeakSet[Executor] = weakref.WeakSet()
_registering = Lock("executors")
_last: tuple[weakref.ref[Executor], str] | None = None
"""What looked for a plan last, and by which mode of execution."""
_following = False
"""Is every run to look for its plan, so that `_last` is what ran last?"""


class Executor:
    """The plans of one function.

    Args:
        graph: the graph as the front end left it.
        name: of the function, for tracebacks.
        level: how often the function was specialized already, for what a guard turns away.
        general: its general plan if it has one.
        objects: may it be given objects such as dtypes for ints? It is made ready for them when it first is.

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
        self._decision = "not called yet"
        self._level = level
        self._general = general
        self._unoptimized: Plan | None = None
        self._code: Code | None = None
        self._plain_code: Code | None = None
        self._calls = Counter()
        self._profile: Profile | None = None
        self._profile_code: Code | None = None
        self._profiled_types: dict[str, Type] = {}
        self._specialized: Plan | None = None
        self._for: Specialized | None = None
        self._rest: Executor | None = None
        self._given_up = False
        self._before: weakref.ref[Executor] | None = None
        self._settled: Runner | None = None
        self._pending: set[str] = set()
        """The steps that are being taken in the background."""
        self._inputs: list[Value] = []
        self._optionals: list[Type | None] = []
        self._read: Callable[..., tuple[Any, ...]] | None = None
        self._by_spec: dict[tuple[Any, ...], Plan] = {}
        self.entry: Runner = self._start
        with _registering:
            _executors.add(self)

    def run(self, bound: Sequence[Any]) -> Any:
        """The result of a call; `bound` has an argument for each input. An exception gets the script's traceback."""
        if not self.objects and self._takes_ints and any(map(holds_object, bound)):
            self.admit_objects()
        try:
            return self.entry(*bound)
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
                self._general = plan_for(self._general.base, self.name)
            self._code = self._plain_code = self._unoptimized = self._profile = self._profile_code = None
            self._specialized = self._for = self._rest = self._settled = None
            self._given_up = False
            self._by_spec.clear()
            self._look_again_from_the_first()

    # -- which way calls go

    def look_again(self) -> None:
        """Have the next call look at the switches."""
        self.entry = self._start

    def _start(self, *arguments: Any) -> Any:
        global _last
        mode = options.current().executor
        _last = weakref.ref(self), mode
        way = self._way(mode)
        self.entry = way
        if options.is_overridden() or _following or way != self._way(mode):  # or another thread has settled it
            self.entry = self._start
        return way(*arguments)

    def _way(self, mode: str) -> Runner:
        if mode == "profiling":
            if self._given_up and self._rest is not None:
                return self._rest._way(mode)
            return self._settled or self._warm
        if mode == "legacy":
            return self._call_by_spec
        if mode == "off":
            return self.unoptimized.run
        return self.general.run

    def _settle(self, way: Runner, why: str) -> None:
        self._settled = way
        self._decision = why
        self._look_again_from_the_first()

    def _look_again_from_the_first(self) -> None:
        """The same for the executors that may have handed their calls to this one for good."""
        self.look_again()
        before = None if self._before is None else self._before()
        if before is not None:
            before._look_again_from_the_first()

    # -- plans for all arguments

    @property
    def general(self) -> Plan:
        """The plan that is right for all arguments."""
        found = self._general
        if found is None:
            with compiler.compiling():
                if self._general is None:
                    if options.current().background:
                        background.get_ready()
                    self._general = plan_for(compiler.optimized(self.graph), self.name, self.objects)
                found = self._general
        return found

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
                self._code = lower(self.general.graph, self.name, self.objects)
        return self._code

    @property
    def plain_code(self) -> Code:
        """The bytecode of the graph without passes."""
        if self._plain_code is None:
            with compiler.compiling():
                self._plain_code = lower(self.graph, self.name, self.objects)
        return self._plain_code

    # -- profiling, then specializing

    def _warm(self, *arguments: Any) -> Any:
        """Run the general plan and count, until the function has turned out to be called often."""
        if self._calls.bump() + 1 >= options.current().specialize_after:
            self._in_time(self._consider)
        return self.general.run(*arguments)

    def _in_time(self, step: Callable[[], None]) -> None:
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
                    self._settle(self.general.run, why)
                    raise
                finally:
                    self._pending.discard(step.__name__)

            background.submit(job)

    def _consider(self) -> None:
        """Decide whether it is worth trying to specialize the function."""
        with compiler.compiling():
            if self._settled is not None:
                self.look_again()  # another thread was first
                return
            general = self.general
            if strategy_at(self._level) is None:
                self._settle(general.run, "general plan: specialized as often as the fusion strategy allows")
            elif not may_gain(general.base):
                self._settle(general.run, "general plan: nothing in it depends on the types of arguments")
            elif options.current().background:
                self._watch()
                self._settle(self._watched, "being profiled")
            else:
                self._settle(self._profiled, "being profiled")

    def _watch(self) -> None:
        """Get ready to note of what types arguments are."""
        self._profile = Profile()
        self._inputs = list(self.general.base.inputs)
        self._optionals = [None] * len(self._inputs)

    def _watched(self, *arguments: Any) -> Any:
        """Run the general plan, and note of what types arguments are until enough has been seen.

        That is all that specializing asks. The machine would tell of all values, and take many times as long.
        """
        profile = self._profile
        if profile is not None:
            for value, argument in zip(self._inputs, arguments, strict=True):
                if isinstance(argument, torch.Tensor) and isinstance(value.type, T.TensorType):
                    profile.recorder(value)(argument)
            self._note_optionals(arguments)
            if self.counters.profiled.bump() + 1 >= options.current().profiled_runs:
                self._in_time(self._specialize_watched)
        return self.general.run(*arguments)

    def _specialize_watched(self) -> None:
        profile = self._profile
        if profile is not None:
            self._specialize(profile)

    def _profiled(self, *arguments: Any) -> Any:
        """Run the general plan on the stack machine, with profiles, until enough has been seen."""
        code, profile = self._profiling()
        self._see_optionals(arguments)
        try:
            return vm.run(code, arguments, code_for)
        finally:
            if self.counters.profiled.bump() + 1 >= options.current().profiled_runs:
                self._specialize(profile)

    def _profiling(self) -> tuple[Code, Profile]:
        with compiler.compiling():
            if self._profile is None or self._profile_code is None:
                profile, copy = Profile(), self.general.base.copy()
                profile_with(copy, profile.recorder)
                self._inputs = list(copy.inputs)
                self._optionals = [None] * len(copy.inputs)
                self._profile_code = lower(copy, self.name, self.objects)
                self._profile = profile
            return self._profile_code, self._profile

    def _see_optionals(self, arguments: Sequence[Any]) -> None:
        """Note of Optional arguments whether they are there, and of which type."""
        with compiler.compiling():
            self._note_optionals(arguments)

    def _note_optionals(self, arguments: Sequence[Any]) -> None:
        for i, (value, argument) in enumerate(zip(self._inputs, arguments, strict=True)):
            if not isinstance(value.type, T.OptionalType):
                continue
            inner = value.type.element
            found: Type = T.NONE if argument is None else inner
            if argument is not None and isinstance(inner, T.TensorType):
                found = tensor_type_of(argument, sizes=True)
            seen = self._optionals[i]
            self._optionals[i] = found if seen is None else (T.unify(seen, found) or value.type)

    def _seen(self, profile: Profile) -> list[Type]:
        """The type of each argument, as far as all profiled calls agree."""
        found: list[Type] = []
        for value, optional in zip(self._inputs, self._optionals, strict=True):
            seen = optional if isinstance(value.type, T.OptionalType) else profile.type_of(value)
            fits = seen is not None and seen is not T.TENSOR and T.is_subtype(seen, value.type)
            found.append(seen if seen is not None and fits else value.type)
        return found

    def _specialize(self, profile: Profile) -> None:
        with compiler.compiling():
            if self._settled not in (self._profiled, self._watched):
                self.look_again()  # another thread was first
                return
            kind = strategy_at(self._level)
            made = None
            if kind is not None:
                made = specialize(self.general.base, self._seen(profile), with_sizes=kind == "STATIC")
            self._profiled_types = profile.describe()
            self._profile = self._profile_code = None
            if made is not None:
                self._install(made)
            else:
                self._settle(self.general.run, "general plan: knowing the types of arguments would save nothing")

    def _install(self, made: Specialized) -> None:
        general = self.general
        rest = self._rest = Executor(self.graph, self.name, self._level + 1, general, self.objects)
        rest._before = weakref.ref(self)
        fallback = _function_of(general.graph, rest)
        self.counters.specializations.bump()
        self._for = made
        specialized = plan_for(made.graph, self.name, self.objects)
        graph = guarded(general.graph.inputs, specialized.graph, made.types, fallback)
        failed, no_plan = self.counters.guard_failures.bump, self.counters.fallbacks.bump

        def otherwise(*arguments: Any) -> Any:
            if failed() % _FAILURES == _FAILURES - 1:
                self._weigh(made)
            if rest._specialized is None:
                no_plan()
            return rest.entry(*arguments)

        declared = [v.type for v in general.graph.inputs]
        run = dispatcher(declared, made.types, specialized.run, otherwise, self.counters.hits.bump)
        self._specialized = Plan(graph, run, trials=specialized.trials)
        shown = ", ".join(
            f"{v.name} : {t}" for v, t in zip(general.graph.inputs, made.types, strict=True) if t is not v.type
        )
        self._settle(run, f"specialized for {shown}: {made.saved} steps fewer a call, for {made.guard} to check")

    def _weigh(self, made: Specialized) -> None:
        """Give a specialized plan up if its guard has cost more than the plan has saved."""
        spent = self.counters.guard_failures.value * made.guard
        if self.counters.hits.value * made.gain < spent:
            self._in_time(self._give_up)

    def _give_up(self) -> None:
        with compiler.compiling():
            if not self._given_up:
                self._given_up, self._specialized, self._for = True, None, None
                self._decision += "; given up, for few calls are of that kind"
                self._look_again_from_the_first()

    # -- a plan for each kind of arguments

    def _call_by_spec(self, *arguments: Any) -> Any:
        read = self._read
        if read is None:
            read = self._read = spec_reader([v.type for v in self.graph.inputs])
        key = read(*arguments)
        plan = self._by_spec.get(key)
        if plan is None:
            self.counters.misses.bump()
            plan = self._plan_for(key)
        else:
            plan.last_hit = self.counters.hits.bump()
        return plan.run(*arguments)

    def _plan_for(self, key: tuple[Any, ...]) -> Plan:
        with compiler.compiling():
            plan = self._by_spec.get(key)
            if plan is None:
                spec = spec_of([v.type for v in self.graph.inputs], key)
                plan = plan_for(compile_for(self.graph, spec.types), self.name, self.objects)
                plan.last_hit = self.counters.hits.value
                self._forget_plans(options.current().cached_plans - 1)
                self._by_spec[key] = plan
                self.counters.specializations.bump()
                self._decision = "a plan for each kind of arguments"
            return plan

    def _forget_plans(self, most: int) -> None:
        """Have at most so many plans: those go that have not run for longest."""
        plans = self._by_spec
        while len(plans) > max(most, 0):
            plans.pop(min(plans, key=lambda key: plans[key].last_hit))
            self.counters.evictions.bump()

    # -- for those who look

    @property
    def optimized_graph(self) -> Graph:
        """The graph of the general plan."""
        return self.general.graph

    def graph_for(self, bound: Sequence[Any]) -> Graph:
        """The graph that a call with these arguments runs now."""
        mode = options.current().executor
        if mode == "off":
            return self.graph
        if mode == "legacy":
            read = spec_reader([v.type for v in self.graph.inputs])
            return self._plan_for(read(*bound)).graph
        if mode == "profiling" and self._specialized is not None:
            return self._specialized.graph
        if self._given_up and self._rest is not None:
            return self._rest.graph_for(bound)
        return self.general.graph

    @property
    def decision(self) -> str:
        """Why the function is run as it is, as a sentence."""
        if self._given_up and self._rest is not None:
            return f"{self._decision}; {self._rest.decision}"
        return self._decision

    def last_graph(self, mode: str) -> Graph:
        """The graph of the plan that ran last, in the given mode."""
        if mode == "legacy" and self._by_spec:
            return next(reversed(self._by_spec.values())).graph
        if mode == "profiling" and self._specialized is not None:
            return self._specialized.graph
        if mode == "profiling" and self._given_up and self._rest is not None:
            return self._rest.last_graph(mode)
        return self.graph if mode == "off" else self.general.graph

    @property
    def profile(self) -> dict[str, Type]:
        """The types that profiled calls have seen, by name of value."""
        return self._profiled_types if self._profile is None else self._profile.describe()

    @property
    def specialized(self) -> Specialized | None:
        """What the function is specialized for."""
        return self._rest.specialized if self._given_up and self._rest is not None else self._for

    def state(self) -> ExecutorState:
        """What the executor has now."""
        plans: dict[Any, Plan] = {}
        types = [v.type for v in self.graph.inputs]
        plans.update((spec_of(types, key), plan) for key, plan in list(self._by_spec.items()))
        step: Executor | None = self
        totals = dict.fromkeys(self.counters.as_dict(), 0)
        while step is not None:
            if step._specialized is not None and step._for is not None:
                plans[ArgumentSpec((True, step._level), step._for.types)] = step._specialized
            for name, number in step.counters.as_dict().items():
                totals[name] += number
            step = step._rest
        trials = self._trials_of(plans.values())
        totals["native_runs"] = sum(trial.runs for trial in trials)
        totals["native_misses"] = sum(trial.misses for trial in trials)
        return ExecutorState(self.graph, self._general, plans, totals, self.decision)

    @property
    def trials(self) -> list[Trial]:
        """What becomes of the regions of all plans that can be machine code."""
        return self._trials_of(self.state().execution_plans.values())

    def _trials_of(self, plans: Iterable[Plan]) -> list[Trial]:
        general = [] if self._general is None else [self._general]
        return [trial for plan in (*general, *plans) for trial in plan.trials]

    def __deepcopy__(self, memo: Any) -> Executor:
        return Executor(self.graph, self.name)

    def __reduce__(self) -> Any:
        return Executor, (self.graph, self.name)


def _function_of(graph: Graph, executor: Executor) -> Function:
    """The function that calls go on as which a guard has turned away."""
    arguments = [Argument(v.name, v.type) for v in graph.inputs]
    schema = function_schema("fallback_function", arguments, [v.type for v in graph.outputs])
    function = Function("fallback_function", schema=schema, graph=graph)
    function.compiled = executor
    return function


# -- functions that functions call


def executor_of(function: Function) -> Executor:
    """The executor of a function, made the first time."""
    found = function.compiled
    if not isinstance(found, Executor):
        with compiler.compiling():
            found = function.compiled
            if not isinstance(found, Executor):
                found = function.compiled = Executor(function.graph, function.name)
    if function.is_given_objects and not found.objects:
        found.admit_objects()
    return found


def code_for(function: Function) -> Code:
    """The bytecode of a called function, optimized like the caller's."""
    return executor_of(function).code


def plain_code_for(function: Function) -> Code:
    """The bytecode of a called function, without passes."""
    return executor_of(function).plain_code


def last_executed_optimized_graph() -> Graph | None:
    """The graph of the plan that ran last; None where none did.

    Runs are followed from the first call of this function on; that one tells which function looked for a plan last.
    """
    global _following
    if not _following:
        _following = True
        _look_again()
    if _last is None:
        return None
    reference, mode = _last
    executor = reference()
    return None if executor is None else executor.last_graph(mode)


def _look_again() -> None:
    with _registering:
        executors = list(_executors)
    for executor in executors:
        executor.look_again()


options.on_change(_look_again)
