"""`drop_in`: code that calls torch.jit by name gets jitlite for a while.

The module that holds torch.jit's names is found where Python keeps modules; what it holds is exchanged for jitlite's
on entry and put back when the last one leaves. Marks such as `ignore`, `export`, `Final`, `annotate` and `is_scripting`
stay torch's own objects: jitlite knows them for what they are.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

import torch

from jitlite import api, concurrency, executor, freezing, plans, tracing
from jitlite.archive import load as archive
from jitlite.archive import opnames
from jitlite.script_function import OverloadedMethod, ScriptFunction
from jitlite.script_module import RecursiveScriptModule, ScriptMeta, ScriptModule, script_method
from jitlite.source import NotSupportedError

F = TypeVar("F", bound=Callable[..., Any])

_HOME = "torch.jit"
_PACKAGE = __name__.partition(".")[0]
_OWN = (torch.__name__, _PACKAGE)
"""Packages whose modules keep the objects that they have taken from torch.jit."""

_NEW: dict[str, Any] = {
    "interface": api.interface, "script_if_tracing": api.script_if_tracing,
    "script_method": script_method, "fork": concurrency.fork, "_fork": concurrency.fork, "wait": concurrency.wait,
    "_wait": concurrency.wait, "_awaitable": concurrency._awaitable,
    "_awaitable_wait": concurrency._awaitable_wait, "_awaitable_nowait": concurrency._awaitable_nowait,
    "enable_onednn_fusion": api.enable_onednn_fusion, "onednn_fusion_enabled": api.onednn_fusion_enabled,
    "optimized_execution": executor.optimized_execution, "set_fusion_strategy": plans.set_fusion_strategy,
    "last_executed_optimized_graph": executor.last_executed_optimized_graph,
    "TracerWarning": tracing.TracerWarning,
    "TracingCheckError": tracing.TracingCheckError, "Error": Exception,
}  # fmt: skip
"""What takes the place of names of torch.jit, apart from `script` and classes, which also know what torch.jit made."""

_CLASSES: dict[str, type] = {
    "ScriptModule": ScriptModule, "RecursiveScriptModule": RecursiveScriptModule, "ScriptFunction": ScriptFunction,
}  # fmt: skip

_TAKES_COMPILED = ("save_jit_module_to_flatbuffer",)
"""Functions of torch.jit whose first argument may be something compiled. jitlite has none of its own yet."""


_UNLESS_TORCH_CALLS: dict[str, Callable[..., Any]] = {"trace": tracing.trace, "trace_module": tracing.trace_module}
"""Functions that torch's own modules, which hand the result to torch's C++, keep as they are."""

_FOR_OURS: dict[str, Callable[..., Any]] = {
    "freeze": freezing.freeze, "optimize_for_inference": freezing.optimize_for_inference,
    "run_frozen_optimizations": freezing.run_frozen_optimizations, "save": api.save,
    "export_opnames": opnames.export_opnames,
}  # fmt: skip
"""Functions of torch.jit that take something compiled, and jitlite's for what jitlite has compiled."""


# -- what takes the place of torch.jit's


class _Both(type):
    """The class of classes that count what torch.jit has made as theirs too.

    Only the stand-ins themselves do, not classes that inherit from them.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
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


def _stand_in(ours: type, theirs: type, body: dict[str, Any] | None = None) -> type:
    """A class like `ours`, of which objects of `theirs` are instances too."""
    make = _BothModules if issubclass(ours, ScriptModule) else _Both
    known = {"_stands_for": (ours, theirs), "__module__": ours.__module__, "__doc__": ours.__doc__}
    return make(ours.__name__, (ours,), known | (body or {}))


def _called_by_torch() -> bool:
    """Is the caller of the caller one of torch's own modules? They hand what they compile to torch's C++."""
    package, *within = str(sys._getframe(2).f_globals.get("__name__")).split(".")
    return package == torch.__name__ and within[:1] != ["testing"]


def _script(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """`script` for everybody but torch's own modules."""

    @functools.wraps(api.script)
    def script(
        obj: Any,
        optimize: object = None,
        _frames_up: int = 0,
        _rcb: Callable[[str], Any] | None = None,
        example_inputs: Any = None,
    ) -> Any:
        chosen = theirs if _called_by_torch() else api.script
        return chosen(obj, optimize, _frames_up + 1, _rcb, example_inputs)

    return script


