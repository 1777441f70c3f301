"""Methods, properties and constants of NamedTuple classes, and `_replace`.

A value of such a class is a tuple of the graph. A method is a function whose first parameter has the type of the tuple.
"""

from __future__ import annotations

import inspect

from jitlite.base.errors.calls import WRONG_COUNT, WRONG_KEYWORD
from jitlite.base.source import SourceRange, did_you_mean
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.denotations import PythonFunction, sugared_from_python
from jitlite.frontend.emit.special_methods import defines
from jitlite.frontend.emit.values import Args, SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.overloads import NamedValue


class BoundFunction(SugaredValue):
    """A function that is called with a value before its arguments: a method of a value that is no object."""

    is_function = True
    takes_functions = True

    def __init__(self, function: SugaredValue, owner: Value, name: str) -> None:
        self.function = function
        self.owner = owner
        self.kind = f"the method {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        return self.function.call(b, range, [NamedValue(None, self.owner, range=range), *args], kwargs)


class _Replace(SugaredValue):
    """`_replace` of a named tuple."""

    is_function = True
    kind = "the method _replace"

    def __init__(self, owner: Value) -> None:
        self.owner = owner

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        t = self.owner.type
        assert isinstance(t, T.TupleType) and t.names is not None
        if args:
            raise WRONG_COUNT("_replace takes keyword arguments only", range)
        parts = dict(zip(t.names, zip(b.unpack_tuple(self.owner), t.elements, strict=True), strict=True))
        for given in kwargs:
            name = given.name or ""
            if name not in parts:
                raise WRONG_KEYWORD(f"Got unexpected field names: ['{name}']", range, hint=did_you_mean(name, t.names))
            wanted = parts[name][1]
            value = given.in_graph(b.graph)
            message = f"the field '{name}' is of type {wanted.annotation}, but is given a {value.type.annotation}"
            parts[name] = b.expect(wanted, value, given.range or range, message), wanted
        return SimpleValue(b.make_tuple([value for value, _ in parts.values()], t))


def member_of_named_tuple(scope: Scope, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue | None:
    """What the class of a named tuple has under a name; None where the value is none, or its class has none."""
    t = value.type
    if not isinstance(t, T.TupleType) or t.names is None:
        return None
    if name == "_replace":
        return _Replace(value)
    cls = t.python_class
    is_known = cls is not None and (not name.startswith("__") or defines(value, name))
    found = inspect.getattr_static(cls, name, None) if is_known else None
    if isinstance(found, property) and found.fget is not None:
        return PythonFunction(scope, found.fget).call(b, range, [NamedValue(None, value, range=range)], [])
    if isinstance(found, staticmethod):
        return sugared_from_python(scope, found.__func__, name, range)
    if inspect.isfunction(found) and found.__module__ != "collections":  # which has those of every namedtuple
        return BoundFunction(sugared_from_python(scope, found, name, range), value, name)
    is_constant = found is not None and not callable(found) and not isinstance(found, classmethod)
    return sugared_from_python(scope, found, name, range) if is_constant else None
