"""What all code that runs while one archive is loaded may take: steps, and bytes of tensors."""

from __future__ import annotations

MOST_STEPS = 250_000
"""Instructions, and elements of what they are given; a large file has one more for each byte."""
_TENSOR_ROOM = 32 << 20
"""Bytes of tensors that may be made in any case; in a large file, twice its size more."""
_TOUCHED = 8
"""How often so many bytes may be read or written."""


class Exhausted(Exception):
    """The allowance is used up. The text says of what."""


class Allowance:
    """The allowance of one archive of `size` bytes, which all its objects share."""

    def __init__(self, size: int) -> None:
        self.steps = MOST_STEPS + size
        self._most_steps = self.steps
        self._bytes = _TENSOR_ROOM + 2 * size
        self._touched = _TOUCHED * self._bytes

    def spend(self, steps: int) -> None:
        """Take steps.

        Raises:
            Exhausted: there are not so many left.
        """
        self.steps -= steps
        if self.steps < 0:
            raise Exhausted(f"it takes more than {self._most_steps} steps")

    def take(self, made: int, given: int, what: str) -> None:
        """Take bytes for what is made of what is given.

        Raises:
            Exhausted: there are not so many left.
        """
        self._bytes -= made
        self._touched -= given + made
        if self._bytes < 0 or self._touched < 0:
            raise Exhausted(f"{what} makes tensors larger than the file has")
