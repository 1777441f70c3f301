"""Functions of Python's library, `match`, and ints for floats mean what they mean in eager Python."""

from __future__ import annotations

import io
import logging
import math
import sys
import warnings

import pytest
import torch
from accepted_python import HEAD, T34, Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base import options
from jitlite.base.source import CompileError, NotSupportedError

FLOATS: Table = {
    "arguments": (
        "n: int, x: Tensor",
        "def g(a: float, b: Optional[float] = 1) -> float:\n return a / 2 if b is None else a * b + 0.5\n"
        "return g(n), g(1, n), g(n, None), F.leaky_relu(x, n), F.dropout(x, 0 * n)",
        [[3, T34]],
    ),
    "variables": (
        "n: int",
        "y: float = n\nr = 0.5\nfor i in range(n):\n r = r + y\n if i == 1:\n  y = i\n  r = 3\nreturn r / 2, y / 3",
        [[0], [1], [5]],
    ),
    "containers": (
        "n: int",
        "xs: List[float] = [n, 1.5]\nxs.append(n)\nxs[0] = 3\nd: Dict[str, float] = {'a': n}\nd['b'] = n\n"
        "t: Tuple[float, Optional[float]] = (n, 3)\nys: List[float] = (1, n)\n"
        "return sum(xs) / 2, n in xs, xs.index(3), d['a'] / d['b'], t[0] / 2, sum(ys) / 4",
        [[2], [7]],
    ),
    "sizes": ("x: Tensor, n: int", "return F.interpolate(x, scale_factor=n).sum() + n", [[torch.ones(1, 1, 2, 2), 2]]),
}

MATH: Table = {
    "prod": (
        "xs: List[int], ys: List[float], x: Tensor",
        "return math.prod(xs), math.prod(ys) * 1.0, math.prod(x.shape), math.prod(x.shape[1:], start=3), "
        "math.prod((2, 3))",
        [[[2, 3], [0.5, 4.0], T34], [[], [2.5], T34]],
    ),
    "combinatorics": (
        "n: int, k: int",
        "return math.comb(n, k), math.perm(n, k), math.perm(n)",
        [[5, 2], [7, 7], [3, 5], [0, 0], [-1, 2], [4, -1], [60, 30]],
    ),
    "divisors": (
        "n: int, k: int",
        "return math.gcd(n, k, 12), math.gcd(n), math.gcd(), math.lcm(n, k), math.lcm(), math.lcm(n, 0, k)",
        [[8, 6], [-4, 6], [0, 5], [7, 13]],
    ),
    "roots": ("n: int", "return math.isqrt(n)", [[0], [1], [2], [3], [15], [16], [17], [10**30 + 1], [-1]]),
    "closeness": (
        "x: float, y: float",
        "return math.isclose(x, y), math.isclose(x, y, rel_tol=0.1), math.isclose(x, y, abs_tol=0.5), "
        "math.isclose(x, 1)",
        [[1.0, 1.0], [1.0, 1.05], [float("inf"), 1.0], [float("nan"), 1.0], [0.0, 0.4]],
    ),
    "trunc": ("x: float", "return math.trunc(x)", [[2.7], [-2.7], [float("nan")]]),
}

