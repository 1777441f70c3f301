"""Functions of itertools, operator, math and dataclasses, and operators of dicts, mean what they mean in Python."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from accepted_python import Table, check_case, source_of
from strategies import compile_source

import jitlite

HEAD = """
import dataclasses
from dataclasses import dataclass, field

@dataclass
class Part:
    x: int
    y: float = 2.0
    zs: List[int] = field(default_factory=list)

@dataclass(frozen=True)
class Name:
    a: int
    b: str = "q"

@dataclass
class Whole:
    name: Name
    n: int
    hidden: int = field(init=False, default=4)

@dataclass
class Held:
    x: Tensor

@dataclass
class Pair:
    a: int
    b: int

import sys
sys.modules[__name__].__dict__.update(globals())
"""

ITERTOOLS: Table = {
    "islice": (
        "xs: List[int], n: int",
        "r = 0\nfor i, x in enumerate(itertools.islice(xs, 3)):\n  r += i * x\n"
        "return r, list(itertools.islice(xs, 1, None)), list(itertools.islice(xs, 0, 4, 2)), "
        "list(itertools.islice(xs, n))",
        [[[1, 2, 3, 4, 5], 2], [[], 0], [[1], -1]],
    ),
    "groupby": (
        "xs: List[int], ys: List[str]",
        "r: List[int] = []\nfor k, g in itertools.groupby(ys, key=lambda s: s[0]):\n  r.append(len(list(g)) + len(k))\n"
        "return r, [(k, list(g)) for k, g in itertools.groupby(xs)], [k for k, _ in itertools.groupby(ys, len)]",
        [[[1, 1, 2, 3, 3], ["ab", "ac", "b"]], [[], []]],
    ),
    "zip_longest": (
        "xs: List[int], ys: List[int], zs: List[str]",
        "return [a + b for a, b in itertools.zip_longest(xs, ys, fillvalue=0)], "
        "list(itertools.zip_longest(xs, ys, fillvalue=-1)), [(a, b) for a, b in itertools.zip_longest(xs, zs)]",
        [[[1, 2, 3], [1], ["a"]], [[], [2], []]],
    ),
    "product": (
        "xs: List[int]",
        "return list(itertools.product(xs)), list(itertools.product(xs, ['a'])), "
        "[a + b + c for a, b, c in itertools.product(xs, range(2), [1, 2])], list(itertools.product(xs, repeat=2)), "
        "[a for a, b, c, d in itertools.product(xs, [0, 1], repeat=2)]",
        [[[1, 2]], [[]]],
    ),
    "selections": (
        "xs: List[int]",
        "return list(itertools.combinations(xs, 2)), list(itertools.combinations(xs, 3)), "
        "list(itertools.permutations(xs, r=2)), list(itertools.permutations(xs, 3)), "
        "list(itertools.combinations_with_replacement(xs, 2))",
        [[[1, 2, 3, 1]], [[1]]],
    ),
    "while": (
        "xs: List[int]",
        "return list(itertools.takewhile(lambda v: v < 3, xs)), list(itertools.dropwhile(lambda v: v < 3, xs)), "
        "list(itertools.filterfalse(lambda v: v > 1, xs)), list(itertools.compress(xs, [1, 0, 1])), "
        "list(itertools.repeat(xs, 2))",
        [[[1, 2, 3, 1]], [[]], [[4]]],
    ),
}

OPERATORS: Table = {
    "of numbers": (
        "a: int, b: int",
        "return operator.pos(a), operator.truth(a), operator.index(a), operator.is_(a, None), operator.is_not(a, None)",
        [[5, 3], [0, 1]],
    ),
    "of containers": (
        "xs: List[int], d: Dict[str, int]",
        "operator.setitem(xs, 0, 7)\noperator.delitem(d, 'a')\noperator.setitem(d, 'b', 3)\n"
        "return xs, d, operator.concat(xs, [1]), operator.countOf(xs, 7), operator.indexOf(xs, 2)",
        [[[1, 2], {"a": 1}], [[3, 7, 2], {"a": 1}], [[1], {"a": 1}]],
    ),
}

MATH: Table = {
    "log2": (
        "x: float, n: int",
        "return math.log2(x), math.log2(n), int(math.log2(8)), math.nextafter(x, 9.0), math.ulp(x)",
        [[2.5, 3], [8.0, 2], [0.0, 1], [1.0, 0]],
    ),
}
UNSAVED = {"log2": "no math.log2"}

DICTS: Table = {
    "fromkeys": (
        "xs: List[str], n: int",
        "d = dict.fromkeys(xs, n)\nd['z'] = 7\nreturn d, list(dict.fromkeys(xs)), dict.fromkeys([1, 2], 'a'), "
        "dict.fromkeys((n, 3), 0.5)",
        [[["b", "a", "b"], 2], [[], 3]],
    ),
    "union": (
        "a: Dict[str, int], b: Dict[str, int]",
        "c = a | b\nc['new'] = 0\nreturn a, b, c, a | {'z': 5}, {'a': 0, 'q': 1} | a, a | {}, {} | b",
        [[{"a": 1}, {"a": 2, "c": 3}], [{}, {}]],
    ),
    "that keep their order": (
        "n: int",
        "d: OrderedDict[str, int] = OrderedDict()\nd['b'] = n\nd['a'] = 1\nd.move_to_end('b')\nxs = list(d)\n"
        "d.move_to_end('b', last=False)\nreturn xs, list(d.items()), len(d), d['a']",
        [[2]],
    ),
    "union in place": (
        "a: Dict[str, int], b: Dict[str, int]",
        "c = a\nc |= b\nd = {'k': a}\nd['k'] |= {'z': 9}\nreturn a, b, c, d",
        [[{"a": 1}, {"a": 2, "c": 3}], [{}, {}]],
    ),
}

DATACLASSES: Table = {
    "replace": (
        "n: int",
        "p = Part(n, zs=[1])\nq = dataclasses.replace(p, y=3.5)\nq.zs.append(2)\n"
        "w = dataclasses.replace(Whole(Name(n), 1), n=2)\n"
        "return q.x, q.y, p.y, p.zs, dataclasses.replace(Name(n), a=7).b, w.n, w.name.a, w.hidden",
        [[2]],
    ),
    "asdict": (
        "n: int",
        "d = dataclasses.asdict(Pair(n, 2))\nr = 0\n"
        "for k, v in dataclasses.asdict(Pair(n, 3)).items():\n  r += v * len(k)\n"
        "return d, r, dataclasses.asdict(Name(n)), dataclasses.asdict(Name(n))['a']",
        [[2]],
    ),
    "astuple": (
        "n: int",
        "p = Part(n, zs=[1])\nt = dataclasses.astuple(p)\np.zs.append(2)\n"
        "return t, dataclasses.astuple(Whole(Name(n), 3)), dataclasses.astuple(Pair(1, n))",
        [[2]],
    ),
    "fields": (
        "n: int",
        "p = Pair(n, 3)\nreturn [f.name for f in dataclasses.fields(Pair)], "
        "sum([getattr(p, f.name) for f in dataclasses.fields(p)])",
        [[2]],
    ),
}


@pytest.fixture(autouse=True)
def module_of_the_programs(monkeypatch):
    # `dataclass` looks for the module of the class that it is given
    monkeypatch.setitem(sys.modules, "generated", ModuleType("generated"))


@pytest.mark.parametrize("name", ITERTOOLS)
def test_itertools(name):
    check_case(ITERTOOLS, name)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    check_case(OPERATORS, name)


@pytest.mark.parametrize("name", MATH)
def test_math(name):
    check_case(MATH, name, UNSAVED)


@pytest.mark.parametrize("name", DICTS)
def test_dicts(name):
    check_case(DICTS, name, head="from collections import OrderedDict\n")


@pytest.mark.parametrize("name", DATACLASSES)
def test_dataclasses(name):
    check_case(DATACLASSES, name, head=HEAD)


REFUSED = {
    "itertools.product(xs, repeat=n)": "compiled for one to 4 iterables",
    "itertools.product(xs, xs, xs, repeat=2)": "compiled for one to 4 iterables",
    "itertools.combinations(xs, 5)": "pairs and triples",
    "itertools.permutations(xs)": "pairs and triples",
    "dataclasses.asdict(Held(torch.ones(1)))": "copies what the field 'x' holds",
    "dataclasses.astuple(n)": "takes an object of a dataclass",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused(expression):
    source = source_of("xs: List[int], n: int", f"return {expression}", HEAD)
    with pytest.raises(jitlite.CompileError, match=REFUSED[expression]) as raised:
        jitlite.script(compile_source(source)["f"])
    assert "HERE" in str(raised.value)


def test_lists_of_dataclasses_are_copied():
    source = source_of("n: int", "p = Part(n)\nq = dataclasses.astuple(p)[2]\np.zs.append(n)\nreturn q, p.zs", HEAD)
    assert jitlite.script(compile_source(source)["f"])(2) == ([], [2])
