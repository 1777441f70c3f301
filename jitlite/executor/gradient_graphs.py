"""The gradients of a graph, shown: which operators are differentiated together, and the graphs that come of it."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base import options
from jitlite.base.records import Record
from jitlite.compiler import program as compiler
from jitlite.executor.autodiff_groups import with_groups
from jitlite.executor.last_run import last_executed_optimized_graph
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.regions import Region
from jitlite.passes.autodiff import differentiate
from jitlite.passes.create_autodiff import KIND
from jitlite.passes.pipelines import GRADIENT, SPECIALIZE

_NONE = "no operator of this graph is differentiated symbolically"


class GradientGraph(Record, eq=True):
    """Operators that are differentiated together.

    Attributes:
        place: the user's line with the first of them; empty where none is known.
        forward: their graph, with what the backward graph needs as further results.
        backward: the graph of the gradients. It takes gradients of results of the forward graph, then inputs of it,
            then results of it, and gives a gradient for each input in `of`; one that is zero everywhere is None.
        of: the names of the inputs of the forward graph that the gradients are of.
    """

    place: str
    forward: Graph
    backward: Graph
    of: tuple[str, ...]

    def __str__(self) -> str:
        where = f" from {self.place} on" if self.place else ""
        gradients = ", ".join(f"%{name}" for name in self.of)
        return f"# forward{where}\n{self.forward}# backward, gradients of {gradients}\n{self.backward}"


class GradientGraphs(tuple[GradientGraph, ...]):
    """The groups of a graph, in the order in which they run. As text: all their graphs."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) if self else _NONE

    __repr__ = __str__


def gradient_graphs(graph: Graph) -> GradientGraphs:
    """The gradients of an optimized graph, for all its inputs that may require one; it is not changed.

    Where the switch `symbolic_gradients` is on, these are the groups that autograd sees as one node each. Where it is
    off, they are those that it would see; operators that are not differentiated symbolically are in none.
    """
    grouped = graph
    if not _groups(graph):
        grouped = with_groups(graph, max(options.current().symbolic_gradients, 1))
    with compiler.compiling():
        found = [_of_group(region) for region in _groups(grouped)]
    return GradientGraphs(group for group in found if group is not None)


def last_executed_gradient_graph() -> GradientGraphs | None:
    """The gradients of the graph that ran last; None where none did. See `last_executed_optimized_graph`."""
    graph = last_executed_optimized_graph()
    return None if graph is None else gradient_graphs(graph)


def _groups(graph: Graph) -> Sequence[Region]:
    return [Region(node) for node in graph.all_nodes() if node.kind == KIND]


def _of_group(region: Region) -> GradientGraph | None:
    """The gradient of a group; None where nothing in it can have one."""
    body = region.graph()
    for mine, given in zip(body.inputs, region.inputs, strict=True):
        if isinstance(mine.type, T.TensorType) and _requires_none(given):
            t = mine.type
            mine.type = T.TensorType.of(t.dtype, t.sizes, t.strides, t.device, False)
    gradient = differentiate(body)
    if not gradient.df_output_vjps:
        return None
    SPECIALIZE(gradient.f)
    GRADIENT(gradient.df)
    places = (node.range for node in body.all_nodes() if node.range is not None and node.op is not None)
    place = next((found.location() for found in places), "")
    names = tuple(gradient.f.inputs[i].name for i in gradient.df_output_vjps)
    return GradientGraph(place, gradient.f, gradient.df, names)


def _requires_none(value: Value) -> bool:
    return isinstance(value.type, T.TensorType) and value.type.requires_grad is False
