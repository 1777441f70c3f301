"""Graphs in which autograd sees groups of operators as one node each, whose gradients are graphs too.

This is the part of making a plan that the switch `symbolic_gradients` asks for. It comes after all other passes. The
groups are regions of the kind `differentiable`:

1. `create_autodiff_subgraphs` gathers operators that are differentiated symbolically, where something they take may
   require a gradient.
2. Each group runs as it is while nothing is to be recorded. The first call that records it for some combination of
   inputs that require a gradient makes the graphs for that: `differentiate`, then the passes over the forward graph,
   over the backward graph, and over the backward graph for the usual case that every result has a gradient.
3. `interpreter/autograd.py` gives them to autograd as one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from jitlite.compiler import program as compiler
from jitlite.interpreter.autograd import differentiable, differentiable_on_demand
from jitlite.ir.graph import Graph
from jitlite.ir.regions import Backend, PlanContext, Region, Runner
from jitlite.operators.gradient import Gradient
from jitlite.passes.absent_gradients import gradients_without
from jitlite.passes.autodiff import differentiate, requiring
from jitlite.passes.create_autodiff import KIND, create_autodiff_subgraphs
from jitlite.passes.pipelines import GRADIENT, SPECIALIZE
from jitlite.passes.propagate_requires_grad import propagate_requires_grad
from jitlite.passes.specialize_autogradzero import usual_gradients

MakeRunner = Callable[[Graph, str], Runner]


def with_groups(graph: Graph, least: int) -> Graph:
    """The graph with its groups; the graph itself if there are none.

    Args:
        graph: an optimized graph; it is not changed.
        least: how many operators a group has to have.
    """
    with compiler.compiling():
        copy = graph.copy()
        propagate_requires_grad(copy)
        groups = create_autodiff_subgraphs(copy, least)
    return copy if groups else graph


def group_count(graph: Graph) -> int:
    """How many groups a graph has."""
    return sum(node.kind == KIND for node in graph.all_nodes())


class _DifferentiableGroup:
    """Makes a group differentiable."""

    def __init__(self, body: Graph, name: str, runner_for: MakeRunner) -> None:
        self.body = body
        self.name = name
        self.runner_for = runner_for
        self.plain = runner_for(body, name)

    def on_demand(self) -> Runner:
        """What runs the group, made for the inputs that require a gradient as calls come."""
        return differentiable_on_demand(self.make, self.plain, self.body)

    def make(self, needs: Sequence[bool]) -> Runner:
        """What runs the group where these inputs require a gradient."""
        with compiler.compiling():
            gradient = differentiate(requiring(self.body, needs))
            if not gradient.df_output_vjps:
                return self.plain
            usual = usual_gradients(gradient)
            SPECIALIZE(gradient.f)
            GRADIENT(gradient.df)
            SPECIALIZE(usual)
            forward, backward, usually = (
                self.runner_for(graph, self.name) for graph in (gradient.f, gradient.df, usual)
            )
        return differentiable(forward, backward, gradient, self.plain, usually, partial(self._without, gradient))

    def _without(self, gradient: Gradient, present: Sequence[bool]) -> Runner:
        with compiler.compiling():
            graph = gradients_without(gradient, present)
            GRADIENT(graph)
            return self.runner_for(graph, self.name)


def _implement(region: Region, context: PlanContext) -> Runner:
    return _DifferentiableGroup(region.graph(), context.name, context.run_graph).on_demand()


DIFFERENTIABLE = Backend(_implement)
