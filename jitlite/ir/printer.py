"""Graph -> TorchScript's text form; `parser.py` is the inverse.

    graph(%x.1 : Tensor):
      %2 : int = prim::Constant[value=1]()
      %4 : Tensor = aten::add(%x.1, %2, %2) # model.py:3:11
      return (%4)

A node that carries a graph in its attribute `Subgraph` (`prim::fork`) shows a number, and the graph follows as
`with prim::fork_0 = graph(...`. `prim::PythonOp` shows as `^name[attributes](scalars)(inputs)`, from its attributes
`name` and `scalars`. A constant that is a function shows its attribute `name` only. Callables are never shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

from jitlite.base.source import SourceRange
from jitlite.ir.code_text import comment
from jitlite.ir.types import Type
from jitlite.ir.value_text import value_text

# What of a graph its text shows. The classes themselves are in `graph.py`, which imports this module for `str(graph)`.


class PrintedValue(Protocol):
    """What is printed of a `Value`."""

    type: Type
    example_type: Type | None

    @property
    def name(self) -> str: ...


class PrintedNode(Protocol):
    """What is printed of a `Node`."""

    kind: str
    attributes: dict[str, Any]
    scope: str
    range: SourceRange | None

    @property
    def inputs(self) -> Sequence[PrintedValue]: ...

    @property
    def outputs(self) -> Sequence[PrintedValue]: ...

    @property
    def blocks(self) -> Sequence[PrintedBlock]: ...


class PrintedBlock(Protocol):
    """What is printed of a `Block`."""

    @property
    def inputs(self) -> Sequence[PrintedValue]: ...

    @property
    def outputs(self) -> Sequence[PrintedValue]: ...

    @property
    def nodes(self) -> Iterable[PrintedNode]: ...

    @property
    def param_node(self) -> PrintedNode: ...

    @property
    def return_node(self) -> PrintedNode: ...


@runtime_checkable
class PrintedGraph(Protocol):
    """What is printed of a `Graph`."""

    @property
    def block(self) -> PrintedBlock: ...


_NEW_LINE = ",\n      "
_NO_ATTRIBUTES = frozenset({"prim::DifferentiableGraph"})
"""Kinds whose attributes are bookkeeping that TorchScript's text leaves out."""


_ranges_shown: ContextVar[bool] = ContextVar("_ranges_shown", default=True)


def shows_ranges() -> bool:
    """Does `str(graph)` show where nodes come from?"""
    return _ranges_shown.get()


@contextmanager
def hiding_ranges() -> Iterator[None]:
    """Inside, graphs print without the lines that they come from."""
    token = _ranges_shown.set(False)
    try:
        yield
    finally:
        _ranges_shown.reset(token)


def graph_text(graph: PrintedGraph, ranges: bool = True, examples: bool = False, most_nodes: int | None = None) -> str:
    """The whole graph; with `ranges`, nodes show where in the user's source they come from.

    With `examples`, values of a trace show the types of the tensors that were there when it was recorded. Of more nodes
    than `most_nodes`, the first are shown and the rest are counted; `parser.py` refuses such a text.
    """
    lines = graph_lines(graph, ranges, examples)
    if most_nodes is not None:
        lines = _first_nodes(lines, most_nodes)
    return "".join(f"{line}\n" for line, _ in lines)


def _first_nodes(lines: Sequence[tuple[str, PrintedNode | None]], most: int) -> list[tuple[str, PrintedNode | None]]:
    """The lines of the first nodes, how many there are more, and what the graph gives."""
    shown = [
        i for i, (_, node) in enumerate(lines) if node is not None and node.kind not in ("prim::Param", "prim::Return")
    ]
    if len(shown) <= most:
        return list(lines)
    first_left = shown[most]
    end = next(i for i, (line, _) in enumerate(lines) if line.startswith("  return ("))
    left = f"  ... {len(shown) - most} more nodes"
    return [*lines[:first_left], (left, None), *(lines[end : end + 1] if end >= first_left else [])]


