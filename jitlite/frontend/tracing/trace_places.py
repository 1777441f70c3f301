"""Where traced code is at work: the user's frames of Python's stack."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import CodeType, FrameType

import torch

from jitlite.base import torch_internals
from jitlite.base.source import OWN_FILES, SourceRange
from jitlite.frontend.tracing.trace_backend import Location
from jitlite.frontend.tracing.trace_warnings import SourceLines

LIBRARIES = (os.path.join(os.path.dirname(torch.__file__), ""),)
"""Files that are nobody's code by default: those of torch. jitlite's own frames are never shown."""
_MACHINERY = tuple(
    os.path.join(LIBRARIES[0], *path)
    for path in (("_dynamo", "eval_frame.py"), ("_compile.py",), ("_ops.py",), ("utils", "_python_dispatch.py"))
)
"""What torch puts between an operator and its interception."""


class UserFrames:
    """Finds the place of what is at work.

    Args:
        exclude: frames whose file name contains one of these are left out.
        outermost: what this code calls is traced; frames further out are not part of the trace.
    """

    def __init__(self, exclude: Sequence[str] | None = None, outermost: CodeType | None = None) -> None:
        self._outermost = outermost
        self._exclude = LIBRARIES if exclude is None else tuple(exclude)
        self._lines = SourceLines()
        self._ranges: dict[tuple[CodeType, int], SourceRange | None] = {}
        self._is_user: dict[str, bool] = {}
        self._of_forward: dict[int, Location] = {}

    def current(self) -> Location:
        """The place of what is at work now; within autograd, of the operator that is being differentiated."""
        node = torch_internals.autograd_node()
        if node is not None:
            found = self._of_forward.get(node._sequence_nr() if hasattr(node, "_sequence_nr") else -1)
            if found is not None:
                return found
        location = self._of_stack()
        if node is None:
            self._of_forward[torch_internals.autograd_sequence_number() - 1] = location
        return location

    def _of_stack(self) -> Location:
        found: list[FrameType] = []
        frame: FrameType | None = sys._getframe(2)
        depth_of_trace = 0
        while frame is not None:
            if frame.f_code is self._outermost:
                depth_of_trace = len(found)
                break
            if self._is_users(frame.f_code.co_filename):
                found.append(frame)
            frame = frame.f_back
        frames = found[:depth_of_trace] or found[:1]  # none inside: the caller of the trace
        if not frames:
            return Location()
        ranges = [self._range(f) for f in frames]
        calls = [(_name(inner), place) for inner, place in zip(frames, ranges[1:], strict=False)]
        return Location(ranges[0], tuple(reversed(calls)))

    def _is_users(self, filename: str) -> bool:
        known = self._is_user.get(filename)
        if known is None:
            library = filename.startswith((OWN_FILES, *_MACHINERY, "<frozen")) or any(
                part in filename for part in self._exclude
            )
            known = self._is_user[filename] = not library
        return known

    def _range(self, frame: FrameType) -> SourceRange | None:
        key = frame.f_code, frame.f_lineno or 0
        if key not in self._ranges:
            self._ranges[key] = self._lines.of(frame)
        return self._ranges[key]


def _name(frame: FrameType) -> str:
    return frame.f_code.co_name
