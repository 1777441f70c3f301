"""Sets as values mean what they mean in eager Python: on each tier and written as Python. Archives have none."""

from __future__ import annotations

import copy
import io
import random
from typing import Any

import pytest
import torch
from accepted_python import WAYS, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base import options
from jitlite.base.source import CompileError, NotSupportedError
from jitlite.debug.outcome import observe
from jitlite.ir.parser import parse

SETS: dict[str, tuple[str, str, list[list[Any]]]] = {
    "displays": ("n: int", "s = {n, 2, 3}\nreturn s, len(s), {3, 1, 2}, {n}, {'a', 'b'}, {1.5, n * 1.0}", [[3], [5]]),
    "calls": (
        "xs: List[int], d: Dict[str, int], t: str",
        "return set(xs), frozenset(xs), set(d), frozenset(d.keys()), set(t), set((1, 2)), set(range(3)), "
        "set(x + 1 for x in xs), set(map(str, xs)), set({1, 2}), frozenset({1}), set(d.values())",
        [[[3, 1, 3], {"a": 1}, "hello"], [[], {}, ""]],
    ),
    "empty": (
        "n: int",
        "s: Set[int] = set()\nt: Set[str] = set()\nu: FrozenSet[int] = frozenset()\ns.add(n)\nt |= {'a'}\n"
        "v: Set[float] = {1, 2.5}\nreturn s, t, u, v, bool(t), not u",
        [[1]],
    ),
    "comprehensions": (
        "xs: List[int]",
        "return {x % 3 for x in xs}, {x for x in xs if x > 1}, {a * b for a in xs for b in xs}, {*xs, 7, *xs}, {0, *xs}",  # noqa: E501
        [[[1, 2, 3, 4]], [[]]],
    ),
    "membership": (
        "s: Set[int], n: int, x: float, o: Optional[int]",
        "return n in s, n not in s, x in s, o in s, 'a' in s, True in s, None in s",
        [[{1, 2}, 1, 2.0, None], [set(), 0, 0.5, 3]],
    ),
    "changes": (
        "s: Set[int], n: int",
        "s.add(n)\ns.discard(1)\ns.discard(100)\nr = s.copy()\ns.update([7, 8], (9,), {10})\ns.update()\n"
        "t = s\nt.add(77)\ns.remove(7)\nr.clear()\nreturn s, r, s is t",
        [[{1, 2}, 5], [set(), 1]],
    ),
    "errors of changes": (
        "s: Set[int], n: int",
        "if n:\n s.remove(n)\nreturn s.pop()",
        [[{1}, 1], [set(), 0], [{1}, 2]],
    ),
    "pop": ("s: Set[int]", "r = [0]\nwhile s:\n r.append(s.pop())\nreturn r, s", [[{5, 3, 100, -7, 64, 32}]]),
    "operators": (
        "a: Set[int], b: Set[int], c: FrozenSet[int]",
        "return a | b, a & b, a - b, a ^ b, c | a, a | c, c - b, c & c, c ^ a",
        [[{1, 2}, {2, 3}, frozenset([3, 9])], [set(), {1}, frozenset()]],
    ),
    "in place": (
        "a: Set[int], b: Set[int], c: FrozenSet[int]",
        "d, e, k = a, c, a.copy()\na |= b\na &= {1, 2, 3, 4}\na -= {4}\na ^= c\nc |= b\nk -= k\n"
        "return a, c, d is a, e, k",
        [[{1, 2}, {2, 3, 4}, frozenset([3])]],
    ),
    "methods": (
        "a: Set[int], xs: List[int], d: Dict[int, str]",
        "b = a.copy()\nb.intersection_update(xs)\nc = a.copy()\nc.difference_update(xs, [1])\ne = a.copy()\n"
        "e.symmetric_difference_update(xs)\n"
        "return a.union(xs, [9]), a.intersection(xs), a.difference(xs), a.symmetric_difference(xs), a.issubset(xs), "
        "a.issuperset(xs), a.isdisjoint(xs), a.issubset({1, 2, 3}), b, c, e, a.union(d), a.union(), a.intersection(d), "
        "a.union(x * 2 for x in xs)",
        [[{1, 2}, [2, 3, 3], {4: "a"}], [set(), [], {}], [{5}, [5], {5: ""}]],
    ),
    "comparisons": (
        "a: Set[int], b: Set[int], c: FrozenSet[int]",
        "return a == b, a != b, a <= b, a < b, a >= b, a > b, a == c, c <= a, a == [1], a != 3, {1} == {1.0}",
        [[{1}, {1, 2}, frozenset([1])], [set(), set(), frozenset()]],
    ),
    "functions of elements": (
        "s: Set[int], t: Set[str], f: FrozenSet[float]",
        "return sorted(s), list(s), sum(s), max(s), min(s), any(s), all(s), sorted(t), ','.join(sorted(t)), len(t), "
        "list(f), max(s, key=lambda v: -v), sorted(s, reverse=True), list(enumerate(s)), list(zip(s, t)), "
        "[v for v in s if v > 1], len(tuple(s)), [*s], list(map(abs, s)), list(filter(None, s)), "
        "torch.tensor(list(s)), max(t, default='')",
        [[{3, 1, 2}, {"b", "a"}, frozenset([0.5])], [{1}, {"x"}, frozenset()]],
    ),
    "unpacked": ("s: Set[int]", "a, b = s\nc, *d = s\nreturn a, b, c, d", [[{3, 1}], [{5, 64}]]),
    "text": (
        "s: Set[int], t: FrozenSet[str]",
        "print(s, t)\nreturn str(s), f'{s} {t}', str(set(s) - s)",
        [[{1, 2}, frozenset("a")]],
    ),
    "truth": ("s: Set[int], o: Optional[Set[int]]", "r = 1 if s else 2\nif o:\n return r, len(o)\nreturn r, -1",
              [[{1}, {2}], [set(), set()], [set(), None]]),
    "in containers": (
        "d: Dict[str, Set[int]], xs: List[FrozenSet[int]]",
        "d['a'].add(5)\nd['b'] = {1}\ne = {1: {2}}\ne[1] |= {3}\nreturn d, e, len(xs[0]), [{1}], ({1}, 2)",
        [[{"a": {1}}, [frozenset([1])]]],
    ),
    "tests of types": (
        "s: Set[int], o: Any, u: Union[int, Set[int], FrozenSet[int]]",
        "r = len(u) if isinstance(u, (set, frozenset)) else u\n"
        "return isinstance(s, set), isinstance(s, frozenset), isinstance(o, set), isinstance(o, (list, frozenset)), r",
        [[{1}, {1}, 3], [{1}, frozenset(), {4}], [{1}, [1], frozenset([1, 2])]],
    ),
    "loops": (
        "s: Set[int]",
        "n = 0\nfor v in s:\n if v == 3:\n  continue\n n = n * 31 + v\n if v > 50:\n  break\nelse:\n n += 1\nreturn n",
        [[{1, 3, 5}], [{100, 3, 7}], [set()]],
    ),
    "a loop that changes another": ("s: Set[int]", "t = set(s)\nfor v in s:\n t.discard(v)\nreturn t", [[{1, 2}]]),
    "global": (
        "s: Set[str], n: int",
        "return s | NAMES, NAMES - s, s <= NAMES, NAMES == s, FROZEN | {n}, FROZEN, NAMES.union(s), "
        "s.intersection(NAMES), sorted(NAMES), FROZEN.issuperset([n]), set(NAMES), 'a' in NAMES, len(FROZEN), "
        "[v for v in sorted(FROZEN)]",
        [[{"a"}, 2]],
    ),
    "enums and tuples": (
        "c: Color",
        "s = {Color.RED, c}\ns.add(Color.BLUE)\nt = {(1, 'a'), (2, 'b')}\n"
        "return len(s), c in s, Color.RED in {c}, (1, 'a') in t, len(t), {None, 1} == {1, None}",
        [[None]],
    ),
    "in branches": (
        "n: int",
        "s = {1}\nif n > 1:\n s = {n, n + 1}\nfor i in range(n):\n s = s | {i}\nreturn s",
        [[0], [3]],
    ),
    "abstract": (
        "a: AbstractSet[int]", "return len(a), 1 in a, sorted(a)", [[{1, 2}], [frozenset([1])]]
    ),
    "numbers beyond 64 bits, and nan": (
        "x: float",
        "return {1180591620717411303424, -1} | {1}, len({x, x}), x in {0.5, 1.5}, {True, False}",
        [[1.5], [float("nan")]],
    ),
}  # fmt: skip

