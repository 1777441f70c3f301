"""What a fork leaves behind: torch's threads. The child waits for them where torch is asked for some."""

from __future__ import annotations

import ctypes
import os

_lost = ctypes.c_int64(0)


def threads_are_lost() -> bool:
    """Was this process forked?"""
    return bool(_lost.value)


def lost_at() -> int:
    """The address of a number of 64 bits for machine code: 0 unless the process was forked."""
    return ctypes.addressof(_lost)


def _after_fork_in_child() -> None:
    _lost.value = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
