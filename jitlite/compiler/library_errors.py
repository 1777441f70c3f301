"""Errors in functions of Python's library."""

from __future__ import annotations

import os
import sysconfig

from jitlite.base.source import CompileError, SourceRange


def tell_at_call(error: CompileError, callee: str, call: SourceRange) -> None:
    """Tell an error in a function of Python's library at its call: nobody can mend it elsewhere."""
    place = error.range
    if place is None or not is_of_library(place) or is_of_library(call):
        return
    error.notes.append(f"in Python's library: {place.location()}")
    error.message = f"'{callee}' of Python's library cannot be compiled: {error.message}"
    error.hint = "do by hand what it does, or leave it to Python in a function marked with jitlite.ignore"
    error.range = None
    error.called_from.clear()


_LIBRARY = os.path.join(sysconfig.get_paths()["stdlib"], "")


def is_of_library(place: SourceRange) -> bool:
    """Does a place lie in Python's own library?"""
    filename = place.source.filename or ""
    return filename.startswith(_LIBRARY) and "site-packages" not in filename
