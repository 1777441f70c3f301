"""A solution of exercise 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphs import Block, Graph, Node, Value


def to_python(graph: Graph) -> str:
    lines = [f"def f({_names(graph.params)}):", *_lines(graph, "    "), f"    return {_names(graph.returns)}"]
    return "\n".join(lines)


def _names(values: Sequence[Value]) -> str:
    return ", ".join(f"v{value.name}" for value in values)


def _assign(targets: Sequence[Value], values: Sequence[Value]) -> str:
    return f"{_names(targets)} = {_names(values)}" if targets else "pass"


def _lines(block: Block, indent: str) -> Iterator[str]:
    for node in block.nodes:
        if node.kind == "prim::Constant":
            yield f"{indent}{_names(node.outputs)} = {node.attribute!r}"
        elif node.kind == "prim::If":
            then, orelse = node.blocks
            for head, inner in ((f"if {_names(node.inputs)}:", then), ("else:", orelse)):
                yield indent + head
                yield from _lines(inner, indent + "    ")
                yield f"{indent}    {_assign(node.outputs, inner.returns)}"
        elif node.kind == "prim::Loop":
            yield from _loop(node, indent)
        else:
            yield f'{indent}{_names(node.outputs)} = OPERATORS["{node.kind}"].function({_names(node.inputs)})'


def _loop(node: Node, indent: str) -> Iterator[str]:
    (body,) = node.blocks
    count, condition, *start = node.inputs
    iteration, *carried = body.params
    go = Value(f"go{iteration.name}", "bool")
    yield f"{indent}{_assign([go, *carried], [condition, *start])}"
    yield f"{indent}{_names([iteration])} = 0"
    yield f"{indent}while {_names([go])} and {_names([iteration])} < {_names([count])}:"
    yield from _lines(body, indent + "    ")
    yield f"{indent}    {_assign([go, *carried], body.returns)}"
    yield f"{indent}    {_names([iteration])} += 1"
    yield f"{indent}{_assign(node.outputs, carried)}"
