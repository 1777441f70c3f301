"""The locks that jitlite keeps for the whole process, in one order, and what a fork does with them.

A thread that holds a lock acquires only locks that come later in `ORDER`: then no two threads can wait for one another.
A fork is one more thread that wants them: it takes all of them, first to last, so that the child finds none in the
hands of a thread that it has not inherited, and nothing half done behind one.

`check_order()` makes every lock look at what its thread holds already. The tests turn it on.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from weakref import WeakSet

ORDER = (
    "drop_in", "engines", "compiler", "native", "tracing", "kept_operators", "types", "executors", "options",
    "background",
)  # fmt: skip
"""The names of the locks, from the first to be acquired to the last."""

_checking = False


class LockOrderError(AssertionError):
    """A lock is acquired while one is held that comes later: a fault of jitlite, which could have two threads wait for
    one another."""


class _Held(threading.local):
    def __init__(self) -> None:
        self.locks: list[Lock] = []


_held = _Held()
_locks: dict[str, Lock] = {}


class Lock:
    """A lock with a place in the order.

    Args:
        name: one of `ORDER`; each is given to one lock.
        reentrant: may the thread that holds it acquire it again?
    """

    def __init__(self, name: str, *, reentrant: bool = False) -> None:
        self.name = name
        self.rank = ORDER.index(name)
        self._lock = threading.RLock() if reentrant else threading.Lock()
        self._is_reentrant = reentrant
        self._owner = 0
        self._depth = 0
        if name in _locks:
            raise ValueError(f"there is a lock of the name {name}")
        _locks[name] = self

    def acquire(self) -> None:
        """Wait for the lock.

        Raises:
            LockOrderError: where the order is checked, and this thread holds a lock that comes later.
        """
        if _checking:
            self._check()
        self._lock.acquire()
        self._owner = threading.get_ident()
        self._depth += 1
        if _checking:
            _held.locks.append(self)

    def _check(self) -> None:
        last = max(_held.locks, key=lambda lock: lock.rank, default=None)
        if last is None or (self._is_reentrant and self in _held.locks):
            return
        if last.rank >= self.rank:
            raise LockOrderError(f"the lock '{self.name}' is acquired while '{last.name}', which comes later, is held")

    def release(self) -> None:
        """Give the lock back."""
        if _checking and self in _held.locks:
            _held.locks.reverse()
            _held.locks.remove(self)
            _held.locks.reverse()
        self._depth -= 1
        if self._depth == 0:
            self._owner = 0
        self._lock.release()

    def is_held_here(self) -> bool:
        """Does this thread hold the lock?"""
        return self._owner == threading.get_ident()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class ObjectLock:
    """A lock of one object of many, in no order: a thread that holds it may wait for the others of this module.

    A fork does not wait for it. In the child it is free, for the thread that held it has stayed with the parent; so
    what is done under it can be begun again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _object_locks.add(self)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As of Python's locks."""
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def locked(self) -> bool:
        """Does a thread hold it?"""
        return self._lock.locked()

    def after_fork_in_child(self) -> None:
        """Be free."""
        self._lock = threading.Lock()

    def __enter__(self) -> ObjectLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


_object_locks: WeakSet[ObjectLock] = WeakSet()


def check_order(on: bool = True) -> bool:
    """Have locks look whether they are acquired in order, in all threads; says whether they did before.

    Turn it on or off while no lock is held.
    """
    global _checking
    before, _checking = _checking, on
    return before


def _in_order() -> list[Lock]:
    return [_locks[name] for name in ORDER if name in _locks]


_taken: list[Lock] = []
"""By the thread that forks."""


def _before_fork() -> None:
    locks = _in_order()
    for lock in locks:
        lock._lock.acquire()
    _taken[:] = locks


def _after_fork() -> None:
    locks, _taken[:] = list(_taken), []
    for lock in reversed(locks):
        lock._lock.release()


def _after_fork_in_child() -> None:
    for lock in list(_object_locks):
        lock.after_fork_in_child()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
