"""What to write instead of a Python object that scripts cannot use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType, ModuleType, NoneType
from typing import NamedTuple

import torch

from jitlite.base.errors.names import MAY_BE_NONE
from jitlite.base.errors.types import NOT_ITERABLE
from jitlite.base.source import CompileError, SourceRange
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.types import Type


class _LibraryAdvice(NamedTuple):
    """A library of Python's that scripts do not have: what to write instead, given the name that was used."""

    name: str
    way_out: Callable[[str], str]


def _of_numpy(name: str) -> str:
    if callable(getattr(torch, name, None)):
        return f"scripts have no NumPy: torch.{name} is for tensors"
    return "scripts have no NumPy: use operators of torch, and torch.from_numpy before the call"


def instead_of_class(cls: type) -> str | None:
    """What to write instead of a class of a library; None where nothing is known."""
    if issubclass(cls, torch.nn.Module):
        return f"make it in __init__, as an attribute of self: self.layer = {cls.__name__}(...)"
    room, name = cls.__module__.partition(".")[0], cls.__name__.rstrip("_")
    if room == "numpy" and isinstance(getattr(torch, name, None), torch.dtype):
        return f"scripts have no NumPy: the dtype is torch.{name}"
    found = next((library for library in _LIBRARIES if library.name == room), None)
    return None if found is None else found.way_out(name)


def instead_of_numpy(place: str, name: str) -> str | None:
    """What to write instead of a function of NumPy's, given its file; None for any other file."""
    return _of_numpy(name) if "/numpy/" in place.replace("\\", "/") else None


def _of_random(name: str) -> str:
    return "draw with torch: torch.rand(1), torch.randint(low, high, (1,)), torch.randperm(n)"


def _of_collections(name: str) -> str:
    match name:
        case "Counter":
            return "count in a dict: counts[x] = counts.get(x, 0) + 1"
        case "deque":
            return "use a list: append, pop, and pop(0) for what was put in first"
        case "defaultdict":
            return "use a dict, and d.get(key, default)"
    return "use a list, a dict or a NamedTuple"


_OF_STREAMS = "read the file before the call, and pass what it holds; print(...) writes to the standard output"
_LIBRARIES = (
    _LibraryAdvice("numpy", _of_numpy),
    _LibraryAdvice("random", _of_random),
    _LibraryAdvice("time", lambda name: "measure around the call, outside of the script"),
    _LibraryAdvice("datetime", lambda name: "ask for the time before the call, and pass it as an argument"),
    _LibraryAdvice("os", lambda name: "read it before the call, and pass the value as an argument"),
    _LibraryAdvice("collections", _of_collections),
    _LibraryAdvice("pathlib", lambda name: "work with the text of the path, or pass what is made of it"),
    _LibraryAdvice("io", lambda name: _OF_STREAMS),
    _LibraryAdvice("json", lambda name: "read it before the call, and pass the values as arguments"),
    _LibraryAdvice(
        "logging", lambda name: "print(...) works in scripts; or log in a function marked with @jitlite.ignore"
    ),
)
_LEFT_TO_PYTHON = "pass what it gives as an argument, or call it in a function marked with @jitlite.ignore"


_HOMES_OF_TRANSFORMS = ("torch.func", "torch.autograd.functional", "torch.utils.checkpoint")


def transforms_functions(found: object) -> bool:
    """Is it a function of torch that takes a Python function, to give another or call it in another way?"""
    if not isinstance(found, FunctionType):
        return False
    return found.__module__ in _HOMES_OF_TRANSFORMS or (found.__module__, found.__name__) == ("torch", "compile")


def _of_transforms(name: str) -> str:
    match name:
        case "vmap":
            return "apply it to the script: torch.vmap(script); inside, compute with the batch dimension, or in a loop"
        case "compile":
            return "a script is compiled as it is: call the function itself"
        case "checkpoint" | "checkpoint_sequential":
            return "call the script under it: checkpoint(script, x)"
    return f"apply it to the script: {name}(script); inside, torch.autograd.grad([y], [x]) gives gradients"