METHODS: Table = {
    "strings": (
        "s: str, t: str",
        "return s.removeprefix(t), s.removesuffix(t), s.isascii(), s.startswith((t, 'x')), s.endswith(('b', t)), "
        "s.startswith(()), s.startswith(('c',), 1)",
        [["abcab", "ab"], ["", ""], ["ab", ""], ["ä", "x"], ["xb", "longer"]],
    ),
    "ints": ("n: int", "return n.bit_length(), n.bit_count()", [[0], [1], [-9], [255], [2**70], [-(2**63)]]),
    "floats": ("x: float", "return x.is_integer()", [[1.0], [0.5], [float("inf")], [float("nan")], [-0.0], [1e300]]),
    "match": (
        "x: float",
        "match x:\n    case 1:\n        return 'one'\n    case 2.5 | 3:\n        return 'some'\nreturn 'none'",
        [[1.0], [2.5], [3.0], [float("nan")]],
    ),
}
SUMS: Table = {
    "tensors": (
        "ts: List[Tensor]",
        "return sum(ts), sum(ts, 1), sum(ts, start=ts[0]), sum(t * 2 for t in ts), sum((ts[0], ts[0]))",
        [[[torch.tensor([True]), torch.ones(1)]], [[torch.ones(2, requires_grad=True)]]],
    ),
    "numbers": (
        "xs: List[float], ns: List[int]",
        "return sum(xs, 1.5), sum(xs, 1), sum(ns, 2), sum(ns, 0.5), sum(ns, start=3), sum(x * x for x in xs)",
        [[[0.1, 0.2, 0.3], [1, 2**62, 2**62]], [[0.5], []], [[1e308, 1e308, -1e308], [-1]]],
    ),
    "lists": ("xs: List[List[int]]", "return sum(xs, []), sum([x[:1] for x in xs], [7])", [[[[1, 3], [2]]], [[]]]),
}
DECLARED: Table = {
    "branches": ("n: int", "y: int\nif n > 1:\n    y = 3\nelse:\n    y = 4\nreturn y", [[1], [2]]),
    "optional": ("n: int", "y: Optional[int]\nif n > 1:\n    y = None\nelse:\n    y = 4\nreturn y", [[1], [2]]),
    "lists": ("n: int", "y: List[float]\nif n > 1:\n    y = []\nelse:\n    y = [n / 2, 4.5]\nreturn y", [[1], [2]]),
    "loops": ("n: int", "y = 0.0\nfor i in range(n):\n    z: float\n    z = i\n    y += z / 2\nreturn y", [[0], [3]]),
    "nested functions": (
        "n: int",
        "def g(k: int):\n    y: Dict[int, int]\n    y = {}\n    y[k] = 1\n    return y\n"
        "y: str\ny = 'a'\nreturn g(n), y",
        [[2]],
    ),
}

ORDER: Table = {
    "sorted by a key": (
        "xs: List[Tuple[int, str]], r: bool",
        "return sorted(xs, key=lambda v: v[1]), sorted(xs, key=lambda v: v[1], reverse=r), sorted(xs, reverse=r)",
        [[[(3, "a"), (1, "b"), (2, "b"), (0, "a")], True], [[(3, "a"), (1, "b")], False], [[], True]],
    ),
    "keys that are no numbers": (
        "xs: List[float]", "return sorted(xs, key=lambda v: -v), sorted(xs, key=lambda v: v)",
        [[[2.0, 1.0, 3.0]], [[2.0, float("nan"), 1.0, 0.5, float("nan"), 3.0]]],
    ),
    "builtins as keys": ("xs: List[str]", "return sorted(xs, key=len), max(xs, key=len)", [[["bbb", "a", "cc", "d"]]]),
    "sort by a key": ("xs: List[int]", "ys = xs\nxs.sort(key=lambda v: -v)\nreturn xs, ys", [[[1, 3, 2]], [[]]]),
    "extremes": (
        "xs: List[int]",
        "return max(xs, default=7), min(xs, default=None), max(xs, key=lambda v: -v, default=0), "
        "min([str(x) for x in xs] + ['b']), max(3, len(xs), 2)",
        [[[3, 1, 2]], [[]]],
    ),
    "the first extreme wins": (
        "xs: List[str]", "return max(xs, key=len), min(xs, key=len)", [[["ab", "cd", "e", "f"]], [[]]],
    ),
    "extremes of tensors": ("x: Tensor", "return max(x), min(x), max(x[0], x[1]), sorted(x)",
                            [[torch.tensor([2.0, 3.0, 1.0])], [torch.tensor([3, 2])], [torch.tensor(1.0)]]),
    "dicts": (
        "d: Dict[str, int]", "return sorted(d), sorted(d.items()), sorted(d.values())", [[{"b": 1, "a": 2}], [{}]],
    ),
}  # fmt: skip

