"""`drop_in`: code that calls torch.jit by name gets jitlite for a while.

The module that holds torch.jit's names is found where Python keeps modules; what it holds is exchanged for jitlite's
on entry and put back when the last one leaves. Marks such as `ignore`, `export`, `Final`, `annotate` and `is_scripting`
stay torch's own objects: jitlite knows them for what they are.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any, TypeVar, cast

import torch

from jitlite.api import fork as concurrency
from jitlite.api import jit_names, opnames
from jitlite.api import script as api
from jitlite.api import trace as tracing
from jitlite.base.locks import Lock
from jitlite.compat.stand_ins import (
    ModuleWith,
    by_any_argument,
    by_argument,
    chosen_class,
    refusing,
    script_for_users,
    stand_in,
    unit_for_users,
    unless_torch_calls,
)
from jitlite.compat.torch_graphs import GraphView
from jitlite.compat.torch_names import TORCH_NAMES
from jitlite.executor import last_run, plans
from jitlite.freeze import freeze as freezing
from jitlite.loading import load as archive
from jitlite.objects.function import ScriptFunction, show_all_graphs_as
from jitlite.objects.module import RecursiveScriptModule, ScriptModule, script_method

F = TypeVar("F", bound=Callable[..., Any])

_HOME = "torch.jit"
_PACKAGE = __name__.partition(".")[0]
_OWN = (torch.__name__, _PACKAGE)
"""Packages whose modules keep the objects that they have taken from torch.jit."""

_NEW: dict[str, Any] = {
    "interface": api.interface, "script_if_tracing": api.script_if_tracing,
    "_script_if_tracing": api.script_if_tracing, "_set_fusion_strategy": plans.set_fusion_strategy,
    "fuser": jit_names.fuser, "_hide_source_ranges": jit_names._hide_source_ranges,
    "script_method": script_method, "fork": concurrency.fork, "_fork": concurrency.fork, "wait": concurrency.wait,
    "_wait": concurrency.wait, "_awaitable": concurrency._awaitable,
    "_awaitable_wait": concurrency._awaitable_wait, "_awaitable_nowait": concurrency._awaitable_nowait,
    "enable_onednn_fusion": api.enable_onednn_fusion, "onednn_fusion_enabled": api.onednn_fusion_enabled,
    "optimized_execution": plans.optimized_execution, "set_fusion_strategy": plans.set_fusion_strategy,
    "last_executed_optimized_graph": last_run.last_executed_optimized_graph,
    "TracerWarning": tracing.TracerWarning,
    "TracingCheckError": tracing.TracingCheckError, "Error": Exception,
}  # fmt: skip
"""What takes the place of names of torch.jit, apart from `script` and classes, which also know what torch.jit made."""

_CLASSES: dict[str, type] = {
    "ScriptModule": ScriptModule, "RecursiveScriptModule": RecursiveScriptModule, "ScriptFunction": ScriptFunction,
    "TracedModule": tracing.TracedModule, "TopLevelTracedModule": tracing.TopLevelTracedModule,
}  # fmt: skip

_TAKES_COMPILED = ("save_jit_module_to_flatbuffer",)
"""Functions of torch.jit whose first argument may be something compiled. jitlite has none of its own yet."""


_UNLESS_TORCH_CALLS: dict[str, Callable[..., Any]] = {
    "trace": tracing.trace, "trace_module": tracing.trace_module, "load": archive.load,
    "_get_trace_graph": TORCH_NAMES["torch.jit._get_trace_graph"],
}  # fmt: skip
"""Functions that torch's own modules, which hand the result to torch's C++, keep as they are."""

_FOR_OURS: dict[str, Callable[..., Any]] = {
    "freeze": freezing.freeze, "optimize_for_inference": freezing.optimize_for_inference,
    "run_frozen_optimizations": freezing.run_frozen_optimizations, "save": api.save,
    "export_opnames": opnames.export_opnames,
}  # fmt: skip
"""Functions of torch.jit that take something compiled, and jitlite's for what jitlite has compiled."""


_STATE_OF_TRACING = ("_get_tracing_state",)
"""Functions of torch._C that stay torch's, as torch's operators ask them all the time."""

# -- the exchange


