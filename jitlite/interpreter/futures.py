"""Forked calls: a pool of threads that runs them, and the futures that stand for their results.

    fork(compute)      a `Future`; some thread of the pool computes it, under the modes of the forking thread
    wait(future)       its value, or the exception it ended with

There are at most `torch.get_num_interop_threads()` threads at work, however many calls are forked. That no program can
deadlock for want of a thread rests on two rules:

- Who waits for a call that has not begun runs it himself. Only this call: any other might wait, in turn, for what
  is suspended beneath it on the same stack.
- A thread of the pool that waits for what runs elsewhere does not count as one at work, so another one takes over.

Threads are made when they are needed and are daemons. A process that forks finds an empty pool in the child.
"""

from __future__ import annotations

import atexit
import copy
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch

from jitlite.interpreter.frames import notes_of, set_notes
from jitlite.interpreter.modes import ThreadModes, is_watched

_DEEPEST_HELP = 40
"""Calls begun by waiting for them, within one another on one stack. Beyond, the waiting thread is suspended and the
call goes to another thread: each takes about eight Python frames, and threads have room for a thousand."""

_PATIENCE = 1.0
"""Seconds that the end of the interpreter waits for calls that are running: a thread within an operator that is cut
off there may take the process down."""


class Future(torch.futures.Future[Any]):
    """The result of a forked call.

    Args:
        compute: called once, without arguments.
        modes: what it is called under; None for those of the thread that calls it.
    """

    def __init__(self, compute: Callable[[], object], modes: ThreadModes | None = None) -> None:
        super().__init__()
        self._compute: Callable[[], object] | None = compute
        self._modes = modes
        self._claim = threading.Lock()
        """Taken, and never given back, by the thread that runs the call."""
        self._latch = threading.Lock()
        """Held until the call has ended."""
        self._latch.acquire()
        self._ended = False
        self._pool: Pool | None = None
        """The pool of the process in which the call has begun."""
        self._value: object = None
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None
        self._notes: list[str] = []
        self._raiser: _Raiser | None = None
        self._seen = False
        """Has somebody been told of the exception?"""

    # -- running
    def run(self) -> bool:
        """Run the call in this thread; False where it has been begun already."""
        if not self._claim.acquire(blocking=False):
            return False
        self._pool = _pool
        compute, modes = self._compute, self._modes
        assert compute is not None
        self._compute = self._modes = None
        try:
            self._value = compute() if modes is None else modes.call(compute)
        except BaseException as error:  # whatever it is, it is raised where the result is asked for
            self._trace, self._notes = error.__traceback__, notes_of(error)
            self._error = error
        self._finish()
        return True

    def _finish(self) -> None:
        self._ended = True
        self._latch.release()
        if self._error is not None:
            self._raiser = _Raiser(self)
            super()._set_unwrap_func(self._raiser)
        super().set_result(self._value)

    @property
    def has_begun(self) -> bool:
        """Has a thread begun to run the call?"""
        return self._claim.locked()

    def block(self) -> None:
        """Return when the call, which runs elsewhere, has ended.

        Raises:
            RuntimeError: where it was running in a process of which this one is a fork.
        """
        if self._pool not in (None, _pool):
            raise RuntimeError("the forked call was running in a thread of another process, of which this is a fork")
        with self._latch:
            pass

    # -- what Python users know from torch.futures.Future
    def done(self) -> bool:
        """Has the call ended, with a value or an exception?"""
        return self._ended

    def wait(self) -> Any:
        """The value of the call, which is run here if it has not begun.

        Raises:
            BaseException: what the call ended with, each time.
            RuntimeError: where the call was running in a process of which this one is a fork.
        """
        if not self._ended:
            _pool.wait_for(self)
        return self._outcome()

    def value(self) -> Any:
        """The value of a call that has ended.

        Raises:
            BaseException: what the call ended with.
            RuntimeError: where it has not ended.
        """
        if not self._ended:
            raise RuntimeError("the forked call has not ended: wait() for it")
        return self._outcome()

    def _outcome(self) -> Any:
        if self._error is None:
            return self._value
        self._seen = True
        if self._notes:
            set_notes(self._error, list(self._notes))  # whoever waited before has added its own calls
        raise self._error.with_traceback(self._trace)

    def then(self, callback: Callable[[torch.futures.Future[Any]], Any]) -> torch.futures.Future[Any]:
        """A future of `callback(self)`, which is called when the call has ended."""
        self._seen = True
        return super().then(callback)

    def add_done_callback(self, callback: Callable[[torch.futures.Future[object]], None]) -> None:
        """Let `callback(self)` be called when the call has ended."""
        self._seen = True
        super().add_done_callback(callback)

    def set_result(self, result: object) -> None:
        """Refused: the result is that of the call."""
        raise RuntimeError("the result of a forked call cannot be set")

    def set_exception(self, result: object) -> None:
        """Refused: the result is that of the call."""
        raise RuntimeError("the result of a forked call cannot be set")

    def __reduce__(self) -> Any:
        raise TypeError("a Future cannot be pickled or copied: wait for its value")

    def __del__(self) -> None:
        error = getattr(self, "_error", None)
        if error is None:
            return
        if self._raiser is not None:
            self._raiser.error = _copy_of(error)
        if not self._seen:  # reported as Python reports what nobody can catch
            raise error.with_traceback(self._trace)


