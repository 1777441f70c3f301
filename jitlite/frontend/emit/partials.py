"""`functools.partial`: a function with some of its arguments, made in a script or in Python."""

from __future__ import annotations

import functools
from typing import Any

from jitlite.base.errors.names import NOT_A_VALUE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.meanings import Meaning
from jitlite.frontend.emit.values import Args, ConstantValue, SpecialForm, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir.graph import Value
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue


class PartialValue(SugaredValue):
    """A function with some of its arguments."""

    is_function = True
    takes_functions = True

    def __init__(self, function: SugaredValue, args: Args, kwargs: Args) -> None:
        self.function = function
        self.args = list(args)
        self.kwargs = list(kwargs)
        self.kind = f"a functools.partial of {function.kind}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        given = {k.name for k in kwargs}
        kept = [k for k in self.kwargs if k.name not in given]
        return self.function.call(b, range, [*self.args, *args], [*kept, *kwargs])

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE.unsupported(f"{self.kind} cannot be used as a value", range, hint="call it")


@form("partial", 1, None, ["*"])
def emit_partial(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    function = em.emit_sugared(call.args[0])
    functions = function.takes_functions
    return PartialValue(
        function, em.emit_arguments(call.args[1:], functions), em.emit_keywords(call.keywords, functions)
    )


class _GlobalPartial(SugaredValue):
    """A partial that was made in Python, all of whose arguments are constants."""

    is_function = True
    takes_functions = True

    def __init__(self, scope: Scope, found: functools.partial[Any], range: SourceRange) -> None:
        name = getattr(found.func, "__name__", "?")
        self.function = sugared_from_python(scope, found.func, name, range)
        self.found = found
        self.kind = f"a functools.partial of {self.function.kind}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        def constant(name: str | None, value: object) -> NamedValue:
            return NamedValue(name, ConstantValue(value).as_value(b, range), range=range)

        positional = [constant(None, v) for v in self.found.args]
        named = [constant(k, v) for k, v in self.found.keywords.items()]
        return PartialValue(self.function, positional, named).call(b, range, args, kwargs)


def partial_value(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    """A partial that was made in Python."""
    return _GlobalPartial(scope, meaning.object, range)
