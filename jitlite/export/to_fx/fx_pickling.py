"""Pickles of FX modules that cannot be traced again.

torch pickles a GraphModule as its code, which is traced when it is loaded. Calls without traced arguments, such as
`torch.rand` or a new list, are then run once and for all. Modules that have such calls are pickled as a list of their
nodes instead, and need jitlite where they are loaded.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple

import torch
from torch import fx

from jitlite.base import torch_internals

RENAMED = "module_behind_keyword"
"""How names of submodules begin that stand for others, whose own names FX cannot write."""


class _Reference(NamedTuple):
    """Stands for a node in arguments, by its position."""

    position: int


class _Overload(NamedTuple):
    """Stands for an operator of torch's dispatcher."""

    name: str


def can_be_traced(graph: fx.Graph) -> bool:
    """Does tracing follow each call?"""
    return all(map(_is_followed, graph.nodes))


def _is_followed(node: fx.Node) -> bool:
    if node.op in ("get_attr", "call_module"):
        return not str(node.target).startswith(f"_{RENAMED}")  # tracing finds their own names again
    if node.op not in ("call_function", "call_method"):
        return True
    target: Any = node.target
    is_method = node.op == "call_method" or target in _syntax()  # generated code writes them so
    followed = [n for n in node.all_input_nodes if n.op != "get_attr"]  # attributes are what they are then
    if is_method and (not isinstance(node.args[0], fx.Node) or node.args[0].op == "get_attr"):
        return False
    return bool(followed) and target not in (operator.setitem, operator.delitem)


@functools.cache
def _syntax() -> frozenset[Any]:
    """Functions that generated code writes as operators."""
    return frozenset(getattr(operator, name, None) for name in [*torch_internals.magic_methods, "getitem"])


def described(graph: fx.Graph) -> list[tuple[Any, ...]]:
    """The nodes of a graph as plain data."""
    positions = {node: i for i, node in enumerate(graph.nodes)}

    def plain(value: object) -> Any:
        if isinstance(value, fx.Node):
            return _Reference(positions[value])
        return _mapped(value, plain)

    found = []
    for node in graph.nodes:
        target = node.target
        target = _Overload(str(target)) if isinstance(target, torch._ops.OpOverload) else target
        meta = {key: node.meta[key] for key in ("stack_trace", "is_wrapped") if key in node.meta}
        found.append((node.op, node.name, target, plain(node.args), plain(node.kwargs), node.type, meta))
    return found


def restored(nodes: list[tuple[Any, ...]]) -> fx.Graph:
    """The graph that `described` was given."""
    graph, made = fx.Graph(), list[fx.Node]()

    def node_of(value: object) -> Any:
        return made[value.position] if isinstance(value, _Reference) else _mapped(value, node_of)

    for op, name, target, args, kwargs, kind, meta in nodes:
        if isinstance(target, _Overload):
            space, packet, overload = target.name.split(".")
            target = getattr(getattr(getattr(torch.ops, space), packet), overload)
        node = graph.create_node(op, target, node_of(args), node_of(kwargs), name, kind)
        node.meta.update(meta)
        made.append(node)
    return graph


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, slice):
        return slice(change(value.start), change(value.stop), change(value.step))
    if isinstance(value, dict):
        return {key: change(v) for key, v in value.items()}
    if isinstance(value, list):
        return [change(v) for v in value]
    return tuple(map(change, value)) if type(value) is tuple else value
