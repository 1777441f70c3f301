"""Which places of the source each statement of a kernel comes from.

A nest computes what several nodes of the graph said, so it comes from the lines of all of them. Other statements come
from the node that was being written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.base.source import SourceRange
from jitlite.ir.graph import Node
from jitlite.kernels.loop_ir import Branch, Nest, Place, Product, Reduce, Repeat, Scalar, Statement
from jitlite.kernels.values import TensorValue

Places = tuple[SourceRange, ...]
Origins = dict[Statement | Scalar | Place, Places]


class EvaluatedTensors(set[TensorValue]):
    """The tensors whose elements some nest computes; `last` are those of the nest that is being written."""

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[TensorValue, None] = {}

    def add(self, value: TensorValue) -> None:
        super().add(value)
        self.last[value] = None


def origin_of(statement: Statement, evaluated: EvaluatedTensors, at: Node | None) -> Places:
    """Where a statement comes from that is being written for a node."""
    nodes: Iterable[Node | None] = [at]
    if isinstance(statement, Nest | Reduce):
        computed = [value.node for value in evaluated.last]
        evaluated.last.clear()
        nodes = [*computed, at] if isinstance(statement, Reduce) or not any(computed) else computed
    ranges = [node.range for node in nodes if node is not None and node.range is not None]
    return tuple(sorted(dict.fromkeys(ranges), key=_order))


def _order(range: SourceRange) -> tuple[str, int, int]:
    return range.source.filename or "", range.start, range.end


def note(origins: Origins, statement: Statement, places: Places) -> None:
    """Keep where a statement comes from."""
    origins[_key(statement)] = places


def places_of(origins: Origins, statement: Statement | None) -> Sequence[SourceRange]:
    """Where a statement comes from."""
    return () if statement is None else origins.get(_key(statement), ())


def _key(statement: Statement) -> Statement | Scalar | Place:
    """What stays where a statement is exchanged for a better one."""
    if isinstance(statement, Repeat):
        return statement.index
    if isinstance(statement, Branch) and isinstance(statement.condition, Scalar):
        return statement.condition
    return statement.out if isinstance(statement, Product) else statement
