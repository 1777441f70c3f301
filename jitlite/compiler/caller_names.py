"""What names mean in the function that calls the compiler."""

from __future__ import annotations

import sys


class CallerNames:
    """What a name means in the function `frames_up` calls above the one that makes this, None where it means nothing.

    It keeps that function's frame, so it must not be kept.
    """

    def __init__(self, frames_up: int) -> None:
        self._frame = sys._getframe(frames_up + 1)

    def __call__(self, name: str) -> object:
        for scope in (self._frame.f_locals, self._frame.f_globals):
            if name in scope:
                return scope[name]
        return None


def names_of_caller(frames_up: int) -> dict[str, object]:
    """What names mean in the function `frames_up` calls above the caller of this one."""
    frame = sys._getframe(frames_up + 1)
    return {**frame.f_globals, **frame.f_locals}
