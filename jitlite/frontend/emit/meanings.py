"""What the Python objects that names denote mean to the compiler.

`meaning_of` says what an object, found by a `Resolver`, is to a script: a constant, an operator, a form of the
language, a function to compile. The emitter has one sugared value for each `Kind`. Marks of `torch.jit` in the user's
code are recognized by what they leave behind; nothing of `torch.jit` is imported.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import enum
import functools
import inspect
import itertools
import logging
import operator
import types
import typing
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import _jit_internal

from jitlite.base.records import Record
from jitlite.base.source import did_you_mean
from jitlite.base.tracing_state import is_tracing
from jitlite.frontend.emit.builtin_names import builtin_op_name, cuda_op_name, declared_operator, operators_declared_in
from jitlite.frontend.emit.fusion_blocks import StrictFusion
from jitlite.frontend.emit.python_library import library_of
from jitlite.frontend.emit.ways_out import transforms_functions
from jitlite.frontend.syntax.decorators import context_of_wrapper, replaces
from jitlite.frontend.tracing.torch_scripts import converted_function, is_torch_script_function, source_of_script
from jitlite.ir.constants import attribute_or_none, module_name, plain_tuple, type_of_constant
from jitlite.ir.traits import Spelling
from jitlite.ir.unit import Function


class Kind(enum.Enum):
    """What a Python object is to a script. `Meaning.name` and `Meaning.object` hold what is said here."""

    CONSTANT = "a constant: `object` is its value"
    FORM = "a function or type of the language: `name` is the language's name for it"
    OPERATOR = "an operator: `name` is its qualified name, `object` the Python callable"
    SCRIPT_FUNCTION = "a compiled function: `object` is the `Function`"
    FUNCTION = "a Python function to compile: `object`, freed of wrappers"
    IGNORED = "a Python function that is left to Python"
    UNUSED = "a Python function whose call raises"
    OVERLOADED = "a Python function with declared signatures: `overloads`"
    BOOLEAN_DISPATCH = "one of two functions, by a flag: `dispatch`"
    LOGGER = "a logger of Python's: `object`, or a function that calls one: `object`, of this `name`"
    LIBRARY = "a function of Python's library in place of which another is compiled: `object`"
    LEGACY_TENSOR = "a constructor such as torch.FloatTensor: `object` is the dtype"
    CONTEXT = "a class of torch for `with`"
    MODULE = "a Python module"
    CONTAINER = "a list, dict, set or tuple that is no constant: `object`"
    PARTIAL = "a functools.partial whose arguments are constants"
    AUTOGRAD_APPLY = "`apply` of an autograd function: `object` is the class"
    NAMED_TUPLE = "a NamedTuple class"
    ENUM = "an Enum class"
    EXCEPTION = "an exception class"
    CLASS = "another class"
    TYPE = "a type of `typing`"
    NN_MODULE = "an instance of torch.nn.Module"
    CALLABLE = "an object whose class defines `__call__` in Python"
    METHOD = "a bound method of a Python object"
    UNSUPPORTED = "nothing a script can use: `reason` says why"


class BooleanDispatch(Record, eq=True):
    """`if_true` is called where the argument `name` (number `index`, else `default`) is True, otherwise `if_false`."""

    name: str
    index: int
    default: bool
    if_true: Callable[..., Any]
    if_false: Callable[..., Any]


class Meaning(Record, eq=True):
    """See `Kind`."""

    kind: Kind
    object: Any
    name: str = ""
    overloads: tuple[Callable[..., Any], ...] = ()
    dispatch: BooleanDispatch | None = None
    reason: str = ""


_PYTHON_FORM_NAMES = (
    "print", "range", "zip", "enumerate", "len", "isinstance", "hasattr", "getattr", "setattr", "int", "float", "bool",
    "str", "complex", "min", "max", "abs", "sum", "all", "any", "round", "hex", "oct", "bin", "ord", "chr", "divmod",
    "sorted", "list", "dict", "tuple", "map", "callable", "id", "hash", "pow", "reversed", "slice", "set", "frozenset",
    "super", "type", "filter", "next",
)  # fmt: skip
_PYTHON_FORMS: dict[object, str] = {getattr(builtins, name): name for name in _PYTHON_FORM_NAMES}

_TORCH_FORMS: dict[object, str] = {
    torch.get_default_dtype: "get_default_dtype", warnings.warn: "warn",
    torch.device: "device", torch.finfo: "finfo", torch.iinfo: "iinfo", typing.cast: "unchecked_cast",
    collections.OrderedDict: "dict", functools.partial: "partial", itertools.count: "count", itertools.cycle: "cycle",
    operator.itemgetter: "itemgetter", operator.attrgetter: "attrgetter",
    dataclasses.replace: "dataclass_replace", dataclasses.asdict: "dataclass_asdict",
    dataclasses.astuple: "dataclass_astuple", dataclasses.fields: "dataclass_fields",
    torch.overrides.has_torch_function: "has_torch_function",
    torch.overrides.has_torch_function_unary: "has_torch_function",
    torch.overrides.has_torch_function_variadic: "has_torch_function",
    _jit_internal.is_scripting: "is_scripting", torch._C._is_tracing: "is_tracing",
    is_tracing: "is_tracing",
}  # fmt: skip

_JIT_FORMS: dict[str, str] = {
    "annotate": "annotate", "isinstance": "isinstance", "fork": "fork", "_fork": "fork", "wait": "wait",
    "_wait": "wait", "is_scripting": "is_scripting", "is_tracing": "is_tracing", "_awaitable": "awaitable",
    "_awaitable_wait": "awaitable_wait",
    "Attribute": "Attribute", "rpc_async": "rpc_async", "rpc_sync": "rpc_sync", "remote": "rpc_remote",
    "is_in_onnx_export": "is_tracing",
}  # fmt: skip
"""Functions of `torch.jit`, and of jitlite under the same names, and what each is called here. They are told by name:
nothing imports `torch.onnx`."""

_FORM_HOMES = ("torch.jit", "torch._jit_internal", "torch.distributed.rpc", "torch.onnx", "jitlite")

LOGGING = frozenset({"debug", "info", "warning", "error", "critical", "exception"})
"""What loggers and the module `logging` have that takes a message and what is formatted into it."""

_LEGACY_TENSORS: dict[object, torch.dtype] = {
    torch.BoolTensor: torch.bool, torch.LongTensor: torch.int64, torch.ByteTensor: torch.uint8,
    torch.CharTensor: torch.int8, torch.DoubleTensor: torch.float64, torch.FloatTensor: torch.float32,
    torch.IntTensor: torch.int32, torch.ShortTensor: torch.int16, torch.HalfTensor: torch.float16,
    torch.BFloat16Tensor: torch.bfloat16,
}  # fmt: skip

_CONTEXTS: frozenset[object] = frozenset(
    {
        torch.no_grad, torch.enable_grad, torch.inference_mode, torch.set_grad_enabled, torch.autocast,
        torch.cuda.amp.autocast, torch.cpu.amp.autocast_mode.autocast, torch.autograd.profiler.record_function,
        torch._C.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction,
    }
)  # fmt: skip

_overloads: dict[str, tuple[Callable[..., object], ...]] = {
    name: tuple(found) for name, found in _jit_internal._overloaded_fns.items()
}
"""Signatures declared with `torch.jit._overload`. torch.jit drops its own list once it has compiled a function."""


def meaning_of(found: object) -> Meaning:
    """What a Python object is to a script."""
    return (
        _constant(found)
        or _form(found)
        or _library(found)
        or _logger(found)
        or _script_function(found)
        or _module(found)
        or _autograd_apply(found)
        or _operator(found)
        or _class(found)
        or _transform(found)
        or _function(found)
        or _instance(found)
    )


def module_attribute(module: types.ModuleType, name: str) -> Meaning:
    """What `module.name` is to a script.

    Raises:
        LookupError: where the module has no such attribute; its text says what was meant.
    """
    if module.__name__ == "torch.cuda":
        operator = cuda_op_name(name)
        if operator is not None:
            return Meaning(Kind.OPERATOR, getattr(module, name, None), operator)
    try:
        found = getattr(module, name)
    except AttributeError:
        declared = declared_operator(module, name)
        if declared is not None:  # a package may have defined it for torch by now
            found = getattr(module, name, None)
            return Meaning(Kind.OPERATOR, None, declared) if found is None else meaning_of(found)
        hint = _hint_for_attribute(module, name)
        raise LookupError(
            f"module '{module.__name__}': object has no attribute {name}" + (f", {hint}" if hint else "")
        ) from None
    except RuntimeError as error:  # a namespace of torch.classes
        raise LookupError(str(error)) from None
    return meaning_of(found)


def _hint_for_attribute(module: types.ModuleType, name: str) -> str | None:
    hint = did_you_mean(name, [*dir(module), *operators_declared_in(module)])
    is_namespace = module.__name__.startswith("torch.ops.")
    return hint or ("import the package that defines the operator first" if is_namespace else None)


# -- constants
def plain_constant(found: object) -> tuple[bool, Any]:
    """Whether an object is a literal, and its value.

    Literals are numbers, strings, None, dtypes, devices, enum members, and tuples of these. Instances of
    subclasses, such as numpy's floats, become what they are an instance of.
    """
    if isinstance(found, tuple):
        parts = [plain_constant(part) for part in plain_tuple(found)]
        if not all(ok for ok, _ in parts):
            return False, None
        values = [value for _, value in parts]
        return True, type(found)(*values) if hasattr(found, "_fields") else tuple(values)
    if isinstance(found, list | dict | set | frozenset | torch.Tensor | torch.Stream | torch.Generator):
        return False, None
    if isinstance(found, enum.Enum) or type_of_constant(found) is not None:
        return type_of_constant(found) is not None, found
    plain: tuple[Any, ...] = (int, float, complex, str)
    for cls in plain:
        if isinstance(found, cls):
            return True, cls(found)
    return False, None


def _constant(found: object) -> Meaning | None:
    is_literal, value = plain_constant(found)
    return Meaning(Kind.CONSTANT, value) if is_literal else None


# -- forms, operators, modules
def _is_in(table: Any, found: object) -> bool:
    try:
        return found in table
    except Exception:  # not hashable, or says so in its own way
        return False


def _form(found: object) -> Meaning | None:
    if _is_in(_LEGACY_TENSORS, found):
        return Meaning(Kind.LEGACY_TENSOR, _LEGACY_TENSORS[found])
    if _is_in(_CONTEXTS, found):
        return Meaning(Kind.CONTEXT, found, getattr(found, "__name__", ""))
    for table in (_PYTHON_FORMS, _TORCH_FORMS):
        if _is_in(table, found):
            return Meaning(Kind.FORM, found, table[found])
    name = attribute_or_none(found, "__name__")
    return _jit_form(found, name) if isinstance(name, str) and callable(found) else None


def _library(found: object) -> Meaning | None:
    return None if library_of(found) is None else Meaning(Kind.LIBRARY, found)


def _logger(found: object) -> Meaning | None:
    if isinstance(found, logging.Logger | logging.LoggerAdapter):
        return Meaning(Kind.LOGGER, found)
    name = attribute_or_none(found, "__name__")
    is_call = inspect.isfunction(found) and found.__module__ == "logging" and name in LOGGING
    return Meaning(Kind.LOGGER, found, str(name)) if is_call else None


def _jit_form(found: object, name: str) -> Meaning | None:
    if not _lives_in(found, _FORM_HOMES):
        return None
    if name in _JIT_FORMS:
        return Meaning(Kind.FORM, found, _JIT_FORMS[name])
    if name in Spelling.PRIVATE_FUNCTION.kind_of:
        return Meaning(Kind.OPERATOR, found, Spelling.PRIVATE_FUNCTION.kind_of[name])
    return Meaning(Kind.CONTEXT, StrictFusion, name) if name in ("strict_fusion", "on_cpu") else None


def _lives_in(found: object, homes: tuple[str, ...]) -> bool:
    module = module_name(found)
    return any(module == home or module.startswith(f"{home}.") for home in homes)


def _script_function(found: object) -> Meaning | None:
    """A function compiled by jitlite (the function itself, or what a user holds of it)."""
    if isinstance(found, Function):
        return Meaning(Kind.SCRIPT_FUNCTION, found)
    inner = attribute_or_none(found, "__jitlite_function__")
    return Meaning(Kind.SCRIPT_FUNCTION, inner) if isinstance(inner, Function) else None


def _module(found: object) -> Meaning | None:
    return Meaning(Kind.MODULE, found, found.__name__) if isinstance(found, types.ModuleType) else None


def _autograd_apply(found: object) -> Meaning | None:
    owner = attribute_or_none(found, "__self__")
    if attribute_or_none(found, "__name__") != "apply" or not inspect.isclass(owner):
        return None
    if issubclass(owner, torch.autograd.Function):
        return Meaning(Kind.AUTOGRAD_APPLY, owner, "apply")
    return None


def _operator(found: object) -> Meaning | None:
    if not callable(found):
        return None
    name = builtin_op_name(found)
    return None if name is None else Meaning(Kind.OPERATOR, found, name)


# -- classes
def _class(found: object) -> Meaning | None:
    if not inspect.isclass(found):
        in_typing = type(found).__module__ == "typing" or isinstance(found, types.GenericAlias | types.UnionType)
        return Meaning(Kind.TYPE, found) if in_typing else None
    if issubclass(found, BaseException):
        return Meaning(Kind.EXCEPTION, found)
    if issubclass(found, tuple) and hasattr(found, "_fields"):
        return Meaning(Kind.NAMED_TUPLE, found)
    if issubclass(found, enum.Enum):
        return Meaning(Kind.ENUM, found)
    return Meaning(Kind.CLASS, found)


# -- functions
class Mark(enum.Enum):
    """What the user asked to be done with a function, by a decorator of `torch.jit` or jitlite."""

    DEFAULT = "compile it if it is called"
    EXPORT = "compile it in any case"
    IGNORE = "leave it to Python"
    UNUSED = "let a call raise"


_MARKS = {
    _jit_internal.FunctionModifiers.EXPORT: Mark.EXPORT, _jit_internal.FunctionModifiers.IGNORE: Mark.IGNORE,
    _jit_internal.FunctionModifiers.UNUSED: Mark.UNUSED, _jit_internal.FunctionModifiers._DROP: Mark.UNUSED,
}  # fmt: skip


def function_mark(fn: object) -> Mark:
    """The mark of a function or method."""
    fn = attribute_or_none(fn, "__func__") or fn
    modifier: Any = attribute_or_none(fn, "_torchscript_modifier")
    return _MARKS.get(modifier, Mark.DEFAULT)


def declared_overloads(fn: Callable[..., object]) -> tuple[Callable[..., Any], ...]:
    """The signatures declared for a function with `torch.jit._overload`."""
    name = _overload_key(fn)
    current = tuple(_jit_internal._overloaded_fns.get(name) or ())
    if current:
        _overloads[name] = current
    return _overloads.get(name, ())


def declared_method_overloads(method: Callable[..., object], cls: type) -> list[Callable[..., Any]]:
    """The signatures declared for a method of a class of modules with `torch.jit._overload_method`."""
    if not _overload_key(method):
        return []
    find: Any = _jit_internal._get_overloaded_methods
    return list(find(method, cls) or ())


_qualified_name: Any = _jit_internal._qualified_name


def _overload_key(fn: Callable[..., object]) -> str:
    try:
        return str(_qualified_name(fn))
    except (RuntimeError, AttributeError):
        return ""


def boolean_dispatch(fn: Callable[..., object]) -> BooleanDispatch | None:
    """The two functions that `fn` chooses from, if it was made with `torch._jit_internal.boolean_dispatch`."""
    entry: Any = _jit_internal.boolean_dispatched.get(fn)
    if entry is None:
        return None
    return BooleanDispatch(entry["arg_name"], entry["index"], entry["default"], entry["if_true"], entry["if_false"])


def original_function(fn: Any) -> object:
    """The function that is compiled, freed of `script_if_tracing`, `torch.jit.script` and decorators that mark it.

    Contexts of torch stay, and so do decorators that replace the function.
    """
    seen: set[int] = set()
    while id(fn) not in seen:
        seen.add(id(fn))
        if getattr(fn, "__script_if_tracing_wrapper", False):
            fn = fn.__original_fn
        elif is_torch_script_function(fn) and source_of_script(fn) is not None:
            fn = source_of_script(fn)
        elif hasattr(fn, "__wrapped__") and context_of_wrapper(fn) is None and not replaces(fn):
            fn = fn.__wrapped__
    return fn


def _function(found: Any) -> Meaning | None:
    if is_torch_script_function(found) and source_of_script(found) is None:
        return Meaning(Kind.SCRIPT_FUNCTION, converted_function(found).__jitlite_function__)
    is_marked = attribute_or_none(found, "__wrapped__") is not None and not replaces(found)
    is_plain = inspect.isfunction(found) or is_torch_script_function(found) or is_marked
    if not is_plain and not inspect.ismethod(found):
        return None
    kind = _MARKED.get(function_mark(found)) or (Kind.METHOD if inspect.ismethod(found) else None)
    if kind is not None:
        return Meaning(kind, found, found.__name__)
    several = _several_functions(found) if inspect.isfunction(found) else None
    if several is not None:
        return several
    original = original_function(found)
    if original is not found:
        return meaning_of(original)
    return Meaning(Kind.FUNCTION, found, found.__name__) if inspect.isfunction(found) else None


def _transform(found: object) -> Meaning | None:
    if not transforms_functions(found):
        return None
    name = str(attribute_or_none(found, "__name__"))
    reason = f"{module_name(found)}.{name} makes another Python function of one, which a script cannot do"
    return Meaning(Kind.UNSUPPORTED, found, name, reason=reason)


_MARKED = {Mark.IGNORE: Kind.IGNORED, Mark.UNUSED: Kind.UNUSED}
"""What functions are that a decorator has marked so."""


def _several_functions(found: types.FunctionType) -> Meaning | None:
    """What a function is that stands for several, of which the arguments choose one; None for others."""
    dispatch = boolean_dispatch(found)
    if dispatch is not None:
        return Meaning(Kind.BOOLEAN_DISPATCH, found, found.__name__, dispatch=dispatch)
    overloads = declared_overloads(found)
    if found in overloads:
        reason = f'Implementation for the function "{found.__name__}" is missing. It has to follow the overloads'
        return Meaning(Kind.UNSUPPORTED, found, reason=reason)
    return Meaning(Kind.OVERLOADED, found, found.__name__, overloads) if overloads else None


# -- everything else
def _instance(found: object) -> Meaning:
    if isinstance(found, torch.nn.Module):
        reason = "Cannot call a ScriptModule that is not a submodule of the caller: make it an attribute of a module"
        return Meaning(Kind.NN_MODULE, found, type(found).__name__, reason=reason)
    if isinstance(found, functools.partial):
        given = [*found.args, *found.keywords.values()]
        if all(plain_constant(a)[0] for a in given):
            return Meaning(Kind.PARTIAL, found, "partial")
    if type(found) in (list, dict, set, frozenset, tuple):
        return Meaning(Kind.CONTAINER, found)
    call = inspect.getattr_static(type(found), "__call__", None)
    if inspect.isfunction(call) and function_mark(call) is Mark.IGNORE:
        return Meaning(Kind.IGNORED, types.MethodType(call, found), "__call__")
    if inspect.isfunction(call) and not _lives_in(type(found), ("torch", "jitlite", "functools")):
        return Meaning(Kind.CALLABLE, found, type(found).__name__)
    return Meaning(Kind.UNSUPPORTED, found, reason=_why_not(found))


def _why_not(found: object) -> str:
    name = type(found).__name__
    if isinstance(found, types.BuiltinFunctionType | types.BuiltinMethodType):
        return f"Python builtin {found!r} is currently not supported in TorchScript"
    if isinstance(found, functools.partial):
        return "a functools.partial can be used where its arguments are numbers, strings and the like: pass the others"
    if (type(found).__module__, name) == ("torch", "ScriptClass"):
        return (
            "objects of a C++ class cannot be made in a script: make them outside, and pass them or keep them in self"
        )
    if isinstance(found, torch.Tensor):
        return "a global tensor cannot be used: pass it as an argument, or make it a buffer of a module"
    if isinstance(found, list | dict | set):
        return f"a global {name} cannot be used, as it may change: pass it as an argument, or use a tuple"
    return f"python value of type '{name}' cannot be used as a value: pass it as an argument"
