"""Functions and ranges that are results, depend on conditions, or are in containers, as eager Python has them."""

from __future__ import annotations

import pytest
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

BOTH = [[T34, True, 2], [T34, False, 3]]

RETURNED: Table = {
    "a closure": ("x: Tensor", "g, h = maker(3), maker(2.5)\nreturn g(x), h(x), maker(4)(x)", [[T34]]),
    "a closure of values": (
        "x: Tensor, k: int",
        "def make(k):\n m = k + 1\n def g(v):\n  return v * k + m\n return g\nh = make(k)\nk = 70\nm = 80\n"
        "return h(x), make(k)(x)",
        [[T34, 2]],
    ),
    "a function that a constant chooses": ("x: Tensor", "return activation('relu')(x), activation('sin')(x)", [[T34]]),
    "a function that a value chooses": (
        "x: Tensor, name: str",
        "f = activation(name)\nreturn f(x), f(x - 5)",
        [[T34, "relu"], [T34, "sin"], [T34, "tan"]],
    ),
    "one of several closures": (
        "x: Tensor, up: bool, n: int",
        "a, b = either(up, n), either(not up, n + 1)\nreturn a(x), b(x), either(up, 5)(x)",
        BOTH,
    ),
    "from a loop": ("x: Tensor, n: int", "return found_in_loop(n)(x)", [[T34, 2], [T34, 30]]),
    "closures of closures": ("x: Tensor", "return outer(2)(3)(x), outer(4)(5)(x), twice(twice(inc))(x)", [[T34]]),
    "compositions": (
        "x: Tensor",
        "return composed(torch.relu, inc, torch.sin)(x), composed()(x), twice(torch.sum)(x, dim=0)",
        [[T34]],
    ),
    "tuples with functions": (
        "x: Tensor, n: int",
        "f, g, m = several(n)\nreturn f(x), g(x), m, several(n)[1](x)",
        [[T34, 3]],
    ),
    "partials and methods": (
        "x: Tensor, n: int",
        "return bound(x, n)(x), parts(n)(x), parts(2.5)(x)",
        [[T34, 3]],
    ),
    "a function made in a loop": (
        "x: Tensor, n: int",
        "f = maker(n)\nfor i in range(n):\n x = f(x)\n if i == 1:\n  x = maker(i)(x)\nreturn x",
        [[T34, 3]],
    ),
    "a range": ("n: int", "r = steps(n)\nreturn [i for i in r], len(r), sum(steps(n))", [[4], [0], [-3]]),
}

CHOSEN: Table = {
    "by an expression": (
        "x: Tensor, c: bool, n: int",
        "f = (lambda v, k=n: v + k) if c else (lambda v: v * n)\ng = torch.relu if c else torch.sin\nn = 9\n"
        "return f(x), g(x)",
        BOTH,
    ),
    "by branches": (
        "x: Tensor, c: bool, n: int",
        "if c:\n k = 3\n g = lambda v: v * k\nelse:\n z = 2.5\n g = x.add\n x = x + 1\n"
        "return g(x), [g(x) for _ in range(2)], list(map(g, [x, x]))",
        BOTH,
    ),
    "with values": (
        "x: Tensor, c: bool, n: int",
        "if c:\n f, g, n = torch.relu, inc, 1\nelse:\n f, g, n = torch.sin, dec, 2\nreturn f(g(x)) * n",
        BOTH,
    ),
    "anew in branches": (
        "x: Tensor, n: int",
        "f = torch.relu\nif n == 1:\n f = torch.sin\nelif n == 2:\n f = lambda v: v + n\nn = 7\nreturn f(x)",
        [[T34, 0], [T34, 1], [T34, 2]],
    ),
    "where a branch raises": (
        "x: Tensor, name: str",
        "if name == 'a':\n k = 3\n def g(v):\n  return v * k\nelif name == 'b':\n"
        " g = functools.partial(torch.sum, dim=0)\nelse:\n raise ValueError(name)\nreturn g(x)",
        [[T34, "a"], [T34, "b"], [T34, "c"]],
    ),
    "by truth": (
        "x: Tensor, c: bool, n: int",
        "f = torch.relu if c else inc\nif f:\n x = f(x)\ng = None or f\nh = f and dec\n"
        "return x, g(x), h(x), f is not None, callable(f)",
        BOTH,
    ),
    "by or, as a default": ("x: Tensor", "return defaulted(x), defaulted(x, torch.sin)", [[T34]]),
    "ranges": (
        "n: int, c: bool",
        "r = range(n) if c else range(n, 0, -1)\nif n > 3:\n s = range(2)\nelse:\n s = range(n, 9)\n"
        "return list(r), len(r), 2 in r, r[0], list(s), [i for i in s]",
        [[4, True], [3, False]],
    ),
}

