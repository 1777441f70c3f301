"""Statements with those within them: all of them, what they compute, and without branches that are no choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitlite.base.records import replace
from jitlite.kernels.loop_ir import (
    Branch,
    Convert,
    Get,
    NodeOperation,
    Read,
    Repeat,
    Scalar,
    SizeArithmetic,
    Statement,
)


def all_statements(statements: Sequence[Statement]) -> Iterator[Statement]:
    """The statements and those within them."""
    for statement in statements:
        yield statement
        if isinstance(statement, Branch):
            yield from all_statements(statement.then)
            yield from all_statements(statement.otherwise)
        elif isinstance(statement, Repeat):
            yield from all_statements(statement.body)


def without_certain_branches(statements: Sequence[Statement]) -> list[Statement]:
    """The statements, with those of branches that are certainly taken in their place."""
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Branch):
            then = without_certain_branches(statement.then)
            if statement.condition is True:
                found += then
                continue
            statement = replace(statement, then=then, otherwise=without_certain_branches(statement.otherwise))
        elif isinstance(statement, Repeat):
            statement = replace(statement, body=without_certain_branches(statement.body))
        found.append(statement)
    return found


def defined_by(statement: Statement) -> Sequence[Scalar]:
    """The scalars that a statement computes, those of statements within it left out."""
    if isinstance(statement, NodeOperation):
        return statement.results
    if isinstance(statement, SizeArithmetic | Convert | Get | Read):
        return (statement.result,)
    return (statement.index,) if isinstance(statement, Repeat) else ()
