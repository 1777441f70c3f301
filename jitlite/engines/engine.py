"""What an engine is: it says which nodes it takes, and makes something that can be called of a group of them.

    class Mine(Engine):
        name = "mine"

        def supports(self, node: Node) -> str | None:
            return None if node.kind == "aten::relu" else "it knows relu only"

        def compile(self, graph: Graph) -> CompiledGroup:
            return lambda inputs: [torch.relu(inputs[0])]

`jitlite.optimize(model, (x,), engine=Mine())` gathers the nodes that an engine supports into groups
(`passes/cluster.py`), has each group compiled when it is first called, and calls it from then on. What an engine cannot
do, it refuses with `EngineRefusal`, at any time: the group then runs as the graph that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import torch

from jitlite.ir.graph import Graph, Node

Operand = torch.Tensor | int | float
"""What goes into a group and comes out of it."""

CompiledGroup = Callable[[Sequence[Operand]], Sequence[Operand]]
"""Takes the inputs of a group and gives its outputs, new tensors that share no memory with the inputs."""


LARGEST_EMBEDDED = 16
"""Constant tensors of more elements are weights: they are written once, and beside the text of a graph."""


class EngineRefusal(Exception):
    """An engine does not take an operator, or a group. The text says why, as a sentence without its full stop."""


class OperatorSet(Enum):
    """The operators that graphs are written with before an engine is asked for them."""

    ANY = "those of the program"
    CORE = "those of core ATen, on tensors of known dtype and rank"


class Engine:
    """Base class of engines. One object may serve several models and threads.

    Attributes:
        name: of the engine, one word.
        version: changes when what was compiled before is of no use any more.
        operators: how graphs are written before `supports` is asked.
        has_dynamic_sizes: is a group compiled once for tensors of all sizes? Else once for each combination of them.
        keeps_fixed_sizes: if it has dynamic sizes, are those dynamic that vary, and no others? The types of inputs
            then say the sizes that do not vary, such as those of weights, and a size of 0 or 1; others are 2 or more.
        least: how many nodes a group has to have.
        runs_graphs: is a group run as any graph is, with nothing to compile?
    """

    name = "engine"
    version = "1"
    operators = OperatorSet.CORE
    has_dynamic_sizes = True
    keeps_fixed_sizes = False
    least = 3
    runs_graphs = False

    def supports(self, node: Node) -> str | None:
        """None where the engine takes the node, else why not. The types of values say dtype and rank."""
        raise NotImplementedError

    def compile(self, graph: Graph) -> CompiledGroup:
        """Make something that computes the graph, for inputs of the types that its inputs have.

        Raises:
            EngineRefusal: the engine cannot. Any other exception counts as a failure.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<engine {self.name}>"
