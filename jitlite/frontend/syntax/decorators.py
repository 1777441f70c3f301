"""Functions decorated with a context manager of torch: `@torch.no_grad()` is a `with` around the whole body.

Other decorators are no part of what is compiled, as in torch.jit; these decide what operators do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from jitlite.frontend.syntax import tree as t

_ARGUMENTS: dict[type, Callable[[Any], tuple[object, ...]]] = {
    torch.no_grad: lambda manager: (),
    torch.enable_grad: lambda manager: (),
    torch.set_grad_enabled: lambda manager: (manager.mode,),
    torch.inference_mode: lambda manager: (manager.mode,),
    torch.autocast: lambda manager: (
        manager.device,
        manager.fast_dtype,
        manager._enabled,
        manager._cache_enabled,
    ),
}
"""What an equal context manager is made with."""

_WRAPPERS = {"decorate_context": ("ctx_factory", "ctx"), "decorate_autocast": ("autocast_instance",)}
"""Names of the wrappers that torch's decorators make, and of the variables that lead to the context manager."""


def context_of_wrapper(fn: object) -> object:
    """The context manager that a function made by a decorator of torch enters; None where there is none."""
    code = getattr(fn, "__code__", None)
    found: Any = fn
    for variable in _WRAPPERS.get(code.co_name, ()) if code is not None and hasattr(fn, "__wrapped__") else ():
        if inspect.isfunction(found):
            found = inspect.getclosurevars(found).nonlocals.get(variable)
    found = getattr(found, "__self__", found)  # `clone` of the manager itself
    return found if _class_of(found) is not None else None


def _class_of(manager: object) -> type | None:
    return next((cls for cls in type(manager).__mro__ if cls in _ARGUMENTS), None)


def with_contexts(fn: object, definition: t.Def) -> tuple[t.Def, dict[str, Any]]:
    """The definition with the contexts of its decorators around its body, and what the new names in it denote.

    Args:
        fn: the decorated function that `definition` is the definition of.
    """
    names: dict[str, Any] = {}
    managers = []
    fn = getattr(fn, "__func__", fn)
    while hasattr(fn, "__wrapped__"):
        manager = context_of_wrapper(fn)
        if manager is not None:
            managers.append(manager)
        fn = fn.__wrapped__
    for manager in reversed(managers):  # the outermost comes last, around all others
        definition = _put_around(definition, manager, names)
    return definition, names


def _put_around(definition: t.Def, manager: object, names: dict[str, Any]) -> t.Def:
    place = definition.name.range
    cls = _class_of(manager)
    assert cls is not None

    def variable(stem: str, value: object) -> t.Var:
        name = f"@{stem}" if f"@{stem}" not in names else f"@{stem}_{len(names)}"
        names[name] = value
        return t.Var(t.Ident(name, range=place), range=place)

    callee = variable(cls.__name__, cls)
    arguments = tuple(variable("argument", value) for value in _ARGUMENTS[cls](manager))
    call = t.Apply(callee, arguments, (), range=place)
    item = t.WithItem(call, None, range=place)
    return t.replaced(definition, body=(t.With((item,), definition.body, range=place),))
