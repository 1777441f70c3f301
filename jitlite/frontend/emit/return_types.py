"""What is followed of a function's results while it is emitted."""

from __future__ import annotations

from jitlite.base.records import Record
from jitlite.frontend.emit.values import SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.ir.types import Type
from jitlite.operators.argument_hints import TEST_FOR_NONE, hint_for_type


class Returned(Record, eq=True):
    """Something that the graph has no value for, and the statement that returns it."""

    node: Node
    found: SugaredValue


class ReturnTypes:
    """What a function (or closure) is declared to return, and what has been returned so far.

    Attributes:
        symbolic: what is returned and has no value in the graph; None where the caller needs a value.
    """

    def __init__(self, declared: Type | None, symbolic: list[Returned] | None = None) -> None:
        self.declared = declared
        self.merged: Type | None = None
        self.symbolic = symbolic


def hint_for_result(declared: Type, found: Type) -> str | None:
    """What to do about a result that is not of the type that the function is annotated to return."""
    if found is T.NONE:
        return f"annotate the result as Optional[{declared.annotation}], or return or raise something else"
    if T.without_none(found) is not found and T.is_subtype(T.without_none(found), declared):
        return TEST_FOR_NONE
    return hint_for_type(declared, found)


class Unset(Record, eq=True):
    """A variable that is first set in the body of a node, which may end early."""

    type: Type
    node: Node