def graph_lines(
    graph: PrintedGraph, ranges: bool = True, examples: bool = False
) -> list[tuple[str, PrintedNode | None]]:
    """The lines of the text, each with the node it shows.

    A block's heading belongs to its param node and its `->` line to its return node.
    """
    printer = _Printer(ranges, examples)
    printer.graph(graph)
    return printer.lines


def node_text(node: PrintedNode, ranges: bool = False) -> str:
    """The line of one node, without its blocks."""
    return _Printer(ranges).node_line(node)


def _is_of_program(place: SourceRange) -> bool:
    """Is a place in a file of a program, and not in the text of a graph?"""
    return place.filename is not None and not place.source.is_graph


class _Printer:
    def __init__(self, ranges: bool, examples: bool = False) -> None:
        self.ranges = ranges
        self.examples = examples
        self.lines: list[tuple[str, PrintedNode | None]] = []
        self.groups: list[PrintedNode] = []

    def graph(self, graph: PrintedGraph, prefix: str = "") -> None:
        block = graph.block
        heading = f"{prefix}graph({self.declared(block.inputs, _NEW_LINE)}):"
        self.lines += [(line, block.param_node) for line in heading.split("\n")]
        self.nodes(block, 1)
        self.lines.append((f"  return ({_names(block.outputs)})", block.return_node))
        for number, node in enumerate(self.groups):
            nested = _Printer(self.ranges, self.examples)
            nested.graph(node.attributes["Subgraph"], f"with {node.kind}_{number} = ")
            self.lines += nested.lines

    def declared(self, values: Iterable[PrintedValue], separator: str) -> str:
        if self.examples:
            return separator.join(f"%{v.name} : {v.example_type or v.type}" for v in values)
        return separator.join(f"%{v.name} : {v.type}" for v in values)

    def nodes(self, block: PrintedBlock, level: int) -> None:
        for node in block.nodes:
            self.lines.append(("  " * level + self.node_line(node), node))
            for number, inner in enumerate(node.blocks):
                heading = f"block{number}({self.declared(inner.inputs, ', ')}):"
                self.lines.append(("  " * (level + 1) + heading, inner.param_node))
                self.nodes(inner, level + 2)
                self.lines.append(("  " * (level + 2) + f"-> ({_names(inner.outputs)})", inner.return_node))

    def node_line(self, node: PrintedNode) -> str:
        text = f"{self.declared(node.outputs, ', ')} = {self.operation(node)}({_names(node.inputs)})"
        if node.scope:
            text += f", scope: {comment(node.scope)}"
        if self.ranges and node.range is not None and (_is_of_program(node.range) or self.examples):
            text += f" # {comment(node.range.location())}"
        return text

    def operation(self, node: PrintedNode) -> str:
        """Kind and attributes."""
        attributes = {k: v for k, v in node.attributes.items() if not callable(v)}
        if node.kind == "prim::PythonOp":
            name = attributes.pop("name", "python")
            scalars = attributes.pop("scalars", ())
            shown = ", ".join(value_text(v, nested=True) for v in scalars)
            return f"^{name}[{_attributes(node, attributes)}]({shown})"
        kind = node.kind
        if "Subgraph" in attributes and isinstance(attributes["Subgraph"], PrintedGraph):  # slow: of few nodes
            del attributes["Subgraph"]
            kind = f"{kind}_{len(self.groups)}"
            self.groups.append(node)
        if kind == "prim::Constant" and "name" in attributes:
            attributes.pop("value", None)
        if not attributes or node.kind in _NO_ATTRIBUTES:
            return kind
        return f"{kind}[{_attributes(node, attributes)}]"


def _attributes(node: PrintedNode, attributes: dict[str, object]) -> str:
    type = node.outputs[0].type if node.kind == "prim::Constant" and len(node.outputs) == 1 else None
    return ", ".join(f"{k}={value_text(v, type if k == 'value' else None)}" for k, v in attributes.items())


def _names(values: Iterable[PrintedValue]) -> str:
    return ", ".join(f"%{v.name}" for v in values)
