"""`:=` in conditions and comprehensions sets what it sets in eager Python, and is known where it is set for certain."""

from __future__ import annotations

import itertools

import pytest
import torch
from accepted_python import Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

BOOLS = (True, False)
TWO_BOOLS = [[a, b, n] for a in BOOLS for b in BOOLS for n in (0, 1, -7)]
FIRST = ("a", "(x := n - 1)", "not a")
SECOND = ("b", "(y := n + 1)", "(b and (y := n * 2))", "(not b or (y := n) > 2)")


def condition_program(first: str, op: str, second: str) -> tuple[str, str, list[list[object]]]:
    """A program whose branches read what the condition sets there for certain."""
    condition = f"{first} {op} {second}"
    lines = [f"if {condition}:", "    r = 1", "else:", "    r = 2"]
    if "y" in condition:
        certain_where = {"and": [1], "or": [3]}[op]  # the positions of the lines of the branches
        if "(b and" in condition:
            certain_where = [1] if op == "and" else []
        if "(not b or" in condition:
            certain_where = [3] if op == "or" else []
        for at in certain_where:
            lines[at] += " + y * 10"
    return "a: bool, b: bool, n: int", "\n".join([*lines, "return r"]), TWO_BOOLS


CONDITIONS: Table = {
    f"{first} {op} {second}": condition_program(first, op, second)
    for first, op, second in itertools.product(FIRST, ("and", "or"), SECOND)
}

CERTAIN: Table = {
    "after a branch that leaves": (
        "a: bool, n: int",
        "if not a or (y := n + 1) < 2:\n    raise ValueError('x')\nreturn y",
        [[True, 3], [False, 5], [True, 0]],
    ),
    "assert": ("a: bool, n: int", "assert a and (y := n) > 0\nreturn y", [[True, 3], [False, 5], [True, 0]]),
    "ternary": ("a: bool, n: int", "return y if a and (y := n + 1) > 2 else 0", [[True, 3], [False, 5], [True, 0]]),
    "while": (
        "xs: List[int]",
        "r = 0\nwhile len(xs) > 0 and (y := xs.pop()) > 0:\n    r += y\nelse:\n    r = -r\nreturn r",
        [[[1, 2]], [[1, 0, 3]], [[]]],
    ),
    "while not": (
        "xs: List[int]", "r = 0\nwhile not (len(xs) == 0 or (y := xs.pop()) == 0):\n"
        "    if y == 7:\n        break\n    r += y\nreturn r",
        [[[1, 2]], [[1, 0, 3]], [[7, 1]], [[]]],
    ),
    "on both sides": (
        "a: bool, n: int",
        "r = 0\nif (a and (y := n)) or (y := n + 7):\n    r = 1\nreturn y, r",
        [[a, n] for a in BOOLS for n in (0, 1, -7)],
    ),
    "in two parts": (
        "a: bool, b: bool, n: int",
        "if (a and (y := n) > 0) or (b and (y := n + 7) > 0):\n    return y\nreturn -1",
        TWO_BOOLS,
    ),
    "in each operand": (
        "a: bool, n: int",
        "if (a and (y := n) > 0) and (z := str(y)):\n    return z, y\nreturn 'x', -1",
        [[True, 1], [False, 1], [True, 0]],
    ),
    "of another type the second time": (
        "a: bool, n: int",
        "if (a and (y := n) > 0) and (y := str(y)):\n    return y\nreturn 'x'",
        [[True, 1], [False, 1], [True, 0]],
    ),
    "of another type later": (
        "a: bool, n: int",
        "r = 0\nif a and (y := str(n)):\n    r = len(y)\nfor i in range(3):\n    y = i\n    r += y\nreturn r",
        [[True, 1], [False, 1]],
    ),
    "elif": (
        "a: bool, n: int",
        "if a and (y := n) > 3:\n    r = 1\nelif (y := n * 2) > 3:\n    r = 2\nelse:\n    r = 3\nreturn r, y",
        [[True, 9], [True, 2], [False, 1]],
    ),
    "refined": (
        "d: Dict[str, Optional[int]]",
        "if 'a' in d and (v := d['a']) is not None:\n    return v + 1\nif 'b' in d and (v := d['b']):\n"
        "    return v + 2\nreturn 0",
        [[{"a": 1}], [{}], [{"a": None}], [{"b": 3}]],
    ),
    "what was known of a variable that is set again": (
        "x: Optional[int], y: Optional[int]",
        "if x is not None and ((x := y) is None or x > 0):\n    return x is None\nreturn False",
        [[1, None], [None, 1], [1, 2]],
    ),
    "a tensor": (
        "x: Optional[Tensor], n: int",
        "if x is not None and (y := x + n).sum() > 0:\n    return y * 2\nreturn torch.zeros(1)",
        [[torch.ones(2), 1], [None, 1], [-torch.ones(2), 0]],
    ),
    "a nested function": (
        "a: bool, n: int",
        "def g(k: int):\n    if a and (y := k) > 3:\n        return y\n    return -k\nreturn g(n), g(n + 5)",
        [[True, 1], [False, 1]],
    ),
    "a comprehension's condition": (
        "xs: List[int], a: bool",
        "return [y for v in xs if a and (y := v * 2) > 2]",
        [[[1, 2], True], [[1, 2], False]],
    ),
    "any": (
        "xs: List[int], n: int",
        "if any((y := v) > n for v in xs):\n    return y\nreturn -1",
        [[[1, 5, 7], 3], [[], 5], [[1], 5]],
    ),
    "all": (
        "xs: List[int], n: int",
        "if not all((y := v) < n for v in xs):\n    return y\nreturn -1",
        [[[1, 5, 7], 3], [[], 5], [[1], 5]],
    ),
    "any with conditions": (
        "xs: List[List[int]]",
        "if any(y > 1 for r in xs for v in r if (y := v) != 3):\n    return y\nreturn 0",
        [[[[1, 3], [2]]], [[]], [[[3]]]],
    ),
    "any of a tuple": ("a: int", "if any((y := v) > 1 for v in (a, 2 * a)):\n    return y\nreturn 0", [[1], [2], [0]]),
    "any in an and": (
        "xs: List[int], b: bool",
        "if b and any((y := v) > 1 for v in xs):\n    return y\nreturn 0",
        [[[1, 3, 2], True], [[], True], [[3], False]],
    ),
}  # fmt: skip

