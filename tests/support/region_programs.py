"""Regions made by chance, and back ends that run any region: one never can, one runs it as a graph of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from jitlite.executor import implementations
from jitlite.ir.graph import Graph, Node
from jitlite.ir.regions import Backend, PlanContext, Region
from jitlite.passes.form_regions import PlainRun, form_regions

KIND = "by_chance"


def form_by_chance(graph: Graph, chance: random.Random) -> bool:
    """Make regions of runs of any nodes, with any blocks in them; says whether there are some."""

    def belongs(node: Node) -> str | None:
        return "by chance" if chance.random() < 0.25 else None

    return bool(form_regions(graph, KIND, lambda: PlainRun(belongs, least=1)).regions)


def _cannot(region: Region, context: PlanContext) -> Callable[..., None]:
    return lambda *given: None


def _as_graph(region: Region, context: PlanContext) -> Callable[..., Any] | str:
    graph = region.graph()
    if any(node.kind in ("prim::Enter", "prim::Exit") for node in graph.all_nodes()):
        return "it enters or leaves a context that others leave or enter"
    run, count, gives_tuple = context.run_graph(graph, context.name), len(region.outputs), region.gives_tuple

    def call(*given: object) -> Any:
        found = run(*given)
        return () if count == 0 else (found,) if count == 1 and gives_tuple else found

    return call


BACKENDS: dict[str, Backend] = {"that never can": Backend(_cannot), "that runs it as a graph": Backend(_as_graph)}


@contextmanager
def run_by(name: str) -> Iterator[None]:
    """Within, the regions are run by the back end of this name; by none where there is none of the name."""
    lines = {KIND: BACKENDS[name]} if name in BACKENDS else {}
    with patch.dict(implementations.TABLE, lines):
        yield
