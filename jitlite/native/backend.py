"""Regions of the kind `native`: loops over numbers, which become machine code once they are hot."""

from __future__ import annotations

from jitlite.base import options
from jitlite.ir.graph import Graph
from jitlite.ir.regions import Backend, FormedRegions, PlanContext, Region
from jitlite.native.policy import RegionState
from jitlite.native.regions import NativeRegion, NativeRun
from jitlite.passes.form_regions import form_regions

KIND = "native"


def _may_form(graph: Graph, context: PlanContext) -> bool:
    """The stack machine, which is the reference, runs loops itself."""
    asked = context.tier == "python" and options.current().native != "off"
    return asked and any(node.kind == "prim::Loop" for node in graph.all_nodes())


def form_native_regions(graph: Graph) -> FormedRegions:
    """Make regions of what can be machine code."""
    return form_regions(graph, KIND, NativeRun)


def _implement(region: Region, context: PlanContext) -> RegionState | str:
    fault = NativeRun().fault_of(region)  # texts have regions that nobody has asked about
    return fault or RegionState(NativeRegion.of(region), KIND, options.current().native)


NATIVE = Backend(_implement, lambda graph, context: form_native_regions(graph), _may_form)
