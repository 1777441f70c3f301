"""The Python functions that a function calls, found without compiling it, and compiled before it.

A call is compiled when it is met, in the middle of the function that calls: a long chain of calls would nest as deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from jitlite.base.source import CompileError
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.meanings import Kind, meaning_of
from jitlite.frontend.emit.resolver import Resolver
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import bound_names
from jitlite.ir.unit import Function

MOST_NESTED = 32
"""Functions whose compilation may nest, each for a call in the one before; what these call is compiled before them."""


def compile_callees(function: Function, callees_of: Callable[[Function], Iterator[Function]]) -> None:
    """Compile what a function calls, directly or not: those first that call nothing new.

    It ends with the first one that does not compile. Whoever calls that one says so, if the call is reached.
    """
    reached = {function}
    waiting = [(function, callees_of(function))]
    with suppress(CompileError):
        while waiting:
            caller, callees = waiting[-1]
            callee = next((found for found in callees if found not in reached), None)
            if callee is not None:
                reached.add(callee)
                if not callee.is_compiled:
                    waiting.append((callee, callees_of(callee)))
                continue
            waiting.pop()
            if waiting:
                caller.ensure_compiled()


def called_functions(definition: Definition) -> Iterator[Callable[..., Any]]:
    """What is called by a name, or as an attribute of a module, and would be compiled. Not all need be reached."""
    own = bound_names(definition.tree)
    for part in definition.tree.walk():
        if isinstance(part, tree.Apply):
            found = _denoted(part.callee, definition.resolver, own)
            meaning = None if found is None else meaning_of(found)
            if meaning is not None and meaning.kind is Kind.FUNCTION:
                yield meaning.object


def _denoted(expr: tree.Expr, resolver: Resolver, own: set[str]) -> Any:
    """The Python object that a name or an attribute of a module denotes; None for others."""
    names = []
    while isinstance(expr, tree.Select):
        names.append(expr.name.name)
        expr = expr.value
    if not isinstance(expr, tree.Var) or expr.name.name in own:
        return None
    try:
        found = resolver.lookup(expr.name.name)
    except LookupError:
        return None
    for name in reversed(names):
        found = getattr(found, name, None) if isinstance(found, ModuleType) else None
    return found
