"""How large the values of a pickle are to code that walks over them, as they are made.

A pickle of forty bytes can make a list that holds itself, or tuples doubled so often that no walk over them ends. So
the extent of a value is counted while the pickle is read: the values that a walk meets, each as often as it occurs, and
how deep they are nested. A container grows only until it is used for the first time, as in every pickle that is written
of values; then none can hold itself, and an extent stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

DEEPEST = 100
"""Containers within one another. Types of containers are not nested deeper either."""
ALWAYS = 1 << 20
"""Values that a walk may meet in any pickle; in a long one, `PER_BYTE` more for each byte."""
PER_BYTE = 4
_HANDED = 16
"""How often all may be handed out to be walked over: each level of nested containers is, once."""
_LETTERS = 64
"""Letters of a text that count as one value."""
_FEW = 16
"""Containers of fewer plain values are counted anew each time, as keeping their extents would take more memory."""
_PLAIN = frozenset({int, float, bool, complex, type(None)})


class TooLarge(Exception):
    """A value reaches too far. The text says how."""


Extent = tuple[int, int]
"""Values that a walk meets, and how deep containers are nested."""


class Extents:
    """The extents of the values of one pickle of `length` bytes."""

    def __init__(self, length: int) -> None:
        self._most = ALWAYS + PER_BYTE * length
        self._left = _HANDED * self._most
        self._open: dict[int, Extent] = {}
        self._known: dict[int, tuple[object, Extent]] = {}

    def begin(self, container: object, parts: Iterable[object] = ()) -> None:
        """A list or dict is made, which may grow for now."""
        self._open[id(container)] = self._checked(1, self._of_all(parts))

    def grow(self, container: object, parts: Iterable[object]) -> bool:
        """See whether a list or dict may be given more values; False if it was used already."""
        known = self._open.get(id(container))
        if known is None:
            return False
        self._open[id(container)] = self._checked(known[0], self._of_all(parts), known[1])
        return True

    def use(self, value: object) -> None:
        """A value becomes part of something, so that it grows no more."""
        if type(value) in (list, dict):
            extent = self._open.pop(id(value), None)
            if extent is not None:
                self._keep(value, extent)

    def made(self, value: object, parts: Iterable[object]) -> None:
        """A container is made of these parts, all of it."""
        if isinstance(value, tuple | list | dict) and id(value) not in self._known:
            self._open.pop(id(value), None)
            self._keep(value, self._checked(1, self._of_all(parts)))

    def hand_out(self, value: object) -> None:
        """Someone is given a value, who may walk over it.

        Raises:
            TooLarge: all that was handed out is too large together.
        """
        self._left -= self.of(value)[0]
        if self._left < 0:
            raise TooLarge("its values are used over and over again")

    def of(self, value: Any) -> Extent:
        """The extent of a value that has been used."""
        kind = type(value)
        if kind in _PLAIN:
            return 1, 0
        if kind is str:
            return 1 + len(value) // _LETTERS, 0
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, tuple | list | dict):  # of plain values
            return 1 + len(value) * (2 if isinstance(value, dict) else 1), 1
        return 1, 0

    def _keep(self, value: object, extent: Extent) -> None:
        if extent[1] > 1 or extent[0] > _FEW:
            self._known[id(value)] = value, extent

    def _of_all(self, parts: Iterable[object]) -> Extent:
        size, depth = 0, 0
        for part in parts:
            if type(part) in _PLAIN:
                size += 1
            else:
                more, deep = self.of(part)
                size, depth = size + more, max(depth, deep)
        return size, depth

    def _checked(self, own: int, parts: Extent, depth: int = 1) -> Extent:
        found = own + parts[0], max(depth, parts[1] + 1)
        if found[0] > self._most:
            raise TooLarge("its values hold others so many times that going through them would not end")
        if found[1] > DEEPEST:
            raise TooLarge(f"its values are nested more than {DEEPEST} deep")
        return found