ITERATION: Table = {
    "filter": (
        "xs: List[int], k: int",
        "r = 0\nfor v in filter(lambda v: v > k, xs):\n r += v\n if v == 7:\n  break\n"
        "return r, list(filter(None, xs)), sum(filter(None, xs)), any(filter(lambda v: v > 1, xs))",
        [[[3, 0, 2, 7, 9], 2], [[], 1]],
    ),
    "filter is lazy": (
        "xs: List[int]",
        "def p(v: int):\n print(v)\n return v > 1\nfor v in filter(p, xs):\n print('body', v)\n"
        "return any(map(p, xs)), all(map(p, xs)), all(filter(p, xs))",
        [[[1, 2, 3]], [[]]],
    ),
    "filter of what may be None": (
        "xs: List[Optional[int]]", "return len(list(filter(lambda v: v is not None, xs)))", [[[1, None]]],
    ),
    "unpacked lists": (
        "xs: List[int]",
        "a, *b = xs\n*c, d = xs\nxs[0], *xs, e = xs\nreturn a, b, c, d, e, xs",
        [[[1, 2, 3]], [[1, 2]], [[1]], [[]]],
    ),
    "reduce": (
        "xs: List[int], ys: List[Tensor]",
        "return functools.reduce(lambda a, b: a * 10 + b, xs), functools.reduce(operator.mul, xs, 2), "
        "functools.reduce(torch.add, ys)",
        [[[1, 2, 3], [T34, T34]], [[4], [T34]], [[], [T34]]],
    ),
    "itertools": (
        "xs: List[int], ys: List[str]",
        "return [(a, b) for a, b in itertools.product(xs, ys)], list(itertools.chain(xs, [7], xs)), "
        "list(itertools.accumulate(xs)), list(itertools.accumulate(xs, lambda a, b: a * b)), "
        "list(itertools.chain.from_iterable([xs, xs])), [a - b for a, b in itertools.combinations(xs, 2)]",
        [[[1, 2, 3], ["a", "b"]], [[], []]],
    ),
    "arguments of operators": (
        "xs: List[int]",
        "xs.extend(range(2))\nreturn xs, ','.join(map(str, xs)), sum(map(abs, xs)), max(map(abs, xs)), "
        "torch.tensor(range(3)), sorted(map(abs, xs)), torch.ones(3, 2).permute(*range(1, -1, -1)), [*range(len(xs))]",
        [[[1, -2]]],
    ),
    "truth of tuples": (
        "t: Tuple[int, int], u: Optional[Tuple[int, int]]", "return bool(t), 1 if u else 2, not ()",
        [[(0, 0), None], [(1, 2), (0, 0)]],
    ),
    "the shape is a tuple": (
        "x: Tensor",
        "return isinstance(x.shape, tuple), isinstance(x.size(), (list, tuple)), isinstance(x.shape[1:], tuple)",
        [[T34]],
    ),
    "numel of a size in a variable": (
        "x: Tensor",
        "s = x.shape\nt, u = x.size(), s[1:]\nif len(s) > 1:\n s = s[:-1]\nreturn s.numel(), t.numel(), u.numel()",
        [[T34], [torch.ones(2, 3, 0)], [torch.ones(2)]],
    ),
    "numel of a size": (
        "x: Tensor",
        "y = x.clone()\nreturn x.shape.numel(), x.size().numel(), x[0].shape[1:].numel(), len(x.shape), "
        "(y.shape.numel, y.resize_(2))[0]()",
        [[T34], [torch.ones(2, 3, 0)], [torch.ones(0, 2)]],
    ),
}  # fmt: skip

