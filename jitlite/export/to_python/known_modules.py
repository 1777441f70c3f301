"""Modules of `torch.nn` in a program: `torch.nn.Linear(4, 2)` where the module is provably just that.

A candidate is made with the arguments that the attributes of the module suggest, compiled, and compared: the same
methods, that say the same; parameters and buffers of the same shapes and dtypes; equal attributes; submodules alike.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from jitlite.base.source import CompileError
from jitlite.codegen.torchscript.declarations_out import methods
from jitlite.compiler.program import Program, compiling
from jitlite.export.to_python.known_functions import MANGLED, same_meaning
from jitlite.ir.types import ClassType
from jitlite.ir.values import class_type_of

CONTAINERS: tuple[type[nn.Module], ...] = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_MISSING: object = object()


class KnownModules:
    """Finds modules of torch, each kind compiled once."""

    def __init__(self) -> None:
        self._candidates: dict[tuple[object, str], nn.Module | None] = {}
        self._types: dict[int, ClassType | None] = {}
        self._alike: dict[tuple[int, int], bool] = {}

    def arguments(self, module: nn.Module) -> tuple[type[nn.Module], dict[str, Any]] | None:
        """The class in `torch.nn`, and what to call it with; None where the module is something else."""
        type = class_type_of(module)
        cls = None if type is None else class_of_torch(type)
        if type is None or cls is None or cls in CONTAINERS or type.forward_hooks or type.forward_pre_hooks:
            return None
        suggested = _suggested(cls, module, type)
        if suggested is None:
            return None
        for given in (_shortened(cls, suggested), suggested):
            candidate = self._candidate(cls, given)
            if candidate is not None and self._same(module, candidate):
                return cls, given
        return None

    def parameter_names(self, cls: type[nn.Module]) -> list[str]:
        """What a class of torch takes, in order."""
        return [p.name for p in _parameters(cls)]

    def _candidate(self, cls: type[nn.Module], given: dict[str, object]) -> nn.Module | None:
        key = cls, repr(given)
        if key not in self._candidates:
            try:
                with torch.device("meta"):
                    self._candidates[key] = cls(**given)
            except Exception:  # the attributes are not those of this class
                self._candidates[key] = None
        return self._candidates[key]

    def _type(self, candidate: nn.Module) -> ClassType | None:
        if id(candidate) not in self._types:
            try:
                with compiling():
                    self._types[id(candidate)] = Program().compile_module(candidate)
            except (CompileError, RuntimeError, TypeError):
                self._types[id(candidate)] = None
        return self._types[id(candidate)]

    def _same(self, module: nn.Module, candidate: nn.Module) -> bool:
        ours, theirs = class_type_of(module), self._type(candidate)
        if ours is None or theirs is None:
            return False
        return (
            _same_tensors(module._parameters, candidate._parameters)
            and _same_tensors(module._buffers, candidate._buffers)
            and module._non_persistent_buffers_set == candidate._non_persistent_buffers_set
            and _same_attributes(module, ours, candidate)
            and self._same_methods(ours, theirs)
            and self._same_modules(module, candidate)
        )

    def _same_methods(self, ours: ClassType, theirs: ClassType) -> bool:
        key = id(ours), id(theirs)
        if key not in self._alike:
            pairs = [(m, theirs.definition.method(m.name)) for m in methods(ours)]
            known = {*theirs.attributes, *theirs.constants, "_is_full_backward_hook"}
            self._alike[key] = set(ours.attributes) <= known and all(
                other is not None and same_meaning(one, other) for one, other in pairs
            )
        return self._alike[key]

    def _same_modules(self, module: nn.Module, candidate: nn.Module) -> bool:
        if list(module._modules) != list(candidate._modules):
            return False
        pairs = zip(module._modules.values(), candidate._modules.values(), strict=True)
        for ours, theirs in pairs:
            if ours is None or theirs is None:
                if ours is not theirs:
                    return False
                continue
            type = class_type_of(ours)
            if type is None or class_of_torch(type) is not theirs.__class__ or type.forward_hooks:
                return False
            if not self._same(ours, theirs):
                return False
        return True


def class_of_torch(type: ClassType) -> Any:
    """The class of torch that has the name of the type; None where there is none."""
    name = MANGLED.sub("", type.qualified_name)
    if not name.startswith("__torch__.torch.nn."):
        return None
    module, _, plain = name.removeprefix("__torch__.").rpartition(".")
    cls = getattr(sys.modules.get(module), plain, None)
    is_class = inspect.isclass(cls) and issubclass(cls, nn.Module)
    return cls if is_class and cls.__module__ == module else None


def _value(module: nn.Module, type: ClassType, name: str) -> Any:
    """An attribute of a module, or a constant of its class."""
    if name in type.constants:
        return type.constants[name]
    for table in (module._parameters, module._buffers, module._modules, vars(module)):
        if name in table:
            return table[name]
    return _MISSING


def _suggested(cls: type[nn.Module], module: nn.Module, type: ClassType) -> dict[str, Any] | None:
    """Arguments for the class, from attributes of the same names; those that are the defaults are left out."""
    given: dict[str, Any] = {}
    for parameter in _parameters(cls):
        name, found = parameter.name, _value(module, type, parameter.name)
        if name == "dtype":
            found = _common_dtype(module)
        elif isinstance(found, torch.Tensor) or (found is None and name in module._parameters):
            found = found is not None
        elif name == "bias" and found is _MISSING and "in_proj_bias" in module._parameters:
            found = module._parameters["in_proj_bias"] is not None
        if found is _MISSING or isinstance(found, nn.Module):
            if parameter.default is parameter.empty:
                return None
            continue
        if parameter.default is parameter.empty or not _equal(found, parameter.default):
            given[name] = found
    return given


def _shortened(cls: type[nn.Module], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with one number for several equal ones, which is how people write them."""
    defaults = {p.name: p.default for p in _parameters(cls)}
    found = {}
    for name, value in given.items():
        is_repeated = isinstance(value, tuple) and len(set(map(repr, value))) == 1
        short = value[0] if is_repeated else value
        if not _equal(short, defaults[name]):
            found[name] = short
    return found


