"""Lists, tuples and dicts of functions that are attributes of a module: what they hold is known when it is compiled.

    self.steps = [torch.relu, self.scale, self.linear]         for step in self.steps:
                                                                   x = step(x)

The module's own methods and submodules among the functions are those of the module that runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Protocol

import torch

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.constant_containers import GlobalContainer
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.values import SugaredValue
from jitlite.ir.graph import Value

_CONTAINERS = (list, tuple, dict)


class _Owner(Protocol):
    """The definition of the type of a module."""

    module: torch.nn.Module

    def attr(self, b: Emitter, range: SourceRange, value: Value, name: str) -> SugaredValue: ...


class FunctionContainer(GlobalContainer):
    """A list, tuple or dict of functions that is an attribute of a module."""

    def __init__(self, em: Emitter, found: object, owner: _Owner, value: Value) -> None:
        super().__init__(em, found)
        self.em = em
        self.owner = owner
        self.value = value
        self.kind = f"a {type(found).__name__} of functions"

    def part(self, found: object, range: SourceRange) -> SugaredValue:
        if type(found) in _CONTAINERS and holds_functions(found):
            return FunctionContainer(self.em, found, self.owner, self.value)
        name = name_within(self.owner.module, found)
        return super().part(found, range) if name is None else self.owner.attr(self.em, range, self.value, name)


def holds_functions(found: object) -> bool:
    """Is it a list, tuple or dict with functions or modules in it, or in what it holds?"""
    return type(found) in _CONTAINERS and any(callable(leaf) for leaf in _leaves(found))


def is_known_container(module: torch.nn.Module, found: object) -> bool:
    """Does it hold functions, and no other modules than submodules of the module?"""
    others = (leaf for leaf in _leaves(found) if isinstance(_object_of(leaf), torch.nn.Module))
    return holds_functions(found) and all(name_within(module, leaf) is not None for leaf in others)


def _object_of(leaf: object) -> object:
    return leaf.__self__ if inspect.ismethod(leaf) else leaf


def appearance(module: torch.nn.Module, found: object) -> list[object]:
    """What has to be equal of two containers for their modules to share a type."""
    keys = list(found) if isinstance(found, dict) else []
    return [repr(keys), *(name_within(module, leaf) or _spelled(leaf) for leaf in _leaves(found))]


def _spelled(leaf: object) -> object:
    return id(leaf) if callable(leaf) else repr(leaf)


def name_within(module: torch.nn.Module, found: object) -> str | None:
    """The name of the method or submodule of the module that something is; None for anything else."""
    if inspect.ismethod(found) and found.__self__ is module:
        return found.__name__
    is_module = isinstance(found, torch.nn.Module)
    return next((name for name, m in module._modules.items() if m is found), None) if is_module else None


def _leaves(found: object) -> Iterator[object]:
    if type(found) not in _CONTAINERS:
        yield found
        return
    assert isinstance(found, list | tuple | dict)
    for part in found.values() if isinstance(found, dict) else found:
        yield from _leaves(part)