MATCH: Table = {
    "literals": (
        "n: int",
        "match n:\n case 1:\n  return 'a'\n case 2 | 3:\n  return 'b'\n case -4:\n  return 'c'\n case _:\n  return 'd'",
        [[1], [3], [-4], [7]],
    ),
    "texts and guards": (
        "s: str, n: int",
        "match s.lower():\n case 'relu' | 'gelu' if n > 2:\n  r = 1\n case 'relu':\n  r = 2\n case other:\n"
        "  r = len(other)\n"
        "return r",
        [["relu", 3], ["RELU", 1], ["xyz", 2]],
    ),
    "what may be None": (
        "s: Optional[str]",
        "match s:\n case None:\n  return 'n'\n case 'a':\n  return 'A'\n case x:\n  return x + '!'",
        [["a"], [None], ["b"]],
    ),
    "truth values": ("b: bool", "match b:\n case True:\n  return 1\n case _:\n  return 0", [[True], [False]]),
    "enums": (
        "n: int",
        "c = Color.RED if n > 1 else Color.BLUE\nmatch c:\n case Color.RED:\n  return 1\n case Color.BLUE:\n"
        "  return 2\n"
        "return 3",
        [[1], [2]],
    ),
    "tuples that are written out": (
        "a: int, b: int",
        "match (a, b + 0):\n case (0, 0):\n  return 'zero'\n case (0, y):\n  return f'y{y}'\n case (x, 0) if x > 5:\n"
        "  return f'big{x}'\n case (x, y) if x == y:\n  return 'eq'\n case (x,):\n  return 'one'\n case _:\n"
        "  return 'other'",
        [[0, 0], [0, 3], [7, 0], [2, 0], [3, 3], [1, 2]],
    ),
    "tuples": (
        "t: Tuple[int, Tuple[str, int]]",
        "match t:\n case (1, (s, _)):\n  return s\n case [n, ('x', m)]:\n  return str(n + m)\n case (a, b, c):\n"
        "  return '3'\n"
        " case (a, *rest) as whole:\n  return f'{a} {len(rest)} {whole[0]}'",
        [[(1, ("q", 2))], [(2, ("x", 3))], [(2, ("y", 4))]],
    ),
    "lists": (
        "xs: List[int]",
        "match xs:\n case []:\n  return 0\n case [x]:\n  return x\n case [x, 5]:\n  return x * 5\n"
        " case [first, *rest] if first > 0:\n  return first + len(rest) + sum(rest)\n case [*init, last]:\n"
        "  return last * 100 + len(init)\nreturn -1",
        [[[]], [[4]], [[4, 5]], [[1, 2, 3]], [[-1, 2, 3]]],
    ),
    "classes": (
        "x: Union[int, str, List[int]]",
        "match x:\n case int():\n  return x + 1\n case str(s):\n  return len(s)\n case [a, *_]:\n  return a\n"
        " case _:\n  return -1",
        [[3], ["ab"], [[5, 6]], [[]]],
    ),
    "fields": (
        "n: int",
        "p = Point(n, 3)\nmatch p:\n case Point(x=0):\n  return -1\n case Point(1, y):\n  return y\n"
        " case Point(x=a, y=b) as q:\n  return a + b + q.x",
        [[0], [1], [5]],
    ),
    "dicts": (
        "d: Dict[str, int]",
        "match d:\n case {'a': 1}:\n  return 1\n case {'a': x, 'b': y}:\n  return x + y\n"
        " case {'b': y} if y > 3:\n  return y\n"
        " case _:\n  return 0",
        [[{"a": 1}], [{"a": 2, "b": 3}], [{"b": 5}], [{"b": 1}], [{}]],
    ),
    "jumps": (
        "xs: List[int]",
        "r = 0\nfor x in xs:\n match x:\n  case 0:\n   continue\n  case 9:\n   break\n  case _:\n   r += x\nreturn r",
        [[[1, 0, 2, 9, 5]], [[]]],
    ),
    "the subject is evaluated once": (
        "xs: List[int]",
        "match xs.pop():\n case 1:\n  r = 1\n case 2 | 3 as n:\n  r = n * 10\n case n:\n  r = n\nreturn r, xs",
        [[[5, 1]], [[5, 3]], [[5, 4]], [[]]],
    ),
    "shapes": (
        "x: Tensor",
        "match x.shape:\n case (n,):\n  return n\n case (a, b):\n  return a * b\n case _:\n  return -1",
        [[torch.ones(2)], [T34], [torch.ones(1, 1, 1)]],
    ),
    "within nested functions": (
        "t: Tuple[int, int]",
        "def g(v: int) -> int:\n match v:\n  case 3:\n   return 30\n  case k if k > 4:\n   return k\n return 0\n"
        "match t:\n case (1, k):\n  return g(k)\n case (_, k):\n  return g(k) + 1",
        [[(1, 3)], [(2, 5)], [(2, 1)]],
    ),
}