def _load(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """`load` for everybody but torch's own modules."""

    @functools.wraps(archive.load)
    def load(*args: Any, **kwargs: Any) -> Any:
        return (theirs if _called_by_torch() else archive.load)(*args, **kwargs)

    return load


def _unless_torch_calls(ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    """`ours` for everybody but torch's own modules."""

    @functools.wraps(ours)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (theirs if _called_by_torch() else ours)(*args, **kwargs)

    return chosen


def _unit(theirs: Any) -> type:
    """`CompilationUnit` for everybody but torch's own modules."""

    def new(cls: type, lang: str | None = None, _frames_up: int = 0, **others: Any) -> Any:
        if _called_by_torch():
            return theirs(lang, _frames_up=_frames_up + 1)
        return object.__new__(cls)

    return _stand_in(api.CompilationUnit, theirs, {"__new__": new})


def _refusing(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch.jit that says plainly that it does not know what jitlite has compiled.

    Raises:
        NotSupportedError: where it is given such an object.
    """

    @functools.wraps(theirs)
    def refusing(*args: Any, **kwargs: Any) -> Any:
        given = [*args[:1], *kwargs.values()]
        if any(isinstance(a, ScriptModule | ScriptFunction | OverloadedMethod) for a in given):
            raise NotSupportedError(
                f"torch.jit.{name} does not know what jitlite has compiled, and jitlite has no '{name}' yet",
                hint="give it the Python function or module",
            )
        return theirs(*args, **kwargs)

    return refusing


def _by_argument(ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    """`ours` for what jitlite has compiled, `theirs` for everything else."""

    @functools.wraps(ours)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        given = [*args[:1], *kwargs.values()]
        return (ours if any(isinstance(a, ScriptModule | ScriptFunction) for a in given) else theirs)(*args, **kwargs)

    return chosen


# -- the exchange


class _Exchange:
    """The state of the process: who is inside, and what has to be put back."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._inside = 0
        self._stand_ins: dict[str, Any] = {}
        self._changed: list[tuple[dict[str, Any], str, Any, Any]] = []

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                try:
                    self._put_in()
                except BaseException:
                    self._put_back()
                    raise
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._put_back()

    def _put_in(self) -> None:
        home = vars(sys.modules[_HOME])
        found = self._find_stand_ins(home)
        for name, new in found.items():
            self._set(home, name, new)
        by_identity = {id(home_value): new for _, name, home_value, new in self._changed}
        for module_name, module in list(sys.modules.items()):
            names = getattr(module, "__dict__", None)
            if module_name.partition(".")[0] in _OWN or not isinstance(names, dict):
                continue
            for name, value in list(names.items()):
                if id(value) in by_identity:
                    self._set(names, name, by_identity[id(value)])

    def _find_stand_ins(self, home: dict[str, Any]) -> dict[str, Any]:
        """What each name is to be; made once, so that a class that a program keeps stays the same."""
        known = self._stand_ins
        if not known:
            known.update((name, new) for name, new in _NEW.items() if name in home)
            known.update((name, _stand_in(cls, home[name])) for name, cls in _CLASSES.items())
            known.update((name, _refusing(name, home[name])) for name in _TAKES_COMPILED if name in home)
            known.update((name, _by_argument(new, home[name])) for name, new in _FOR_OURS.items() if name in home)
            for name, ours in _UNLESS_TORCH_CALLS.items():
                known[name] = _unless_torch_calls(ours, home[name])
            known["script"] = _script(home["script"])
            known["load"] = _load(home["load"])
            known["CompilationUnit"] = _unit(home["CompilationUnit"])
        return known

    def _set(self, names: dict[str, Any], name: str, new: Any) -> None:
        self._changed.append((names, name, names[name], new))
        names[name] = new

    def _put_back(self) -> None:
        while self._changed:
            names, name, old, new = self._changed.pop()
            if names.get(name) is new:  # else somebody has set it since, who shall have it
                names[name] = old


_exchange = _Exchange()


class drop_in:
    """Let code that calls `torch.jit` use jitlite: as a context manager or a decorator.

    with jitlite.drop_in():
        model = library.build()  # calls torch.jit.script, @torch.jit.script_method, torch.jit.fork, ...

    Inside, `script`, `load`, `script_method`, `ScriptModule`, `CompilationUnit`, `interface`, `fork`, `wait`,
    `script_if_tracing` and the like are jitlite's, however a program reaches them: `torch.jit.script` looked up when it
    is called, `from torch import jit`, and names that a module has bound before, `from torch.jit import script`. A
    module that is imported inside for the first time keeps what it binds then. `isinstance(x, torch.jit.ScriptModule)`
    is true of jitlite's modules and of torch.jit's. `except torch.jit.Error` catches every Exception, as
    errors of jitlite's scripts have their own types.

    Others that jitlite does not have stay torch.jit's own, and refuse what jitlite has made. What torch's own modules
    compile for themselves is left to torch.jit.

    Everything is put back at the end, also after an error. The exchange is one for the whole process: other threads see
    it too while anybody is inside, and it ends when the last one leaves. Of a decorated generator or coroutine,
    each step runs inside.
    """

    def __enter__(self) -> None:
        _exchange.enter()

    def __exit__(self, *exception: object) -> None:
        _exchange.leave()

    def __call__(self, function: F) -> F:
        if inspect.isasyncgenfunction(function):
            raise TypeError("drop_in cannot decorate an async generator; use it as a context manager inside")

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            return (yield from _Steps(function(*args, **kwargs)))

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await _steps_of(function(*args, **kwargs))

        is_coroutine, is_generator = inspect.iscoroutinefunction(function), inspect.isgeneratorfunction(function)
        return coroutine if is_coroutine else generator if is_generator else inside  # type: ignore[return-value]


class _Steps(Generator[Any, Any, Any]):
    """A generator, or coroutine, each step of which runs inside the exchange."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def send(self, value: Any) -> Any:
        with drop_in():
            return self.inner.send(value)

    def throw(self, *exception: Any) -> Any:
        with drop_in():
            return self.inner.throw(*exception)

    def close(self) -> None:
        with drop_in():
            self.inner.close()


@types.coroutine
def _steps_of(inner: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    return (yield from _Steps(inner))
