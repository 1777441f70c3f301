"""Errors in functions of Python's library and of NumPy."""

from __future__ import annotations

from jitlite.base.shown_paths import LIBRARY, shown_location
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.ways_out import instead_of_numpy


def tell_at_call(error: CompileError, callee: str, call: SourceRange) -> None:
    """Tell an error in a function of Python's library, or of NumPy, at its call: nobody can mend it elsewhere."""
    place = error.range
    if place is None or _is_foreign(call):
        return
    of_numpy = instead_of_numpy(place.source.filename or "", callee)
    if of_numpy is None and not is_of_library(place):
        return
    library = "Python's library" if of_numpy is None else "NumPy"
    error.notes.append(f"in {library}: {shown_location(place)}")
    error.message = f"'{callee}' of {library} cannot be compiled: {error.message}"
    error.expected = error.found = None  # which are about that place
    error.hint = of_numpy or _instead_of(callee) or _LEFT_TO_PYTHON
    error.range = None
    error.called_from.clear()


def _instead_of(callee: str) -> str | None:
    if callee in ("copy", "deepcopy"):
        return "copy what it holds: x.clone() for a tensor, list(xs) for a list, dict(d) for a dict"
    return None


def _is_foreign(place: SourceRange) -> bool:
    return is_of_library(place) or instead_of_numpy(place.source.filename or "", "") is not None


_LEFT_TO_PYTHON = "do by hand what it does, or leave it to Python in a function marked with jitlite.ignore"


def is_of_library(place: SourceRange) -> bool:
    """Does a place lie in Python's own library?"""
    filename = place.source.filename or ""
    return filename.startswith(LIBRARY) and "site-packages" not in filename