TENSORS: Table = {
    "special methods": (
        "x: Tensor",
        "return x.__add__(1), x.__radd__(1), x.__rsub__(1), x.__rtruediv__(2.0), x.__rpow__(2), x.__matmul__(x.T), "
        "x.__lt__(2), x.__eq__(x), x.__mul__(x), x.__rmul__(2)",
        [[T34 + 1]],
    ),
    "sizes that stay": (
        "x: Tensor",
        "return F.adaptive_avg_pool2d(x, (None, 2)), F.adaptive_avg_pool2d(x, [3, None]), F.adaptive_avg_pool2d(x, 2), "
        "F.adaptive_max_pool2d(x, (None, 2), return_indices=True), F.adaptive_avg_pool3d(x, (None, 2, None))",
        [[torch.arange(32.0).reshape(1, 2, 4, 4)], [torch.ones(2, 3)]],
    ),
    "tolist": (
        "x: Tensor, n: int",
        "r = [v + 1 for v in torch.arange(n).tolist()]\n"
        "return r, torch.zeros(2, n).tolist(), x.flatten().long().tolist(), torch.tensor([[n, 2]]).tolist(), "
        "x.reshape(-1).to(torch.bool).tolist(), torch.arange(0.0, 1.0, 0.5).tolist(), torch.tensor(2.5).tolist(), "
        "x.nonzero().tolist(), torch.tensor([1, 2], dtype=torch.float64).tolist(), torch.full((2,), 3, "
        "dtype=torch.int64).tolist()",
        [[T34, 3]],
    ),
}

DIGITS: Table = {
    "rounded floats": (
        "x: float, n: int",
        "return round(x, n), round(x, 2), round(x, ndigits=n), round(x, None), round(x, -1), f'{round(x, n)}'",
        [[2.675, 1], [2.5, 0], [-0.5, 0], [-0.3, -1], [25.0, -1], [35.5, -1], [25.000001, -1], [5e-324, 323]]
        + [[1e22, -22], [1.5e22, -22], [1.7e308, 5], [1.7e308, -308], [3.0, 400], [-3.0, -400], [0.15, 1], [1e16, 3]],
    ),
    "rounded extremes": ("x: float, n: int", "return round(x, n)", [[math.inf, 1], [math.nan, -1], [-math.inf, 400]]),
    "rounded ints": (
        "x: int, n: int",
        "return round(x, n), round(x, 2), round(x, -1), round(x, None)",
        [[25, -1], [35, -1], [-25, -1], [-15, -1], [149, -2], [150, -2], [5, -3], [0, -1], [7, 3]],
    ),
    "repeated texts": (
        "s: str, n: int", "t = s\nt *= n\nreturn s * n, n * s, '-' * 3, t", [["ab", 2], ["", 3], ["ab", 0], ["ab", -1]],
    ),
    "powers modulo": (
        "a: int, b: int, c: int",
        "return pow(a, b, c)",
        [[3, 4, 5], [-3, 4, 5], [3, 4, -5], [3, 0, 1], [3, 4, 0], [3, -1, 7], [3, -2, -7], [2, -1, 4], [0, 0, 7]],
    ),
    "ints in a base": (
        "s: str, n: int",
        "return int(s, n), int(s, base=16)",
        [["ff", 16], [" -0x1F ", 0], ["zz", 36], ["12", 10], ["1_0", 2], ["12", 2], ["", 16], ["1", 1]],
    ),
    "lengths": (
        "x: float, y: float, p: List[float], q: List[float]",
        "return math.hypot(x, y), math.hypot(x, y, 2.0), math.dist(p, q), math.dist((x, y), (1.0, 2.0)), math.fsum(p)",
        [[3.0, 4.0, [0.1] * 10, [0.3] * 10], [1e200, 1e200, [], []], [math.inf, math.nan, [1.0], [2.0, 3.0]]],
    ),
}  # fmt: skip
if sys.version_info >= (3, 11):
    DIGITS["roots and powers"] = ("x: float", "return math.cbrt(x), math.exp2(x)", [[27.0], [-8.0], [5000.0]])
