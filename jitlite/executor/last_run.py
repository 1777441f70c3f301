"""The executors of the process: all look at the switches anew when these change, and one of them ran last."""

from __future__ import annotations

import weakref
from typing import Protocol

from jitlite.base import options
from jitlite.base.locks import Lock
from jitlite.ir.graph import Graph


class Chooser(Protocol):
    """What chooses a plan for calls, and keeps to it until that is invalidated."""

    def invalidate_entry(self) -> None: ...

    def last_graph(self, mode: str) -> Graph: ...


_all: weakref.WeakSet[Chooser] = weakref.WeakSet()
_registering = Lock("executors")
_last: tuple[weakref.ref[Chooser], str] | None = None
"""What looked for a plan last, and by which mode of execution."""
_following = False
"""Is every run to look for its plan, so that `_last` is what ran last?"""


def register(executor: Chooser) -> None:
    """Have its entry invalidated when switches change."""
    with _registering:
        _all.add(executor)


def note(executor: Chooser, mode: str) -> None:
    """Note that it looks for its plan, in the given mode."""
    global _last
    _last = weakref.ref(executor), mode


def is_followed() -> bool:
    """Is every run to look for its plan?"""
    return _following


def last_executed_optimized_graph() -> Graph | None:
    """The graph of the plan that ran last; None where none did.

    Runs are followed from the first call of this function on; that one tells which function looked for a plan last.
    """
    global _following
    if not _following:
        _following = True
        _invalidate_entries()
    if _last is None:
        return None
    reference, mode = _last
    executor = reference()
    return None if executor is None else executor.last_graph(mode)


def _invalidate_entries() -> None:
    with _registering:
        executors = list(_all)
    for executor in executors:
        executor.invalidate_entry()


options.on_change(_invalidate_entries)
