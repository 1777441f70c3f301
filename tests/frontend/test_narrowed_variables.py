"""A variable may be given again whatever it is declared to hold, also where a condition before says more of it."""

# ruff: noqa: E501 - a case a line reads better

from __future__ import annotations

import itertools

import pytest
from accepted_python import Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

NARROWED = {
    "guard": "if n is None:\n    return 'none', k",
    "assert": "assert n is not None",
    "given": "if n is None:\n    n = 4",
    "value": "n = k + 1",
    "or": "n = n or 3",
    "class": "if not isinstance(n, int):\n    return 'none', k",
}
STATEMENTS = {
    "if": "if n > k:\n    n = None",
    "else": "if n > k:\n    k += n\nelse:\n    n = None",
    "both": "if n > k:\n    n = None\nelse:\n    n = later(n)",
    "nested if": "if n > 1:\n    if k > 2:\n        n = None\n    else:\n        n += 1",
    "while": "while n is not None:\n    k += n\n    n = later(n)",
    "while and": "while n is not None and n > 1:\n    k += n\n    n = later(n)",
    "while not": "n = None\nwhile n is None:\n    n = later(k)\n    k += 1\nk += n",
    "while :=": "while (n := later(k)) is None:\n    k += 1\nk += n",
    "for": "for i in range(3):\n    n = i if n is None else later(n)",
    "for, break": "for i in range(k):\n    k += n\n    if k > 9:\n        n = None\n        break",
    "for, continue": "for i in range(k):\n    if n is None:\n        n = k\n        continue\n    n = later(n)",
    "for, both": "for i in range(k):\n    n = later(k)\n    if n is None:\n        break\n    k += n\n    if k % 2 == 0:\n        n = None\n        break",
    "for, else": "for i in range(k):\n    n += 1\n    if n > 7:\n        n = None\n        break\nelse:\n    n = 5 if n is None else n + 5",
    "two loops": "for i in range(3):\n    while n is not None:\n        k += n\n        n = later(n)\n    n = i",
    "loop in a branch": "if k > 2:\n    for i in range(3):\n        n = None if i == k else i\n        if n is None:\n            break",
    "branch in a loop": "for i in range(3):\n    if n is not None:\n        k += n\n    if k > 3:\n        n = later(i)",
    "list": "for i in [k, 7]:\n    n = later(i)\n    if n is not None:\n        k += n",
    "tuple": "for i in (k, 7):\n    n = later(i)",
    "try": "try:\n    n = later(n)\n    k = k // (k - 3)\nexcept ZeroDivisionError:\n    k = 50 if n is None else n",
    "try, twice": "try:\n    n = 5\n    n = later(k)\n    k = k // (k - 3)\nexcept ZeroDivisionError:\n    k = 50 if n is None else n",
    "try, branch": "try:\n    n = 5\n    if k > 2:\n        n = None\n    k = k // (k - 3)\nexcept ZeroDivisionError:\n    k = 50 if n is None else n",
    "loop, twice": "for i in range(k):\n    if n is not None:\n        k += n\n    n = 5\n    if i == 1:\n        n = None",
    "tuple, break": "for i in (k, 4):\n    n = 5\n    if i == 4:\n        break\n    k += n",
    "try, else": "try:\n    n = later(n)\n    k = k // (k - 3)\nexcept ZeroDivisionError:\n    n = 8\nelse:\n    k += 1 if n is None else n",
    "handler": "try:\n    k = k // (k - 3)\nexcept ZeroDivisionError:\n    n = None",
    "finally": "try:\n    n = later(n)\n    k = k // (k - 3)\nfinally:\n    k += 1 if n is None else n",
    "try in a loop": "for i in range(3):\n    try:\n        n = later(k)\n        k = k // (k - 3)\n    except ZeroDivisionError:\n        k = 9\n    if n is None:\n        continue\n    k += n",
    "loop in a try": "try:\n    for i in range(3):\n        n = later(i)\n        k = k // (k - i)\nexcept ZeroDivisionError:\n    k = 9",
    "finally with a break": "for i in range(3):\n    try:\n        n = later(i)\n        if n is None:\n            break\n    finally:\n        k += 1 if n is None else n",
    "with": "with torch.no_grad():\n    k += n\n    n = later(n)",
    "comprehension": "xs = [n + i for i in range(2)]\nn = None\nk += sum(xs)",
}  # fmt: skip
RAISES = {
    "try",
    "try, twice",
    "try, branch",
    "finally",
    "loop in a try",
    "try in a loop",
    "try, else",
    "handler",
    "finally with a break",
}