DICTS: Table = {
    "updates": (
        "d: Dict[str, int], xs: List[str]",
        "d.update(k=len(d), a=d.get('a', 7))\nd.update([('b', 1), ('c', 2)], c=3)\nd.update(zip(xs, range(3)))\n"
        "d.update({'z': 1}, y=2)\nd.update((x, len(x)) for x in xs)\nd.update()\nd.update({})\nreturn d",
        [[{"a": 1}, ["p", "qq"]], [{}, []]],
    ),
    "updates with floats": (
        "n: int",
        "d = {'c': 0.5}\nd.update(a=n)\nd.update([('b', 2.0)])\nreturn d['a'] / 2, d['b'], len(d)",
        [[3]],
    ),
    "equality": (
        "a: Dict[str, int], b: Dict[str, int]",
        "return a == b, a != b, a == {}, {} != a, a == {'k': 1}, a == a.copy()",
        [[{}, {}], [{"k": 1}, {"k": 1}], [{"k": 1}, {"j": 1}], [{"k": 1}, {"k": 2}],
         [{"k": 1, "j": 2}, {"j": 2, "k": 1}]],
    ),
    "equality of others": (
        "a: Dict[int, float], b: Dict[int, List[int]], c: Dict[str, Tensor]",
        "return a == a.copy(), b == {1: [2]}, b != b.copy(), c == {}, c != {}",
        [[{1: float("nan")}, {1: [2]}, {}], [{}, {1: [3]}, {"t": T34}]],
    ),
    "named fields": (
        "x: float, s: str, w: int",
        "return '{x}'.format(x=x), '{x:.2f}|{s}|{x}'.format(x=x, s=s), '{0}{s}{1}{0}'.format(w, 2, s=s), "
        "'{{{s}}}{}{}'.format(x, w, s=s), 'a'.format(s=s)",
        [[2.345, "ab", 5], [-0.0, "{x}", 1]],
    ),
    "named fields that are converted": (
        "s: str, w: int", "return '{s!r}{s:>{w}}|{0}'.format(w, s=s, w=w)", [["ab", 5], ["{x}", 1]],
    ),
}  # fmt: skip
UNSAVED = {name: "TorchScript has no" for name in ("ints in a base", "lengths", "roots and powers")}
UNSAVED["named fields that are converted"] = "TorchScript's format has no"

TABLES = {"tensors": TENSORS, "floats": FLOATS, "math": MATH, "order": ORDER, "iteration": ITERATION, "match": MATCH}
TABLES |= {"methods": METHODS, "sums": SUMS, "digits": DIGITS, "dicts": DICTS, "declared": DECLARED}
CASES = [(kind, name) for kind, table in TABLES.items() for name in table]


@pytest.mark.parametrize("kind, name", CASES)
def test_means_what_it_means_to_python(kind, name):
    check_case(TABLES[kind], name, UNSAVED)


