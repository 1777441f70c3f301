"""The public face: `script` and what it gives."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pickle
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

import torch
from torch import _jit_internal

from jitlite.base import options
from jitlite.base.errors.classes import WRONG_METHOD
from jitlite.base.keywords import checks_keywords, unexpected_keyword
from jitlite.base.records import Record
from jitlite.base.tracebacks import HiddenFrames
from jitlite.compiler import program as compiler
from jitlite.compiler.caller_names import CallerNames, names_of_caller
from jitlite.executor.engine import new_program
from jitlite.frontend.classes.example_types import parameter_types, types_seen_in
from jitlite.frontend.tracing.torch_scripts import is_torch_script_function, is_torch_script_module, source_of_script
from jitlite.loading.torch_scripts import from_torch_script
from jitlite.objects.containers import ScriptDict, ScriptList
from jitlite.objects.function import ScriptFunction, compile_function, function_of_graph
from jitlite.objects.handle import unwrapped
from jitlite.objects.module import ScriptModule, prepared, script_module
from jitlite.objects.text import define_text
from jitlite.objects.torch_types import unwrap

_Compiled = TypeVar("_Compiled", bound=ScriptFunction | ScriptModule)
_Class = TypeVar("_Class", bound=type)
_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_K = TypeVar("_K")
_Lookup = Callable[[str], object] | None

if TYPE_CHECKING:

    class TypedFunction(ScriptFunction, Generic[_P, _R]):
        """To type checkers, what `script` makes of a function: with its parameters and its result."""

        def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

    class TypedModule(ScriptModule, Generic[_P, _R]):
        """To type checkers, what `script` makes of a module: calls have the parameters and the result of `forward`."""

        def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
        def forward(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...


class HasForward(Protocol[_P, _R_co]):
    """A module, by the types of its `forward`."""

    def forward(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co:
        """What calls of the module do."""
        ...


class Writable(Protocol):
    """Something to write bytes to."""

    def write(self, data: bytes, /) -> object:
        """Write them."""
        ...


@typing.overload
def script(  # type: ignore[overload-overlap]  # the first overload that fits is meant
    obj: _Class, optimize: object = None, _frames_up: int = 0, _rcb: _Lookup = None, example_inputs: object = None
) -> _Class: ...
@typing.overload
def script(  # type: ignore[overload-overlap]  # the first overload that fits is meant
    obj: _Compiled, optimize: object = None, _frames_up: int = 0, _rcb: _Lookup = None, example_inputs: object = None
) -> _Compiled: ...
@typing.overload
def script(
    obj: HasForward[_P, _R],
    optimize: object = None,
    _frames_up: int = 0,
    _rcb: _Lookup = None,
    example_inputs: object = None,
) -> TypedModule[_P, _R]: ...
@typing.overload
def script(
    obj: list[_R], optimize: object = None, _frames_up: int = 0, _rcb: _Lookup = None, example_inputs: object = None
) -> ScriptList[_R]: ...
@typing.overload
def script(
    obj: dict[_K, _R], optimize: object = None, _frames_up: int = 0, _rcb: _Lookup = None, example_inputs: object = None
) -> ScriptDict[_K, _R]: ...
@typing.overload
def script(
    obj: Callable[_P, _R],
    optimize: object = None,
    _frames_up: int = 0,
    _rcb: _Lookup = None,
    example_inputs: object = None,
) -> TypedFunction[_P, _R]: ...
@typing.overload
def script(
    obj: object, optimize: object = None, _frames_up: int = 0, _rcb: _Lookup = None, example_inputs: object = None
) -> Any: ...
def script(
    obj: object,
    optimize: object = None,
    _frames_up: int = 0,
    _rcb: _Lookup = None,
    example_inputs: object = None,
    **unknown: object,
) -> Any:
    """Compile a function, a module with all that it calls, or a class.

    Args:
        obj: a Python function with TorchScript's type annotations; an nn.Module, of which a `RecursiveScriptModule`
            is made; a class, which is compiled and returned; an object of such a class, which scripts take as it is; a
            list or a dict, of which a copy is made that keeps to its type, a `ScriptList` or `ScriptDict`.
        optimize: not used; kept for callers of torch.jit.script.
        _rcb: gives the meaning of names that the function's own scope does not know; by default they are looked for
            where `script` is called, or `_frames_up` calls further up.
        example_inputs: arguments to call the function or module with, as Python, before it is compiled: a list of
            tuples, or a dict of such lists for several functions, modules or methods. Parameters without annotation,
            also those of functions that are called on the way, are then of the types seen there.

    Raises:
        CompileError: where something is not TorchScript; the error shows the place, what was expected and a way out.
        NotSupportedError: where it is nothing that can be compiled.

    With the switch `enabled` off, it gives back `obj` itself. To type checkers a function keeps its parameters and its
    result, calls of a module have those of its `forward`, and a class stays what it is.
    """
    if unknown:  # `checks_keywords` would be one more frame between the caller, whose names are looked up, and this one
        raise unexpected_keyword(script, next(iter(unknown)))
    if isinstance(obj, ScriptFunction | ScriptModule) or not options.current().enabled:
        return obj
    __tracebackhide__ = True
    with HiddenFrames():
        if example_inputs is not None:
            names = _rcb or CallerNames(_frames_up + 1)
            with parameter_types(types_seen_in(_example_calls(obj, example_inputs), new_program().type_of_class)):
                return script(obj, _rcb=names)
        if is_torch_script_module(obj):
            return from_torch_script(obj)
        if is_torch_script_function(obj):
            source = source_of_script(obj)
            return from_torch_script(obj) if source is None else script(source, _rcb=_rcb)
        return _compiled(prepared(obj), _rcb or CallerNames(_frames_up + 1))


def _compiled(obj: object, names: Callable[[str], object]) -> Any:
    """What `script` makes of an object of Python's."""
    if isinstance(obj, torch.nn.Module):
        return script_module(obj, names)
    if inspect.isclass(obj):
        compiler.compile_class(new_program(), obj, names)
        return obj
    if isinstance(obj, types.MethodType):
        raise WRONG_METHOD.unsupported(
            f"the method '{obj.__qualname__}' cannot be scripted by itself", hint="script the object it belongs to"
        )
    if isinstance(obj, list):
        return ScriptList(obj)
    if isinstance(obj, dict):
        return ScriptDict(obj)
    if inspect.isroutine(obj) or hasattr(obj, "__wrapped__"):
        return compile_function(obj, names)
    if not callable(obj) and compiler.is_scriptable_class(type(obj)):
        compiler.compile_class(new_program(), type(obj), names)
        return obj
    if not callable(obj):
        raise TypeError(f"script takes a function, a module or a class, got {type(obj).__name__}")
    return compile_function(obj, names)


