"""What decorators made with `functools.wraps` are to a program.

A context manager of torch, `@torch.no_grad()`, is a `with` around the whole body. What caches or marks a function, or
checks its types, is no part of the program. Any other decorator puts a function in place of the decorated one. It is
this function that is compiled; `decorated.py` gives it the parameters of the decorated one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
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


_CHANGE_MEANING = ("torch._functorch", "torch._vmap_internals", "torch.func")
"""Modules of torch whose wrappers compute something else than what they wrap."""
_LEAVE_MEANING = ("torch", "jitlite", "beartype", "jaxtyping", "typeguard")
"""Packages whose other wrappers mark a function, compile it, or check the types of its arguments."""


def replaces(fn: object) -> bool:
    """Has a decorator put `fn` in place of the function that it wraps, so that a call does what `fn` does?"""
    fn = getattr(fn, "__func__", fn) if not isinstance(fn, type) else None
    if "__wrapped__" not in getattr(fn, "__dict__", ()):
        return False
    if isinstance(fn, FunctionType):
        return context_of_wrapper(fn) is None and not _leaves_meaning(fn)
    if isinstance(fn, functools.partial):
        return True
    call = inspect.getattr_static(type(fn), "__call__", None)
    return inspect.isfunction(call) and not _is_within(type(fn).__module__, _LEAVE_MEANING)


def _leaves_meaning(wrapper: FunctionType) -> bool:
    home = str(wrapper.__globals__.get("__name__", ""))
    if wrapper.__code__.co_filename.startswith("<@beartype"):
        return True
    if (home, wrapper.__code__.co_name) == ("contextlib", "helper"):
        return True  # made by `contextmanager`: `with` knows the generator
    return _is_within(home, _LEAVE_MEANING) and not _is_within(home, _CHANGE_MEANING)


def _is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def without_marks(fn: object) -> Any:
    """What is compiled for a decorated function: the function under decorators that do not replace what they wrap."""
    seen: list[object] = []
    fn = getattr(fn, "__func__", fn)
    while hasattr(fn, "__wrapped__") and not replaces(fn) and not any(fn is one for one in seen):
        seen.append(fn)
        fn = fn.__wrapped__
        fn = getattr(fn, "__func__", fn)
    return fn


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
    while hasattr(fn, "__wrapped__") and not replaces(fn):
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
