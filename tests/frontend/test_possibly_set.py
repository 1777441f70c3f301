"""Variables that only some ways set have a value where one of these was taken, as in Python."""

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


BRANCHES: Table = {
    "one branch": ("n: int", "if n > 1:\n y = n\nreturn y", [[1], [2]]),
    "read in a branch": ("n: int", "if n > 1:\n y = n * 2\nz = 3\nif n > 1:\n z = y + 1\nreturn z", [[1], [2]]),
    "a tensor": (
        "x: Tensor, c: bool",
        "if c:\n y = x * 2\nout = x + 1\nif c:\n out = out + y\nreturn out",
        [[T34, True], [T34, False]],
    ),
    "elif": ("n: int", "if n > 2:\n y = 'a'\nelif n > 1:\n y = 'b'\nreturn y", [[1], [2], [3]]),
    "two tests": ("n: int", "if n > 1:\n y = n\nif n <= 1:\n y = -n\nreturn y", [[1], [2]]),
    "two tests, one of None": ("n: int", "if n > 1:\n y = n\nif n < 1:\n y = None\nreturn y", [[0], [1], [2]]),
    "while": ("n: int", "while n > 0:\n if n == 2:\n  found = n\n n -= 1\nreturn found", [[1], [3]]),
    "break and continue": (
        "n: int",
        "for i in range(n):\n if i == 2:\n  y = i\n  break\n else:\n  z = i\n  continue\nreturn y, z",
        [[1], [4], [0]],
    ),
    "continue keeps what there was": (
        "n: int",
        "for i in range(n):\n if i == 1:\n  continue\n else:\n  y = i\nreturn y",
        [[0], [1], [2], [3]],
    ),
    "added to": ("n: int", "if n > 1:\n y = 3\ny += n\nreturn y", [[1], [2]]),
    "named in a condition": ("n: int", "if n > 1 and (m := n * 2) > 5:\n pass\nreturn m", [[1], [2]]),
    "match": ("n: int", "match n:\n case 1:\n  y = 1\n case 2:\n  y = 2\nreturn y", [[0], [1], [2]]),
    "with": ("x: Tensor, c: bool", "with torch.no_grad():\n if c:\n  y = x * 2\nreturn y", [[T34, True], [T34, False]]),
    "a loop over a tuple": ("n: int", "for k in (1, 'a'):\n if n > 0:\n  m = n\nreturn m", [[0], [1]]),
    "annotated": ("n: int", "if n > 0:\n z: Optional[int] = None\nif n > 1:\n z = n\nreturn z", [[0], [1], [2]]),
    "narrowed": (
        "n: int, y: Optional[int]",
        "if y is not None:\n z = y\nif n > 0:\n return z + 1\nreturn 0",
        [[1, 1], [1, None], [0, None]],
    ),
    "a builtin's name": ("n: int", "if n > 1:\n max = n\nreturn max", [[1], [4]]),
    "variables of comprehensions": (
        "n: int",
        "if n > 1:\n y = n\nzs = [y for y in ['a', 'b']]\nreturn y, zs",
        [[1], [4]],
    ),
    "read by a function": ("n: int", "if n > 1:\n y = n\ndef g():\n return y\nreturn g() if n > 1 else 0", [[1], [2]]),
    "deleted in a branch": ("n: int", "y = 1\nif n > 1:\n del y\nelse:\n y = 2\nreturn y", [[1], [2]]),
    "deleted, and set again": (
        "n: int",
        "for i in range(n):\n y = i\nif n > 5:\n return 0\ndel y\nfor i in range(n - 2):\n y = i\nreturn y",
        [[0], [1], [4], [6]],
    ),
    "deleted by an earlier iteration": (
        "n: int",
        "y = 1\nt = 0\nfor i in range(n):\n t += y\n del y\nreturn t",
        [[0], [1], [2]],
    ),
    "the body of a try": (
        "n: int, xs: List[int]",
        "try:\n y = xs[n]\nexcept IndexError:\n pass\nreturn y",
        [[0, [1]], [1, [1]]],
    ),
    "read by a handler": (
        "n: int, xs: List[int]",
        "try:\n v = xs[n]\n w = xs[n + 1]\nexcept IndexError:\n return v\nreturn v + w",
        [[0, [1]], [0, []], [0, [1, 2]]],
    ),
    "read by a finally": (
        "n: int, xs: List[int]",
        "try:\n v = xs[n]\nfinally:\n if n < 1:\n  print(v)\nreturn v",
        [[0, [1]], [0, []], [3, []], [1, [1, 2]]],
    ),
    "a handler": ("n: int, xs: List[int]", "try:\n xs[n]\nexcept IndexError:\n y = 1\nreturn y", [[0, [1]], [1, [1]]]),
    "else of a try": (
        "n: int, xs: List[int]",
        "try:\n v = xs[n]\nexcept IndexError:\n pass\nelse:\n w = v\nreturn w",
        [[0, [1]], [0, []]],
    ),
}

TRIES = dict.fromkeys(
    ("the body of a try", "read by a handler", "read by a finally", "a handler", "else of a try"), "has no try"
)

