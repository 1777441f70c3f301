"""Work that is done beside calls: specializing functions and compiling hot loops, in a thread of their own.

The thread is started with the first function that is compiled, a call that takes long anyhow, and then waits for work,
for some time. To submit a job is to put it into a queue and to ring a bell: no lock is taken, no thread started. What
the thread does is Python for the most part, so it shares the interpreter with callers: see `turns.py`.

A job may be begun twice, in a process and in its fork, so a job that finds its work done does nothing.
"""

from __future__ import annotations

import _thread
import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import NamedTuple

from jitlite.base import turns
from jitlite.base.keywords import checks_keywords
from jitlite.base.locks import Lock, ObjectLock

Job = Callable[[], None]

_LULL = 30.0
"""Seconds without work after which the thread ends. A process that forks is better off without."""

_PATIENCE = 5.0
"""Seconds that the end of the process waits for the job that is being done: LLVM must not be left in the middle."""


class _Task(NamedTuple):
    job: Job
    context: Context
    call: float


class _Worker:
    """The jobs that wait, and the thread that does them."""

    def __init__(self) -> None:
        self.lock = Lock("background")
        self.waiting: deque[_Task] = deque()
        self.current: _Task | None = None
        self.thread = 0
        """The thread's number, 0 while there is none."""
        self.is_starting = False
        self.is_closed = False
        self._bell = self._new_bell()

    @staticmethod
    def _new_bell() -> threading.Lock:
        """What the thread waits at, rung by releasing it."""
        bell = threading.Lock()
        bell.acquire()
        return bell

    def submit(self, job: Job, call: float) -> None:
        if not self.is_closed:
            self.waiting.append(_Task(job, copy_context(), call))
            self.get_ready()
            self._ring()

    def _ring(self) -> None:
        with suppress(RuntimeError):  # it has been rung and not been heard yet
            self._bell.release()

    def get_ready(self) -> None:
        """Have a thread."""
        if not self.thread and not self.is_closed:
            with self.lock:
                self._start()

    def _start(self) -> None:
        if not self.thread and not self.is_starting:
            self.is_starting = True
            try:
                _thread.start_new_thread(self.work, ())  # threading's Thread would let the caller wait for it
            except RuntimeError:  # the system has no more: the work is done when there is one
                self.is_starting = False

    @property
    def is_busy(self) -> bool:
        with self.lock:
            return bool(self.waiting) or self.current is not None

    # -- in the thread
    def work(self) -> None:
        with self.lock:
            self.thread, self.is_starting = threading.get_ident(), False
        while self._take():
            assert self.current is not None
            task = self.current
            turns.begin(self.thread, task.call)
            try:
                task.context.run(task.job)
            except Exception as error:  # nobody is there to be told: the function goes on as it did
                failures.append(error)
                del failures[:-_REMEMBERED]
            del task

    def _take(self) -> bool:
        """Have a job available, waiting for one if need be. False where there has been none for long: then this thread
        is no longer the one that works."""
        while True:
            with self.lock:
                self.current = self.waiting.popleft() if self.waiting else None
                if self.current is not None:
                    return True
            turns.begin(0)
            if not self._bell.acquire(timeout=_LULL) and self._leave():
                return False

    def _leave(self) -> bool:
        with self.lock:
            own, self.thread = self.thread, 0
            is_left = not self.waiting
            if not is_left:  # a job was submitted before anybody could see that no thread is there
                self.thread = own
            return is_left

    # -- forks and the end
    def after_fork_in_child(self) -> None:
        """The thread stayed with the parent. What it was doing is done again, when there is more to do."""
        if self.current is not None:
            again = self.current._replace(context=self.current.context.copy())  # that one has been entered, for ever
            self.waiting.appendleft(again)
        self.current, self.thread, self.is_starting = None, 0, False
        self._bell = self._new_bell()
        turns.begin(0)

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


def get_ready() -> None:
    """Have the thread there for what may be submitted: starting one takes as long as some calls."""
    _worker.get_ready()


def submit(job: Job, call: float = 0.0) -> None:
    """Have a job done soon, under the switches of the caller. What it raises is noted in `failures`.

    Args:
        call: seconds that a call takes which goes on meanwhile, 0 where that is not known.
    """
    _worker.submit(job, call)


_WORTH_WAITING = 1e-3
"""Seconds of a call from which on it may wait: the thread may keep the interpreter for many times a shorter one."""


def wait_a_turn(held: ObjectLock, call: float) -> None:
    """Wait for what is being compiled while the thread holds `held`, but no longer than a call takes.

    The thread gives the interpreter up for each file it reads and each function of LLVM it calls. While a call computes
    in Python it waits five milliseconds to have it back, so that compiling takes several times as long as it has to.

    Args:
        call: seconds that the call took that ends now.
    """
    if call > _WORTH_WAITING and held.locked() and held.acquire(timeout=call):
        held.release()


@checks_keywords
def wait_for_compilation(timeout: float | None = None) -> bool:
    """Wait until all that is being compiled in the background is compiled; says whether it is.

    Functions that are called often are specialized, and their loops compiled to machine code, while they go on being
    called. Measurements that want the end of this call it after some calls, and again until nothing changes.

    Args:
        timeout: seconds to wait at most; None for as long as it takes.
    """
    if threading.get_ident() == _worker.thread:
        return False
    until = None if timeout is None else time.monotonic() + timeout
    while _worker.is_busy:
        _worker.get_ready()  # in the child of a fork there may be none
        if until is not None and time.monotonic() >= until:
            return False
        time.sleep(0.001)
    return True
