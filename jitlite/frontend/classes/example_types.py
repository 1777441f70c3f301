"""Types of parameters without annotation, seen while the program runs on example inputs.

The functions run as Python. Every call that they make is looked at, so the functions they call get their types too.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any

import torch

from jitlite.frontend.classes.attribute_types import NoType, infer_type
from jitlite.frontend.emit.annotations import ClassTypes
from jitlite.ir import types as T
from jitlite.ir.types import Type

ParameterTypes = Mapping[str, Type]
"""Types of a function's parameters, those that are no Tensors."""

_known: ContextVar[Mapping[CodeType, ParameterTypes]] = ContextVar("_known", default={})  # noqa: B039 (never changed)

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_STANDARD_LIBRARY = os.path.join(sysconfig.get_path("stdlib"), "")
_PACKAGES = os.path.join(sysconfig.get_path("purelib"), "")


def types_seen_in(
    calls: Sequence[tuple[Callable[..., Any], Sequence[Any]]], class_types: ClassTypes
) -> dict[CodeType, dict[str, Type]]:
    """Call each function with its arguments; give the types that parameters had in these and all calls within.

    A parameter that had values of one type is of that type, and Optional where it was also None; one that had values
    of several types is Any. Values without a type, such as an empty list, say nothing.
    """
    seen: dict[CodeType, dict[str, dict[Type, None]]] = {}
    thread = threading.get_ident()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and threading.get_ident() == thread and not _is_library(frame.f_code):
            sys.setprofile(None)  # finding types is not part of the program
            try:
                _note_types(frame, seen.setdefault(frame.f_code, {}), class_types)
            finally:
                sys.setprofile(look)

    before = sys.getprofile()
    for function, arguments in calls:
        sys.setprofile(look)
        try:
            function(*arguments)
        finally:
            sys.setprofile(before)
    return {code: {name: _merged(list(types)) for name, types in found.items()} for code, found in seen.items()}


def _is_library(code: CodeType) -> bool:
    """Is it of Python's or torch's own functions? They have annotations, or are not for scripts."""
    name = code.co_filename
    return name.startswith(_TORCH) or (name.startswith(_STANDARD_LIBRARY) and not name.startswith(_PACKAGES))


def _note_types(frame: FrameType, found: dict[str, dict[Type, None]], class_types: ClassTypes) -> None:
    code = frame.f_code
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if name == "self":  # of the type of its class, which may not be complete yet
            continue
        try:
            found.setdefault(name, {})[infer_type(frame.f_locals[name], class_types)] = None
        except (NoType, KeyError):  # KeyError: a generator goes on, and has deleted its argument
            continue


def _merged(types: list[Type]) -> Type:
    others = [t for t in types if t is not T.NONE]
    if len(others) > 1:
        return T.ANY
    if not others:
        return types[0] if types else T.TENSOR
    return others[0] if len(others) == len(types) else T.OptionalType.of(others[0])


@contextmanager
def parameter_types(types: Mapping[CodeType, ParameterTypes]) -> Iterator[None]:
    """Functions that are compiled here have parameters of these types where they have no annotations."""
    token = _known.set(types)
    try:
        yield
    finally:
        _known.reset(token)


def known_types(function: Callable[..., object] | None) -> ParameterTypes:
    """The types of the parameters of a function about to be compiled, as far as examples have shown them."""
    code = getattr(function, "__code__", None)
    return {} if code is None else _known.get().get(code, {})