def _copy_of(error: BaseException) -> BaseException:
    """The exception without its traceback; the original keeps its own, for somebody may have it still."""
    try:
        return copy.copy(error)
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


class _Raiser:
    """Raises the exception of a future for torch, whose side of the future may outlive ours.

    torch holds this object where the garbage collector cannot see it. So it must not hold the exception: that holds its
    traceback, and this the frames that hold the future.
    """

    def __init__(self, future: Future) -> None:
        self.future = weakref.ref(future)
        self.error: BaseException | None = None

    def __call__(self, value: object) -> Any:
        future = self.future()
        if future is None:
            assert self.error is not None
            raise self.error
        return future._outcome()


class Pool:
    """Threads that run forked calls. See the top of the file."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        """Guards all else; notified when there is work, a thread has gone, or all have to go."""
        self._waiting: deque[Future] = deque()
        """Calls to run, and some that have been begun since by those who waited for them."""
        self._threads: set[int] = set()
        self._starting = 0
        self._idle = 0
        self._suspended = 0
        self._closed = False
        self._help = threading.local()

    # -- from any thread
    def submit(self, future: Future) -> None:
        """Let a thread run the call; this one, where none can be had."""
        with self._changed:
            if not self._closed:
                self._waiting.append(future)
                self._provide()
                if self._idle or self._threads or self._starting:
                    return
        future.run()

    def wait_for(self, future: Future) -> None:
        """Return when the call has ended; run it if it has not begun."""
        depth = getattr(self._help, "depth", 0)
        if not future.has_begun:
            leave = depth >= _DEEPEST_HELP or is_watched()
            if not (leave and self._hand_over(future)) and self._run_here(future, depth):
                return
        with self.suspended():
            future.block()

    def _run_here(self, future: Future, depth: int) -> bool:
        self._help.depth = depth + 1
        try:
            return future.run()
        finally:
            self._help.depth = depth

    def _hand_over(self, future: Future) -> bool:
        """Make a call the next one to be run; False where there is no thread for it."""
        with self._changed:
            if self._closed:
                return False
            self._waiting.appendleft(future)
            self._provide()
            return bool(self._threads or self._starting)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """While this thread is in the block, it waits and does not work."""
        if threading.get_ident() not in self._threads:
            yield
            return
        with self._changed:
            self._suspended += 1
            self._provide()
        try:
            yield
        finally:
            with self._changed:
                self._suspended -= 1

    def close(self) -> None:
        """Drop what has not begun, and wait a little for what has."""
        until = time.monotonic() + _PATIENCE
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
            while self._threads and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    # -- with the lock held
    def _provide(self) -> None:
        """Wake or start threads for the calls that wait."""
        if self._idle:
            self._changed.notify()
        if len(self._waiting) > self._idle + self._starting and self._is_short_of_threads():
            thread = threading.Thread(target=self._work, name="jitlite-fork", daemon=True)
            self._starting += 1
            try:
                thread.start()
            except RuntimeError:  # the system has no more
                self._starting -= 1

    def _at_work(self) -> int:
        return len(self._threads) + self._starting - self._suspended

    def _is_short_of_threads(self) -> bool:
        return self._at_work() < torch.get_num_interop_threads()

    # -- in a thread of the pool
    def _work(self) -> None:
        ident = threading.get_ident()
        with self._changed:
            self._starting -= 1
            self._threads.add(ident)
        while True:
            future = self._next()
            if future is None:
                return
            future.run()
            del future  # else it would live until the next one comes

    def _next(self) -> Future | None:
        """A call to run; None where the thread is to end."""
        with self._changed:
            while not self._closed and self._at_work() <= torch.get_num_interop_threads():
                if self._waiting:
                    return self._waiting.popleft()
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            self._threads.discard(threading.get_ident())
            self._changed.notify_all()
            return None


_pool = Pool()


def _after_fork_in_child() -> None:
    global _pool
    _pool = Pool()  # the threads of the old one, and perhaps its lock, stayed with the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(lambda: _pool.close())


def fork(compute: Callable[[], object]) -> Future:
    """The future of `compute()`, which a thread of the pool runs; this one, where only it has the modes for that."""
    if is_watched():
        return at_once(compute)
    future = Future(compute, ThreadModes())
    _pool.submit(future)
    return future


def at_once(compute: Callable[[], object]) -> Future:
    """The future of `compute()`, which is run now."""
    future = Future(compute)
    future.run()
    return future


def wait(future: Any) -> Any:
    """The value of any future of torch."""
    if isinstance(future, Future):
        return future.wait()
    with _pool.suspended():
        return future.wait()
