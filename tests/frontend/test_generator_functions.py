"""Functions that yield: loops over their calls, and lists of them, mean what they mean in eager Python."""

from __future__ import annotations

import pytest
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite

HEAD = """
def doubled(n: int):
    for i in range(n):
        yield i * 2

def positive(xs: List[int], first=0):
    yield first
    for x in xs:
        if x > 0:
            yield x

def squares(n: int) -> Iterator[Tuple[int, int]]:
    i = 0
    while i < n:
        yield i, i * i
        i += 1

def flat(xs: List[List[int]]):
    for x in xs:
        yield from x

def told(n: int):
    for i in range(n):
        print("yields", i)
        yield i
    print("ends")

def by_outer_name(n):
    for i in range(n):
        yield i * len(NUMBERS)

def chunks(x, size=2):
    for i in range(0, x.shape[0], size):
        yield x[i : i + size]

def pairs(xs, ys):
    for x in xs:
        for y in ys:
            yield x, y

def raising(n: int):
    yield 1
    if n > 1:
        raise ValueError("too many")
    yield 2

def mixed():
    yield 1
    yield "a"

def applied(f, xs):
    for x in xs:
        yield f(x)

def early(n: int):
    for i in range(n):
        if i == 2:
            return
        yield i

def recursive(n: int):
    yield n
    yield from recursive(n - 1)

def with_own(n: int):
    def inner():
        yield n
    yield from inner()

def starred(*xs):
    for x in xs:
        yield x
"""

GENERATORS: Table = {
    "loops": (
        "n: int",
        "r = 0\nfor x in doubled(n):\n  r += x\nfor a, b in squares(n):\n  r += a * b\nreturn r",
        [[3], [0]],
    ),
    "lists": (
        "n: int, xs: List[int]",
        "return list(doubled(n)), sum(doubled(n)), max(positive(xs)), [x + 1 for x in positive(xs, first=9)], "
        "dict(squares(n)), {x: x for x in doubled(n)}, [x for x in doubled(n) if x > 1], "
        "sum(x * 2 for x in doubled(n))",
        [[3, [1, -2, 3]], [0, []]],
    ),
    "yield from": (
        "xs: List[List[int]]",
        "return list(flat(xs)), sum(flat(xs)), len(list(flat(xs)))",
        [[[[1], [2, 3]]], [[]]],
    ),
    "each when it is asked for": (
        "n: int",
        "for x in told(n):\n  print('takes', x)\nprint(list(told(n)))\nreturn 0",
        [[2], [0]],
    ),
    "what the loop changes is seen": (
        "n: int",
        "xs: List[int] = [1]\nfor x in positive(xs):\n  if len(xs) < n:\n    xs.append(x + 2)\nreturn xs",
        [[4]],
    ),
    "names are its own": (
        "n: int",
        "NUMBERS, i = 'abcdefg', 5\nr = 0\nfor x in by_outer_name(n):\n  r += x + i\nreturn r, NUMBERS, i",
        [[3]],
    ),
    "tensors": (
        "x: Tensor",
        "r = []\nfor c in chunks(x):\n  r.append(c.sum())\n"
        "return r, torch.cat(list(chunks(x, size=1))), [c + 1 for c in chunks(x, 3)]",
        [[T34]],
    ),
    "of several types": (
        "xs: List[int]",
        "r = ''\nfor x in mixed():\n  r += str(x)\nreturn r, dict(pairs(xs, [5]))",
        [[[3, 1]]],
    ),
    "functions": (
        "xs: List[int]",
        "return list(applied(lambda v: v + 1, xs)), max(applied(abs, xs)), ', '.join(applied(str, xs))",
        [[[3, -7]]],
    ),
    "within one another": (
        "n: int",
        "r = 0\nfor a in doubled(n):\n  for b in doubled(a):\n    r += b\nreturn r",
        [[4]],
    ),
    "raising": ("n: int", "r = 0\nfor x in raising(n):\n  r += x\n  print(x)\nreturn r", [[1], [2]]),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_functions_that_yield(name):
    check_case(GENERATORS, name, head=HEAD)


REFUSED = {
    "for x in doubled(n):\n    if x > 1:\n        break\nreturn n": "in a loop over a generator",
    "g = doubled(n)\nreturn list(g), list(g)": "gone through once only",
    "return [x for _, x in enumerate(doubled(n))]": "has no length",
    "return list(early(n))": "has a return",
    "return list(recursive(n))": "is needed for itself",
    "return list(with_own(n))": "a generator of its own",
    "return list(starred(n))": "starred parameter",
    "return list(doubled(n, n))": "the arguments do not fit",
    "return list(doubled())": "the arguments do not fit",
    "return list(applied(str, doubled(n)))": "gone through once only",
    "return doubled(n)": "gone through once only",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_refused(body):
    with pytest.raises(jitlite.CompileError, match=REFUSED[body]) as raised:
        jitlite.script(compile_source(source_of("n: int", body, HEAD))["f"])
    assert "HERE" in str(raised.value)


def test_a_generator_is_not_compiled_by_itself():
    with pytest.raises(jitlite.CompileError, match="yield expressions aren't supported"):
        jitlite.script(compile_source(source_of("n: int", "return n", HEAD))["doubled"])
