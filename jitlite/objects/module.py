"""Compiled modules: `nn.Module`s whose methods are scripts.

A `ScriptModule` is an ordinary nn.Module: parameters, buffers and submodules live where they always do, so optimizers,
`state_dict`, `to`, hooks and the like need no word here. What is special is `forward` and the other compiled methods,
which are found by the class type that the object carries.
"""

from __future__ import annotations

import copy
import html
import inspect
import os
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from jitlite import archive
from jitlite import export as exports
from jitlite.archive.tensor_identity import (
    deep_copy,
    share_memory,
    sharing_memory,
    tensors_in,
)
from jitlite.base import options
from jitlite.base.dynamo import unseen_by_dynamo
from jitlite.base.tracebacks import HiddenFrames
from jitlite.compiler import program as compiler
from jitlite.compiler.caller_names import names_of_caller
from jitlite.compiler.program import Program
from jitlite.executor.engine import new_program
from jitlite.frontend.classes.attribute_types import is_attribute_object
from jitlite.frontend.classes.module_types import NN_MODULE_INTERNALS
from jitlite.interpreter.binding import bind_value
from jitlite.ir.types import ClassType
from jitlite.ir.values import CLASS_TYPE
from jitlite.objects.function import ScriptMethod
from jitlite.objects.handle import ModuleHandle, unwrapped
from jitlite.objects.late_hooks import INNER
from jitlite.objects.module_attributes import (
    METHODS,
    NOTHING,
    ScriptModuleAttributes,
    definition_of,
    forget_methods,
    shadow_inherited_methods,
    type_of,
)
from jitlite.objects.own_names import attribute_that_gives_way, gives_way
from jitlite.objects.text import define_methods

_SOURCES = "__jitlite_defined__"
"""The attribute that keeps the texts given to `define`."""


class ScriptMeta(type):
    """Compiles an object of a subclass of ScriptModule when its `__init__` is done."""

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        for member_name, member in members.items():
            if type(member).__name__ == "ScriptMethodStub":  # what torch.jit.script_method leaves
                setattr(cls, member_name, ScriptMethodMark(member.original_method))

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        made = super().__call__(*args, **kwargs)
        if isinstance(made, ScriptModule) and CLASS_TYPE not in vars(made):
            made._jitlite_compile()
        return made


