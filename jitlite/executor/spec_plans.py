"""A plan for each kind of arguments, the latest of which are kept: the mode of execution `legacy`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from jitlite.base import options
from jitlite.base.computed_once import cached_property
from jitlite.compiler import program as compiler
from jitlite.executor.plans import Counters, Plan
from jitlite.executor.specialize import compile_for
from jitlite.interpreter.guards import ArgumentSpec, spec_of, spec_reader
from jitlite.ir.graph import Graph
from jitlite.ir.types import Type


class SpecPlans:
    """The plans of a function by what they are for.

    Args:
        graph: the graph as the front end left it.
        make: the plan that runs an optimized graph.
        counters: of the function.
    """

    def __init__(self, graph: Graph, make: Callable[[Graph], Plan], counters: Counters) -> None:
        self.graph = graph
        self.counters = counters
        self._make = make
        self._plans: dict[tuple[object, ...], Plan] = {}
        self._time = itertools.count()

    @cached_property
    def _read(self) -> Callable[..., tuple[Any, ...]]:
        return spec_reader(self._types)

    @property
    def _types(self) -> list[Type]:
        return [v.type for v in self.graph.inputs]

    def call(self, *arguments: object) -> Any:
        """Run the plan for these arguments."""
        key = self._read(*arguments)
        plan = self._plans.get(key)
        if plan is None:
            self.counters.misses.bump()
            plan = self._plan_for(key)
        else:
            plan.last_hit = next(self._time)
            self.counters.hits.bump()
        return plan.run(*arguments)

    def graph_for(self, bound: Sequence[object]) -> Graph:
        """The graph that a call with these arguments runs."""
        return self._plan_for(self._read(*bound)).graph

    def last_graph(self) -> Graph | None:
        """The graph of the plan that was made last."""
        return next(reversed(self._plans.values())).graph if self._plans else None

    def by_spec(self) -> dict[ArgumentSpec, Plan]:
        """The plans, each beside what it is for."""
        return {spec_of(self._types, key): plan for key, plan in list(self._plans.items())}

    def forget(self) -> None:
        """Have no plans any more."""
        self._plans.clear()

    def _plan_for(self, key: tuple[object, ...]) -> Plan:
        with compiler.compiling():
            plan = self._plans.get(key)
            if plan is None:
                plan = self._make(compile_for(self.graph, spec_of(self._types, key).types))
                plan.last_hit = next(self._time)
                self._forget_oldest(options.current().cached_plans - 1)
                self._plans[key] = plan
                self.counters.specializations.bump()
            return plan

    def _forget_oldest(self, most: int) -> None:
        """Have at most so many plans: those go that have not run for longest."""
        plans = self._plans
        while len(plans) > max(most, 0):
            plans.pop(min(plans, key=lambda key: plans[key].last_hit))
            self.counters.evictions.bump()
