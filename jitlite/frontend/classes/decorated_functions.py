"""Calls of functions that decorators have put in place of others, and of the others by these."""

from __future__ import annotations

from functools import partial
from types import FunctionType

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.branch_refinement import emit_or_else
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.class_members import method_around
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.denotations import PythonFunction, sugared_from_python
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.meanings import Meaning
from jitlite.frontend.emit.objects import MethodValue, ObjectDefinition
from jitlite.frontend.emit.values import Args, ConstantValue, SugaredValue
from jitlite.frontend.syntax.decorated import looks_on
from jitlite.frontend.syntax.decorators import replaces
from jitlite.ir.types import ClassType

_ABOUT_FUNCTIONS = ("__name__", "__qualname__", "__module__", "__doc__")
"""Attributes of functions that are texts."""


class ProgramFunction(PythonFunction):
    """A Python function of the program.

    The method that a decorator has replaced is a method of its first argument's class: `super()` and private names mean
    in it what they do there. What only looks on is left out where it does not compile, as it changes no result.
    """

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        method = self._method_inside(args)
        if method is not None:
            return method.call(b, range, args[1:], kwargs)
        call = partial(super().call, b, range, args, kwargs)
        if not isinstance(b, Emitter) or not self._looks_on():
            return call()
        inner = sugared_from_python(self.scope, self.function.__dict__["__wrapped__"], self.kind, range)
        return emit_or_else(b, call, partial(inner.call, b, range, args, kwargs))

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        found = getattr(self.function, name, None) if name in _ABOUT_FUNCTIONS else None
        return ConstantValue(found) if isinstance(found, str) else super().attr(b, range, name)

    def _looks_on(self) -> bool:
        return isinstance(self.function, FunctionType) and replaces(self.function) and looks_on(self.function)

    def _method_inside(self, args: Args) -> MethodValue | None:
        owner = args[0].value if args else None
        if owner is None or not isinstance(owner.type, ClassType):
            return None
        definition, cls = owner.type.definition, owner.type.python_class
        if not isinstance(definition, ObjectDefinition) or cls is None:
            return None
        found = method_around(cls, self.function)
        return None if found is None else definition.bound(owner, definition.method_of(self.function, *found))


def function_value(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    """A Python function, compiled when it is called."""
    return ProgramFunction(scope, meaning.object)