class ScriptModule(ScriptModuleAttributes, metaclass=ScriptMeta):
    """A module with compiled methods.

    Subclass it and mark methods with `script_method`, or give their text to `define`; or let `script` make one of an
    nn.Module.
    """

    # -- compiling
    def _jitlite_compile(self) -> None:
        """Compile the marked methods and given texts of an object that Python has made."""
        if "_modules" not in vars(self):
            raise RuntimeError(f"{type(self).__name__}.__init__ must call super().__init__() first")
        program = new_program()
        with compiler.compiling():
            for name, submodule in self._modules.items():
                if submodule is not None:
                    self._modules[name] = script_recursively(submodule, program, {})
            found = program.module_types.type_of(self)
            _settle(self, found)
            definition = found.definition
            for text, names in vars(self).pop(_SOURCES, ()):  # which the other methods may call
                self._jitlite_define(text, names)
            for name in dir(type(self)):
                if isinstance(inspect.getattr_static(type(self), name), ScriptMethodMark):
                    program.ready(definition.method(name))

    @gives_way
    def define(self, src: str, _frames_up: int = 0) -> None:
        """Add methods from text. Names in it mean what they mean where `define` is called.

        Raises:
            CompileError: where the text is not TorchScript; then nothing has been added.
        """
        names = names_of_caller(_frames_up + 1)
        if CLASS_TYPE in vars(self):
            with HiddenFrames():
                self._jitlite_define(src, names)
        else:  # the object is still being made, and its attributes are not known yet
            vars(self).setdefault(_SOURCES, []).append((src, names))

    def _jitlite_define(self, src: str, names: dict[str, object]) -> None:
        definition = definition_of(self)
        define_methods(definition, src, names)
        vars(self).setdefault(_SOURCES, []).append((src, {}))
        forget_methods(self)
        shadow_inherited_methods(self, definition.type.methods)

    # -- copies
    def __copy__(self) -> Any:
        own = self._jitlite_own_copy("__copy__")
        if own is not NOTHING:
            return own
        made = type(self).__new__(type(self))
        vars(made).update(plain_state(self))
        _settle(made, type_of(self))
        for kind in ("_parameters", "_buffers", "_modules"):
            vars(made)[kind] = copy.copy(vars(self)[kind])
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        own = self._jitlite_own_copy("__deepcopy__", memo)
        if own is not NOTHING:
            return own
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        python_class, state, _ = _portable(self)
        vars(made).update(vars(_with_state(python_class, deep_copy(self, memo, lambda: copy.deepcopy(state, memo)))))
        if _SOURCES in vars(self):
            vars(made)[_SOURCES] = list(vars(self)[_SOURCES])
        _settle(made, type_of(self))
        return made

    def _jitlite_own_copy(self, name: str, *arguments: object) -> Any:
        """What the Python class's own way to copy makes, compiled like this one; `NOTHING` where it has no way."""
        python_class: Any = definition_of(self).type.python_class
        own = getattr(python_class, name, None)
        if own is None or own is getattr(ScriptModule, name) or isinstance(self, python_class):
            return NOTHING
        eager = object.__new__(python_class)
        vars(eager).update(plain_state(self))
        copied = own(eager, *arguments)
        if copied is eager:
            return self
        if type(copied) is not python_class:
            return copied
        made = type(self).__new__(type(self))
        vars(made).update(vars(copied))
        _settle(made, type_of(self))
        return made

    def __reduce_ex__(self, protocol: object) -> Any:
        """The eager module with this one's state; it is compiled anew where it is loaded."""
        python_class, state, sources = _portable(self)
        definition = definition_of(self)
        shared = sharing_memory(tensors_in(self))
        methods = list(definition.type.methods)
        return rebuild, (definition.program, python_class, type(self), state, sources, methods, shared)

    # -- archives
    @gives_way
    def save(self, f: str | os.PathLike[str], _extra_files: archive.save.ExtraFiles | None = None) -> None:
        """Write a TorchScript archive of the module to the file `f`.

        Args:
            _extra_files: contents by name, which `load` gives back.

        Raises:
            NotSupportedError: where something in the module has no place in an archive; the error names it.
        """
        with compiler.compiling():
            archive.save.save_to_file(self, f, _extra_files)

    @gives_way
    def save_to_buffer(self, _extra_files: archive.save.ExtraFiles | None = None) -> bytes:
        """The bytes of such an archive."""
        with compiler.compiling():
            return archive.save.save_to_buffer(self, _extra_files)

    @gives_way
    def _repr_html_(self) -> str:
        """What a notebook shows: the modules in it, and what it computes."""
        forward = getattr(self, "forward", None)
        shown = forward._repr_html_() if isinstance(forward, ScriptMethod) else ""
        return f"<pre>{html.escape(repr(self))}</pre>{shown}"

    @gives_way
    def to_python(self, path: str | os.PathLike[str] | None = None) -> exports.python_out.PythonProgram:
        """The module as Python source that needs nothing but torch; see `jitlite.to_python`."""
        return exports.python_out.to_python(self, path)

    @gives_way
    def to_fx(self, **options: Any) -> GraphModule:
        """The module as a `torch.fx.GraphModule`; see `jitlite.to_fx`."""
        return exports.fx_graph.to_fx(self, **options)

    @gives_way
    def to_exported(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """The module as a `torch.export.ExportedProgram`; see `jitlite.to_exported`."""
        return exports.exported_program.to_exported(self, args, kwargs, **options)

    # -- inspection
    @attribute_that_gives_way
    def _c(self) -> ModuleHandle:
        """The module by torch.jit's inner names, for programs that use these."""
        return ModuleHandle(self)

    @attribute_that_gives_way
    def original_name(self) -> str:
        """The name of the Python class of the module."""
        cls = definition_of(self).type.python_class if CLASS_TYPE in vars(self) else type(self)
        return str(cls.__name__)


class _ForwardMethod:
    """`forward` of a script module: the compiled one, else the one left to Python."""

    @unseen_by_dynamo
    def __get__(self, owner: Any, cls: object = None) -> Any:
        if owner is None:
            return self
        found = owner._jitlite_method("forward")
        if isinstance(found, ScriptMethod):
            vars(owner)["forward"] = found  # every call of a module asks for it, and finds it there from now on
        if found is None:
            python_class = definition_of(owner).type.python_class
            member = getattr(python_class, "forward", torch.nn.Module.forward)
            found = types.MethodType(member, owner)
        return found


class RecursiveScriptModule(ScriptModule):
    """What `script` makes of an nn.Module: its state, shared, and its methods, compiled."""

    forward: Any = _ForwardMethod()

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    @gives_way
    def _reconstruct(self, cpp_module: object) -> None:
        """Become another script module: its state, shared, and its methods. Takes it, or what its `_c` gives."""
        other = unwrapped(cpp_module)
        vars(self).clear()
        vars(self).update(plain_state(other))
        _settle(self, type_of(other))

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    # -- special methods are looked up in the class, so each is here, for modules that have it
    def _jitlite_special(self, name: str, *args: object) -> Any:
        method = self._jitlite_method(name)
        if method is None:
            python_class = definition_of(self).type.python_class
            member = getattr(python_class, name, None)
            if member is None:
                raise NotImplementedError(f"'{python_class.__name__}' has no {name}")
            method = types.MethodType(member, self)
        return method(*args)

    def __iter__(self) -> Iterator[Any]:
        found: Iterator[Any] = self._jitlite_special("__iter__")
        return found

    def __getitem__(self, index: object) -> Any:
        if isinstance(index, slice) and self._jitlite_method("__getitem__") is None:
            return list(self._modules.values())[index]
        return self._jitlite_special("__getitem__", index)

    def __len__(self) -> int:
        return int(self._jitlite_special("__len__"))

    def __contains__(self, key: object) -> bool:
        return bool(self._jitlite_special("__contains__", key))

    def __bool__(self) -> bool:
        # a module without __bool__ and __len__ is true
        definition = definition_of(self)
        if "__bool__" in definition.type.methods:
            return bool(self._jitlite_special("__bool__"))
        return True

    def __dir__(self) -> list[str]:
        definition = definition_of(self)
        return sorted(
            {
                *object.__dir__(self),
                *self._parameters,
                *self._buffers,
                *self._modules,
                *definition.type.methods,
                *definition.type.constants,
                *self._jitlite_shown(),
                *(name for name in dir(definition.type.python_class) if self._jitlite_keeps(name)),
            }
        )


# -- making them


def script_module(
    module: torch.nn.Module, names: Callable[[str], object] | None = None, *, share_types: bool = True
) -> ScriptModule:
    """Compile a module: its `forward`, exported methods and hooks, and what they reach.

    The result shares parameters, buffers and other attributes with the module.

    Args:
        names: gives the meaning of names that the methods' own scopes do not know. It is used in this call only.
        share_types: let submodules that look the same have one type.

    Raises:
        CompileError: where something is not TorchScript.
    """
    if isinstance(module, ScriptModule):
        return module
    program = new_program()
    program.module_types.shares = share_types
    with compiler.compiling(), compiler.knowing(program, names):
        made = script_recursively(module, program, {})
        program.compile_methods(vars(made)[CLASS_TYPE])
    return made


def prepared(obj: object, known: dict[int, tuple[object, object]] | None = None) -> Any:
    """The object that an object's `__prepare_scriptable__` wants to be scripted in its place, for submodules too.

    Args:
        known: objects that have been asked, with what they want, by identity: what has two names is asked once.
    """
    known = {} if known is None else known
    if id(obj) not in known:
        known[id(obj)] = obj, _prepared_once(obj, known)
    return known[id(obj)][1]


def _prepared_once(obj: object, known: dict[int, tuple[object, object]]) -> object:
    if hasattr(obj, "__prepare_scriptable__") and not inspect.isclass(obj):
        obj = obj.__prepare_scriptable__()
    if isinstance(obj, torch.nn.Module) and not isinstance(obj, ScriptModule) and "_modules" in vars(obj):
        for name, submodule in list(obj._modules.items()):
            replacement = prepared(submodule, known)
            if replacement is not submodule:
                obj._modules[name] = replacement
    return obj


def script_recursively(module: torch.nn.Module, program: Program, made: dict[int, ScriptModule]) -> ScriptModule:
    """The script module of a module and its submodules; `made` are those that exist already, by identity."""
    module = program.module_types.own(module)
    if isinstance(module, ScriptModule):
        return module
    if id(module) in made:
        return made[id(module)]
    found = program.compile_module(module)
    result = made[id(module)] = RecursiveScriptModule.__new__(RecursiveScriptModule)
    vars(result).update(vars(module))
    for kind in NN_MODULE_INTERNALS:  # registering a hook on one must not register it on the other
        if isinstance(vars(module).get(kind), dict | set):
            vars(result)[kind] = copy.copy(vars(module)[kind])
    for name, submodule in module._modules.items():
        if submodule is not None:
            inner = result._modules[name] = script_recursively(submodule, program, made)
            vars(inner)[INNER] = True
    _settle(result, found)
    return result


def _settle(module: ScriptModule, found: ClassType) -> None:
    """Give an object its class type, and its attributes the form that their types ask for.

    Raises:
        RuntimeError: where a value is not of the type that its annotation says.
    """
    state = vars(module)
    for name in found.methods:
        state.pop(name, None)
    for name, wanted in found.attributes.items():
        if name in state:
            value = state[name]
            value = value.value if is_attribute_object(value) else value
            state[name] = bind_value(wanted, value, f"attribute '{name}' of '{found.python_class.__name__}'")
    state[CLASS_TYPE] = found
    shadow_inherited_methods(
        module, [*found.definition.entry_points, *(["forward"] if "forward" in found.methods else [])]
    )


def _portable(module: ScriptModule) -> tuple[type, Any, list[str]]:
    """What a copy is made of: the Python class, the state as that class's `__getstate__` gives it, defined texts."""
    python_class: Any = definition_of(module).type.python_class
    state = plain_state(module)
    sources = [text for text, _ in state.pop(_SOURCES, ())]
    if getattr(python_class, "__getstate__", None) is not getattr(object, "__getstate__", None):
        eager = object.__new__(python_class)
        vars(eager).update(state)
        state = eager.__getstate__()
    return python_class, state, sources


def _with_state(python_class: type, state: object) -> Any:
    """An object of the Python class with the state, as unpickling makes one."""
    made: Any = object.__new__(python_class)
    made.__setstate__(state)
    return made


def rebuild(
    program: Program, python_class: type, script_class: type, state: object, sources: list[str], methods: list[str],
    shared: Sequence[Sequence[torch.Tensor]] = (),
) -> Any:  # fmt: skip
    """The script module of a pickled one. Its methods are compiled when they are called.

    Args:
        program: shared by the modules of one pickle that shared one before.
        methods: the methods that it had.
        shared: tensors that lay on one storage, for each storage of which this holds.
    """
    for group in shared:
        share_memory(group)
    names = dict(getattr(inspect.getmodule(python_class), "__dict__", {}))  # where the texts stood, most likely
    made = _with_state(python_class, state)
    if not issubclass(script_class, RecursiveScriptModule):
        vars(made)[_SOURCES] = [(text, names) for text in sources]
        made._jitlite_compile()
        return made
    with compiler.compiling():
        result = script_recursively(made, program, {})
        for text in sources:
            result._jitlite_define(text, names)
        for name in methods:
            definition_of(result).method(name)
    return result


def plain_state(module: ScriptModule) -> dict[str, Any]:
    """The attributes of the object that were not made by compiling it."""
    state = vars(module)
    return {k: v for k, v in state.items() if k not in (METHODS, CLASS_TYPE, INNER) and not isinstance(v, ScriptMethod)}


class ScriptMethodMark:
    """A method of a ScriptModule that is to be compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    @unseen_by_dynamo
    def __get__(self, owner: Any, cls: object = None) -> Any:
        if owner is None:
            return self
        if CLASS_TYPE not in vars(owner):
            raise RuntimeError(f"method '{self.__name__}' cannot be called before __init__ is done")
        return owner._jitlite_method(self.__name__)


def script_method(fn: Callable[..., object]) -> Any:
    """Mark a method of a `ScriptModule` to be compiled."""
    return ScriptMethodMark(fn) if options.current().enabled else fn
