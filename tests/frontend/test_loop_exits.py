"""Loops that are left, or go on, in the middle of their body: variables have what they have there, and its type.

A condition in front of a `break` tells nothing of the variable behind the loop, and what a condition sets with `:=`
each of its evaluations sets.
"""

# ruff: noqa: E501 - a case a line reads better

from __future__ import annotations

import itertools

import pytest
from accepted_python import Table, check_case

LOOPS = {"while": "while True:", "for": "for i in range(9):", "range": "for i in range(n, n + 3):"}
EXITS = {
    "break": ("y = narrowed(n)", "if y is None:\n    break\nn = y"),
    "break in else": ("y = narrowed(n)", "if y is not None:\n    n = y\nelse:\n    break"),
    "break in two": ("y = narrowed(n)", "if n < 4:\n    if y is None:\n        break\nif y is not None:\n    n = y"),
    "continue": ("n -= 1\nif n < -5:\n    break\ny = narrowed(n)", "if y is None:\n    continue\nn = y"),
    "of a union": ("u = 'a' if n < 2 else str(n)\ny = narrowed(n)", "if len(u) == 1 and y is None:\n    break\nn -= 2"),
    "in a try": ("y = narrowed(n)", "try:\n    if y is None:\n        break\n    n = y\nfinally:\n    n -= 1"),
    "in a with": ("y = narrowed(n)", "with torch.no_grad():\n    if y is None:\n        break\n    n = y"),
    "in an inner loop": ("y = narrowed(n)", "for j in range(2):\n    if y is None:\n        break\n    n = y\nif y is None:\n    break"),
}  # fmt: skip


def exit_program(loop: str, exit: str) -> tuple[str, str, list[list[int]]]:
    start, rest = EXITS[exit]
    inner = "\n".join(f"    {line}" for line in f"{start}\n{rest}".splitlines())
    body = f"y: Optional[int] = n\n{LOOPS[loop]}\n{inner}\nreturn y is None, y, n"
    head = "def narrowed(k: int) -> Optional[int]:\n    return None if k < 0 else k - 2\n"
    return "n: int", f"{head}{body}", [[7], [1], [-3]]


LEFT: Table = {f"{exit}, {loop}": exit_program(loop, exit) for loop, exit in itertools.product(LOOPS, EXITS)}

WALRUS: Table = {
    "no body": ("n: int", "while (n := n - 1) > 3:\n    pass\nreturn n", [[9], [2]]),
    "body": ("n: int", "k = 0\nwhile (n := n - 1) > 3:\n    k += n\nreturn n, k", [[9], [2]]),
    "continue": ("n: int", "k = 0\nwhile (n := n - 1) > 3:\n    if n == 5:\n        continue\n    k += n\nreturn n, k", [[9], [2]]),
    "break": ("n: int", "k = 0\nwhile (n := n - 1) > 3:\n    if n == 5:\n        break\n    k += n\nreturn n, k", [[9], [5], [2]]),
    "else": ("n: int", "while (n := n - 1) > 3:\n    if n == 5:\n        break\nelse:\n    n = n * 10\nreturn n", [[9], [5], [2]]),
    "else without break": ("n: int", "while (n := n - 1) > 3:\n    pass\nelse:\n    n = n * 10\nreturn n", [[9], [2]]),
    "return": ("n: int", "while (n := n - 1) > 3:\n    if n == 5:\n        return -n\nreturn n", [[9], [5], [2]]),
    "until None": (
        "xs: List[Optional[int]]",
        "y: Optional[int] = 0\ns = 0\nwhile (y := xs.pop(0)) is not None:\n    s += y\nreturn s, y is None, xs",
        [[[3, 4, None, 5]], [[None]], [[1]]],
    ),
    "two in one": (
        "n: int", "a, b = 0, 0\nwhile (a := n - 1) > 2 and (b := a * 2) > 6:\n    n -= 1\nreturn n, a, b", [[9], [2], [4]],
    ),
    "in a comprehension": ("xs: List[int]", "y, n = 0, 0\nwhile any((y := v) > n for v in xs):\n    n += 1\nreturn n, y", [[[1, 5, 2]], [[]]]),
    "nested": (
        "n: int", "k, m = 0, 0\nwhile (n := n - 1) > 0:\n    m = n\n    while (m := m - 1) > 0:\n        k += m\nreturn n, m, k", [[5], [0]],
    ),
    "raises": ("xs: List[int]", "s, y = 0, 0\nwhile (y := xs.pop()) > 0:\n    s += y\nreturn s", [[[0, 2, 3]], [[2, 3]]]),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_variables_keep_what_they_have_where_a_loop_is_left(name):
    check_case(LEFT, name, {name: "try"} if name.startswith("in a try") else None)


@pytest.mark.parametrize("name", WALRUS)
def test_each_evaluation_of_a_condition_sets_its_variables(name):
    check_case(WALRUS, name)
