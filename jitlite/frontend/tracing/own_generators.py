"""Generators of random numbers that a traced function has for itself.

One that exists before the trace is a constant of it, and shared with the function: calls of the trace go on drawing
from it, as calls of the function do. One that the function makes would be shared among calls as well, which it is not
in Python, and a seed that the function gives one is no operator. Both are refused.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import torch

from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.tracing_state import current
from jitlite.frontend.tracing.trace_warnings import SourceLines

_Generator = torch.Generator
_HINT = "make and seed it outside of the traced function, or seed with torch.manual_seed(n), which is recorded"


class OwnGenerators:
    """Notices that a generator of a function's own is set between the operators of a trace."""

    def __init__(self) -> None:
        self._known: list[tuple[torch.Generator, bytes]] = []
        self._lines = SourceLines()

    def watch(self, function: Callable[..., object]) -> None:
        """Know the generators that a function, or a module and its submodules, can reach."""
        found = {id(g): g for g in generators_of(function) if g is not torch.default_generator}
        self._known = [(generator, contents_of(generator)) for generator in found.values()]

    def note(self) -> None:
        """They are as the operators that were recorded have left them."""
        self._known = [(generator, contents_of(generator)) for generator, _ in self._known]

    def check(self) -> None:
        """See that they are as they were left.

        Raises:
            CompileError: one has been seeded, drawn from, or given a state.
        """
        for generator, before in self._known:
            if contents_of(generator) != before:
                raise NO_TRACE(
                    "a generator of random numbers was set before this line, and no operator does that",
                    self._lines.of_user(),
                    hint=_HINT,
                )


def generators_of(function: Callable[..., object]) -> Iterator[torch.Generator]:
    """The generators that a function or a module can reach: through names, attributes, items, and what it calls."""
    waiting, seen = deque[object]([function]), {id(function): cast(object, function)}
    while waiting:
        held = waiting.popleft()
        if isinstance(held, _Generator):
            yield held
            continue
        for other in _held_by(held):
            if id(other) not in seen and len(seen) < _MOST_OBJECTS and not isinstance(other, _HOLD_NONE):
                seen[id(other)] = other  # kept, so that no other object gets its number
                waiting.append(other)


def _held_by(holder: object) -> Iterator[object]:
    """What a function, an object or a container refers to. What belongs to torch or Python holds no generator."""
    if isinstance(holder, Mapping):
        yield from holder.values()
    elif isinstance(holder, list | tuple | set | frozenset | deque):
        yield from holder
    elif isinstance(holder, FunctionType):
        yield from _held_by_function(holder)
    elif isinstance(holder, MethodType):
        yield from (holder.__func__, holder.__self__)
    elif isinstance(holder, partial):
        yield from (holder.func, *holder.args, *holder.keywords.values())
    elif isinstance(holder, ModuleType | type):
        return
    else:
        held = getattr(holder, "__dict__", None)
        yield from held.values() if isinstance(held, dict) else ()  # a class may give anything for any name
        for made_by in type(holder).__mro__:
            if _is_users(made_by.__module__):
                yield from (_function_in(member) for member in vars(made_by).values())


def _held_by_function(function: FunctionType) -> Iterator[object]:
    """What is in its defaults and its closure, and what it reads of globals, modules and classes."""
    if not _is_users(function.__module__):
        return
    yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield getattr(function, "__wrapped__", None)
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # nothing is in it yet
            yield cell.cell_contents
    names = set(_names_in(function.__code__))
    for found in [function.__globals__[name] for name in names if name in function.__globals__]:
        yield found
        if isinstance(found, ModuleType | type) and _is_users(getattr(found, "__module__", found.__name__)):
            yield from (_function_in(vars(found)[name]) for name in names if name in vars(found))


def _names_in(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes that a function reads, and the functions within it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def _function_in(member: object) -> object:
    """The function that a member of a class is made of, if it is."""
    if isinstance(member, property):
        return member.fget
    return getattr(member, "__func__", member)


def _is_users(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] not in _WITHOUT


_MOST_OBJECTS = 20_000
"""Objects that are looked at; who has more, such as a set of data, is not looked at to the end."""
_HOLD_NONE = (str, bytes, int, float, complex, type(None), torch.Tensor, torch.dtype, torch.device)
_WITHOUT = {*sys.stdlib_module_names, "torch", "numpy", "jitlite"} - {"__main__"}
"""Packages whose functions are not looked into."""


def contents_of(generator: torch.Generator) -> bytes:
    """The state of a generator, without a record of the question."""
    with torch._C.DisableTorchFunction():
        state = generator.get_state()
        return ctypes.string_at(state.data_ptr(), state.numel())


# -- the class while a trace is going on


class _ClassOfGenerators(type):
    """The class of what stands for `torch.Generator`: it makes generators, where none may be made it says so, and is
    the same class to whoever compares it or asks whether something is a generator."""

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Generator:
        if current.tracer is not None and not current.tracer.paused:
            raise NO_TRACE(
                "a generator of random numbers that the traced function makes would be the same one in all calls of "
                "the trace",
                SourceLines().of_user(),
                hint=_HINT,
            )
        return _Generator(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Generator)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _Generator)

    def __eq__(cls, other: object) -> bool:
        return other is _Generator or other is cls

    def __hash__(cls) -> int:
        return hash(_Generator)


class GeneratorOfTrace(metaclass=_ClassOfGenerators):
    """Stands for `torch.Generator` while a trace is going on."""