HEAD = "def later(i: int) -> Optional[int]:\n    return None if i % 3 == 2 else i + 1\n"


def program(narrowed: str, statement: str) -> tuple[str, str, list[list[int | None]]]:
    body = f"{HEAD}{NARROWED[narrowed]}\n{STATEMENTS[statement]}\nreturn ('none' if n is None else str(n + 1)), k"
    return "n: Optional[int], k: int", body, [[n, k] for n in (None, 0, 2, 4) for k in (1, 3, 4, 11)]


OPTIONAL: Table = {f"{how}, {what}": program(how, what) for how, what in itertools.product(NARROWED, STATEMENTS)}

UNIONS: Table = {
    "union": ("u: Union[int, str], k: int", "assert isinstance(u, int)\nfor i in range(k):\n    if isinstance(u, int):\n        u = str(u + i)\n    else:\n        u = len(u)\nreturn u", [[5, 0], [5, 1], [5, 2]]),
    "union, branch": ("u: Union[int, str], k: int", "if isinstance(u, str):\n    return 'str'\nif k > 1:\n    u = str(u)\nreturn u", [[5, 0], [5, 2], ["a", 1]]),
    "union, break": ("u: Union[int, str], k: int", "assert isinstance(u, int)\nwhile True:\n    u += 1\n    if u > k:\n        u = str(u)\n        break\nreturn u", [[5, 0], [5, 9]]),
    "list": ("k: int", "x: Optional[List[int]] = [1]\nassert x is not None\nfor i in range(k):\n    x.append(i)\n    if i == 2:\n        x = None\n        break\nreturn x", [[2], [5]]),
    "first value": ("k: int", "def found(i: int) -> Optional[int]:\n    return i if i > 2 else None\nn = found(k)\nif n is None:\n    return -1\nfor i in range(k):\n    if n is not None:\n        n = found(n - 1)\nreturn n", [[2], [3], [9]]),
    "attribute of a narrowed object": ("k: int", "n: Optional[int] = None\nr = 0\nfor i in range(k):\n    if n is None:\n        n = i\n    r += n\n    if r > 4:\n        n = None\nreturn r, n", [[0], [3], [9]]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_variable_keeps_its_declared_type(name):
    check_case(OPTIONAL, name, {name: "try"} if RAISES & {name.split(", ", 1)[1]} else None)


@pytest.mark.parametrize("name", UNIONS)
def test_declared_types_of_other_kinds(name):
    check_case(UNIONS, name)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("assert n is not None\nfor i in range(2):\n    k = n + 1\n    n = None", "Optional[int]"),
        ("assert n is not None\nwhile k > 0:\n    k = k - n\n    if k == 5:\n        n = None\n        continue", "Optional[int]"),
        ("assert n is not None\ntry:\n    n = None\nexcept ValueError:\n    k = n + 1", "Optional[int]"),
        ("assert n is not None\ntry:\n    n = 4\n    n = None\nexcept ValueError:\n    k = n + 1", "Optional[int]"),
        ("assert n is not None\nfor i in (1, 2):\n    n = 5\n    n = None\n    if i == k:\n        break", "previously had type int"),
        ("k = 5\nfor i in range(2):\n    k = 'a'", "previously had type int"),
        ("if n is None:\n    return 1\nfor i in range(2):\n    n = 'a'", "previously had type int"),
    ],
    ids=["loop", "continue", "handler", "handler of two", "rounds", "declared", "declared otherwise"],
)  # fmt: skip
def test_what_a_variable_may_hold_is_told(body, told):
    """Where the loop starts again, or the try was left, the condition before it says nothing any more."""
    function = compile_source(source_of("n: Optional[int], k: int", f"{body}\nreturn 1"))["f"]
    with pytest.raises(CompileError, match=told.replace("[", r"\[")):
        jitlite.script(function)
