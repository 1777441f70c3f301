"""Statements about names that are not a function's own: imports, `global`."""

from __future__ import annotations

import importlib

from jitlite.base.errors.names import GLOBAL_ASSIGNED, PYTHON_ERROR
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter, statement
from jitlite.frontend.syntax import tree


@statement(tree.Global)
def emit_global(em: Emitter, stmt: tree.Global) -> None:
    """What is only read means the same without the statement."""
    for name in stmt.names:
        if name.name in em.own_names:
            raise GLOBAL_ASSIGNED(
                f"global variables cannot be assigned in TorchScript: '{name.name}' is", stmt.range,
                hint="pass the value as a parameter and return it",
            )  # fmt: skip


@statement(tree.Imports)
def emit_imports(em: Emitter, stmt: tree.Imports) -> None:
    """The import is done where the function is compiled."""
    for one in stmt.imports:
        found = _imported(em, one)
        em.assign(one.name.name, sugared_from_python(em, found, one.name.name, one.range), one.range)


def _imported(em: Emitter, one: tree.Import) -> object:
    package = em.resolver.scope.get("__package__") if one.level else None
    name = "." * one.level + one.module
    try:
        module = importlib.import_module(name, str(package) if package else None)
        if not one.attribute:
            return module
        if not hasattr(module, one.attribute):
            submodule = f"{module.__name__}.{one.attribute}"
            return importlib.import_module(submodule)
        return getattr(module, one.attribute)
    except ImportError as error:
        raise PYTHON_ERROR(
            f"{type(error).__name__}: {error}", one.range, hint="only what can be imported here can be compiled"
        ) from None
