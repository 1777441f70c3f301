"""Results that are computed when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Await:
    """The result of `fn(*args)`, computed once: by the first thread that waits, while others wait for it.

    Attributes of the result can be read from this object as if it were the result.
    """

    def __init__(self, fn: Callable[..., Any], *args: object) -> None:
        self._fn: Callable[..., Any] | None = fn
        self._args = args
        self._lock = threading.RLock()
        self._computed = False
        self._value: Any = None
        self._error: Exception | None = None

    @classmethod
    def ready(cls, value: object) -> Await:
        """A result that is there already."""
        made = cls(_nothing, value)
        made._fn, made._value, made._computed = None, value, True
        return made

    def wait(self) -> Any:
        """The result.

        Raises:
            Exception: what computing it ended with, each time.
        """
        if not self._computed:
            with self._lock:
                if not self._computed:
                    self._compute()
        if self._error is not None:
            raise self._error
        return self._value

    def _compute(self) -> None:
        """Called with the lock held. Ctrl-C and the like leave the result to be computed by the next who waits."""
        assert self._fn is not None
        try:
            self._value = self._fn(*self._args)
        except Exception as error:
            self._error = error
        self._computed = True

    def fn(self) -> Callable[..., Any]:
        """What computes the result.

        Raises:
            RuntimeError: where the result was given.
        """
        if self._fn is None:
            raise RuntimeError("this result was given and not computed, so there is no function")
        return self._fn

    def args(self) -> tuple[Any, ...]:
        """What `fn()` is called with; the result itself where it was given."""
        return self._args

    def is_nowait(self) -> bool:
        """Was the result given, rather than a function that computes it?"""
        return self._fn is None

    def __getattr__(self, name: str) -> Any:
        # special methods are never looked up in an object by those who mean the object's result
        if name.startswith("__") or "_computed" not in vars(self):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.wait(), name)

    def __reduce__(self) -> Any:
        raise TypeError("an Await cannot be pickled or copied: wait for its value")


def _nothing() -> None:
    """What computes a result that is there already: never called."""