REFUSED = {
    "match [x, x]:\n  case [1, a] | [2, a]:\n   return a\n return x": "captures names isn't supported",
    "match {'a': x}:\n  case {'b': 1, **rest}:\n   return 1\n return x": "`\\*\\*rest` isn't supported",
    "match Point(x):\n  case Point(1, 2, 3):\n   return 1\n return x": "accepts 2 positional sub-patterns",
    "match x:\n  case 1:\n   r = 1\n  case _:\n   r = 'a'\n return r": "set to type int in the true branch",
    "return '{z}'.format(y=x)": "do not fit: z",
    "return '{}{y}{1}'.format(x, x, y=x)": "automatic and manual numbering",
    "return '{1}{y}'.format(x, y=x)": "no value at position 1",
    "d = {'a': torch.ones(1)}\n return d == d": "Expected a value of type",
    "d = {1: 2}\n d.update(a=x)\n return d": "int",
    "return max(x, x, default=1)": "for the elements of one iterable",
    "return torch.ones(2).flip(0).tolist()": "Expected type hint for result of tolist",
    "return torch.ones(2).__rlt__(1)": "no attribute or method '__rlt__'",
    "y: float = 'a'\n return y": "annotated with type float",
    "y: int = 1.5\n return y": "annotated with type int",
    "warnings.warn('a', ValueError)\n return x": "must be a Warning subclass",
    "return Line(x)._replace(z=1)": "Got unexpected field names",
    "return Line(x)._replace(x='a')": "is of type int",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_refused_names_the_line(body):
    namespace = compile_source(source_of("x: int", body.replace("\n ", "\n")))
    with pytest.raises(CompileError, match=REFUSED[body]) as caught:
        jitlite.script(namespace["f"])
    assert "HERE" in str(caught.value)


def test_an_int_that_is_taken_for_a_float_stays_an_int():
    namespace = compile_source(source_of("n: int", "y: float = n\nreturn y, [y], str(y), y // 2"))
    assert str(jitlite.script(namespace["f"])(3)) == "(3, [3], '3', 1)"


def test_a_function_of_the_program_may_be_called_filter():
    text = "def filter(a: int, b: int):\n    return a - b\n\n\ndef f(n: int):\n    return filter(n, 1)\n"
    assert jitlite.script(compile_source(f"{HEAD}\n\n{text}")["f"])(3) == 2


def test_torch_nn_keeps_sizes():
    module = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d((None, 2)), torch.nn.AdaptiveMaxPool2d((2, None)))
    x, buffer = torch.arange(32.0).reshape(1, 2, 4, 4), io.BytesIO()
    scripted = jitlite.script(module)
    jitlite.save(scripted, buffer)
    buffer.seek(0)
    for run in (scripted, jitlite.load(buffer)):
        assert torch.equal(run(x), module(x))


def test_what_tells_people_something():
    body = (
        "warnings.warn('a')\nwarnings.warn(f'x {n}', DeprecationWarning)\nwarnings.warn('b', stacklevel=2)\n"
        "warnings.warn(RuntimeWarning('c'))\nwarnings.warn('d', FutureWarning, 2)\nreturn n"
    )
    namespace = compile_source(source_of("n: int", body))
    scripted, buffer = jitlite.script(namespace["f"]), io.BytesIO()
    jitlite.save(scripted, buffer)
    buffer.seek(0)
    written = jitlite.to_python(scripted)
    module = {"__name__": "written"}
    exec(compile(written.source, "written.py", "exec"), module)

    def shown(function):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function(1)
        return [(str(w.message), w.category) for w in caught]

    expected = shown(namespace["f"])
    assert [category for _, category in expected[1:4:2]] == [DeprecationWarning, RuntimeWarning]
    for tier in ("stack", "python"):
        with options.override(tier=tier):
            assert shown(jitlite.script(namespace["f"])) == expected
    assert shown(module[written.name]) == expected
    assert shown(jitlite.load(buffer)) == [(text, UserWarning) for text, _ in expected]  # an archive has no others


def test_loggers_are_left_to_python(caplog):
    body = "log.info('a %d', n)\nif log.isEnabledFor(20):\n log.error(f'{n}')\nlogging.warning('w')\nreturn n"
    namespace = compile_source(source_of("n: int", body))
    namespace["log"] = logging.getLogger("accepted")
    scripted = jitlite.script(namespace["f"])
    with caplog.at_level(logging.INFO):
        assert scripted(3) == 3
    assert [r.getMessage() for r in caplog.records] == ["a 3", "3", "w"]
    with pytest.raises(NotSupportedError, match="no place in an archive"):
        jitlite.save(scripted, io.BytesIO())


NAMED_TUPLES: Table = {
    "methods": (
        "n: int",
        "p = Line(n)\nq = p._replace(x=3, y=1)\n"
        "return p.length(2), p.double, p.UNIT, p.origin(1), p._replace(y=4).y, q.length(n)",
        [[3], [0]],
    ),
    "members of the class": ("n: int", "return Line.origin(n), Line.UNIT, Line.length(Line(n), 2)", [[3], [0]]),
}


@pytest.mark.parametrize("name", NAMED_TUPLES)
def test_classes_of_named_tuples_have_methods(name):
    check_case(NAMED_TUPLES, name)
