"""Caught exceptions as values: of which classes they are, their arguments, and the names of classes."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.names import PYTHON_ONLY
from jitlite.base.errors.statements import NO_EXCEPTION
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import ExceptionClass
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.graph import Value


def is_one_of(em: Emitter, caught: Value, classes: Sequence[ExceptionClass], range: SourceRange) -> Value:
    """Is a caught exception of one of these classes?"""
    found: Value | None = None
    for cls in classes:
        name = cls.qualified or QualifiedClassName(f"builtins.{cls.cls.__name__}", cls.cls)
        test = em.node("prim::IsException", [caught, em.constant(name, range, T.STRING)], [T.BOOL], range).output
        found = test if found is None else em.op("aten::__or__", [found, test], range=range)
    assert found is not None
    return found


def exception_classes(em: Emitter, expr: tree.Expr) -> list[ExceptionClass]:
    """The classes that an expression names: one, or several in parentheses.

    Raises:
        CompileError: it names something else.
    """
    if isinstance(expr, tree.TupleLiteral):
        return [c for element in expr.elements for c in exception_classes(em, element)]
    sugared = em.emit_sugared(expr)
    if not isinstance(sugared, ExceptionClass):
        raise NO_EXCEPTION("except takes an exception class, or several in parentheses", expr.range, found=sugared.kind)
    return [sugared]


class ClassOfModule(SugaredValue):
    """`type(self)` of a module, of which scripts know the name: they hold compiled modules, whose class is another."""

    kind = "the class of a module"

    def __init__(self, name: str) -> None:
        self.name = name

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if name == "__name__":
            return SimpleValue(b.constant(self.name, range))
        return super().attr(b, range, name)

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise PYTHON_ONLY("type() of a module isn't supported", range, hint="type(x).__name__ is its name")