def _names_of_jit(home: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What takes the place of names of torch.jit."""
    yield from _NEW.items()
    yield from ((name, stand_in(cls, home[name])) for name, cls in _CLASSES.items())
    yield from ((name, refusing(name, home[name])) for name in _TAKES_COMPILED if name in home)
    yield from ((name, by_argument(new, home[name])) for name, new in _FOR_OURS.items() if name in home)
    yield from ((name, unless_torch_calls(new, home[name])) for name, new in _UNLESS_TORCH_CALLS.items())
    yield "RecursiveScriptClass", chosen_class(jit_names.RecursiveScriptClass, home["RecursiveScriptClass"])
    yield "script", script_for_users(home["script"])
    yield "CompilationUnit", unit_for_users(home["CompilationUnit"])


def _names_of_compiler(compiler: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What takes the place of names of torch._C."""
    made = [compiler[n] for n in ("Graph", "Node", "Value", "Block", "Type", "ScriptModule", "ScriptFunction")]
    for path, ours in TORCH_NAMES.items():
        owner, _, name = path.rpartition(".")
        if owner != "torch._C" or name not in compiler or name in _STATE_OF_TRACING:
            continue
        theirs = compiler[name]
        if isinstance(theirs, type):
            yield name, chosen_class(ours, theirs)
        else:
            yield name, by_any_argument(ours, theirs, tuple(made))


class _DropInState:
    """The state of the process: who is inside, and what has to be put back."""

    def __init__(self) -> None:
        self._lock = Lock("drop_in", reentrant=True)
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
        home, compiler = vars(sys.modules[_HOME]), vars(torch._C)
        known = self._find_stand_ins(home, compiler)
        for path, new in known.items():
            owner, _, name = path.rpartition(".")
            self._set(home if owner == _HOME else compiler, name, new)
        exchanged = {id(old): new for _, _, old, new in self._changed}
        for names in _names_of_modules():
            self._exchange_in(names, exchanged)
        of_compiler = {id(old): new for names, _, old, new in self._changed if names is compiler}
        self._exchange_in(vars(torch), of_compiler)
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith(f"{_HOME}.") and isinstance(module, types.ModuleType):
                self._put_in_submodule(module_name, module, exchanged)
        show_all_graphs_as(GraphView)

    def _exchange_in(self, names: dict[str, Any], exchanged: dict[int, Any]) -> None:
        for name, value in list(names.items()):
            if id(value) in exchanged:
                self._set(names, name, exchanged[id(value)])

    def _put_in_submodule(self, path: str, module: types.ModuleType, exchanged: dict[int, Any]) -> None:
        """Show others, and not the functions in it, a submodule of torch.jit with exchanged names."""
        new = {name: exchanged[id(value)] for name, value in vars(module).items() if id(value) in exchanged}
        if not new:
            return
        parent, _, name = path.rpartition(".")
        seen = ModuleWith(module, new)
        self._set(sys.modules, path, seen)
        if vars(sys.modules[parent]).get(name) is module:
            self._set(vars(sys.modules[parent]), name, seen)

    def _find_stand_ins(self, home: dict[str, Any], compiler: dict[str, Any]) -> dict[str, Any]:
        """What each name is to be; made once, so that a class that a program keeps stays the same."""
        if not self._stand_ins:
            of_jit = dict(_names_of_jit(home))
            self._stand_ins.update((f"{_HOME}.{name}", new) for name, new in of_jit.items() if name in home)
            of_compiler = dict(_names_of_compiler(compiler))
            of_compiler["ScriptFunction"] = of_jit["ScriptFunction"]
            self._stand_ins.update((f"torch._C.{name}", new) for name, new in of_compiler.items())
        return self._stand_ins

    def _set(self, names: dict[str, Any], name: str, new: Any) -> None:
        self._changed.append((names, name, names[name], new))
        names[name] = new

    def _put_back(self) -> None:
        show_all_graphs_as(None)
        while self._changed:
            names, name, old, new = self._changed.pop()
            if names.get(name) is new:  # else somebody has set it since, who shall have it
                names[name] = old


_exchange = _DropInState()


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
        def inside(*args: object, **kwargs: object) -> Any:
            with self:
                return function(*args, **kwargs)

        @functools.wraps(function)
        def generator(*args: object, **kwargs: object) -> Any:
            return (yield from _Steps(function(*args, **kwargs)))

        @functools.wraps(function)
        async def coroutine(*args: object, **kwargs: object) -> Any:
            return await _steps_of(function(*args, **kwargs))

        is_coroutine, is_generator = inspect.iscoroutinefunction(function), inspect.isgeneratorfunction(function)
        return cast(F, coroutine if is_coroutine else generator if is_generator else inside)


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


def _names_of_modules() -> list[dict[str, Any]]:
    """What the modules hold that are neither torch's nor jitlite's."""
    others = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] not in _OWN]
    return [names for names in (getattr(module, "__dict__", None) for module in others) if isinstance(names, dict)]