def _example_calls(obj: Any, example_inputs: Any) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    given = example_inputs if isinstance(example_inputs, dict) else {obj: example_inputs}
    for examples in given.values():
        if not isinstance(examples, list) or not all(isinstance(arguments, tuple) for arguments in examples):
            raise ValueError(
                "example_inputs must be a list with a tuple of arguments for each call, such as [(1, 2)], or a dict "
                "with such a list for each function, module or method"
            )
    return [(function, arguments) for function, examples in given.items() for arguments in examples]


class CompilationUnit:
    """Functions and classes compiled from source text, as attributes.

    cu = CompilationUnit("def f(x: int):\\n  return x + 1\\n")
    cu.f(1)

    Names in the text mean what they mean where the unit is made (with `_frames_up`, that many calls further up).
    A class in the text may be a plain one, or inherit from `NamedTuple`, `Enum`, `Interface` or `ModuleInterface`.
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0, filename: str | None = None) -> None:
        self._program = new_program()
        self._functions: dict[str, ScriptFunction] = {}
        self._classes: dict[str, type] = {}
        self._texts: list[_Text] = []
        if lang is not None:
            with HiddenFrames():
                self.define(lang, _frames_up=_frames_up + 1, filename=filename)

    def __repr__(self) -> str:
        return f"<jitlite.CompilationUnit {', '.join([*self._functions, *self._classes]) or 'of nothing'}>"

    def define(
        self, lang: str, rcb: Callable[[str], object] | None = None, _frames_up: int = 0, filename: str | None = None
    ) -> None:
        """Add the functions and classes of a text. One of a name that is there already takes its place.

        Args:
            rcb: gives the meaning of a name; by default it is looked for where `define` is called.

        Raises:
            CompileError: where the text is not TorchScript; then the unit is as before.
        """
        scope = names_of_caller(_frames_up + 1) if rcb is None else {}
        __tracebackhide__ = True
        with HiddenFrames():
            self._define(_Text(lang, filename, scope, rcb))

    def _define(self, text: _Text) -> None:
        added = define_text(self._program, text.lang, text.names, lookup=text.lookup, filename=text.filename)
        self._texts.append(text)
        for name in (*added.functions, *added.classes):
            self._functions.pop(name, None)
            self._classes.pop(name, None)
        self._functions.update((name, ScriptFunction(self._program, f)) for name, f in added.functions.items())
        self._classes.update(added.classes)

    def create_function(self, qualified_name: str, graph: object, shouldMangle: bool = False) -> ScriptFunction:
        """Add a function that runs a copy of a graph; gives it.

        Args:
            shouldMangle: give it another name where the unit has a function of that name, in whose place it comes else.
        """
        name = self._program.unique_name(qualified_name) if shouldMangle else qualified_name
        made = self._functions[name] = function_of_graph(name, unwrap(graph).copy())
        return made

    def get_functions(self) -> list[ScriptFunction]:
        """All functions of the unit."""
        return list(self._functions.values())

    def find_function(self, name: str) -> ScriptFunction | None:
        """The function of this name."""
        return self._functions.get(name)

    def __getattr__(self, name: str) -> Any:
        for kind in ("_functions", "_classes"):
            found = vars(self).get(kind, {})
            if name in found:
                return found[name]
        raise AttributeError(f"the unit has no function or class '{name}'")

    def __copy__(self) -> CompilationUnit:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> CompilationUnit:
        """A unit with the same texts, compiled anew: what is defined in one of them is not seen by the other."""
        made = memo[id(self)] = type(self)()
        for text in self._texts:
            made._define(text)
        return made

    def __reduce__(self) -> Any:
        """The texts; names in them are looked for in the modules that they stood in.

        Raises:
            pickle.PicklingError: where a callback told what names mean.
        """
        if any(text.lookup is not None for text in self._texts):
            raise pickle.PicklingError("a CompilationUnit cannot be pickled whose names a callback told the meaning of")
        return unit_of_texts, ([(text.lang, text.filename, text.names.get("__name__")) for text in self._texts],)


class _Text(Record, eq=True):
    """A text given to a unit, and what names in it mean."""

    lang: str
    filename: str | None
    names: Mapping[str, object]
    lookup: Callable[[str], object] | None = None


def unit_of_texts(texts: list[tuple[str, str | None, str | None]]) -> CompilationUnit:
    """The unit of a pickled one, from its texts, each with its file and the module whose names it uses."""
    made = CompilationUnit()
    for lang, filename, module in texts:
        made._define(_Text(lang, filename, {} if module is None else vars(importlib.import_module(module))))
    return made


@checks_keywords
def save(
    m: torch.nn.Module | ScriptFunction,
    f: str | os.PathLike[str] | Writable,
    _extra_files: Mapping[str, str | bytes] | None = None,
) -> None:
    """Write a TorchScript archive, which `load`, torch.jit.load and libtorch can load.

    Args:
        m: a script module, or a script function, which becomes the `forward` of a module.
        f: a path, or an object with `write`. A file of that name is replaced only when the new one is complete.
        _extra_files: contents by name, which `load` gives back.

    Raises:
        NotSupportedError: where something has no place in an archive; the error names it.
        TypeError: where `m` is not compiled.
    """
    made = unwrapped(m)
    if not isinstance(made, ScriptFunction | ScriptModule):
        raise TypeError(f"save takes what script has made, got {type(made).__name__}; call jitlite.script on it first")
    owner: Any = ScriptModule if isinstance(made, ScriptModule) else ScriptFunction  # its `save` may be the user's
    __tracebackhide__ = True
    with HiddenFrames():
        if isinstance(f, str | os.PathLike):
            owner.save(made, f, _extra_files=_extra_files)
        else:
            f.write(owner.save_to_buffer(made, _extra_files=_extra_files))


# -- marks and helpers that mean something inside scripts, and the obvious thing outside of them
ignore = _jit_internal.ignore
unused = _jit_internal.unused
export = _jit_internal.export
_drop = _jit_internal._drop
_overload = _jit_internal._overload
_overload_method = _jit_internal._overload_method
overload, overload_method = _overload, _overload_method
BroadcastingList1 = _jit_internal.BroadcastingList1
_internal: Any = _jit_internal
BroadcastingList2 = _internal.BroadcastingList2
BroadcastingList3 = _internal.BroadcastingList3
Final = typing.Final
Future = torch.futures.Future


class Attribute(typing.NamedTuple):
    """A value for a module's attribute with the type that scripts are to give it."""

    value: Any
    type: Any


