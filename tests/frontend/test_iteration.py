"""Loops over what changes meanwhile, and blocks left to Python: results are eager's."""

import copy
from typing import Dict, List

import pytest
import torch

import jitlite
from jitlite.base import options
from jitlite.debug.outcome import observe

LIMIT = 5


def grows(n: int):
    xs = [1]
    total = 0
    for x in xs:
        total += x
        if len(xs) < n:
            xs.append(x + 1)
    return xs, total


def shrinks(xs: List[int]):
    out: List[int] = []
    for x in xs:
        if x % 2 == 0:
            xs.pop()
        out.append(x)
    return out


def grows_under_another_name(xs: List[int]):
    other = xs
    seen = 0
    for x in xs:
        seen += x
        if len(other) < 4:
            other.append(x)
    return seen


def zip_of_growing_lists(xs: List[int], ys: List[int]):
    out: List[int] = []
    for i, (x, y) in enumerate(zip(xs, ys)):
        if len(ys) < 6:
            ys.append(x)
        if i > 4:
            break
        out.append(x * y + i)
    return out, ys


def _extend(xs: List[int]) -> int:
    if len(xs) < 4:
        xs.append(len(xs))
    return len(xs)


def grows_in_a_callee(xs: List[int]):
    total = 0
    for x in xs:
        total += x + _extend(xs)
    return total


def range_of_a_growing_list(xs: List[int]):
    for i in range(len(xs)):
        xs.append(xs[i])
    for i, x in zip(range(len(xs)), [1, 2, 3]):
        xs.append(x)
    return xs


@pytest.mark.parametrize(
    "function, arguments",
    [
        (grows, (5,)),
        (shrinks, ([2, 4, 6, 8, 1],)),
        (shrinks, ([],)),
        (grows_under_another_name, ([3, 1],)),
        (zip_of_growing_lists, ([1, 2, 3, 4, 5, 6, 7, 8], [1, 2])),
        (grows_in_a_callee, ([1],)),
        (range_of_a_growing_list, ([1, 2],)),
    ],
)
def test_a_list_may_change_its_length_while_it_is_iterated(function, arguments):
    expected = copy.deepcopy(arguments)
    got = copy.deepcopy(arguments)
    assert jitlite.script(function)(*got) == function(*expected)
    assert got == expected


def test_a_list_of_constant_length_is_measured_once():
    def doubled(xs: List[int]):
        for i, x in enumerate(xs):
            xs[i] = 2 * x
        return xs

    assert str(jitlite.script(doubled).graph).count("aten::len") == 1


def test_a_block_may_be_left_to_python():
    def mixed(n: int):
        k = n + 1
        with torch.jit._IgnoreContextManager(k="inp:int", s="out:str", t="out:int"):
            try:
                s = ",".join(str(v) for v in {k} if v > 1)
            finally:
                t = LIMIT + k
        return s, t

    assert jitlite.script(mixed)(3) == ("4", 9)


def test_a_block_left_to_python_needs_directions():
    def wrong(n: int):
        with torch.jit._IgnoreContextManager(n="int"):
            pass
        return n

    with pytest.raises(jitlite.CompileError, match='"inp:T" or "out:T"'):
        jitlite.script(wrong)


def test_nesting_too_deep_is_an_error_of_the_program():
    chain = "".join(f"    if x == {i}:\n        return {i * 2}\n" for i in range(3000))
    with pytest.raises(jitlite.CompileError, match="nested too deeply"):
        jitlite.CompilationUnit(f"def f(x: int) -> int:\n{chain}    return -1\n").f(1)


# -- dicts that change meanwhile


def grow(d: Dict[int, int], key: int):
    for k in d:
        d[k + key] = 1
    return d


def shrink_items(d: Dict[int, int], key: int):
    for k, v in d.items():
        if k == key:
            d.pop(k)
    return d


def grow_by_value(d: Dict[int, int], key: int):
    for v in d.values():
        d[v + 10 * key] = v
    return d


def own_key(d: Dict[int, int], key: int):
    for k, v in d.items():
        d[k] = v + key
    return d


def leave_at_once(d: Dict[int, int], key: int):
    for k in d:
        if k == key:
            d.pop(k)
            break
    return d


def through_an_alias(d: Dict[int, int], key: int):
    e = [d][0]
    for i, k in enumerate(d.keys()):
        if i == key:
            e.clear()
    return d


def _drop(d: Dict[int, int], key: int):
    if key in d:
        del d[key]


def by_a_call(d: Dict[int, int], key: int):
    for k in d:
        _drop(d, key)
    return d


def of_a_list(d: Dict[int, int], key: int):
    for k in list(d.keys()):
        d[k + key] = 1
    return d


def with_another_dict(d: Dict[int, int], key: int):
    e: Dict[int, int] = {}
    for k in d:
        e[k + key] = 1
    return e


@pytest.mark.parametrize("tier", options.TIERS)
@pytest.mark.parametrize(
    "f",
    [grow, shrink_items, grow_by_value, own_key, leave_at_once, through_an_alias, by_a_call, of_a_list,
     with_another_dict],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_a_dict_that_changes_its_size_while_it_is_gone_through(f, tier):
    with options.override(tier=tier):
        scripted = jitlite.script(f)
        for key in (0, 1, 2, 9):
            for given in ({}, {1: 1}, {1: 1, 2: 2}, {0: 0, 1: 1, 2: 2}):
                ours, theirs = dict(given), dict(given)
                assert observe(scripted, [ours, key]).told == observe(f, [theirs, key]).told, (key, given)
