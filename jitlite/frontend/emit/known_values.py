"""What has been evaluated before, as an expression; and what is gone through lazily."""

from __future__ import annotations

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.values import SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.tree_base import HIDDEN, part
from jitlite.ir.graph import Value

UNKNOWN, ABSENT = object(), object()
"""Stand for a value that is not known while the program is compiled, and for one of an attribute that is not there."""


class KnownValue(tree.Expr):
    """An expression that denotes `value`."""

    kind = "known value"
    value: SugaredValue = part(HIDDEN)


class LazyIterable(SugaredValue):
    """What computes its elements while it is gone through, as `range(n)` and `map(f, xs)`."""

    def as_argument(self, b: Builder, range: SourceRange) -> Value:
        """A list of the elements, for an operator that takes them all."""
        listed: SugaredValue = b.emit_sugared(elements_of(self, range))
        return listed.as_value(b, range)


def elements_of(source: SugaredValue, range: SourceRange, *, is_generator: bool = False) -> tree.ListComp:
    """`[element for element in source]`, or the same as a generator expression."""
    element = tree.Var(tree.Ident("$element", range=range), range=range)
    return tree.ListComp(element, element, KnownValue(source, range=range), is_generator=is_generator, range=range)
