"""Turns: the thread that works in the background lets go of the interpreter often, so that no call waits for long.

Python's threads have one interpreter between them, and who wants it waits for up to five milliseconds until it is
taken from who has it. That interval is the whole process's and not ours to change. So the thread in the background
lets go of its own accord, wherever it walks over a graph, which all that compiles does all the time.
"""

from __future__ import annotations

import threading
import time

_TURN = 5e-5
"""Seconds after which the thread lets go. A call of a small function takes as long."""

_PAUSE = 1e-6
"""Seconds that it sleeps; the system makes of it what waking a thread takes. With 0 it would be back before another is
awake."""

is_working = False
"""Is a thread working in the background? Look at it before `give`: others compile as fast as they can."""

_worker = 0
_since = 0.0


def begin(thread: int) -> None:
    """The thread of this number works in the background from now on; 0 ends that."""
    global is_working, _worker
    _worker, is_working = thread, bool(thread)


def give() -> None:
    """Let other threads have the interpreter if this one, in the background, has had it for its turn."""
    global _since
    if time.perf_counter() - _since > _TURN and threading.get_ident() == _worker:
        time.sleep(_PAUSE)
        _since = time.perf_counter()
