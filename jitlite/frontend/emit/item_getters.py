"""`operator.itemgetter(0)`: a function that gives an item of what it is given."""

from __future__ import annotations

from jitlite.base.errors.calls import KNOWN_WHEN_COMPILED, WRONG_COUNT
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.values import Args, SimpleValue, SpecialForm, SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir.graph import constant_of, is_constant
from jitlite.ir.types import Type


@form("itemgetter", 1)
def emit_itemgetter(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    return ItemGetter([_known(em, arg) for arg in call.args])


def _known(em: Emitter, expr: tree.Expr) -> object:
    """The constant that an argument is.

    Raises:
        CompileError: it is none.
    """
    value = em.emit(expr)
    if not is_constant(value):
        raise KNOWN_WHEN_COMPILED("what itemgetter takes has to be known where the program is compiled", expr.range)
    return constant_of(value)


class ItemGetter(SugaredValue):
    """`operator.itemgetter(a, b)`: `x[a]`, or `(x[a], x[b])`."""

    kind = "an itemgetter"
    is_function = True

    def __init__(self, items: list[object]) -> None:
        self.items = items

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if len(args) != 1 or kwargs:
            raise WRONG_COUNT(f"an itemgetter takes one argument, got {len(args) + len(kwargs)}", range)
        subject = KnownValue(SimpleValue(args[0].in_graph(b.graph)), range=range)
        parts: list[SugaredValue] = []
        for item in self.items:
            index = KnownValue(SimpleValue(b.constant(item, range)), range=range)
            parts.append(b.emit_sugared(tree.Subscript(subject, (index,), range=range)))
        return parts[0] if len(parts) == 1 else SugaredTuple(parts)
