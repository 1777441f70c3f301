"""What runs a graph that belongs to no function."""

from __future__ import annotations

from jitlite.executor.executor import tier_calls
from jitlite.executor.tiers import running, translated
from jitlite.interpreter.python_code import PythonCode
from jitlite.ir.graph import Graph
from jitlite.ir.regions import Runner


def runner_for(graph: Graph, name: str) -> Runner:
    """A callable that runs the graph on the tier that the switches ask for: see `running`."""
    return running(graph, name, True, tier_calls()).run


def generated(graph: Graph, name: str) -> PythonCode:
    """The Python function that would run the graph.

    Raises:
        CannotTranslate: see `translate`.
    """
    return translated(graph, name, False, tier_calls())[0]


def generated_code(graph: Graph, name: str) -> str:
    """The text of that function; raises the same."""
    return generated(graph, name).source
