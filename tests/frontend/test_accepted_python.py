"""Python that torch.jit refuses means what it means in eager Python: on each tier, saved, and written as Python."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from accepted_python import T34, check_case, compare, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError
from jitlite.debug.outcome import observe

TRUTH: dict[str, tuple[str, str, list[list[Any]]]] = {
    "optional list": ("x: Optional[List[int]]", "return len(x) if x else -1", [[[1]], [[]], [None]]),
    "optional int": ("x: Optional[int]", "if not x:\n return -1\nreturn x + 1", [[3], [0], [None]]),
    "optional text": ("x: Optional[str]", "return x + 'b' if x else 'n'", [["a"], [""], [None]]),
    "optional tensor": (
        "x: Optional[Tensor]",
        "if x:\n return x + 1\nreturn torch.zeros(1)",
        [[torch.tensor(1.0)], [torch.tensor(0.0)], [None], [torch.ones(2)]],
    ),
    "union": (
        "x: Union[int, str, None]",
        "if x:\n if isinstance(x, int):\n  return x\n return len(x)\nreturn -1",
        [[3], ["ab"], [0], [""], [None]],
    ),
    "while": ("x: Optional[int]", "n = 0\nwhile x:\n x = None\n n += 1\nreturn n", [[3], [None]]),
    "assert": ("x: Optional[int]", "assert x\nreturn x + 1", [[3], [0], [None]]),
    "or gives an operand": ("x: int, y: int", "return x or y, x and y, x or y or 7, (x and y) or 5", [[0, 3], [2, 0]]),
    "operands of two types": ("x: str, y: List[int]", "return x or y, y and x", [["", [1]], ["a", []]]),
    "a default by or": ("x: Optional[int] = None", "y = x or 5\nreturn y", [[3], [0], [None], []]),
    "a default list by or": ("x: Optional[List[int]]", "y = x or []\ny.append(1)\nreturn y", [[[2]], [None]]),
    "tensors": ("x: Tensor, y: Tensor", "return x or y, x and y", [[torch.tensor(0.0), torch.tensor(1.0)]]),
    "an error in an operand": ("x: Tensor, y: int", "return x or y", [[torch.ones(2), 1]]),
    "operands are evaluated once": (
        "x: List[int]",
        "r = x.pop() or x.pop()\nok = 0 < x.pop() < 5 and len(x) == 1\nreturn r, ok, x",
        [[[1, 2, 3, 0]], [[1, 2, 3, 4]], [[1]]],
    ),
    "refinement goes through and": (
        "x: Optional[int], flag: bool",
        "return flag and x is not None and x > 2, x is not None and x > 0 and x < 5",
        [[3, True], [None, True], [9, False]],
    ),
    "named": ("x: List[int]", "if (n := len(x)) > 2 and x[0] > 0:\n return n\nreturn -n", [[[1, 2, 3]], [[]]]),
    "named and refined": (
        "d: Dict[str, int]",
        "if (v := d.get('a')) is not None:\n return v + 1\nif v := d.get('b'):\n return v\nreturn 0",
        [[{"a": 2}], [{"b": 3}], [{"b": 0}], [{}]],
    ),
    "elements": (
        "d: Dict[str, Optional[int]], e: List[Union[int, str, None]]",
        "n = 0\nif d['a'] is not None and d['b'] is None:\n n = d['a'] + 1\nassert isinstance(e[0], int)\n"
        "return n + e[0] if e[-1] is None else e[0]",
        [[{"a": 1, "b": None}, [3, None]], [{"a": None, "b": 1}, [3, "x"]], [{"a": 1, "b": None}, ["x"]]],
    ),
    "membership of what may be None": (
        "r: Optional[str], q: Optional[int]",
        "return r in ('sum', None), q in (1, 2), r in ['sum'], q in [1], 1 in ('a', 1), r not in ('a', 'sum')",
        [["sum", 1], [None, None], ["mean", 3]],
    ),
}

CALLS: dict[str, tuple[str, str, list[list[Any]]]] = {
    "numbers and tensors": ("n: int, x: Tensor", "return helper(n), helper(x, 3), helper(2.5, mode='y')", [[3, T34]]),
    "tuples and lists": ("n: int", "return pair(n), pair([n, 2]), pair((n, 'a')), pair('ab')", [[3]]),
    "a flag decides": ("n: int", "return flagged(n), flagged(n, True), flagged('a', both=True)", [[3]]),
    "generic types": (
        "n: int, x: Tensor",
        "return first([n]), first((n, 2)), same(n), same('a'), lengths((n, 2, 3)), first(x.shape)",
        [[3, T34]],
    ),
    "recursion": ("n: int", "return countdown(n)", [[4], [0]]),
    "keyword only": ("n: int", "return keyword_only(n, n, z=2), keyword_only(n, y=1.5)", [[3]]),
    "a function": (
        "x: Tensor",
        "return apply(torch.sum, x, dim=0), apply(inc, x, scale=2), apply(F.relu, x), apply(fn=inc, scale=3, x=x)",
        [[T34]],
    ),
    "a lambda that captures": (
        "x: Tensor, k: float",
        "n = 3\ny = apply(lambda a, b: a * b + k + n, x, n)\nn = 4\nreturn y, inner_names(x, lambda a: a + n)",
        [[T34, 2.0]],
    ),
    "a name of the caller is another one": (
        "x: int",
        "if x > 2:\n K = 7\nelse:\n K = 1\nreturn outer_name(lambda v: v * K, x), helper(K)",
        [[3], [1]],
    ),
    "keywords": (
        "x: int",
        "return keywords(x), keywords(x, k=2), keywords(x, z=3, k=4), keywords(x, **{'k': 3})",
        [[3]],
    ),
    "star": ("x: int", "return total(x, x), total(), total(*(x, 2), 3), total(*[x, 1])", [[3]]),
    "expansion": ("x: Tensor", "return torch.sum(x, **{'dim': 0}), torch.sum(x, **dict(dim=1, keepdim=True))", [[T34]]),
    "nested functions with stars": (
        "x: int",
        "def g(*a, k=1, **kw):\n return len(a) + k + len(kw)\nreturn g(), g(x, x), g(x, k=5, z=1, **{'y': 2})",
        [[3]],
    ),
    "imports": (
        "x: float",
        "import math\nfrom math import sqrt as root\nimport os.path, torch.nn.functional as G\n"
        "return math.floor(x) + root(x), G.relu(torch.tensor(-x))",
        [[4.0]],
    ),
    "global": ("x: int", "global NUMBERS\nreturn x + NUMBERS[0]", [[3]]),
}

FUNCTIONS: dict[str, tuple[str, str, list[list[Any]]]] = {
    "in a global dict": ("x: Tensor", "return FUNCTIONS['inc'](x), FUNCTIONS['more']['dec'](x)", [[T34]]),
    "in a dict": ("x: Tensor", "d = {'a': inc, 'b': torch.relu}\nreturn d['a'](d['b'](x))", [[T34]]),
    "in a loop": ("x: Tensor", "for f in (inc, torch.relu, lambda v: v * 2):\n x = f(x)\nreturn x", [[T34]]),
    "in a tuple": ("x: Tensor", "f, g = inc, dec\nreturn g(f(x))", [[T34]]),
    "partial": (
        "x: Tensor",
        "p, q = functools.partial(helper, b=3), functools.partial(apply, inc)\n"
        "return p(x), p(2), q(x), functools.partial(apply, lambda v: v + 1)(x)",
        [[T34]],
    ),
    "chosen": ("x: Tensor", "f = inc if torch.jit.is_scripting() or True else dec\nreturn f(x)", [[T34]]),
    "map": (
        "a: List[int], b: Tuple[int, int]",
        "return list(map(lambda v: v + 1, a)), tuple(map(str, b)), [x for x in map(lambda p, q: p * q, a, b)]",
        [[[3, 1, 2], (1, 2)], [[], (1, 2)]],
    ),
}

SEQUENCES: dict[str, tuple[str, str, list[list[Any]]]] = {
    "spread in calls": (
        "x: Tensor",
        "return x.view(*x.shape[:-1], 2, 2), x.expand(1, *x.shape), torch.zeros(1, *x.shape, dtype=torch.int64)",
        [[T34]],
    ),
    "spread tensors": (
        "xs: List[Tensor]",
        "return torch.einsum('ij,ij->i', *xs), torch.block_diag(*xs)",
        [[[T34, T34]]],
    ),
    "spread in displays": ("x: Tensor", "return [2, *x.shape, 3], [*x.shape], x.view((1, *x.shape))", [[T34]]),
    "tuples of unknown length": (
        "x: Tensor, a: List[int]",
        "t = tuple(a)\na.append(9)\nn = 0\nfor v in t:\n n += v\n"
        "return n, len(t), t[-1], 1 in t, x.new_zeros(t), torch.stack(tuple(x)), x.permute(tuple([1, 0]))",
        [[T34, [1, 2]]],
    ),
    "a parameter of any length": (
        "s: Tuple[int, ...]",
        "r = 0\nfor v in s:\n r += v\nprint(s, s[1:])\n"
        "return r, len(s), f'{s}', s == (1, 2, 3), (1, 2, 3) != s, 2 in s, bool(s), not s, s.count(2), s < (1, 3), "
        "[*s, 4]",
        [[(1, 2, 3)], [(1, 2)], [()]],
    ),
    "a size of any length": (
        "x: Tensor, s: tuple[int, ...]",
        "return x.view(s), x.reshape(*s), torch.zeros((2,) + s), x.new_ones(s + (1,)), x.expand(s * 1).sum()",
        [[T34, (3, 4)], [T34, (3, 2)]],
    ),
    "any number of tensors": (
        "xs: Tuple[Tensor, ...]",
        "return torch.cat(xs), torch.stack(xs, dim=1), [x + 1 for x in xs], xs[0] + xs[-1]",
        [[(T34, T34 * 2)], [(T34,)]],
    ),
    "tuples of any length in branches": (
        "s: Tuple[int, ...], k: bool",
        "if k:\n s = s[1:]\nt = s if k else s * 2\n"
        "return sum(s), list(t), max(s), sorted(s), s * 2 == s + s, isinstance(s, tuple), isinstance(s, list), s[0]",
        [[(1, 2, 3), True], [(1, 2), False], [(1,), False]],
    ),
    "tuples of any length in calls": (
        "s: Tuple[int, ...]",
        "a, b = s\nt = lengths(s)\nreturn a, b, len(t), list(t), same(s)[0], first(s)",
        [[(1, 2)]],
    ),
    "repeated by a number": (
        "n: int",
        "t = (1, 2) * n\nreturn len(t), list(n * t), f'{t}', torch.zeros((2,) * n).sum(), n * (1,) == (1, 1, 1)",
        [[3], [0], [-1]],
    ),
    "reversed": (
        "a: List[int], b: Tuple[int, str]",
        "r = 0\nfor v in reversed(a):\n r = r * 10 + v\nfor i, v in enumerate(reversed(range(2, 9, 3))):\n r += v * i\n"
        "return r, list(reversed(a)), tuple(reversed(b)), [v for v in reversed('abc')]",
        [[[3, 1, 2], (1, "a")], [[], (0, "")]],
    ),
    "tuples of generators": (
        "b: Tuple[int, int]",
        "return tuple(v + 1 for v in b), tuple(i * v for i, v in enumerate(b))",
        [[(3, 4)]],
    ),
    "strict zip": (
        "a: List[int], b: List[int], c: List[int]",
        "r = [0]\nfor x, y in zip(a, b, strict=True):\n r.append(x * y)\n"
        "s = [x + y + z for x, y, z in zip(a, b, c, strict=True)]\n"
        "return r, s, all(x < y for x, y in zip(a, b, strict=False))",
        [[[1, 2], [3, 4], [5, 6]], [[1], [3, 4], [5]], [[1, 2], [3], [5]], [[1], [3], [5, 6]], [[1, 2], [3, 4], [5]]],
    ),
    "rows of a tensor": ("x: Tensor", "a, b, c = x\n(d, e, f, g), h, i = x\nreturn a + b + c, d", [[T34]]),
    "rows of a tensor, too few": ("x: Tensor", "a, b = x\nreturn a", [[T34], [torch.tensor(1.0)]]),
    "merged dicts": (
        "a: Dict[str, int]",
        "return {**a, 'k': 1}, {'z': 3, **a, 'a': 5}, {**a, **{'b': 7}}, a",
        [[{"a": 1}]],
    ),
}

CONTAINERS: dict[str, tuple[str, str, list[list[Any]]]] = {
    "sets": (
        "x: str, n: int, c: Color",
        "return x in {'a', 'b'}, n not in {1, 3}, n in {1.0, 2.5}, x in NAMES, n in FROZEN, c in {Color.RED}",
        [["a", 2, None], ["c", 1, None]],
    ),
    "lists and dicts": (
        "x: str, n: int",
        "return x in TABLE, len(NAMES), NUMBERS[0], NUMBERS[n], TABLE['a'], TABLE[x], TABLE.get(x, 5), 3 in NUMBERS",
        [["a", 2], ["b", -1], ["zz", 0], ["a", 7]],
    ),
    "shown": ("n: int", "return f'{NUMBERS} {TABLE}{n}', 'a{{}}{}'.format(TABLE)", [[2]]),
    "gone through": (
        "n: int",
        "return [v + n for v in NUMBERS], [k for k in TABLE], sum([v for k, v in TABLE.items()])",
        [[2]],
    ),
}

SMALL: dict[str, tuple[str, str, list[list[Any]]]] = {
    "literal": (
        "m: Literal['sum', 'mean'], k: Literal[1, 2] = 1",
        "return k if m == 'sum' else 2",
        [["sum"], ["x", 2]],
    ),
    "annotated": ("x: Annotated[int, 'a']", "return x", [[3]]),
    "nearest": ("x: Sequence[int], d: Mapping[str, int]", "return len(x) + x[0] + d['a']", [[[1, 2], {"a": 1}]]),
    "defaults give types": (
        "x, dim=0, name='a', flag=True, w=None",
        "return x.sum(dim) if flag and w is None else x",
        [[T34], [T34, 1, "b", False]],
    ),
    "dtypes": (
        "x: Tensor",
        "return x.dtype.is_floating_point, x.dtype.is_complex, torch.zeros(1, dtype=torch.get_default_dtype())",
        [[T34]],
    ),
    "new_tensor": (
        "x: Tensor",
        "return x.new_tensor([1, 2]), x.new_tensor(3, dtype=torch.int64), x.ndimension()",
        [[T34.double()]],
    ),
}

TABLES = {
    "truth": TRUTH,
    "calls": CALLS,
    "functions": FUNCTIONS,
    "sequences": SEQUENCES,
    "containers": CONTAINERS,
    "small": SMALL,
}
CASES = [(kind, name) for kind, table in TABLES.items() for name in table]


@pytest.mark.parametrize("kind, name", CASES)
def test_means_what_it_means_to_python(kind, name):
    # functions of an archive cannot call themselves
    check_case(TABLES[kind], name, {"recursion": ""})


REFUSED = {
    "d = [x, None]\n if d[0] is not None:\n  d.pop(0)\n  return d[0] + 1\n return x": "need not hold here any more",
    "d = [x, None]\n for i in range(3):\n  if d[0] is not None:\n   clear(d)\n   return d[0] + 1\n return x": "need",
    "return f'{NUMBERS!r:>9}'": "cannot be used as a value, as it may change",
    "return NUMBERS": "cannot be used as a value, as it may change",
    "t = tuple([x])\n return t": "length is known at run time only",
    "s = tuple([x])\n for i in range(3):\n  s = s + (i,)\n return list(s)": "only first-class values can depend",
    "return (1, 2) * x": "length is known at run time only",
    "global NUMBERS\n NUMBERS = [x]\n return x": "global variables cannot be assigned",
    "import no_such_module\n return x": "No module named 'no_such_module'",
    "return total(*[x, 1], k=1)": "unexpected keyword argument 'k'",
    "return keywords(x)['a']": "not subscriptable",
    "def g(**kw):\n  return kw['a']\n return g(b=1)": "gives no keyword argument 'a'",
    "def g(**kw):\n  return kw\n return g(b=1)": "a dict of keyword arguments cannot be used as a value",
    "return helper(inc)": "the function inc",
    "return torch.sum(torch.ones(1), **TABLE)": "keys are known at run time only",
    "for a, b in zip([x], [x], strict=True):\n  break\n return x": "break is not supported",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_refused_names_the_line(body):
    namespace = compile_source(source_of("x: int", body.replace("\n ", "\n")))
    with pytest.raises(CompileError, match=REFUSED[body]) as caught:
        jitlite.script(namespace["f"])
    assert "HERE" in str(caught.value)


def test_an_error_says_what_was_compiled():
    namespace = compile_source(source_of("x: int", "return helper([x], 'a')"))
    with pytest.raises(CompileError) as caught:
        jitlite.script(namespace["f"])
    told = "'helper(a: List[int], b: str, s: NoneType, mode='x')' is being compiled since it was called from 'f'"
    assert told in str(caught.value)


class Base(torch.nn.Module):
    def act(self, f, x, *more, **named):
        return f(x, *more, **named)

    def size(self, n, dim=None, flag=False):
        if flag:
            return n, dim
        return n


class Inner(torch.nn.Module):
    def forward(self, x, n=None, add=()):
        if n is not None:
            x = x + n
        for a in add:
            x = x + a
        return x


class Outer(Base):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.k = 3
        self.inner = Inner()

    def act(self, f, x, *more, **named):
        return super().act(f, x, *more, **named) + self.k

    def forward(self, x, scale=2, mode="a"):
        k = 4
        y = self.act(lambda z: z * k, x) + self.act(torch.sum, x, 0, keepdim=True)
        n, m = self.size(x.shape[0]), self.size(2.5, flag=True)
        y = self.act(self.linear, y) * scale * n + m[0]
        return y, self.size("a", 3), self.inner(x), self.inner(x, add=(1, 2)), self.inner(x, 3)


def test_examples_and_defaults_tell_the_length_of_a_tuple():
    namespace = compile_source(
        source_of("x: Tensor, sizes: Tuple[int, ...] = (2, 6)", "return x.view(sizes), len(sizes)")
    )
    function = namespace["f"]
    by_default = jitlite.script(function)
    by_example = jitlite.script(function, example_inputs=[(T34, (1, 2, 6))])
    for scripted, sizes in ((by_default, (2, 6)), (by_example, (1, 2, 6))):
        compare(scripted, [observe(function, [T34, sizes])], [[T34, sizes]], str(sizes))
    with pytest.raises(RuntimeError, match="Tuple"):
        by_default(T34, (12,))


def test_methods_are_compiled_for_the_types_of_each_call():
    module = Outer()
    expected = [observe(module, arguments) for arguments in ([T34], [T34, 3])]
    scripted = jitlite.script(module)
    buffer = io.BytesIO()
    jitlite.save(scripted, buffer)
    buffer.seek(0)
    for run in (scripted, jitlite.load(buffer)):
        compare(run, expected, [[T34], [T34, 3]], "a module")
