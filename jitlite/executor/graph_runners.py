"""What runs a graph that belongs to no function."""

from __future__ import annotations

from jitlite.executor.executor import tier_calls
from jitlite.executor.tiers import running, translated
from jitlite.ir.graph import Graph
from jitlite.ir.regions import Runner


def runner_for(graph: Graph, name: str) -> Runner:
    """A callable that runs the graph on the tier that the switches ask for: see `running`."""
    return running(graph, name, True, tier_calls()).run


def generated_code(graph: Graph, name: str) -> str:
    """The Python function that would run the graph, as text.

    Raises:
        CannotTranslate: see `translate`.
    """
    return translated(graph, name, False, tier_calls())[0].source
