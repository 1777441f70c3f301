"""else of loops, break and continue in unrolled loops, format specifications: what they do in Python."""

from __future__ import annotations

from typing import Dict, List, Tuple

import pytest
import torch
from laws import observe
from torch import Tensor

import jitlite


def agree(function, *argument_lists):
    scripted = jitlite.script(function)
    outcomes = []
    for arguments in argument_lists:
        wanted, got = observe(function, list(arguments)), observe(scripted, list(arguments))
        assert repr(got.told) == repr(wanted.told)
        outcomes.append(wanted)
    return outcomes


def test_else_of_for_and_while():
    def first(xs: List[int], wanted: int) -> int:
        for i, x in enumerate(xs):
            if x == wanted:
                break
        else:
            return -1
        return i

    def smallest_divisor(n: int) -> int:
        k = 2
        while k * k <= n:
            if n % k == 0:
                break
            k += 1
        else:
            k = n
        return k

    def no_break(n: int) -> str:
        text = ""
        for _ in range(n):
            text += "."
        else:
            text += "!"
        return text

    agree(smallest_divisor, *[(n,) for n in range(30)])
    agree(no_break, (0,), (3,))
    agree(first, ([4, 5, 6], 5), ([4], 5), ([], 1))


def test_a_variable_that_the_breaks_and_the_else_define_is_there_behind():
    def f(xs: List[int]) -> Tuple[int, str]:
        for x in xs:
            found = x * 2
            if found > 6:
                how = "large"
                break
            if found < 0:
                how = "negative"
                break
        else:
            found, how = -1, "none"
        return found, how

    agree(f, ([1, 2, 5, 9],), ([1, -2, 5],), ([1, 2],), ([],))


def test_a_variable_that_one_break_lacks_may_be_unset():
    def f(xs: List[int]) -> int:
        for x in xs:
            if x > 3:
                break
            found = x
            if x < 0:
                break
        else:
            found = 0
        return found

    agree(f, ([1, 2],), ([1, 9],), ([1, -1],), ([],))
    with pytest.raises(UnboundLocalError, match="cannot access local variable 'found'"):
        jitlite.script(f)([9, 1])


def test_nested_loops_know_their_own_else():
    def f(n: int) -> int:
        count = 0
        for i in range(n):
            for j in range(4):
                if j == i:
                    break
                if j == 2:
                    continue
                count += 1
            else:
                count += 100
                if i == 6:
                    break
        else:
            count += 10000
        return count

    agree(f, *[(n,) for n in range(9)])


def test_leaving_from_the_else():
    def f(xs: List[int]) -> int:
        total = 0
        for n in xs:
            for i in range(n):
                total += i
                if i == 3:
                    break
            else:
                if n == 2:
                    continue
                if n == 1:
                    return -total
                total += 10
            total *= 2
        return total

    agree(f, ([3, 2, 5],), ([2, 2],), ([5, 1],), ([],))


def test_unrolled_loops():
    def f(x: Tensor, stop: int) -> Tuple[Tensor, int]:
        rounds = 0
        for step, factor in ((0, 1.5), (1, 2), (2, True), (3, x)):
            if step == stop:
                break
            if step == 1 and stop == 9:
                continue
            rounds += 1
            x = x * factor
        else:
            rounds = -rounds
        return x, rounds

    agree(f, *[(torch.ones(2), stop) for stop in (0, 1, 2, 3, 4, 9)])

    def without_jumps(x: Tensor) -> Tensor:
        for factor in (1, 2.5, x):
            last = factor
            x = x + last
        else:
            x = x * 10
        return x

    agree(without_jumps, (torch.ones(2),))


def test_unrolled_loops_inside_others():
    def f(n: int) -> int:
        total = 0
        for i in range(n):
            for pair in ((1, "a"), ("b", 2)):
                if i == 2:
                    break
                for small in (1, 2, 3):
                    if small == i:
                        continue
                    total += small
            else:
                total += 100
            if i == 5:
                break
        else:
            total += 1000
        return total

    agree(f, *[(n,) for n in range(8)])


def test_growing_lists_and_else():
    def f(xs: List[int]) -> int:
        for x in xs:
            if x < 3:
                xs.append(x + 1)
            if x == 5:
                break
        else:
            return len(xs)
        return -len(xs)

    agree(f, ([0],), ([0, 5],), ([5],))


def test_format_specifications():
    def f(x: float, n: int, s: str, d: Dict[str, int]) -> List[str]:
        return [
            f"{x:.3f} {n:>5} {s!r}", f"{n:05d}|{n:<6}|{n:^+7}|{n:x}|{n:#b}|{n:,}", f"{s:>{n}}|{s:*^9}|{x:{n}.{2}f}",
            f"{x=} {n=:3} {s!s:>4} {s!a}", f"{{{n}}} {x:%} {x:e} {x!r:>8}", f"{d} {[n, n]} {(n, s)!r:>12}",
        ]  # fmt: skip

    agree(f, (1.23456, 7, "añ", {"k": 1}), (-0.5, 12, "", {}), (1e20, 9, "'", {"a": -1}))


def test_a_wrong_format_specification_raises_as_in_python():
    def f(s: str) -> str:
        return f"{s:d}"

    assert [o.raised for o in agree(f, ("a",))] == ["ValueError"]


def test_parameters_by_keyword_and_by_position():
    def callee(a: int, b: int = 2, /, c: int = 3, *, d: int, e: int = 5) -> int:
        return a + 10 * b + 100 * c + 1000 * d + 10000 * e

    def f(n: int, *, k: int = 4) -> int:
        n //= 2
        return callee(n, d=1) + callee(n, k, d=2, c=+k) + callee(n, k, 0, e=-k, d=0)

    scripted = jitlite.script(f)
    assert scripted(9) == f(9)
    assert scripted(9, k=7) == f(9, k=7)
    with pytest.raises(RuntimeError, match="positional"):
        scripted(9, 7)