def instead_of(found: object, name: str) -> str | None:
    """What to write instead of a Python object that a script names; None for one that is no function."""
    room = _origin(found).partition(".")[0].lstrip("_")
    if transforms_functions(found):
        return _of_transforms(name)
    for library in _LIBRARIES:
        if library.name == room:
            return library.way_out(name)
    return _LEFT_TO_PYTHON if inspect.isroutine(found) or inspect.isclass(found) else None


def _origin(found: object) -> str:
    """The module that a function, or the class of an object, comes from."""
    if isinstance(found, MethodType | BuiltinMethodType) and not isinstance(found.__self__, ModuleType | NoneType):
        return type(found.__self__).__module__
    if isinstance(found, FunctionType | BuiltinFunctionType):
        return str(found.__module__)
    return type(found).__module__


def instead_of_attribute(name: str, value: object) -> str | None:
    """What to make of an attribute of a module for which there is no type; None where nothing is known."""
    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        return f"it is a class: make an object of it, self.{name} = {value.__name__}(...)"
    if isinstance(value, list | tuple) and _has_module(value):
        return f"make it a list of modules: self.{name} = nn.ModuleList([...])"
    if isinstance(value, dict) and _has_module(value.values()):
        return f"make it a dict of modules: self.{name} = nn.ModuleDict({{...}})"
    if isinstance(value, list | dict) and not value:
        example = "List[float] = []" if isinstance(value, list) else "Dict[str, float] = {}"
        return f"annotate it with what it is to hold: self.{name}: {example}"
    if isinstance(value, dict):
        return "the values of a dict have one type: give each an attribute of its own, or make a NamedTuple of them"
    if isinstance(value, list):
        return "the elements of a list have one type: make it a tuple, or a NamedTuple"
    if type(value).__module__ == "numpy":
        return f'make it a tensor: self.register_buffer("{name}", torch.from_numpy(...))'
    if not callable(value):
        return "keep what forward needs of it as attributes of the module: numbers, strings, tensors, lists of them"
    return None


def instead_of_method(name: str) -> str | None:
    """What to do about a method of nn.Module that scripts do not have; None for any other name."""
    if not inspect.isfunction(getattr(torch.nn.Module, name, None)) or name.startswith("_"):
        return None
    if name.startswith(("register", "add_")):
        return f"nn.Module.{name} is for __init__: call it there"
    return f"a script does not have nn.Module.{name}: call it before or after the script"


_INSTEAD_OF_ASSIGNMENT = {
    "requires_grad": "write x.requires_grad_(), or x.requires_grad_(False)",
    "data": "change the tensor itself: x.copy_(y) within `with torch.no_grad():`",
    "grad": "set gradients before or after the script: optimizer.zero_grad()",
    "shape": "write x = x.reshape(...)",
    "dtype": "write x = x.to(torch.float32)",
    "device": 'write x = x.to("cuda")',
}


def way_to_set(t: Type, name: str) -> str | None:
    """What to write instead of an assignment to an attribute of a value; None where nothing is known."""
    if isinstance(t, T.TupleType):
        return "a tuple cannot be changed: make a new one, such as t._replace(name=value) of a named tuple"
    if T.is_subtype(t, T.TENSOR):
        return _INSTEAD_OF_ASSIGNMENT.get(name, "a tensor of a script has no attributes of its own: use a variable")
    if isinstance(t, T.ListType | T.DictType) or t in (T.INT, T.FLOAT, T.BOOL, T.STRING):
        return f"a value of type {t.annotation} has no attributes: use a variable, or an object of a class of yours"
    return None


def way_to_unpack(wanted: int, found: int) -> str:
    """What to do about so many names for so many values."""
    names = "one name" if found == 1 else f"{found} names"
    return f"write {names}, or `*rest` for the last one" if found > wanted else f"write {names}"