CARRIED: Table = {
    "an int": ("n: int", "for i in range(n):\n if i > 0:\n  r = prev + i\n prev = i\nreturn r", [[0], [1], [3]]),
    "its own start": (
        "n: int",
        "for i in range(n):\n if i == 0:\n  y = i + 10\n else:\n  y += 1\nreturn y",
        [[0], [1], [3]],
    ),
    "a tensor": (
        "x: Tensor",
        "for i in range(len(x)):\n if i > 0:\n  h = h * 2 + x[i]\n else:\n  h = x[i]\nreturn h",
        [[T34], [torch.ones(0)]],
    ),
    "a list": (
        "n: int",
        "for i in range(n):\n if i > 0:\n  xs.append(i)\n  t = xs[0] + len(xs)\n else:\n  xs = [i]\n"
        "  t = 0\nreturn xs, t",
        [[3], [0]],
    ),
    "a text": (
        "n: int",
        "for i in range(n):\n if i > 0:\n  a = prev.upper() + 'b'\n prev = str(i) + 'a'\nreturn a",
        [[3], [1]],
    ),
    "loops in loops": (
        "n: int",
        "for i in range(n):\n for j in range(n):\n  if i > 0 or j > 0:\n   t = last + j\n  last = i + j\n"
        "return t, last",
        [[3], [1]],
    ),
    "while": ("n: int", "k = 0\nwhile k < n:\n if k > 0:\n  r = old * 2\n old = k\n k += 1\nreturn r", [[3], [1]]),
    "continue": (
        "n: int",
        "for i in range(n):\n if i == 1:\n  continue\n if i > 1:\n  r = old * 2\n old = i\nreturn r",
        [[3], [1]],
    ),
    "without a start": ("n: int", "for i in range(n):\n t += i\nreturn t", [[3], [0]]),
    "deleted": (
        "n: int",
        "for i in range(n):\n if i > 1:\n  r = old * 2\n old = i\n if i == n - 2:\n  del old\nreturn r",
        [[1], [2], [3], [4]],
    ),
    "a handler": (
        "n: int, xs: List[int]",
        "for i in range(n):\n try:\n  v = xs[i]\n except IndexError:\n  v = v + 10\nreturn v",
        [[3, [1]], [3, []], [0, []]],
    ),
}


N = [[k] for k in range(5)]
OPTIONAL = "if n > 1:\n x: Optional[int] = n if n > 2 else None\n"
NARROWED: Table = {
    "a return": ("n: int", f"{OPTIONAL}if x is None:\n return 0\nreturn x + 1", N),
    "a return of itself": ("n: int", f"{OPTIONAL}if x is None:\n return 0\ny = x\nreturn y", N),
    "a return in an else": ("n: int", f"{OPTIONAL}if x is not None:\n pass\nelse:\n return 0\nreturn x", N),
    "a raise": ("n: int", f"{OPTIONAL}if x is None:\n raise ValueError('q')\nreturn x", N),
    "an assertion": ("n: int", f"{OPTIONAL}assert x is not None\nreturn x", N),
    "continue": (
        "n: int",
        "t = 0\nfor i in range(n):\n if i > 0:\n  x: Optional[int] = i if i > 2 else None\n"
        " if i == 0 or x is None:\n  continue\n t += x\nreturn t",
        N,
    ),
    "break": (
        "n: int",
        "t = 0\nfor i in range(n):\n if i > 0:\n  x: Optional[int] = i if i < 3 else None\n"
        " if i > 0:\n  if x is None:\n   break\n  t += x\nreturn t",
        N,
    ),
    "a loop": (
        "n: int",
        "for i in range(n):\n if i > 0:\n  x: Optional[int] = i if i > 1 else None\nif x is None:\n return 0\nreturn x",
        N,
    ),
    "a list": (
        "n: int",
        "if n > 1:\n x: Optional[List[int]] = [n] if n > 2 else None\n"
        "if x is None:\n return [0]\nx.append(4)\nreturn x",
        N,
    ),
    "a tensor": (
        "n: int",
        "if n > 1:\n x: Optional[Tensor] = torch.ones(n) if n > 2 else None\nif x is None:\n return torch.zeros(1)\n"
        "return x",
        N,
    ),
    "a union": (
        "n: int",
        "if n > 1:\n x: Union[int, str] = 'a'\n if n > 2:\n  x = n\nif isinstance(x, str):\n return 0\nreturn x",
        N,
    ),
}
"""Variables that need not be set, of which a branch that leaves says the type behind it."""


@pytest.mark.parametrize("name", BRANCHES)
def test_what_one_branch_sets_is_known_behind_it(name):
    check_case(BRANCHES, name, TRIES)


@pytest.mark.parametrize("name", CARRIED)
def test_what_an_earlier_iteration_sets_is_known_before_the_line_that_sets_it(name):
    check_case(CARRIED, name, TRIES)


@pytest.mark.parametrize("name", NARROWED)
def test_the_type_that_a_branch_which_leaves_tells_holds_behind_it(name):
    check_case(NARROWED, name, TRIES)


def test_what_is_never_read_costs_nothing():
    function = compile_source(source_of("n: int", "if n > 1:\n y = n\n del y\nreturn n"))["f"]
    assert "Uninitialized" not in str(jitlite.script(function).graph)


@pytest.mark.parametrize(
    "body",
    [
        "if ys:\n x = 1\nif xs:\n x = 'a'\nreturn x",
        "if ys:\n x = 1\nelse:\n x = 'a'\nreturn x",
        "f = len\nif ys:\n f = 1\nreturn f",
        "if ys:\n f = len\nif xs:\n f = 1\nreturn f",
        "e = 5\ntry:\n x = xs[0]\nexcept IndexError as e:\n pass\nif ys:\n e = 1\nreturn e",
        "if ys:\n f = len\nreturn f(xs)",
        "for x in xs:\n y = z + x\nz = 1\nreturn y",
        "for x in xs:\n y = z.no_such\n z = x\nreturn y",
    ],
)
def test_a_variable_that_may_be_something_else_stays_unknown(body):
    function = compile_source(source_of("xs: List[int], ys: List[str]", body))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert caught.value.code == "J0102" and caught.value.hint and "HERE" in str(caught.value)


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
