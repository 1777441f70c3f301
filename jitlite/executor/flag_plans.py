"""The plan of the first calls of a network: for flags of modules as these calls have them.

A layer has operators for training and others for evaluation. To optimize all of them takes twice as long as to optimize
those that run, and nobody waits for more than the first call. So a graph that reads flags is optimized for flags as
they are; the plan for all settings is made when a call comes with others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.analysis.module_flags import Flag, Reads, flag_reads, may_have_flags, set_flags
from jitlite.base.records import replace
from jitlite.compiler import program as compiler
from jitlite.executor.plans import Plan
from jitlite.executor.specialize import Specialized, guard_of_flags, worth_of_flags
from jitlite.ir.graph import Graph
from jitlite.ir.types import ClassType
from jitlite.passes import insertion
from jitlite.passes.pipelines import PHASES


class FlagPlan:
    """A plan for calls whose modules have their flags set in one way.

    Attributes:
        plan: the plan; the inputs of its graph have their declared types.
        flags: how the flags have to be set.
    """

    def __init__(self, plan: Plan, reads: Reads, flags: dict[Flag, bool]) -> None:
        self.plan = plan
        self.flags = flags
        self._worth = worth_of_flags(reads)

    def fits(self, arguments: Sequence[object]) -> bool:
        """Are flags set so in a call?"""
        try:
            return all(flag.read(arguments) is value for flag, value in self.flags.items())
        except AttributeError:
            return False

    def specialized(self, made: Specialized | None = None) -> Specialized:
        """The graph and what it asks of arguments.

        Args:
            made: the graph, specialized for types of arguments too.
        """
        if made is None:
            types = tuple(v.type for v in self.plan.base.inputs)
            guard = guard_of_flags(self.flags, is_alone=True)
            return Specialized(self.plan.base, types, self._worth, guard, self.flags)
        guard = made.guard + guard_of_flags(self.flags, is_alone=False)
        return replace(made, saved=made.saved + self._worth, guard=guard, flags=self.flags)


def first_plan(
    graph: Graph, arguments: Sequence[object], make: Callable[[Graph], Plan]
) -> tuple[Plan | None, FlagPlan | None]:
    """The plan of a function that has none: for all calls, or where it reads flags, for flags as a call has them.

    Args:
        graph: the graph as the front end left it.
        arguments: those of the call.
        make: makes a plan of an optimized graph.
    """
    with compiler.compiling():
        inlined, reads = _with_reads(graph)
        flags = _as_set(reads, arguments)
        if not flags:
            return make(compiler.optimized(graph)), None
        set_flags(inlined, [(value, is_on) for flag, is_on in flags.items() for value in reads[flag]])
        return None, FlagPlan(make(compiler.optimized(inlined)), reads, flags)


def _with_reads(graph: Graph) -> tuple[Graph, Reads]:
    """The graph with its calls inlined, where it takes modules, and the flags that it reads."""
    if insertion.is_used():  # such passes would meet a graph that is inlined already, and run twice
        return graph, {}
    if not any(isinstance(v.type, ClassType) and v.type.is_module for v in graph.inputs):
        return graph, {}
    inlined = graph.copy()
    PHASES["inline"](inlined)
    return inlined, flag_reads(inlined) if may_have_flags(inlined) else {}


def _as_set(reads: Reads, arguments: Sequence[object]) -> dict[Flag, bool]:
    found: dict[Flag, bool] = {}
    for flag in reads:
        try:
            value = flag.read(arguments)
        except AttributeError:
            continue
        if isinstance(value, bool):
            found[flag] = value
    return found
