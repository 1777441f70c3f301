"""Graphs of scripts whose branches and loops depend on what is in tensors, for some arguments.

    def f(x: Tensor, n: int):          graph(%x, %n):
        for i in range(n):               %y = prim::Loop(3, True, %x): ...
            if x.sum() > 0: ...    =>    return (%y)

Nothing is run, so no branch is lost. What the arguments decide (numbers, None, ranks, dtypes, sizes that do not vary)
is decided in the graph; branches and loops that depend on contents stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitlite.analysis.result_types import ModeFacts
from jitlite.engines.engine import EngineRefusal
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.types import TensorType
from jitlite.passes.example_facts import attribute_of
from jitlite.passes.registry import run
from jitlite.passes.shapes import propagate

_MOST_ROUNDS = 10
_ROUND = "constant_propagation,lower_simple_tuples,peephole,constant_loop_unrolling,simulate_containers,cse,dce"
_MODES = ModeFacts(grad=False, autocast=False)


def decide_by_arguments(
    graph: Graph, args: Sequence[object], types: Sequence[TensorType | None], module: torch.nn.Module | None
) -> None:
    """Decide in an inlined graph what its arguments decide.

    Args:
        graph: changed in place.
        args: what the graph is for: numbers, texts and None become constants.
        types: of the tensors among them, with the sizes that do not vary.
        module: the first input, if the graph is that of a method.
    """
    inputs = list(graph.inputs)
    if module is not None:
        _hoist_attributes(graph, inputs.pop(0), module)
    for value, given in zip(inputs, args, strict=True):
        if given is None or isinstance(given, bool | int | float | str):
            with graph.inserting_before(next(iter(graph.nodes), graph.block.return_node)):
                value.replace_all_uses_with(graph.insert_constant(given))
    decide_by_types(graph, types, module)


def decide_by_types(graph: Graph, types: Sequence[TensorType | None], module: torch.nn.Module | None) -> None:
    """Decide what ranks, dtypes and sizes decide, and do without the containers whose contents are known."""
    known = [None] * (module is not None) + list(types)
    for _ in range(_MOST_ROUNDS):
        propagate(graph, known, _MODES)
        if not run(graph, _ROUND):
            break


def sink_unset(graph: Graph) -> None:
    """Let values that are never read be made where they are returned."""
    for node in [n for n in graph.all_nodes() if n.kind == _UNSET]:
        for use in list(node.output.uses):
            with graph.inserting_before(use.user):
                made = graph.insert(_UNSET, [], [node.output.type], {}, node.range)
            use.user.replace_input(use.offset, made.output)
        node.destroy()


_UNSET = "prim::Uninitialized"


def _assigns(node: Node) -> EngineRefusal:
    place = "" if node.range is None else f" ({node.range.location()})"
    return EngineRefusal(f"it changes {node.attributes['name']}, which later calls would have to see{place}")


def _hoist_attributes(graph: Graph, owner: Value, module: torch.nn.Module) -> None:
    """Read tensors that are attributes before all else, so that branches and loops do not; others become constants.

    Raises:
        EngineRefusal: an attribute is assigned.
    """
    nodes = list(graph.all_nodes())
    for node in nodes:
        if node.kind == "prim::SetAttr":
            raise _assigns(node)
    for node in reversed([n for n in nodes if n.kind == "prim::GetAttr"]):
        first = next(iter(graph.nodes))
        if node is not first:
            node.move_before(first)
        found = attribute_of(node, owner, module)
        if isinstance(found, torch.Tensor):
            node.output.type = TensorType.of(found.dtype, found.shape, None, found.device)
        elif isinstance(found, bool | int | float | str) and node.output.has_uses:
            with graph.inserting_before(first):
                node.output.replace_all_uses_with(graph.insert_constant(found))
