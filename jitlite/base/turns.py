"""Turns: the thread that works in the background lets go of the interpreter often, so that no call waits for long.

Python's threads have one interpreter between them, and who wants it waits for up to five milliseconds until it is
taken from who has it. That interval is the whole process's and not ours to change. So the thread in the background
lets go of its own accord, wherever it walks over a graph, which all that compiles does all the time.

How long a turn is, depends on the calls that wait: one that takes milliseconds can wait for some. Short turns get
little done, for the thread may wait for five milliseconds before each.
"""

from __future__ import annotations

import threading
import time

SHORTEST = 5e-5
"""Seconds after which the thread lets go, if nothing else is known. A call of a small function takes as long."""

LONGEST = 5e-3
"""Seconds of the longest turn: after as many, Python takes the interpreter from any thread."""

_CALLS = 4
"""Calls that a turn takes as long as. So no call takes many times what it usually takes."""

_PAUSE = 1e-6
"""Seconds that it sleeps; the system makes of it what waking a thread takes. With 0 it would be back before another is
awake."""

is_working = False
"""Is a thread working in the background? Look at it before `give`: others compile as fast as they can."""

_worker = 0
_since = 0.0
_turn = SHORTEST


def begin(thread: int, call: float = 0.0) -> None:
    """The thread of this number works in the background from now on, while calls take so many seconds; 0 ends that."""
    global is_working, _turn, _worker
    _worker, is_working, _turn = thread, bool(thread), min(max(_CALLS * call, SHORTEST), LONGEST)


def give() -> None:
    """Let other threads have the interpreter if this one, in the background, has had it for its turn."""
    global _since
    if time.perf_counter() - _since > _turn and threading.get_ident() == _worker:
        time.sleep(_PAUSE)
        _since = time.perf_counter()
