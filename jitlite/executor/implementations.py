"""What may run regions instead of their nodes, by the kind of region.

A back end of jitlite's own is a folder with a `Backend` in it, and a line in `TABLE`; `add_backend` adds others. It
says how regions of its kind are formed when a plan is made, if they are, and for each region of a plan what runs it, or
why nothing does. Those who run graphs know no back end: they are given an `Implementation` for each region that has
one, call it, and run the nodes of the region where there is none or it cannot.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch.utils.hooks import RemovableHandle

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

_added: OrderedDict[int, tuple[str, Backend]] = OrderedDict()
"""Those that users have added, by the numbers of their handles."""


def add_backend(kind: str, backend: Backend) -> RemovableHandle:
    """Have a back end form and run regions of a kind, in the plans that are made from now on.

    It forms its regions before those of jitlite's own, and the last one added before those added earlier.

    Returns:
        What takes it out again: `handle.remove()`, or the end of `with add_backend(...):`. Plans that there are then
        keep it.

    Raises:
        ValueError: there is a back end for regions of this kind, or its name is no identifier.
        TypeError: what is given is no `Backend`.
    """
    if not isinstance(kind, str) or not kind.isidentifier():
        raise ValueError(
            f"a kind of regions cannot be called {kind!r}: choose a name of Python's, such as 'my_backend'"
        )
    if not isinstance(backend, Backend):
        raise TypeError(
            f"add_backend takes a jitlite.ir.regions.Backend(implement, form), not {type(backend).__name__}"
        )
    parts = (backend.implement, backend.form, backend.may_form)
    if not all(callable(part) or part is None for part in parts) or backend.implement is None:
        raise TypeError("a Backend is made of functions: implement(region, context), form(graph, context)")
    if kind in _backends():
        raise ValueError(f"there is a back end for regions of the kind {kind!r}; choose another name")
    handle = RemovableHandle(_added)
    _added[handle.id] = kind, backend
    return handle


def _backends() -> dict[str, Backend]:
    return {**dict(reversed(list(_added.values()))), **TABLE} if _added else TABLE


def with_regions(graph: Graph, context: PlanContext) -> Graph:
    """The graph, or a copy of it, with the regions in it that back ends make of graphs that are about to be run."""
    asked = [backend for kind, backend in _backends().items() if kind not in context.within]
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
    backend = _backends().get(region.kind)
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