def interface(obj: type) -> type:
    """Make a class an interface: any class that has its methods may stand where it is the type.

    Raises:
        CompileError: where a method has a parameter without a type.
    """
    with HiddenFrames():
        return compiler.declare_interface(new_program(), obj)


def script_if_tracing(fn: Callable[..., object]) -> Callable[..., Any]:
    """The function itself, which a trace records as a call of a script."""

    @functools.wraps(fn)
    def wrapper(*args: object, **kwargs: object) -> Any:
        if not is_tracing():
            return fn(*args, **kwargs)
        return script(fn)(*args, **kwargs)

    marked: Any = wrapper
    marked.__original_fn = fn
    marked.__script_if_tracing_wrapper = True
    return wrapper


def annotate(the_type: object, the_value: object) -> Any:
    """The value; in a script, of the given type."""
    return the_value


def _unwrap_optional(x: object) -> Any:
    """The value, of which it is known that it is not None.

    Raises:
        AssertionError: it is None.
    """
    assert x is not None, "Unwrapping null optional"
    return x


def _unique_state_dict(module: torch.nn.Module, keep_vars: bool = False) -> dict[str, torch.Tensor]:
    """The state of a module in which each tensor occurs once, under the first of its names.

    Args:
        keep_vars: give the parameters themselves, not detached.
    """
    state = module.state_dict(keep_vars=True)
    found, seen = type(state)(), set[int]()
    for name, tensor in state.items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor if keep_vars else tensor.detach()
    return found


_onednn_fusion = False


@checks_keywords
def enable_onednn_fusion(enabled: bool) -> None:
    """Note what the program wants of oneDNN Graph. jitlite fuses by itself, whatever is wanted here."""
    global _onednn_fusion
    _onednn_fusion = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """What was last wanted with `enable_onednn_fusion`."""
    return _onednn_fusion


class _IgnoreContextManager:
    """`with _IgnoreContextManager(a="inp:int", b="out:Tensor"):` in a script, a block that is left to Python.

    Each keyword is a variable that the block takes or gives, with its type.
    """

    def __init__(self, **variables: str) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def is_scripting() -> bool:
    """False in Python, True in a script."""
    return False


def is_tracing() -> bool:
    """False: in scripts, and where nothing is being traced."""
    return bool(torch._C._is_tracing())


def _isinstance(obj: object, target_type: object) -> bool:
    """isinstance for container types such as `List[int]`; in scripts it also refines."""
    return bool(_jit_internal._isinstance(obj, target_type))


_isinstance.__name__ = _isinstance.__qualname__ = "isinstance"
