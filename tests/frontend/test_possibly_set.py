"""Variables that only the body of a loop sets have a value behind it where the body ran, as in Python."""

from __future__ import annotations

import pytest
import torch
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

K = "\nK = 7\n"

LOOPS: Table = {
    "a list": ("xs: List[int]", "for x in xs:\n y = x * 2\nreturn x, y", [[[1, 2]], [[]]]),
    "a range": ("n: int", "t = 0\nfor i in range(n):\n t += i\nreturn t + i", [[3], [0]]),
    "a range that is known": ("n: int", "for i in range(3):\n y = i * n\nreturn y, i", [[2]]),
    "several targets": (
        "xs: List[int], ys: List[str]",
        "for i, (a, b) in enumerate(zip(xs, ys)):\n c = a * 2\nreturn i, a, b, c",
        [[[1, 2], ["a", "b"]], [[], []]],
    ),
    "a dict": ("d: Dict[str, int]", "for k, v in d.items():\n t = (k, v)\nreturn t, k", [[{"a": 1}], [{}]]),
    "a tensor": ("x: Tensor", "for row in x:\n pass\nreturn row", [[T34], [torch.ones(0)]]),
    "while": ("n: int", "while n > 0:\n y = n\n if n == 2:\n  break\n n -= 1\nreturn y", [[3], [1], [0]]),
    "else": (
        "xs: List[int]",
        "for x in xs:\n if x == 5:\n  break\nelse:\n x = x + 10\nreturn x",
        [[[1, 2]], [[5]], [[]]],
    ),
    "else that returns": (
        "xs: List[int]",
        "for i, x in enumerate(xs):\n if x == 5:\n  found = i\n  break\n"
        "else:\n return i + 100, 0, 0\nreturn found, i, x",
        [[[1, 5, 2]], [[]], [[1]]],
    ),
    "continue": ("xs: List[int]", "for x in xs:\n if x == 2:\n  continue\n y = x\nreturn y", [[[1, 2]], [[2]]]),
    "loops in loops": (
        "xs: List[List[int]]",
        "for x in xs:\n for y in x:\n  z = y\nreturn y + z",
        [[[[1], [2, 3]]], [[[], []]], [[]], [[[1], []]]],
    ),
    "what an earlier iteration set": (
        "n: int, xs: List[int]",
        "t = 0\nfor i in range(n):\n for x in xs[i:]:\n  pass\n t += x\nreturn t, i",
        [[3, [1]], [3, []], [0, []], [2, [4, 5]]],
    ),
    "what an earlier iteration set, and a variable of another type": (
        "n: int, xs: List[int]",
        "t = 0\nfor i in range(n):\n for x in xs[i:]:\n  pass\n t += x\nx = 'a'\nreturn t, x",
        [[3, [1]], [3, []], [0, []], [2, [4, 5]]],
    ),
    "the variable again": (
        "xs: List[int]",
        "for x in xs:\n pass\na = x\nfor x in xs:\n a += x\nx += 1\nreturn a, x",
        [[[1, 5, 2]], [[]]],
    ),
    "a branch": (
        "xs: List[int], c: bool",
        "for x in xs:\n pass\nif c:\n x = 5\nreturn x",
        [[[1], True], [[], True], [[], False]],
    ),
    "read in a branch": (
        "xs: List[int], c: bool",
        "for x in xs:\n pass\nreturn x if c else 5",
        [[[1], True], [[], True], [[], False]],
    ),
    "narrowed": (
        "xs: List[Optional[int]]",
        "for x in xs:\n if x is None:\n  break\nreturn x",
        [[[1, 2]], [[None]], [[]]],
    ),
    "added to": ("xs: List[int]", "for x in xs:\n y = 1\ny += 1\nreturn y", [[[3]], [[]]]),
    "named in the elements of any": (
        "xs: List[int], a: bool",
        "if any((y := x) > 1 for x in xs) or a:\n return y\nreturn 0",
        [[[1, 2], False], [[1], True], [[], True], [[1], False]],
    ),
    "caught": (
        "xs: List[int]",
        "try:\n for x in xs:\n  pass\n y = x\nexcept UnboundLocalError:\n y = -1\nreturn y",
        [[[3]], [[]]],
    ),
    "deleted": ("xs: List[int]", "for x in xs:\n pass\ndel x\nreturn 1", [[[3]], [[]]]),
    "the name of a global, and of a builtin": ("xs: List[int]", "for K in xs:\n sum = K\nreturn K, sum", [[[3]], [[]]]),
    "variables of comprehensions": (
        "xs: List[int]",
        "ys = [x for x in ['a', 'b']]\nfor x in xs:\n pass\nzs = [x for x in [9, 8]]\n"
        "return ys, zs, x, [x for x in ['c']]",
        [[[3]], [[]]],
    ),
    "variables of functions": (
        "xs: List[int]",
        "def g(ys: List[int]):\n for x in ys:\n  pass\n return x\nx = 'a'\nreturn g(xs), x",
        [[[3]], [[]]],
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_loop_sets_is_known_behind_it(name):
    check_case(LOOPS, name, {"caught": "has no"}, K)


@pytest.mark.parametrize(
    "body",
    [
        "for x in ys:\n pass\nfor x in xs:\n pass\nreturn x",
        "for x in xs:\n pass\nif len(xs) > 3:\n x = 'a'\nreturn x",
        "for x in xs:\n pass\nx = 1\ndel x\nreturn x",
        "for x in xs:\n pass\nreturn z",
    ],
)
def test_a_variable_that_may_be_of_two_types_or_is_deleted_stays_unknown(body):
    function = compile_source(source_of("xs: List[int], ys: List[str]", body))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