SAVED: dict[str, tuple[str, str, list[list[Any]]]] = {
    "looked up": ("n: int", "s = {1, 2}\nt = frozenset([n, 4])\nreturn n in s, 3 not in s, n in t", [[1], [5]]),
    "the same nan in what is written out": (
        "x: float, xs: List[float]",
        "return x in {x}, x in {1.0, x}, xs[0] in {xs[0], x}, x in {xs[0]}, x not in {x, 2}, x in {0.5, 1}",
        [[float("nan"), [float("nan")]], [1.0, [2.0]]],
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_sets(name):
    check_case(SETS, name, dict.fromkeys(SETS, "TorchScript has no sets"))


@pytest.mark.parametrize("name", SAVED)
def test_sets_that_are_only_looked_into_are_saved(name):
    check_case(SAVED, name)


ORDERED = """
def f(xs: List[T], ys: List[T]):
    a, b = set(xs), {y for y in ys}
    c = a | b
    found = [list(a), list(b), list(c), list(a & b), list(a - b), list(a ^ b), list(c.copy()), list(frozenset(xs) | b)]
    for v in ys:
        a.discard(v)
    a.update(ys, xs)
    found.append([v for v in a])
    a -= b
    found.append([v for v in a.union(ys)])
    b &= c
    found.append([b.pop() for _ in range(len(b) // 2)])
    found.append(list(set({v: 1 for v in xs})))
    found.append(list({*ys, *xs}))
    return found, c
"""

ELEMENTS = {
    "int": lambda random: random.choice([random.randrange(-20, 20), random.randrange(-(2**70), 2**70), 2**61 - 1, -1]),
    "str": lambda random: random.choice("abcdefghijklmnop") * random.randrange(4),
    "float": lambda random: random.choice([random.random() * 99, -0.0, 0.0, 1e300, float(random.randrange(-40, 40))]),
    "bool": lambda random: random.random() < 0.5,
}


@pytest.mark.parametrize("kind", ELEMENTS)
def test_elements_stand_in_the_order_that_python_gives_them(kind):
    source = "from typing import *\n" + ORDERED.replace("T]", f"{kind}]")
    function = compile_source(source)["f"]
    numbers = random.Random(kind)
    runs = []
    for changes in WAYS:
        with options.override(**changes):
            runs.append((changes, jitlite.script(function)))
    written: dict[str, Any] = {}
    program = jitlite.to_python(runs[0][1])
    exec(compile(program.source, "written.py", "exec"), written)
    runs.append(("written", written[program.name]))
    for _ in range(25):
        given = [[ELEMENTS[kind](numbers) for _ in range(numbers.randrange(30))] for _ in range(2)]
        wanted = repr(function(*copy.deepcopy(given)))
        for what, run in runs:
            for _ in range(2):  # the second call may run another plan
                assert repr(run(*copy.deepcopy(given))) == wanted, (what, given)


@pytest.mark.parametrize("seed", range(4))
def test_displays_of_constants_have_the_order_of_python(seed):
    numbers = random.Random(seed)
    sizes = [numbers.randrange(1, 40) for _ in range(8)]
    displays = [f"{{{', '.join(str(numbers.randrange(-200, 200)) for _ in range(n))}}}" for n in sizes]
    loops = ", ".join(f"[v for v in {d}], list({d}), {d} | {{n}}" for d in displays)
    function = compile_source(f"def f(n: int):\n    return {loops}\n")["f"]
    for changes in WAYS:
        with options.override(**changes):
            assert repr(jitlite.script(function)(3)) == repr(function(3)), changes


REFUSED = {
    "s = set()\n return s": "the type of the elements of an empty set is not known",
    "s = {1, 'a'}\n return s": "the elements of a set are of several types",
    "s = {torch.ones(1)}\n return s": "a set of Tensor isn't supported",
    "return set([torch.ones(1)])": "a set of Tensor isn't supported",
    "s = {1}\n s.add('a')\n return s": "the set holds int, and is given str",
    "s = frozenset([1])\n s.add(2)\n return s": "'frozenset' object has no attribute or method 'add'",
    "s = {1}\n s.append(2)\n return s": "'set' object has no attribute or method 'append'",
    "NAMES.add('x')": "a global set cannot be changed",
    "return NAMES": "cannot be used as a value, as it may change",
    "return {1} | [2]": "unsupported operand types for |",
    "return {1} + {2}": "unsupported operand types for +",
    "s = {1}\n return s[0]": "not subscriptable",
    "s = {1}\n return list(reversed(s))": "a set cannot be reversed",
    "return set(1)": "a set cannot be made of or combined with a int",
    "s: Set[List[int]] = set()\n return s": "a set cannot hold values of type",
    "return [1] in {1}": "a set of List",
    "s = {1}\n s.update(k=2)": "takes no keyword arguments",
    "s = {1}\n return s.pop(1)": "pop() takes 0 arguments, got 1",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_refused_names_the_line(body):
    function = compile_source(source_of("n: int", body.replace("\n ", "\n")))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert REFUSED[body] in str(caught.value) and "HERE" in str(caught.value)


class Seen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {1, 2}
        self.words = frozenset(["a", "b"])
        self.later: set[str] = set()

    def forward(self, n: int, word: str):
        self.seen.add(n)
        self.later = self.later | {word}
        return n in self.seen, word in self.words, len(self.later), self.seen


def test_attributes_are_the_sets_of_the_module():
    module = Seen()
    scripted = jitlite.script(module)
    assert scripted(7, "a") == (True, True, 1, {1, 2, 7})
    assert scripted(8, "z")[:3] == (True, False, 2) and scripted.seen == {1, 2, 7, 8} and scripted.later == {"a", "z"}
    twin = copy.deepcopy(scripted)
    twin(9, "a")
    assert 9 not in scripted.seen and 9 in twin.seen
    with pytest.raises(NotSupportedError, match="no place in an archive"):
        jitlite.save(scripted, io.BytesIO())


class Declared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen: set[int] = set()
        self.words: frozenset[str] = frozenset()

    def forward(self, n: int, word: str):
        self.seen.add(n)
        return len(self.seen), word in self.words


def test_init_declares_the_sets_that_no_method_replaces():
    module, scripted = Declared(), jitlite.script(Declared())
    for n in (3, 4, 3):
        assert scripted(n, "a") == module(n, "a")
    assert scripted.seen == {3, 4}


def test_a_set_that_changes_in_its_loop_is_python_s_error():
    function = compile_source("def f(s: 'set[int]'):\n    for v in s:\n        s.add(v + 10)\n    return s\n")["f"]
    for changes in (*WAYS, {"tier": "python"}):
        with options.override(**changes):
            assert jitlite.script(function)(set()) == set()
            given = {1, 2}
            with pytest.raises(RuntimeError, match="Set changed size during iteration"):
                jitlite.script(function)(given)
            assert given == {1, 2, 11}


def test_each_call_makes_a_new_set():
    function = jitlite.script(compile_source("def f():\n    return {1, 2, 3}, {4}, set([5])\n")["f"])
    for _ in range(4):
        made = function()
        assert made == ({1, 2, 3}, {4}, {5})
        for each in made:
            each.add(9)


def test_an_argument_is_the_caller_s_own_set():
    function = jitlite.script(compile_source("def f(s: 'set[int]'):\n    s.add(3)\n    return s\n")["f"])
    given = {1}
    assert function(given) is given and given == {1, 3}
    for wrong in ([1], {"a"}, {1: 2}):
        with pytest.raises(RuntimeError):
            function(wrong)


def test_graphs_with_sets_are_read_back():
    source = "from typing import *\nF = frozenset([1, 5])\ndef f(s: Set[int], o: Optional[FrozenSet[str]]):\n"
    function = jitlite.script(compile_source(source + "    return (s | F) - {1}, o\n")["f"])
    text = function.graph.to_text(ranges=False)
    assert parse(text).to_text(ranges=False) == text


def test_a_default_may_be_a_frozenset():
    source = "from typing import *\ndef f(n: int, s: FrozenSet[int] = frozenset([1, 2])):\n    return n in s, s\n"
    function = compile_source(source)["f"]
    for given in ([1], [5], [5, frozenset([5])]):
        assert observe(jitlite.script(function), given).told[:4] == observe(function, given).told[:4]
