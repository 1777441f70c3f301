"""Where the traced function is at work, and what a trace warns of there."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch

from jitlite.base.records import Record
from jitlite.base.source import OWN_FILES, Source, SourceRange

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")

LOST = (
    " might cause the trace to be incorrect. We can't record the data flow of Python values, so this value will be "
    "treated as a constant in the future. This means that the trace might not generalize to other inputs!"
)

Instruction = tuple[int, int]
"""A frame, by identity, and the position in its code."""


class TracerWarning(Warning):
    """The trace may be wrong for other inputs."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Let the warnings of code in torch itself not be shown. jitlite gives none of these to begin with."""
        warnings.filterwarnings("ignore", category=TracerWarning, module="torch.(?!jit)")


class UserInstruction(Record, eq=True):
    """What is at work: an instruction, and its line."""

    instruction: Instruction | None
    filename: str
    line: int
    names: dict[str, Any]

    def warn(self, text: str) -> None:
        """Give a warning there, unless it is in torch itself."""
        if not _is_library(self.filename):
            registry = self.names.setdefault("__warningregistry__", {})
            module = self.names.get("__name__")
            warnings.warn_explicit(text, TracerWarning, self.filename, self.line, module, registry)


def current_place() -> UserInstruction:
    """Where the code is at work that calls operators, the user's or torch's."""
    return _instruction(_caller())


def warn_user(text: str) -> None:
    """Give a warning at the user's line that is at work, whatever it has called."""
    _instruction(_users_frame()).warn(text)


def _instruction(frame: FrameType | None) -> UserInstruction:
    if frame is None:
        return UserInstruction(None, OWN_FILES, 0, {})
    return UserInstruction((id(frame), frame.f_lasti), frame.f_code.co_filename, frame.f_lineno or 0, frame.f_globals)


def _is_library(filename: str) -> bool:
    return filename.startswith((_TORCH, OWN_FILES))


def _caller() -> FrameType | None:
    """The innermost frame that is not jitlite's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FILES):
        frame = frame.f_back
    return frame


def _users_frame() -> FrameType | None:
    """The innermost frame that is neither jitlite's nor torch's."""
    frame = _caller()
    while frame is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def users_names(wanted: Iterable[object]) -> dict[int, str]:
    """The names of the user's variables that hold these objects now, by the identity of the object."""
    frame, missing = _users_frame(), {id(w) for w in wanted}
    if frame is None or not missing:
        return {}
    return {id(held): name for name, held in frame.f_locals.items() if id(held) in missing and name.isidentifier()}


class SourceLines:
    """Finds the lines that frames are at."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}

    def of(self, frame: FrameType) -> SourceRange | None:
        """The line, None where there is no text of it."""
        filename, number = frame.f_code.co_filename, (frame.f_lineno or 0) - 1
        source = self._sources.get(filename)
        if source is None:
            source = self._sources[filename] = Source("".join(linecache.getlines(filename, frame.f_globals)), filename)
        if not 0 <= number < source.line_count:
            return None
        line, start = source.line_text(number), source.line_start(number)
        return SourceRange(source, start + len(line) - len(line.lstrip()), start + len(line.rstrip()))

    def of_user(self) -> SourceRange | None:
        """The line of the user's code that is at work, None where there is none."""
        frame = _users_frame()
        return None if frame is None else self.of(frame)
