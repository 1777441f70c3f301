"""An attribute that has another value for a while."""

from __future__ import annotations


class Changed:
    """Within the `with`, attribute `name` of `owner` is `value`; behind it, what it was before.

    The compiler does this for every expression, so it is no generator, of which entering and leaving take thrice as
    long.
    """

    __slots__ = ("_name", "_owner", "_value")

    def __init__(self, owner: object, name: str, value: object) -> None:
        self._owner, self._name, self._value = owner, name, value

    def _exchange(self) -> None:
        before: object = getattr(self._owner, self._name)
        setattr(self._owner, self._name, self._value)
        self._value = before

    def __enter__(self) -> None:
        self._exchange()

    def __exit__(self, *raised: object) -> None:
        self._exchange()
