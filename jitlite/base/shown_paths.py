"""Names of files as messages show them: those of libraries begin in the library."""

from __future__ import annotations

import os
import sysconfig

from jitlite.base.source import SourceRange

LIBRARY = os.path.join(sysconfig.get_paths()["stdlib"], "")
"""The folder of Python's own library."""
_PACKAGES = [os.path.join(sysconfig.get_paths()[name], "") for name in ("purelib", "platlib")]


def within_library(location: str) -> str:
    """A file, or a place in it, named from the folder on in which libraries lie: `torch/nn/functional.py`."""
    for folder in (*_PACKAGES, LIBRARY):
        location = location.removeprefix(folder)
    return location


def shown_location(place: SourceRange) -> str:
    """The place as `location` gives it, that of a library within it."""
    return within_library(place.location())
