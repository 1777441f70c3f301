"""Loops over an object whose class has an `__iter__` of its own: the body of `__iter__` is emitted where the loop
stands, and the loop's body in place of each `yield`.

    class Kept(nn.ModuleList):                      for layer in self.layers:
        def __iter__(self):                             x = layer(x)
            for i, layer in enumerate(super().__iter__()):
                if i > 0 or self.training:      =>  for i, layer in enumerate(...):
                    yield layer                         if i > 0 or self.layers.training:
                                                            x = layer(x)

An `__iter__` that is no generator consists of a `return`; the loop goes through what it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jitlite.base.errors.statements import UNSUPPORTED_SYNTAX
from jitlite.base.records import replace
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.emitter import Emitter, statement
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import with_own_names
from jitlite.ir.graph import Value

OnElement = Callable[[SugaredValue, SourceRange], None]


class GeneratorValue(SugaredValue):
    """What `__iter__` of an object gives, for a loop to go through."""

    kind = "what __iter__ of the class gives"

    def __init__(self, definition: Definition, owner: Value) -> None:
        self.definition = definition
        self.owner = owner

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self

    def each(self, em: Emitter, on_element: OnElement) -> None:
        """Emit `__iter__` with `on_element` in place of each `yield`."""
        outside = em.definition, em.resolver, em.on_yield, em.loop
        definition = self._with_own_names(em)

        def emit_yield(expr: tree.Expr) -> None:
            value = em.emit_sugared(expr)
            inside = em.loop
            with _within(em, *outside):
                on_element(value, expr.range)
            assert em.loop == inside

        with _within(em, definition, definition.resolver, emit_yield, "none"):
            em.assign(definition.tree.decl.params[0].ident.name, SimpleValue(self.owner), definition.tree.range)
            em.emit_statements(definition.tree.body)

    def returned(self, em: Emitter) -> SugaredValue | None:
        """What an `__iter__` returns that is no generator; None for one that is."""
        last = self.definition.tree.body[-1]
        if not isinstance(last, tree.Return) or any(isinstance(t, tree.Yield) for t in self.definition.tree.walk()):
            return None
        definition = self._with_own_names(em)
        last = definition.tree.body[-1]
        assert isinstance(last, tree.Return)
        expr = last.value
        if isinstance(expr, tree.Apply) and isinstance(expr.callee, tree.Var) and expr.callee.name.name == "iter":
            (expr,) = expr.args
        with _within(em, definition, definition.resolver, None, em.loop):
            em.assign(definition.tree.decl.params[0].ident.name, SimpleValue(self.owner), definition.tree.range)
            em.emit_statements(definition.tree.body[:-1])
            return em.emit_sugared(expr).iterate(em, expr.range)

    def _with_own_names(self, em: Emitter) -> Definition:
        """The definition with names for its variables that no other one has."""
        return replace(self.definition, tree=with_own_names(self.definition.tree, f"{em.temporary('iter')}."))


@contextmanager
def _within(
    em: Emitter, definition: Definition, resolver: Any, on_yield: Callable[[tree.Expr], None] | None, loop: str
) -> Iterator[None]:
    """Names mean what they mean in `definition`, and its statements are emitted."""
    saved = em.definition, em.resolver, em.on_yield, em.loop
    em.definition, em.resolver, em.on_yield, em.loop = definition, resolver, on_yield, loop
    try:
        yield
    finally:
        em.definition, em.resolver, em.on_yield, em.loop = saved


@statement(tree.Yield)
def emit_yield(em: Emitter, stmt: tree.Yield) -> None:
    if em.on_yield is None:
        raise UNSUPPORTED_SYNTAX(
            "yield expressions aren't supported", stmt.range, hint="append to a list and return it"
        )
    em.on_yield(stmt.value)


def is_iterator_method(function: object) -> bool:
    """Is it a method `__iter__` that takes the object alone?"""
    return inspect.isfunction(function) and len(inspect.signature(function).parameters) == 1
