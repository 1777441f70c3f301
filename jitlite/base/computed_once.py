"""Attributes that are computed when they are first read.

`functools.cached_property` does the same from Python 3.12 on. Before, it holds a lock while it computes, one for all
objects of the class: in the child of a fork, that lock stays locked if another thread was computing, and whoever reads
the attribute waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, overload

_T = TypeVar("_T")


class cached_property(Generic[_T]):
    """An attribute whose value is kept in the object. Two threads that read it at once may both compute it."""

    def __init__(self, compute: Callable[..., _T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object, owner: type) -> cached_property[_T] | _T:
        if instance is None:
            return self
        found = vars(instance)[self._name] = self._compute(instance)
        return found
