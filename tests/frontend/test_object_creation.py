"""Classes that make their objects in `__new__`."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from accepted_python import Table, check_case

import jitlite

HEAD = """
class Plain:
    def __new__(cls, n: int, *, k: int = 2):
        return super().__new__(cls)

    def __init__(self, n: int, *, k: int = 2):
        self.n = n + k

class Inherits(Plain):
    def __init__(self, n: int):
        self.n = n * 10

class Variadic:
    def __new__(cls, *args, **kwargs):
        made = object.__new__(cls)
        made.n = 0
        return made

    def __init__(self, n: int):
        self.n = n
"""

MADE: Table = {
    "in both": ("n: int", "return Plain(n).n, Plain(n, k=5).n", [[3]]),
    "inherited": ("n: int", "a = Inherits(n)\nreturn a.n", [[3]]),
    "with any arguments": ("n: int", "return [Variadic(i).n for i in range(n)]", [[3]]),
}


@pytest.mark.parametrize("name", MADE)
def test_new_and_init_make_an_object_as_in_python(name):
    check_case(MADE, name, head=HEAD)


class Reads:
    def __new__(cls, n: int):
        made = super().__new__(cls)
        made.k = n
        return made

    def __init__(self, n: int):
        self.n = n


class Passes:
    def __new__(cls, *args):
        return cls.made(*args)

    def __init__(self, n: int):
        self.n = n

    @classmethod
    def made(cls, n):
        return object.__new__(cls)


class Pair(NamedTuple):
    x: int


class Moved(Pair):
    def __new__(cls, x: int):
        return super().__new__(cls, x + 1)


def reads(n: int):
    return Reads(n).n


def passes(n: int):
    return Passes(n).n


def moved(n: int):
    return Moved(n).x


@pytest.mark.parametrize("function", [reads, passes, moved])
def test_a_new_that_looks_at_its_arguments_is_refused(function):
    with pytest.raises(jitlite.NotSupportedError, match="__new__") as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)


class Other:
    def __new__(cls, n: int):
        return 7

    def __init__(self, n: int):
        self.n = n


def other(n: int):
    return Other(n)


def test_a_new_that_makes_something_else_is_an_error_of_the_call():
    with pytest.raises(TypeError, match="gave an object of int"):
        jitlite.script(other)(3)
