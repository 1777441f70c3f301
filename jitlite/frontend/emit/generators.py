"""Loops over a call of a function that yields, and over an object whose class has an `__iter__` of its own: the body of
the function, or of `__iter__`, is emitted where the loop stands, and the loop's body in place of each `yield`.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jitlite.base.errors.calls import WRONG_COUNT
from jitlite.base.errors.names import NOT_A_VALUE
from jitlite.base.errors.statements import UNSUPPORTED_SYNTAX
from jitlite.base.records import replace
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter, expression, statement
from jitlite.frontend.emit.known_values import elements_of
from jitlite.frontend.emit.open_calls import GeneratorCall, by_parameter
from jitlite.frontend.emit.values import ConstantValue, SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import with_names_outside, with_own_names
from jitlite.frontend.syntax.yields import returns, yields_within
from jitlite.ir.graph import Value
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue

OnElement = Callable[[SugaredValue, SourceRange], None]


class _OnYield:
    """What is done for each `yield`, and the functions whose bodies are being emitted for it."""

    def __init__(self, call: Callable[[tree.Expr], None], functions: tuple[SourceRange, ...]) -> None:
        self.call = call
        self.functions = functions

    def __call__(self, expr: tree.Expr) -> None:
        self.call(expr)


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

        with _within(em, definition, definition.resolver, _OnYield(emit_yield, self._functions(em)), "none"):
            self._bind(em, definition)
            em.emit_statements(definition.tree.body)

    def _functions(self, em: Emitter) -> tuple[SourceRange, ...]:
        """The functions whose bodies are being emitted, this one among them.

        Raises:
            CompileError: this one is emitted already, as it goes through what it yields itself.
        """
        place = self.definition.tree.range
        others = em.on_yield.functions if isinstance(em.on_yield, _OnYield) else ()
        if place in others:
            raise UNSUPPORTED_SYNTAX(
                f"{self.kind} is needed for itself", place, hint="append to a list, and pass that to the recursive call"
            )
        return *others, place

    def length(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE(f"{self.kind} has no length", range, hint="make a list of it: `list(...)`")

    def _bind(self, em: Emitter, definition: Definition) -> None:
        """Give the parameters their values."""
        em.assign(definition.tree.decl.params[0].ident.name, SimpleValue(self.owner), definition.tree.range)

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
            self._bind(em, definition)
            em.emit_statements(definition.tree.body[:-1])
            return em.emit_sugared(expr).iterate(em, expr.range)

    def _with_own_names(self, em: Emitter) -> Definition:
        """The definition with names for its variables that no other one has."""
        return replace(self.definition, tree=with_own_names(self.definition.tree, f"{em.temporary('iter')}."))


class FunctionGenerator(GeneratorValue):
    """What a call of a function that yields gives: elements that a loop, `list`, `sum` or the like asks for once."""

    is_made_anew = True

    def __init__(self, definition: Definition, given: Mapping[str, SugaredValue]) -> None:
        self.definition = definition
        self.given = given
        self.kind = f"what the generator {definition.name} gives"

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE.unsupported(
            f"{self.kind} is no value, as it could be gone through once only", range,
            hint=f"loop over the call, or make a list: `list({self.definition.name}(...))`",
        )  # fmt: skip

    def as_argument(self, b: Builder, range: SourceRange) -> Value:
        listed: SugaredValue = b.emit_sugared(elements_of(self, range))
        return listed.as_value(b, range)

    def returned(self, em: Emitter) -> SugaredValue | None:
        return None

    def _with_own_names(self, em: Emitter) -> Definition:
        whole = replace(self.definition, tree=with_names_outside(self.definition.tree))
        return replace(whole, tree=with_own_names(whole.tree, f"{em.temporary('iter')}."))

    def _bind(self, em: Emitter, definition: Definition) -> None:
        for param, name in zip(definition.tree.decl.params, self.given, strict=True):
            em.assign(param.ident.name, self.given[name], param.range)


@expression(GeneratorCall)
def emit_generator_call(em: Emitter, expr: GeneratorCall, hint: Type | None) -> SugaredValue:
    """What a call of a function that yields gives.

    Raises:
        CompileError: the arguments do not fit, or the function ends early or has stars among its parameters.
    """
    definition = em.program.definition_for(expr.function)
    _check(definition, expr.range)
    given = {name: sugared_from_python(em, default, name, expr.range) for name, default in definition.defaults.items()}
    names = [p.ident.name for p in definition.tree.decl.params]
    bound = by_parameter(definition.tree.decl.params, expr.args, expr.kwargs)
    given.update((name, _sugared(argument)) for name, argument in (bound or {}).items())
    if bound is None or not given.keys() >= set(names):
        raise WRONG_COUNT(f"the arguments do not fit the generator {definition.name}({', '.join(names)})", expr.range)
    return FunctionGenerator(definition, {name: given[name] for name in names})


def _check(definition: Definition, range: SourceRange) -> None:
    """Raise for a function that yields and cannot be emitted where it is called."""
    ending, is_starred = returns(definition.tree), any(p.stars for p in definition.tree.decl.params)
    if ending is not None or yields_within(definition.tree) or is_starred:
        raise UNSUPPORTED_SYNTAX(
            f"the generator {definition.name} has a return, a generator of its own or a starred parameter, which is "
            "not compiled",
            range if ending is None else ending.range, hint="append to a list and return it",
        )  # fmt: skip


def _sugared(argument: NamedValue) -> SugaredValue:
    if argument.value is not None:
        return SimpleValue(argument.value)
    constant = argument.constant
    return constant if isinstance(constant, SugaredValue) else ConstantValue(constant)


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
