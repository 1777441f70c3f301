"""Python objects that can be called, such as those that class-based decorators put in place of functions.

A script sees such an object as it is when the program is compiled: it calls it and its methods, which are emitted where
they are called, and reads its attributes.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable

from jitlite.base.errors.names import NO_ATTRIBUTE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.meanings import Meaning
from jitlite.frontend.emit.open_calls import emit_here
from jitlite.frontend.emit.values import Args, SugaredValue
from jitlite.operators.overloads import NamedValue


class CallableObject(SugaredValue):
    """An object of Python whose class defines `__call__`."""

    is_function = True
    takes_functions = True

    def __init__(self, scope: Scope, found: object) -> None:
        self.scope = scope
        self.found = found
        self.kind = f"an object of {type(found).__name__}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        return self.attr(b, range, "__call__").call(b, range, args, kwargs)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        kept = getattr(self.found, "__dict__", {})
        member = inspect.getattr_static(type(self.found), name, None)
        if name in kept and not inspect.isdatadescriptor(member):
            return sugared_from_python(self.scope, kept[name], name, range)
        if isinstance(member, types.FunctionType):
            return _MethodOfObject(self, member)
        if isinstance(member, property) and member.fget is not None:
            return _MethodOfObject(self, member.fget).call(b, range, [], [])
        if member is None:
            raise NO_ATTRIBUTE(f"'{type(self.found).__name__}' object has no attribute '{name}'", range)
        plain = member.__func__ if isinstance(member, staticmethod) else member
        return sugared_from_python(self.scope, plain, name, range)


class _MethodOfObject(SugaredValue):
    """A method of such an object."""

    is_function = True
    takes_functions = True

    def __init__(self, owner: CallableObject, function: Callable[..., object]) -> None:
        self.owner = owner
        self.function = function
        self.kind = f"the method {getattr(function, '__name__', '?')}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        definition = self.owner.scope.program.definition_for(self.function)
        return emit_here(b, range, definition, [NamedValue(None, None, self.owner, range), *args], kwargs)


def callable_object(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    """An object of Python that can be called."""
    return CallableObject(scope, meaning.object)