_HIDDEN: dict[object, dict[str, inspect.Parameter]] = {
    nn.RNN: {"nonlinearity": inspect.Parameter("nonlinearity", inspect.Parameter.KEYWORD_ONLY, default="tanh")},
}
"""What classes take that their signatures do not tell."""


def _parameters(cls: type[nn.Module]) -> list[inspect.Parameter]:
    """What a class takes; where it hands on all that it is given, what its base takes."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        init = vars(base).get("__init__")
        if init is None:
            continue
        own = list(inspect.signature(init).parameters.values())[1:]
        found |= {p.name: p for p in own if p.name not in found and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if not any(p.kind is p.VAR_POSITIONAL for p in own):
            break
    found |= _HIDDEN.get(cls, {})
    found.pop("mode", None)
    found.pop("device", None)
    return list(found.values())


def _common_dtype(module: nn.Module) -> Any:
    dtypes = {p.dtype for p in module._parameters.values() if p is not None}
    return None if len(dtypes) != 1 or dtypes == {torch.get_default_dtype()} else dtypes.pop()


def _equal(one: object, other: object) -> bool:
    if one is other:
        return True
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return False
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and bool(one == other)


def _same_tensors(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    if list(ours) != list(theirs):
        return False
    for one, other in zip(ours.values(), theirs.values(), strict=True):
        if (one is None) != (other is None):
            return False
        if one is not None and (one.shape != other.shape or one.dtype != other.dtype or one.layout != other.layout):
            return False
    return True


def _same_attributes(module: nn.Module, type: ClassType, candidate: nn.Module) -> bool:
    """Have both the same values, as far as the module's are known?"""
    for name, value in vars(candidate).items():
        if name == "training" or name.startswith("_"):
            continue
        found = _value(module, type, name)
        if found is not _MISSING and not _equal(found, value):
            return False
    return True


def is_container(type: ClassType) -> Any:
    """The container of torch that a class of modules is, and nothing more; None where it is something else."""
    cls = class_of_torch(type)
    if cls not in CONTAINERS or type.parameters or type.buffers or type.forward_hooks or type.forward_pre_hooks:
        return None
    names = {m.name for m in methods(type)} - {"__len__", "__contains__"}
    if cls is nn.Sequential:
        names.discard("forward")
        if "forward" in type.methods and not _is_chain(type):
            return None
    return None if names else cls


def _is_chain(type: ClassType) -> bool:
    """Does `forward` give its argument to each of the modules in turn?"""
    graph = type.methods["forward"].graph
    if len(graph.inputs) != 2:
        return False
    current, wanted = graph.inputs[1], [n for n, t in type.attributes.items() if getattr(t, "is_module", False)]
    called = []
    for node in graph.nodes:
        if node.kind in ("prim::GetAttr", "prim::Constant"):
            continue
        if node.kind != "prim::CallMethod" or node.attributes["name"] != "forward" or len(node.inputs) != 2:
            return False
        owner = node.inputs[0].node
        if owner.kind != "prim::GetAttr" or owner.inputs[0] is not graph.inputs[0] or node.inputs[1] is not current:
            return False
        called.append(owner.attributes["name"])
        current = node.output
    return called == wanted and list(graph.outputs) == [current]
