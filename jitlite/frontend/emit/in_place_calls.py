"""Calls of functions of the program that are emitted where they stand; `open_calls.py` says which."""

from __future__ import annotations

from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.local_functions import LocalFunction, unused_variable
from jitlite.frontend.emit.open_calls import InPlace, as_python_calls
from jitlite.frontend.emit.values import SugaredValue
from jitlite.frontend.syntax.nested_scopes import with_names_outside
from jitlite.ir.types import Type


@expression(InPlace)
def emit_in_place(em: Emitter, expr: InPlace, hint: Type | None) -> SugaredValue:
    """A function of the program, or a method, as if it were defined where it is called."""
    called = as_python_calls(expr.definition, expr.args, expr.kwargs)
    definition = with_names_outside(called.tree)
    defaults: dict[str, str] = {}
    for param in definition.decl.params:
        if param.ident.name in called.defaults:
            name = defaults[param.ident.name] = unused_variable(em)
            default = called.defaults[param.ident.name]
            with em.within(called):
                em.assign(name, sugared_from_python(em, default, param.ident.name, param.range), param.range)
    function = LocalFunction(called.name, definition, defaults, within=called, is_whole=True)
    return function.call(em, expr.range, expr.args, expr.kwargs)