def way_to_default(name: str, t: Type, default: object) -> str:
    """What to do about a default that is not of the type of its parameter."""
    if default is None:
        return f"annotate it as one that may be None: `{name}: Optional[{t.annotation}] = None`"
    own = type_of_constant(default)
    both = "" if own is None or T.is_subtype(own, t) else f", or annotate it: `{name}: {own.annotation} = {default!r}`"
    return f"give it a default of type {t.annotation}{both}"


def not_iterable(t: Type, range: SourceRange) -> CompileError:
    """The error for a loop over a value of a type that has no elements."""
    kind = MAY_BE_NONE if T.may_be_none(t) else NOT_ITERABLE
    hint = "to count up to it, write range(...)" if t is T.INT else way_to_member(t)
    return kind(f"'{t.annotation}' object is not iterable", range, hint=hint)


def way_to_member(t: Type) -> str | None:
    """What to do about a value of a union, of which only a member will do."""
    is_union = isinstance(t, T.UnionType)
    return "refine it first, e.g. `assert x is not None` or `isinstance(x, ...)`" if is_union else None


NOT_THERE = "assign it before, make it a parameter, or have it in the module of the function when that is compiled"
"""What to do about a name that is nothing."""

OTHER_TYPES = "Type mismatch"
"""How the reason begins why a variable has no type after branches that give it several."""


def way_to_one_type(name: str, reason: str) -> str:
    """What to do about a variable that has no value, or no one type, after a branch or a loop."""
    if reason.startswith(OTHER_TYPES):
        return f"let both give '{name}' values of one type, or declare it before as a Union of both"
    return f"define '{name}' before, or on every path"


def _has_module(values: Iterable[object]) -> bool:
    return any(isinstance(value, torch.nn.Module) for value in values)


def attribute_names(t: Type) -> list[str]:
    """The attributes that values of a type have, for hints."""
    if T.is_subtype(t, T.TENSOR):
        return _public_names(torch.Tensor)
    if isinstance(t, T.TupleType) and t.names:
        return list(t.names)
    if isinstance(t, T.ClassType) and t.definition is not None:
        return list(t.definition.attribute_names())
    if isinstance(t, T.InterfaceType):
        return list(t.methods)
    python_type = _python_type(t)
    return _public_names(python_type) if python_type else []


_OTHER_NAMES = {"add": "append", "push": "append", "push_back": "append", "put": "add", "iteritems": "items",
                "delete": "remove", "concat": "extend"}  # fmt: skip
"""What methods of containers are called elsewhere, and what Python calls them."""


def instead_of_member(name: str, t: Type) -> str | None:
    """What to write instead of an attribute of a number, text or container, none of whose is nearly called like it."""
    if t in (T.INT, T.FLOAT, T.BOOL) and hasattr(torch.Tensor, name):
        return f"only tensors have it, and this is {t.annotation}: a number of Python, not a tensor of one"
    python_type = _python_type(t)
    if python_type is None:
        return None
    if name == "numel" and isinstance(t, T.ListType):
        return "x.shape.numel() compiles, and math.prod(...) does for a list of ints"
    if name in ("length", "size", "count"):
        return "len(...) gives the length"
    return _instead_in_container(name, t, python_type)


def _instead_in_container(name: str, t: Type, python_type: type) -> str | None:
    other = _OTHER_NAMES.get(name)
    if other is not None and hasattr(python_type, other):
        return f"a {python_type.__name__} calls it {other}"
    known = ", ".join(_public_names(python_type))
    if isinstance(t, T.DictType) and t.key is T.STRING:
        return f'an entry is read by its key: ["{name}"]; a dict has the methods {known}'
    if isinstance(t, T.ListType) and name in attribute_names(t.element):
        return f"its elements have it: [0].{name} is that of the first; a list has {known}"
    return f"it has: {known}" if python_type is not str else None


def _python_type(t: Type) -> type | None:
    """The type in Python of texts, lists and dicts."""
    if t is T.STRING:
        return str
    kinds: tuple[tuple[type[Type], type], ...] = ((T.ListType, list), (T.DictType, dict), (T.SetType, set))
    return next((cls for kind, cls in kinds if isinstance(t, kind)), None)


def _public_names(owner: object) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]
