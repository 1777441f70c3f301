"""Work that no call waits for: specialising functions and compiling hot loops, in a thread of their own.

The thread lives while there is work. What it does is Python for the most part, so it shares the interpreter with
whoever calls; for as long as it lives, threads take turns a hundred times as often as usual, so that a call is held up
for a fraction of a millisecond and not for milliseconds.

A job may be begun twice, in a process and in its fork, so a job that finds its work done does nothing.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context

from jitlite.locks import Lock

Job = Callable[[], None]

_TURN = 5e-5
"""Seconds after which a thread that waits for the interpreter gets it, while there is work in the background."""

_PATIENCE = 5.0
"""Seconds that the end of the process waits for the job that is being done: LLVM must not be left in the middle."""


class _Worker:
    """The jobs that wait, and the thread that does them."""

    def __init__(self) -> None:
        self.lock = Lock("background")
        self.waiting: deque[tuple[Job, Context]] = deque()
        self.current: tuple[Job, Context] | None = None
        self.thread = 0
        """The thread's number, 0 while there is none."""
        self.is_starting = False
        self.is_closed = False
        self._interval: float | None = None

    def submit(self, job: Job) -> None:
        with self.lock:
            if self.is_closed:
                return
            self.waiting.append((job, copy_context()))
            self.start()

    def start(self) -> None:
        """Have a thread; called with the lock held."""
        if not self.thread and not self.is_starting:
            self.is_starting = True
            try:
                _thread.start_new_thread(self.work, ())  # threading's Thread would let the caller wait for it
            except RuntimeError:  # the system has no more: the work is done when there is one
                self.is_starting = False

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting) or self.current is not None

    # -- in the thread
    def work(self) -> None:
        with self.lock:
            self.thread, self.is_starting = threading.get_ident(), False
            self.take_short_turns()
        while True:
            with self.lock:
                self.current = self.waiting.popleft() if self.waiting else None
                if self.current is None:
                    self.thread = 0
                    self.take_usual_turns()
                    return
                job, context = self.current
            try:
                context.run(job)
            except Exception as error:  # nobody is there to be told: the function goes on as it did
                failures.append(error)
                del failures[:-_REMEMBERED]
            del job, context

    def take_short_turns(self) -> None:
        now = sys.getswitchinterval()
        self._interval = now if now > _TURN else None
        if self._interval is not None:
            sys.setswitchinterval(_TURN)

    def take_usual_turns(self) -> None:
        if self._interval is not None and abs(sys.getswitchinterval() - _TURN) < _TURN / 2:  # nobody else has set it
            sys.setswitchinterval(self._interval)
        self._interval = None

    # -- forks and the end
    def after_fork_in_child(self) -> None:
        """The thread stayed with the parent. What it was doing is done again, when there is more to do."""
        if self.current is not None:
            job, context = self.current
            self.waiting.appendleft((job, context.copy()))  # the other one has been entered, for ever
        self.current, self.thread, self.is_starting = None, 0, False
        self.take_usual_turns()

    def close(self) -> None:
        with self.lock:
            self.is_closed = True
            self.waiting.clear()
        until = time.monotonic() + _PATIENCE
        while self.current is not None and time.monotonic() < until:
            time.sleep(0.002)


_REMEMBERED = 16
failures: list[Exception] = []
"""The exceptions that the last jobs ended with which failed."""

_worker = _Worker()
atexit.register(_worker.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_worker.after_fork_in_child)


def submit(job: Job) -> None:
    """Have a job done soon, under the switches of the caller. What it raises is noted in `failures`."""
    _worker.submit(job)


def wait_for_compilation(timeout: float | None = None) -> bool:
    """Wait until all that is being compiled in the background is compiled; says whether it is.

    Functions that are called often are specialised, and their loops compiled to machine code, while they go on being
    called. Measurements that want the end of this call it after some calls, and again until nothing changes.

    Args:
        timeout: seconds to wait at most; None for as long as it takes.
    """
    if threading.get_ident() == _worker.thread:
        return False
    until = None if timeout is None else time.monotonic() + timeout
    while _worker.is_busy:
        with _worker.lock:
            if _worker.waiting:
                _worker.start()  # in the child of a fork there may be none
        if until is not None and time.monotonic() >= until:
            return False
        time.sleep(0.001)
    return True