ELEMENTS = {
    "list": "[(y := y + v) * 2 for v in xs]",
    "condition": "[v for v in xs if (y := y + v) > 2]",
    "dict": "{v: (y := y + v) for v in xs}",
    "key": "{(y := y + v): v for v in xs}",
    "sorted set": "sorted({(y := y + v) for v in xs})",
    "generator": "sum((y := y + v) for v in xs)",
    "nested": "[[(y := y + v * w) for v in xs] for w in xs]",
    "two loops": "[(y := y + v * w) for v in xs for w in xs if v != w]",
    "a name from outside": "[(y := y + k) for k in xs], k",
    "a tuple": "[(y := y + v) for v in (1, 2, 3)]",
}
AROUND = {
    "plain": "y, k = 5, 'k'\nz = {}\nreturn y, z, k",
    "loop": "y, k, n = 5, 'k', 0\nfor i in range(3):\n    z = {}\n    n += y\nreturn y, k, n",
    "branch": "y, k = 5, 'k'\nif len(xs) > 1:\n    z = {}\nreturn y, k",
    "condition": "y, k = 5, 'k'\nif len(str(({}))) > 3:\n    return y\nreturn -y",
}

COMPREHENSIONS: Table = {
    f"{element}, {around}": (
        "xs: List[int]", AROUND[around].replace("{}", ELEMENTS[element]), [[[1, 2, 3]], [[]], [[-4]]]
    )
    for element, around in itertools.product(ELEMENTS, AROUND)
} | {
    "may be None": (
        "xs: List[int], y: Optional[int]",
        "r = [(y := v) for v in xs]\nreturn r, y, y is None",
        [[[1], None], [[], None], [[], 3]],
    ),
    "raises": (
        "xs: List[int]",
        "y = 0\ntry:\n    z = [(y := 10 // v) for v in xs]\nexcept ZeroDivisionError:\n    return -y\n"
        "return y",
        [[[1, 2]], [[5, 0, 3]], [[]]],
    ),
    "of the comprehension": (
        "xs: List[List[int]]",
        "return [[(y := v) + y for v in r] for r in xs]",
        [[[[1, 2], [3]]], [[]]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_branch_knows_what_its_condition_has_set(name):
    check_case(CONDITIONS, name)


@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_set_for_certain_is_known(name):
    check_case(CERTAIN, name, {"raises": "try"})


@pytest.mark.parametrize("name", COMPREHENSIONS)
def test_a_comprehension_sets_variables_of_the_function(name):
    check_case(COMPREHENSIONS, name, {"raises": "try"} | {n: "set" for n in COMPREHENSIONS if "set" in n})


@pytest.mark.parametrize(
    "body",
    [
        "if a or (y := n):\n    return y",
        "if a and (y := n):\n    return 0\nreturn y",
        "if (a and (y := n)) or n > 2:\n    return y",
        "r = a and (y := n) > 2\nreturn y",
        "r = [(y := v) for v in [n]]\nreturn y",
    ],
)
def test_what_may_not_be_set_is_refused(body):
    function = compile_source(source_of("a: bool, n: int", f"{body}\nreturn 0"))["f"]
    with pytest.raises(CompileError, match="undefined value y|y is not defined") as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)


def test_a_variable_of_the_function_keeps_its_type():
    function = compile_source(source_of("xs: List[int]", "y = 'a'\nz = [(y := v) for v in xs]\nreturn y, z"))["f"]
    with pytest.raises(CompileError, match="previously had type str"):
        jitlite.script(function)
