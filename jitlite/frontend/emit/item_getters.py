"""`operator.itemgetter(0)` and `operator.attrgetter("n")`: functions that give a part of what they are given."""

from __future__ import annotations

from jitlite.base.errors.calls import KNOWN_WHEN_COMPILED, WRONG_COUNT
from jitlite.base.errors.types import WRONG_TYPE
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
    return ItemGetter([_known(em, arg, special.form) for arg in call.args])


@form("attrgetter", 1)
def emit_attrgetter(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    names = [_known(em, arg, special.form) for arg in call.args]
    for name, arg in zip(names, call.args, strict=True):
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise WRONG_TYPE("an attrgetter takes names of attributes", arg.range, found=repr(name))
    return AttributeGetter(names)


def _known(em: Emitter, expr: tree.Expr, getter: str) -> object:
    """The constant that an argument is.

    Raises:
        CompileError: it is none.
    """
    value = em.emit(expr)
    if not is_constant(value):
        raise KNOWN_WHEN_COMPILED(f"what {getter} takes has to be known where the program is compiled", expr.range)
    return constant_of(value)


class ItemGetter(SugaredValue):
    """`operator.itemgetter(a, b)`: `x[a]`, or `(x[a], x[b])`."""

    kind = "an itemgetter"
    is_function = True

    def __init__(self, items: list[object]) -> None:
        self.items = items

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if len(args) != 1 or kwargs:
            raise WRONG_COUNT(f"{self.kind} takes one argument, got {len(args) + len(kwargs)}", range)
        subject = KnownValue(SimpleValue(args[0].in_graph(b.graph)), range=range)
        parts: list[SugaredValue] = [b.emit_sugared(self.part(b, subject, item, range)) for item in self.items]
        if len(parts) == 1:
            return parts[0]
        together = SugaredTuple(parts)
        return together if any(p.is_symbolic for p in parts) else SimpleValue(together.as_value(b, range))

    def part(self, b: Builder, subject: KnownValue, item: object, range: SourceRange) -> tree.Expr:
        """The expression for one item of what is given."""
        index = KnownValue(SimpleValue(b.constant(item, range)), range=range)
        return tree.Subscript(subject, (index,), range=range)


class AttributeGetter(ItemGetter):
    """`operator.attrgetter("a.b", "c")`: `x.a.b`, or `(x.a.b, x.c)`."""

    kind = "an attrgetter"

    def part(self, b: Builder, subject: KnownValue, item: object, range: SourceRange) -> tree.Expr:
        expr: tree.Expr = subject
        for name in str(item).split("."):
            expr = tree.Select(expr, tree.Ident(name, range=range), range=range)
        return expr
