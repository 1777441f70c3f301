"""Exceptions of an empty text, and of none."""

from __future__ import annotations

import itertools

import pytest

import jitlite
from jitlite.base import options


class OwnKeyError(KeyError):
    pass


def test_an_empty_text_is_told_from_none():
    def f(n: int, text: str) -> str:
        try:
            if n == 0:
                raise KeyError(text)
            if n == 1:
                raise KeyError("")
            if n == 2:
                raise KeyError()
            if n == 3:
                raise KeyError
            if n == 4:
                raise OwnKeyError(text)
            if n == 5:
                raise OwnKeyError from ValueError("")
        except LookupError as caught:
            return str(caught)
        return text

    for tier in ("stack", "python"):
        with options.override(tier=tier):
            scripted = jitlite.script(f)
            for n, text in itertools.product(range(7), ("", "a")):
                assert scripted(n, text) == f(n, text)
    written = jitlite.to_python(jitlite.script(f))
    namespace = {}
    exec(written.source, namespace)
    assert [namespace["f"](n, "") for n in range(6)] == [f(n, "") for n in range(6)] == ["''", "''", "", "", "''", ""]


def test_exceptions_with_and_without_an_empty_text():
    def f(n: int) -> int:
        if n == 0:
            raise ValueError("")
        if n == 1:
            raise ValueError
        if n == 2:
            raise KeyError
        raise KeyError("")

    scripted = jitlite.script(f)
    for n in range(4):
        with pytest.raises((ValueError, KeyError)) as expected:
            f(n)
        with pytest.raises(expected.type) as got:
            scripted(n)
        assert got.value.args == expected.value.args
