"""Classes and functions that stand for one of jitlite's and one of torch's: which one a use is of, is found out then.

What torch's own modules compile for themselves they hand to torch's C++, so they get torch's.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from jitlite.api import script as api
from jitlite.base.errors.ways_out import NOT_FROM_TORCH
from jitlite.objects.function import ScriptFunction
from jitlite.objects.handle import ModuleHandle
from jitlite.objects.module import ScriptMeta, ScriptModule
from jitlite.objects.overloaded import OverloadedMethod
from jitlite.objects.torch_types import View

_OURS = (ScriptModule, ScriptFunction, OverloadedMethod, ModuleHandle, View)
_LIKE_USERS = ("torch.testing", "torch.utils.tensorboard")
"""Parts of torch that use torch.jit as its users do."""


class _Both(type):
    """The class of classes that count what torch.jit has made as theirs too.

    Only the stand-ins themselves do, not classes that inherit from them.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or isinstance(instance, cls.__dict__.get("_stands_for", ()))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(cls, subclass) or issubclass(subclass, cls.__dict__.get("_stands_for", ()))

    def __getattr__(cls, name: str) -> Any:
        for original in cls.__dict__.get("_stands_for", ())[1:]:  # what torch's own code asks the class for
            if hasattr(original, name):
                return getattr(original, name)
        raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")


class _BothModules(_Both, ScriptMeta):
    """The same, of script modules."""


def stand_in(ours: type, theirs: type | None = None, body: dict[str, Any] | None = None) -> type:
    """A class like `ours`, of which objects of `ours` and `theirs` are instances too."""
    make = _BothModules if issubclass(ours, ScriptModule) else _Both
    stands_for = (ours,) if theirs is None else (ours, theirs)
    known = {"_stands_for": stands_for, "__module__": ours.__module__, "__doc__": ours.__doc__}
    return make(ours.__name__, (ours,), known | (body or {}))


def _called_by_torch() -> bool:
    """Is the caller of the caller one of torch's own modules?"""
    name = str(sys._getframe(2).f_globals.get("__name__"))
    return name.startswith("torch.") and not name.startswith(_LIKE_USERS)


class _CallersClass(type):
    """The class of classes that are torch's for torch's own modules and jitlite's for everybody else."""

    _ours: type
    _theirs: type

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        return (cls._theirs if _called_by_torch() else cls._ours)(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._theirs if _called_by_torch() else cls._ours, name)

    def __setattr__(cls, name: str, value: object) -> None:
        setattr(cls._theirs, name, value)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (cls._theirs, cls._ours))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, (cls._theirs, cls._ours))


def chosen_class(ours: type, theirs: type) -> type:
    """A class of which objects of both are instances, and which makes objects of the one that its caller needs."""
    body = {"_ours": ours, "_theirs": theirs, "__module__": theirs.__module__, "__doc__": theirs.__doc__}
    return _CallersClass(theirs.__name__, (), body)


def script_for_users(theirs: Callable[..., object]) -> Callable[..., Any]:
    """`script` for everybody but torch's own modules."""

    @functools.wraps(api.script)
    def script(
        obj: object,
        optimize: object = None,
        _frames_up: int = 0,
        _rcb: Callable[[str], object] | None = None,
        example_inputs: object = None,
    ) -> Any:
        chosen = theirs if _called_by_torch() else api.script
        return chosen(obj, optimize, _frames_up + 1, _rcb, example_inputs)

    return script


def unless_torch_calls(ours: Callable[..., object], theirs: Callable[..., object]) -> Callable[..., Any]:
    """`ours` for everybody but torch's own modules."""

    @functools.wraps(ours)
    def chosen(*args: object, **kwargs: object) -> Any:
        return (theirs if _called_by_torch() else ours)(*args, **kwargs)

    return chosen


def unit_for_users(theirs: Any) -> type:
    """`CompilationUnit` for everybody but torch's own modules."""

    def new(cls: type, lang: str | None = None, _frames_up: int = 0, **others: Any) -> Any:
        if _called_by_torch():
            return theirs(lang, _frames_up=_frames_up + 1)
        return object.__new__(cls)

    return stand_in(api.CompilationUnit, theirs, {"__new__": new})


def refusing(name: str, theirs: Callable[..., object]) -> Callable[..., Any]:
    """A function of torch.jit that says plainly that it does not know what jitlite has compiled.

    Raises:
        NotSupportedError: where it is given such an object.
    """

    @functools.wraps(theirs)
    def refuses(*args: object, **kwargs: object) -> Any:
        if _has_ours(args[:1], kwargs):
            raise NOT_FROM_TORCH(
                f"torch.jit.{name} does not know what jitlite has compiled, and jitlite has no '{name}' yet",
                hint="give it the Python function or module",
            )
        return theirs(*args, **kwargs)

    return refuses


def by_argument(ours: Callable[..., object], theirs: Callable[..., object]) -> Callable[..., Any]:
    """`ours` for what jitlite has made, `theirs` for everything else."""

    @functools.wraps(theirs)
    def chosen(*args: object, **kwargs: object) -> Any:
        return (ours if _has_ours(args[:1], kwargs) else theirs)(*args, **kwargs)

    return chosen


def by_any_argument(ours: Callable[..., Any], theirs: Any, their_classes: tuple[type, ...]) -> Callable[..., Any]:
    """`ours` for what jitlite has made, `theirs` for what torch has made; where neither is given, the caller counts."""

    @functools.wraps(ours)
    def chosen(*args: object, **kwargs: object) -> Any:
        if not _has_ours(args, kwargs):
            given = (*args, *kwargs.values())
            if _called_by_torch() or any(isinstance(a, their_classes) for a in given):
                return theirs(*args, **kwargs)
        return ours(*args, **kwargs)

    return chosen


def _has_ours(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return any(isinstance(a, _OURS) for a in (*args, *kwargs.values()))


class ModuleWith(types.ModuleType):
    """A module as others see it with some of its names exchanged; its own functions go on using its own names."""

    def __init__(self, module: types.ModuleType, exchanged: dict[str, object]) -> None:
        super().__init__(module.__name__, module.__doc__)
        vars(self).clear()
        vars(self).update(exchanged, __name__=module.__name__, __jitlite_module__=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["__jitlite_module__"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(vars(self)["__jitlite_module__"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(vars(self)["__jitlite_module__"], name)

    def __dir__(self) -> list[str]:
        return dir(vars(self)["__jitlite_module__"])
