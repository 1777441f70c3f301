"""The two ways to run a graph: as bytecode on the stack machine, and as a generated Python function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.base import options
from jitlite.base.records import Record
from jitlite.codegen.python.python_tier import translate
from jitlite.executor.autodiff_groups import with_groups
from jitlite.executor.implementations import implement, implementations_of, with_regions
from jitlite.executor.plans import Plan, RegionPlan
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.code import Code
from jitlite.interpreter.python_code import PythonCode
from jitlite.ir.graph import Graph
from jitlite.ir.regions import PlanContext, Runner
from jitlite.ir.unit import Function
from jitlite.operators.python_forms import CannotTranslate


class Calls(Record, eq=True):
    """How functions that a graph calls are run: as a callable, and on the stack machine."""

    runner_of: Callable[[Function], Runner]
    code_of: Callable[[Function], Code]


class Running(Record, eq=True):
    """What runs a graph, what becomes of the regions in it, and its bytecode if that is what runs."""

    run: Runner
    regions: Sequence[RegionPlan] = ()
    code: Code | None = None


def lowered(
    graph: Graph, name: str, objects: bool, calls: Calls, inner: str = "stack", within: frozenset[str] = frozenset()
) -> tuple[Code, list[RegionPlan]]:
    """The bytecode of a graph with what runs its regions.

    Args:
        inner: the tier that runs graphs of regions.
        within: the kinds of the regions that the graph is part of.
    """
    context = PlanContext(name, "stack", _runner_on(inner, objects, calls), within)
    formed = with_regions(graph, context)
    regions = implement(formed, context)
    return lower(formed, name, objects, implementations_of(regions)), regions


def translated(
    graph: Graph, name: str, objects: bool, calls: Calls, within: frozenset[str] = frozenset()
) -> tuple[PythonCode, list[RegionPlan]]:
    """The Python function of a graph with what runs its regions.

    Args:
        within: the kinds of the regions that the graph is part of.

    Raises:
        CannotTranslate: see `translate`.
    """
    context = PlanContext(name, "python", _runner_on("python", objects, calls), within)
    formed = with_regions(graph, context)
    regions = implement(formed, context)
    code = translate(formed, name, calls.runner_of, objects=objects, regions=implementations_of(regions))
    return code, regions


def _runner_on(tier: str, objects: bool, calls: Calls) -> Callable[[Graph, str, frozenset[str]], Runner]:
    return lambda graph, name, within: running(graph, name, objects, calls, tier, within).run


def running(
    graph: Graph,
    name: str,
    objects: bool,
    calls: Calls,
    tier: str | None = None,
    within: frozenset[str] = frozenset(),
) -> Running:
    """What runs the graph on a tier, or on the machine if that cannot.

    Exceptions leave it without a script traceback unless the stack machine runs it: see `add_script_traceback`.

    Args:
        tier: "python" or "stack"; what the switches ask for if not given.
        within: the kinds of the regions that the graph is part of.
    """
    wanted = tier or options.current().tier
    if wanted == "python":
        try:
            python, regions = translated(graph, name, objects, calls, within)
            return Running(python.run, regions)
        except CannotTranslate:
            pass
    code, regions = lowered(graph, name, objects, calls, wanted, within)
    return Running(lambda *arguments: vm.run(code, arguments, calls.code_of), regions, code)


def plan_for(graph: Graph, name: str, objects: bool, calls: Calls) -> Plan:
    """A plan that runs the optimized graph, in the way that the switches ask for.

    `objects` says whether there may be objects such as dtypes among the arguments that are ints.
    """
    least = options.current().symbolic_gradients
    grouped, ungrouped = (with_groups(graph, least), graph) if least > 0 else (graph, None)
    found = running(grouped, name, objects, calls)
    return Plan(grouped, found.run, ungrouped=ungrouped, regions=found.regions, code=found.code)
