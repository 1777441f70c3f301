"""Generators of random numbers that a traced function has for itself.

One that exists before the trace is a constant of it, and shared with the function: calls of the trace go on drawing
from it, as calls of the function do. One that the function makes would be shared among calls as well, which it is not
in Python, and a seed that the function gives one is no operator. Both are refused.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterator
from typing import Any

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
        """Know the generators that a function, or a module and its submodules, refers to by name."""
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
    """The generators that a function, or a module and its submodules, refers to by name."""
    if isinstance(function, torch.nn.Module):
        for module in function.modules():
            yield from (held for held in vars(module).values() if isinstance(held, _Generator))
            yield from _named(type(module).forward)
        return
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield from generators_of(owner)
    yield from _named(inspect.unwrap(getattr(function, "__func__", function)))


def _named(function: object) -> Iterator[torch.Generator]:
    """Those in a function's defaults, in its closure, and among the globals that it reads."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    given = [
        *(getattr(function, "__defaults__", None) or ()),
        *(getattr(function, "__kwdefaults__", None) or {}).values(),
    ]
    read = getattr(function, "__globals__", {})
    given += [read[name] for name in code.co_names if name in read]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            given.append(cell.cell_contents)
        except ValueError:  # nothing is in it yet
            continue
    yield from (held for held in given if isinstance(held, _Generator))


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
