"""Tracebacks of errors that leave the API: the user's frames, and none of the compiler's.

An error of a program says where in the program it is; how the compiler came there is for those who work on the
compiler. The switch `full_tracebacks` leaves all frames.
"""

from __future__ import annotations

from types import TracebackType

from jitlite.base import options
from jitlite.base.source import OWN_FILES, CompileError


class HiddenFrames:
    """A context manager: a CompileError that leaves it has none of jitlite's frames below the one that entered it."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, CompileError) or traceback is None or options.current().full_tracebacks:
            return
        traceback.tb_next = _others(traceback.tb_next)
        if error.__context__ is not None and _is_own(error.__context__):
            error.__suppress_context__ = True
        if error.__cause__ is not None and _is_own(error.__cause__):
            error.__cause__.__traceback__ = None


def _others(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of jitlite: those of a user's function that is traced stay."""
    frames: list[TracebackType] = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(OWN_FILES):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for entry in reversed(frames):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_own(error: BaseException) -> bool:
    """Was it raised and caught within jitlite? What a user's handler deals with began in a file of theirs."""
    traceback = error.__traceback__
    return traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(OWN_FILES)
