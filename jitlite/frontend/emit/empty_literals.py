"""`[]`, `{}`, `set()` and their like, where nothing has told the type of their elements yet.

Such a literal is a `prim::EmptyLiteral`, of a type that it keeps if nothing wants another one. An operator, a call, an
annotation or the other branch of a conditional expression may: then an empty container of that type takes its place.
What is left in the end becomes a List[Tensor] or a Dict[str, Tensor]; a set is refused, for there is no type that
TorchScript would give it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.base.errors.types import EMPTY_CONTAINER
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Value
from jitlite.ir.types import Type
from jitlite.operators.conversions import construct_empty, is_empty_literal


def unknown_elements(range: SourceRange | None) -> CompileError:
    """The error for an empty set that nothing tells the type of."""
    return EMPTY_CONTAINER(
        "the type of the elements of an empty set is not known", range, hint="annotate it: `s: Set[int] = set()`"
    )


def as_wanted(b: Builder, value: Value, wanted: Type, range: SourceRange) -> Value:
    """A value; an empty literal as the container that is wanted."""
    return b.declared(wanted, value, range) if is_empty_literal(value) else value


def as_elements(b: Builder, values: Sequence[Value], candidates: Sequence[Type], range: SourceRange) -> list[Value]:
    """The elements of a display, or its values, of which an annotation allows these types."""
    if len(candidates) != 1 or not candidates[0].contained:
        return list(values)
    return [as_wanted(b, value, candidates[0].contained[-1], range) for value in values]


def settle_by_other(b: Builder, blocks: Sequence[Block], range: SourceRange) -> None:
    """Give an empty literal that is the result of one of two blocks the type of the other one's."""
    for block, other in (blocks, blocks[::-1]):
        literal, wanted = block.outputs[0], other.outputs[0]
        if is_empty_literal(literal) and not is_empty_literal(wanted) and literal.node.block is block:
            with b.graph.inserting_before(literal.node):
                settled = b.declared(wanted.type, literal, range)
            literal.replace_all_uses_with(settled)


def settle(graph: Graph, literals: Iterable[Value]) -> None:
    """Make containers of the literals that nothing gave another type to.

    Raises:
        CompileError: one is a set.
    """
    for value in literals:
        if value.node.block is None:
            continue
        if not value.has_uses:
            value.node.destroy()
            continue
        if isinstance(value.type, T.SetType):
            raise unknown_elements(value.node.range)
        with graph.inserting_before(value.node):
            settled = construct_empty(graph, value.node.range, value.type)
        name = value.name if value.has_name else None
        value.replace_all_uses_with(settled)
        value.node.destroy()
        settled.set_name(name)
