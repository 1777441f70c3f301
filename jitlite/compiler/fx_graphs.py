"""Graphs of FX graph modules, as everybody else has them: cleaned, with calls of compiled functions inlined."""

from __future__ import annotations

import torch.fx

from jitlite.compiler.program import Program
from jitlite.frontend.from_fx.fx import convert
from jitlite.frontend.from_fx.fx_converter import Lowerings
from jitlite.ir.compiling import compiling
from jitlite.ir.graph import Graph
from jitlite.passes.pipelines import CLEANUP
from jitlite.passes.registry import run


def graph_of_fx(gm: torch.fx.GraphModule, *, lowerings: Lowerings | None = None) -> Graph:
    """The graph of an FX graph module: an input for each placeholder, the result as its output.

    Parameters, buffers and other tensors that the module holds become constants of the graph: the very tensors. Passes
    take constants for what they are, so do not write to them later. What Python has to call is a `prim::PythonOp`.

    Args:
        lowerings: functions to call instead of operators, by OpOverload, packet or other target.

    Raises:
        NotSupportedError: where the graph is not one of torch's making.
    """
    with compiling():
        graph = convert(gm, lowerings=lowerings, program=Program()).graph
        run(graph, "inline")
        CLEANUP(graph)
    return graph