CONTAINERS: Table = {
    "a global dict": (
        "x: Tensor, name: str",
        "if name not in TABLE_OF_FUNCTIONS:\n raise ValueError(f'{name}: not in {list(TABLE_OF_FUNCTIONS)}')\n"
        "return TABLE_OF_FUNCTIONS[name](x)",
        [[T34, "inc"], [T34, "sum"], [T34, "none"]],
    ),
    "a missing key": ("x: Tensor, name: str", "return TABLE_OF_FUNCTIONS[name](x)", [[T34, "sum"], [T34, "none"]]),
    "displays": (
        "x: Tensor, name: str, i: int",
        "d = {'a': torch.relu, 'b': lambda v: v + i}\nfs = [torch.sin, lambda v: v * i]\nt = (torch.sin, inc)\n"
        "if name not in d:\n return x, 0, [x]\nreturn d[name](x) + fs[i](x) + t[i](x), len(fs), [f(x) for f in fs]",
        [[T34, "a", 0], [T34, "b", -1]],
    ),
    "what makes them runs once": (
        "x: Tensor",
        "log: List[int] = []\ndef make(k):\n log.append(k)\n return lambda v: v * k\n"
        "d = {'a': make(2), 'b': make(3)}\nfs = [make(4), d['a']]\nreturn d['b'](x), fs[0](x), fs[1](x), log",
        [[T34]],
    ),
}

RANGES: Table = {
    "as values": (
        "n: int",
        "r, s = range(n), range(1, n, 2)\nt = 0\nfor i in r:\n t += i\nfor i in s:\n t += i\n"
        "return len(r), t, list(r), 2 in r, 2.0 in r, 2.5 in s, True in s, n in r, 'a' in r, list(s), len(s), sum(r), "
        "list(reversed(r)), 1 if r else 0",
        [[0], [3], [7], [-2]],
    ),
    "indices": (
        "n: int, i: int",
        "r = range(2, n, 2)\nreturn r[i], r.start, r.stop, r.step",
        [[9, 0], [9, -1], [9, -4], [9, 4], [9, -5], [2, 0]],
    ),
    "slices": (
        "n: int, a: Optional[int], b: Optional[int], by: Optional[int]",
        "r = range(3, n, 2)[a:b:by]\ns = range(n, -n, -3)[a:b:by]\nreturn list(r), len(r), list(s), list(s[::-1])",
        [[n, a, b, c] for n in (0, 8, 20) for a in (None, 2, -3, 40) for b in (None, 1, -2, -50) for c in (None, -1, 3)]
        + [[8, None, None, 0]],
    ),
    "arguments": ("n: int", "return through(range(n)), through(range(2, n, 3))", [[3], [0], [9]]),
    "what lists take": (
        "xs: List[int], t: Tuple[int, int]",
        "xs[1:] = range(3)\nxs += range(2)\nxs += t\nxs += (7, 8)\nxs += reversed(xs)\nxs[:1] = (4, 5)\n"
        "xs[0:1] = map(abs, [-3])\nxs[::2] = range(len(xs[::2]))\nys = xs\nys += xs\nreturn xs",
        [[[1, 2, 3], (7, 8)], [[], (7, 8)]],
    ),
}

HEAD = """
def maker(k):
    return lambda v: v * k

def activation(name: str) -> Callable[[Tensor], Tensor]:
    if name == "relu":
        return F.relu
    elif name == "sin":
        return torch.sin
    raise RuntimeError(f"relu or sin, not {name}")

def either(up, n):
    m = n * 2
    if up:
        def inner(v):
            return v + m
        return inner
    k = m + 1
    return lambda v: v * k

def found_in_loop(n):
    for i in range(5):
        if i == n:
            return lambda v: v + i
    return lambda v: v - n

def outer(a):
    def middle(b):
        def inner(v):
            return v * a + b
        return inner
    return middle

def twice(fn):
    def g(*args, **kwargs):
        return fn(*args, **kwargs) * 2
    return g

def composed(*fs):
    def run(v):
        for f in fs:
            v = f(v)
        return v
    return run

def several(n):
    return torch.relu, lambda v: v + n, n * 2

def bound(x, n):
    return x.add if n > 2 else x.mul

def parts(n):
    return functools.partial(scaled, k=n)

def scaled(v, k):
    return v * k

def steps(n):
    return range(0, n, 2)

def defaulted(x, fn=None):
    fn = fn or torch.relu
    return fn(x)

def through(r):
    t = 0
    for i in r:
        t += i
    return t + len(r)

TABLE_OF_FUNCTIONS = {"inc": inc, "sum": torch.sum}
"""

TABLES = {"returned": RETURNED, "chosen": CHOSEN, "containers": CONTAINERS, "ranges": RANGES}
CASES = [(kind, name) for kind, table in TABLES.items() for name in table]


@pytest.mark.parametrize("kind, name", CASES)
def test_means_what_it_means_to_python(kind, name):
    check_case(TABLES[kind], name, head=HEAD)


REFUSED = {
    "def g(n):\n  return g\n return g(1)(2)": "calls itself, and its result type is not known",
    "def make():\n  def g(n):\n   return g(n - 1)\n  return g\n return make()(x)": "calls itself, cannot be a result",
    "def g(n):\n  if n > 1:\n   return torch.relu\n  return 3\n return g(x)": "returns",
    "fs = [torch.relu]\n fs.append(torch.sin)\n return x": "append",
    "return lambda v: v": "a lambda cannot be used as a value",
    "return range(x)": "a range cannot be used as a value",
    "return range(3)['a']": "the index of a range must be an integer",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_refused_names_the_line(body):
    namespace = compile_source(source_of("x: int", body.replace("\n ", "\n")))
    with pytest.raises(CompileError, match=REFUSED[body]) as caught:
        jitlite.script(namespace["f"])
    assert "HERE" in str(caught.value)
