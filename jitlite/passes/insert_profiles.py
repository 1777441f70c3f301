"""Profiling: let a `prim::profile` see every tensor.

    %2 : Tensor = aten::mul(%x, %x)            %3 : Tensor = prim::profile(%x)
    return (%2)                         =>     %2 : Tensor = aten::mul(%3, %3)
                                               %4 : Tensor = prim::profile(%2)
                                               return (%4)

Each tensor that is a parameter of the graph or of a block, or an output of a node, goes through one `prim::profile` on
its way to all who use it. A profile hands on the very object it gets, so nothing else changes. Which profile a node
belongs to is its attribute `record`, a callable that is called with each value; without one it does nothing.

Constants are left alone, and tensors that are Optional: what is None has no shape. A value that is profiled already is
not profiled again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Value
from jitlite.ir.traits import Trait
from jitlite.passes.registry import graph_pass

Record = Callable[[Any], object]


@graph_pass
def insert_profiles(graph: Graph) -> bool:
    """Put profiles that belong to nobody behind every tensor."""
    return profile_with(graph, None)


def profile_with(graph: Graph, record_for: Callable[[Value], Record] | None) -> bool:
    """Put a profile behind every tensor; `record_for` gives what the profile of a value calls."""
    return _profile_block(graph, graph.block, record_for)


def _profile_block(graph: Graph, block: Block, record_for: Callable[[Value], Record] | None) -> bool:
    changed = False
    for node in list(block.nodes):
        for inner in node.blocks:
            changed = _profile_block(graph, inner, record_for) or changed
        place = node
        for value in () if node.has(Trait.NEVER_PROFILED) else node.outputs:
            if _is_seen(value):
                place = _profile(graph, value, record_for).insert_after(place)
                changed = True
    place = block.param_node
    for value in list(block.inputs):
        if _is_seen(value):
            place = _profile(graph, value, record_for).insert_after(place)
            changed = True
    return changed


def _is_seen(value: Value) -> bool:
    """Is it a tensor that is used, and by others than profiles?"""
    return isinstance(value.type, T.TensorType) and any(use.user.kind != "prim::profile" for use in value.uses)


def _profile(graph: Graph, value: Value, record_for: Callable[[Value], Record] | None) -> Any:
    attributes = None if record_for is None else {"record": record_for(value)}
    node = graph.create("prim::profile", (), (value.type,), attributes, value.node.range)
    value.replace_all_uses_with(node.output)
    node.add_input(value)
    return node
