"""A solution of exercise 2."""

from __future__ import annotations

from graphs import Block, Graph, Value


def verify(graph: Graph) -> None:
    _verify(graph, frozenset(), set())


def _verify(block: Block, around: frozenset[Value], ever: set[Value]) -> None:
    known = set(around)

    def define(values: list[Value]) -> None:
        for value in values:
            if value in ever:
                raise ValueError(f"{value} is defined twice")
            ever.add(value)
            known.add(value)

    def use(values: list[Value]) -> None:
        for value in values:
            if value not in known:
                raise ValueError(f"{value} is used where it is not defined")

    define(block.params)
    for node in block.nodes:
        use(node.inputs)
        for inner in node.blocks:
            _verify(inner, frozenset(known), ever)
        define(node.outputs)
    use(block.returns)
