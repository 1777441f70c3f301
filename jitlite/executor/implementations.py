"""What may run regions instead of their nodes, by the kind of region.

A back end is a folder with a `Backend` in it, and a line in `TABLE`. It says how regions of its kind are formed when a
plan is made, if they are, and for each region of a plan what runs it, or why nothing does. Those who run graphs know no
back end: they are given an `Implementation` for each region that has one, call it, and run the nodes of the region
where there is none or it cannot.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.codegen.range_loops import with_range_loops
from jitlite.engines.running import ENGINES
from jitlite.executor.autodiff_groups import DIFFERENTIABLE
from jitlite.executor.plans import RegionPlan
from jitlite.ir.graph import Graph
from jitlite.ir.regions import Backend, Implementation, PlanContext, Region, regions_in
from jitlite.kernels.backend import TENSORS
from jitlite.native.backend import NATIVE

TABLE: dict[str, Backend] = {
    "tensors": TENSORS,
    "native": NATIVE,
    "differentiable": DIFFERENTIABLE,
    "engine": ENGINES,
}
"""By kind of region. Where regions overlap, the first one that forms them has them."""


def with_regions(graph: Graph, context: PlanContext) -> Graph:
    """The graph, or a copy of it, with the regions in it that back ends make of graphs that are about to be run."""
    asked = [backend for kind, backend in TABLE.items() if kind not in context.within]
    formers = [b for b in asked if b.form is not None and b.may_form(graph, context)]
    if not formers:
        return graph
    formed = with_range_loops(graph) if context.tier == "python" else graph  # the stack machine counts
    formed = graph.copy() if formed is graph else formed
    for backend in formers:
        assert backend.form is not None, "it has been asked"
        backend.form(formed, context)
    return formed


def implement(graph: Graph, context: PlanContext) -> list[RegionPlan]:
    """What becomes of each region of the graph, in the order of `regions_in`."""
    return [implement_region(region, context) for region in regions_in(graph.block)]


def implement_region(region: Region, context: PlanContext) -> RegionPlan:
    """What becomes of one region."""
    backend = TABLE.get(region.kind)
    if backend is None:
        return RegionPlan(region.kind, region.place, None, f"nothing runs regions of the kind {region.kind}")
    found = backend.implement(region, context.inside(region.kind))
    if isinstance(found, str):
        return RegionPlan(region.kind, region.place, None, found)
    made = found if isinstance(found, Implementation) else Implementation(found)
    return RegionPlan(region.kind, region.place, made)


def implementations_of(plans: Sequence[RegionPlan]) -> list[Implementation | None]:
    """What the tiers are given."""
    return [plan.implementation for plan in plans]
