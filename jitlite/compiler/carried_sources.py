"""What a pickle of a program carries of functions that are not found by their names: their sources."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType, FunctionType
from typing import Any

from jitlite.base.source import CompileError, Source
from jitlite.frontend.syntax.python_source import carry_source, source_of

CarriedSource = tuple[FunctionType, str, str | None, int]
"""A function with its source: the text, its file, and the number of its first line there."""

_BY_VALUE = frozenset({"cloudpickle", "dill"})
"""Picklers that can pickle a Python function which has no name to be found by."""


def pickles_by_value(caller: FrameType) -> bool:
    """Is the caller a pickler that writes Python functions themselves where their names lead nowhere?"""
    found: FrameType | None = caller
    while found is not None and found.f_globals.get("__name__") == "pickle":  # on which such a pickler is built
        found = found.f_back
    return found is not None and not _BY_VALUE.isdisjoint(str(found.f_globals.get("__name__")).split("."))


def carry_sources(carried: Iterable[CarriedSource]) -> None:
    """Remember the sources that came with functions."""
    for function, text, filename, first_line in carried:
        carry_source(function, Source(text, filename, first_line))


def described_source(function: FunctionType) -> tuple[str, str | None, int] | None:
    """The text of a function, its file and its first line; None where nobody knows."""
    try:
        source = source_of(function)
    except CompileError:  # then it cannot be compiled anew, nor could it here
        return None
    return source.text, source.filename, source.first_line


def is_found_by_name(function: object) -> bool:
    """Does the name of a function or class, in its module, lead to something?"""
    found: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    if found is sys.modules.get("__main__"):
        return False
    name = str(getattr(function, "__qualname__", "<locals>"))
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None and "<locals>" not in name
