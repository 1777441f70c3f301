"""Members of IntEnum and StrEnum as numbers and text; values that are one of several containers."""

from __future__ import annotations

import copy
import enum
from typing import Any, Optional, Union

import pytest
import torch
from torch import Tensor

import jitlite


class Level(enum.IntEnum):
    NONE = 0
    LOW = 1
    HIGH = 3


class Name(str, enum.Enum):
    FIRST = "a"
    LAST = "bc"


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def agree(fn, *arguments):
    expected = fn(*copy.deepcopy(arguments))
    found = jitlite.script(fn)(*copy.deepcopy(arguments))
    if isinstance(expected, Tensor):
        torch.testing.assert_close(found, expected)
    else:
        assert found == expected


# -- enums
@pytest.mark.parametrize("level", list(Level))
def test_operators(level):
    def compare(x: Level):
        return x > 2, x == 3, 1 == x, x != Level.LOW, x < Level.HIGH, 0.5 < x, 0 < x < 3

    def compute(x: Level):
        return x + 1, 2 * x, x - Level.LOW, -x, +x, ~x, x // 2, x / 2, x % 2, x**2, x << 1, x & 1, x | 4

    def truth(x: Level):
        n = 1 if x else 2
        if not x:
            n += 4
        return n, bool(x), int(x)

    def augmented(x: Level):
        n = 1
        n += x
        n *= x
        return n

    for f in (compare, compute, truth, augmented):
        agree(f, level)


def test_where_an_int_is_expected():
    def indices(x: Level, y: Tensor):
        return [10, 20, 30, 40][x], (10, 20)[Level.LOW], "abcd"[x], [i for i in range(x)], y[Level.LOW, x].item()

    def arguments(x: Level, y: Tensor):
        return y.sum(Level.LOW) * x + torch.ones(2).sum() + torch.zeros(x, 2).numel()

    y = torch.arange(8.0).reshape(2, 4)
    agree(indices, Level.HIGH, y)
    agree(arguments, Level.HIGH, y)


def test_texts():
    def f(x: Name):
        return x == "a", "bc" == x, x + "!", len(x), x.upper(), x[0], x in "abc", x.value, x.name

    agree(f, Name.FIRST)
    agree(f, Name.LAST)


def test_membership_in_what_is_written_out():
    def numbers(x: Level):
        return x in (Level.LOW, Level.HIGH), x in [Level.LOW], x in [1, 2], 3 in [x], x not in (Level.NONE, 4)

    def plain(x: Color):
        return x in (Color.RED,), x in [Color.BLUE, Color.RED]

    for level in Level:
        agree(numbers, level)
    for color in Color:
        agree(plain, color)


def test_other_enums_are_no_numbers():
    def f(x: Color):
        return x + 1

    with pytest.raises(jitlite.CompileError):
        jitlite.script(f)


# -- one of several containers
Lists = Union[list[int], list[float]]


@pytest.mark.parametrize("xs", [[1, 2, 3], [1.5, 2.5], []])
def test_lists_of_one_of_several_types(xs):
    def lengths(x: Lists):
        return len(x), bool(x), 1 if x else 2, not x

    def loops(x: Lists):
        total = 0.0
        for i, e in enumerate(x):
            if isinstance(e, int):
                total += e * i
            else:
                total -= e
        return total, [e for e in x], x[1:]

    agree(lengths, xs)
    agree(loops, xs)
    if xs:
        agree(first_and_last, xs)


def first_and_last(x: Lists):
    return x[0], x[-1]


def test_containers_of_several_kinds():
    def lists_or_dicts(x: Union[list[int], dict[int, str]]):
        return x[0], len(x), 0 in x

    def lists_or_tuples(x: Union[list[int], tuple[int, int]]):
        return x[1], len(x)

    agree(lists_or_dicts, [0, 1])
    agree(lists_or_dicts, {0: "a"})
    agree(lists_or_tuples, [0, 1])
    agree(lists_or_tuples, (4, 5))


def test_a_list_that_grows_while_it_is_read():
    def f(x: Lists):
        n = 0
        for _ in x:
            n += 1
            if isinstance(x, list[int]) and n < 5:
                x.append(n)
        return n

    assert jitlite.script(f)([1, 2]) == 6


def test_what_may_have_no_length():
    def optional(x: Optional[list[int]]):
        return len(x)

    def anything(x: Any):
        return len(x)

    def number(x: int):
        return len(x)

    for f in (optional, anything, number):
        with pytest.raises(jitlite.CompileError):
            jitlite.script(f)
