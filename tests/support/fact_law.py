"""The law that propagated types are held to: what a type says is true of the value, in every run.

`check(graph, arguments)` propagates types through a copy of the graph from what the arguments are, or from a part of
that, runs it with a watcher after every definition and at the end, and compares what the types say with the values.
Equal symbols are equal sizes; those that are born in a loop are compared outside of loops only.
"""

from __future__ import annotations

from typing import Any

import torch

from jitlite.debug.outcome import observe
from jitlite.interpreter import bytecode, vm
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.ops import Effect, op
from jitlite.ir.verify import verify


class Untrue(AssertionError):
    """A type says what is not so."""


_seen: list[tuple[int, Any]] = []


@op("law::see(Any value) -> ()", Effect.SIDE, doc="Tell the watcher what the value is.")
def _see(value: Any, *, number: int) -> None:
    _seen.append((number, _snapshot(value)))


def _snapshot(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        t = T.TensorType.from_tensor(value)
        return T.TensorType.of(t.dtype, t.sizes, t.strides, t.device, t.requires_grad)
    return tuple(map(_snapshot, value)) if isinstance(value, tuple) else None


def watched(graph: Graph) -> tuple[Graph, list[Value]]:
    """A copy that tells of every value of which its type says something, and those values."""
    copy = graph.copy()
    values: list[Value] = []
    _watch(copy.block, values, copy)
    return copy, values


def _watch(block: Block, values: list[Value], graph: Graph) -> None:
    own = [v for v in block.inputs if says_something(v.type)]
    for value in own:
        _see_after(block.param_node, value, values, graph)
    for node in list(block.nodes):
        for inner in node.blocks:
            _watch(inner, values, graph)
        for value in node.outputs:
            if says_something(value.type) and node.kind != "prim::Uninitialized":
                own.append(value)
                _see_after(node, value, values, graph)
    for value in own:  # what is said has to be true at the end as well
        _see_before(block.return_node, value, values, graph)


def says_something(t: T.Type) -> bool:
    return T.unshaped(t) is not t and isinstance(t, T.TensorType | T.TupleType)


def _node(value: Value, values: list[Value], graph: Graph) -> Node:
    values.append(value)
    return graph.create("law::see", (value,), (), {"number": len(values) - 1})


def _see_after(place: Node, value: Value, values: list[Value], graph: Graph) -> None:
    _node(value, values, graph).insert_after(place)


def _see_before(place: Node, value: Value, values: list[Value], graph: Graph) -> None:
    _node(value, values, graph).insert_before(place)


def check_run(graph: Graph, arguments: list[Any], known: dict[int, int] | None = None) -> int:
    """Run a graph whose types say something; the number of things that were compared.

    Args:
        known: the sizes that symbols are said to be, by their numbers.

    Raises:
        Untrue: a type says what is not so.
    """
    verify(graph)
    copy, values = watched(graph)
    code = bytecode.lower(copy)
    del _seen[:]
    observe(lambda *given: vm.run(code, given), arguments)
    sizes: dict[int, int] = dict(known or {})
    in_loop = {i for i, v in enumerate(values) if _is_in_loop(v)}
    compared = 0
    for number, found in sorted(_seen, key=lambda pair: pair[0] in in_loop):
        names = dict(sizes) if number in in_loop else sizes
        compared += _compare(values[number], values[number].type, found, names, graph)
    return compared


def _is_in_loop(value: Value) -> bool:
    block = value.node.block
    while block is not None and block.owner is not None:
        if block.owner.kind == "prim::Loop":
            return True
        block = block.owner.block
    return False


def _compare(value: Value, said: T.Type, found: Any, sizes: dict[int, int], graph: Graph) -> int:
    if isinstance(said, T.TupleType) and isinstance(found, tuple):
        return sum(_compare(value, s, f, sizes, graph) for s, f in zip(said.elements, found, strict=True))
    if not isinstance(said, T.TensorType) or not isinstance(found, T.TensorType):
        return 0
    compared = 0
    for name in ("dtype", "device", "requires_grad", "sizes", "strides"):
        claim, fact = getattr(said, name), getattr(found, name)
        if claim is None:
            continue
        each = isinstance(claim, tuple)
        fits = len(claim) == len(fact) and all(c in (None, f) for c, f in zip(claim, fact)) if each else claim == fact
        if not fits:
            raise Untrue(f"%{value.name} is said to be {said}, but is {found} ({name})\n{graph}")
        compared += 1
    for symbol, size in zip(said.symbols or (), found.sizes or ()):
        if symbol and sizes.setdefault(symbol, size) != size:
            raise Untrue(f"SS(-{symbol}) is {sizes[symbol]}, but {size} in %{value.name} : {found}\n{graph}")
    return compared
