"""Regions in generated code: one guarded call each; what runs where it cannot is written as the nodes that they are.

_done = _sums(x, n)
if _done is not None:
    y, m = _done
else:
    a = x + n
    ...
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import field
from itertools import zip_longest

from jitlite.base.records import Record
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.regions import REGION, Implementation, Region, inline_region, regions_in


class RegionCall(Record, frozen=False):
    """A region whose nodes stand in its place, and what is called before them.

    Attributes:
        implementation: what may run it.
        kind: of the region.
        inputs: the values to call it with.
        targets: the values that it gives; None for one that nobody reads or that is not computed in the region.
        gives_tuple: does it give a tuple of them?
    """

    implementation: Implementation
    kind: str
    inputs: Sequence[Value]
    targets: Sequence[Value | None]
    gives_tuple: bool


class OpenRegions(Record, eq=True, frozen=False):
    """A graph in which the nodes of regions stand in their place.

    Attributes:
        graph: the graph, with no `prim::Region` in it.
        calls: for each node of a region that something may run, the call before it.
        groups: what runs the regions that have another spelling.
    """

    graph: Graph
    calls: dict[Node, RegionCall] = field(default_factory=dict)
    groups: dict[Node, Implementation] = field(default_factory=dict)


def with_open_regions(graph: Graph, implementations: Sequence[Implementation | None]) -> OpenRegions:
    """The graph, or a copy of it, with the nodes of regions in their place.

    Args:
        implementations: what runs each region, in the order of `regions_in`; a region without is just its nodes.
    """
    is_open = not any(node.kind == REGION for node in graph.all_nodes())
    if is_open and not implementations:
        return OpenRegions(graph)
    opened = OpenRegions(graph if is_open else graph.copy())
    outermost = list(regions_in(opened.graph.block))
    _inline_inner(opened.graph, {region.node for region in outermost})
    for region, implementation in zip_longest(outermost, implementations):
        if region.node.kind == REGION:
            _open(region, implementation, opened)
        elif implementation is not None:
            opened.groups[region.node] = implementation
    return opened


def _inline_inner(graph: Graph, outermost: Container[Node]) -> None:
    """Put the nodes of regions that are within another one in their place."""
    for node in list(graph.all_nodes()):
        if node.kind == REGION and node not in outermost:
            inline_region(Region(node))


def _open(region: Region, implementation: Implementation | None, opened: OpenRegions) -> None:
    inputs, kind, gives_tuple = list(region.inputs), region.kind, region.gives_tuple
    results = [r if o.has_uses else None for r, o in zip(region.results, region.outputs, strict=True)]
    nodes = [node for node in inline_region(region) if node.kind != "prim::Constant"]
    if implementation is not None:
        own = {value for node in nodes for value in node.outputs}
        targets = [value if value in own else None for value in results]
        opened.calls.update(dict.fromkeys(nodes, RegionCall(implementation, kind, inputs, targets, gives_tuple)))
