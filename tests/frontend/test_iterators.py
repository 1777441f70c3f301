"""Generators compute what they are asked for, and loops see what changes meanwhile, as Python's iterators do."""

from __future__ import annotations

import io

import pytest
import torch
from strategies import compile_source

import jitlite
from jitlite.base import options
from jitlite.base.source import NotSupportedError
from jitlite.debug.equality import difference
from jitlite.debug.outcome import observe

WAYS = ({"tier": "stack"}, {"native": "now"}, {"executor": "off"}, {"executor": "legacy"})


def check(source, inputs):
    """Hold a program to eager Python, on each tier and after it was saved and loaded."""
    function = compile_source(source)["f"]
    expected = [observe(function, arguments) for arguments in inputs]
    for changes in WAYS:
        with options.override(**changes):
            compare(jitlite.script(function), expected, inputs, f"{changes}\\n{source}")
    buffer = io.BytesIO()
    try:
        jitlite.save(jitlite.script(function), buffer)
    except NotSupportedError:
        return
    buffer.seek(0)
    compare(jitlite.load(buffer), expected, inputs, f"loaded\\n{source}", exactly=False)


def compare(run, expected, inputs, what, exactly=True):
    for wanted, arguments in zip(expected, inputs, strict=True):
        got = observe(run, arguments)
        if exactly or not (wanted.raised and got.raised):
            assert not difference(wanted.told[:4], got.told[:4]), what


# -- generators

HEAD = """
def asked(n: int) -> bool:
    print("asked", n)
    return 10 // n > 2

def f(xs: List[int], st: str, t: Tensor, v: int):
    """
ARGUMENTS = [[xs, "abcd", [-1.0, 0.0, 1.0], 1] for xs in ([3, 1, 0, 2], [7, 9, 0], [20, 4, 1], [1, 2], [], [0, 0])]

EXPRESSIONS = [
    "any(10 // v > 1 for v in xs)", "all(10 // v > 1 for v in xs)", "any(asked(v) for v in xs)",
    "all(asked(v) for v in xs)", "any(v for v in xs)", "all(st[v:] for v in xs)", "any(v > 0 for v in (1, 2, xs[0]))",
    "any(asked(i * x) for i, x in enumerate(xs))", "any(x > 0 for x in t)",
    "any(asked(v) for v in [x - 1 for x in xs])",
    "any(asked(v) for v in (x - 1 for x in xs))", "any(c == 'b' for c in st)", "sum(10 // v for v in xs)",
    "max(10 // v for v in xs)", "list(10 // v for v in xs)", "sorted(10 // v for v in xs)",
    "','.join(str(10 // v) for v in xs)", "dict((v, 10 // v) for v in xs)",
    "any(any(asked(v * w) for w in xs) for v in xs)", "any(asked(k) for k in {1: 2, 0: 3})",
    "[any(asked(v * w) for w in xs) for v in xs]", "any([asked(v) for v in xs])",
    "(any(asked(v) for v in xs), all(asked(v) for v in xs), v)", "not all(asked(v) for v in xs) or v > 0",
    "any(i > 0 and all(asked(w) for w in xs[:i]) for i in range(len(xs)))",
]  # fmt: skip
LOOPS = [
    "for x in (asked(v) for v in xs):\n        if x: break\n        print('next')",
    "for i, x in enumerate(asked(v) for v in xs):\n        print(i)\n        if i == 1: break",
    "for x, y in zip(xs, (asked(v) for v in xs)):\n        print(x)\n        if y: break",
    "for x in (asked(v) for v in xs):\n        if v < 3: xs.append(3)\n        v += 1",
    "for x in (asked(v) for v in (w * 2 for w in xs)):\n        print(x)",
    "for x in (asked(a) for a in xs):\n        print(x)\n    else:\n        v += 1",
    "if any(asked(x) for x in xs) and v > 1:\n        v = 3",
    "while any(x > 0 for x in xs):\n        xs.pop()",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_generators_are_asked_as_in_python(expression):
    check(f"{HEAD}return {expression}\n", generator_inputs())


@pytest.mark.parametrize("loop", LOOPS)
def test_loops_over_generators(loop):
    check(f"{HEAD}{loop}\n    return v, xs\n", generator_inputs())


def generator_inputs():
    return [[xs, st, torch.tensor(t), v] for xs, st, t, v in ARGUMENTS]


# -- what changes while it is iterated

HEAD_OF_CHANGES = """
def write(d: Dict[str, int], k: str) -> int:
    d[k] = 77
    return 1

def f(d: Dict[str, int], e: Dict[str, int], xs: List[int], n: int):
    s = 0
    c = 0
    r: List[int] = []
    """
TAIL = "\n    return s, c, r, d, xs\n"
SUM = "\n        s = s * 3 + v"
CHANGES = [
    f"for k, v in d.items():\n        d['c'] = 100{SUM}",
    f"for v in d.values():\n        d['c'] = d['c'] + 100{SUM}",
    f"for k, v in d.items():\n        for q in d: d[q] += 1{SUM}",
    f"for k, v in d.items():\n        write(d, 'b'){SUM}",
    f"for k, v in d.items():\n        write(e, 'b'){SUM}",
    f"for i, v in enumerate(d.values()):\n        d['c'] = i{SUM}",
    f"for i, (k, v) in enumerate(d.items()):\n        d['c'] = i{SUM}",
    f"for v, x in zip(d.values(), xs):\n        d['b'] = x{SUM}",
    f"for x, v in zip(xs, d.values()):\n        d['b'] = x{SUM}",
    "r = [v + write(d, 'c') for v in d.values()]",
    "r = [v + write(d, 'c') for k, v in d.items()]",
    "s = sum(v + write(d, 'c') for v in d.values())",
    f"a = d\n    for k, v in a.items():\n        d['c'] = 5{SUM}",
    f"it = d.items()\n    for k, v in it:\n        d['c'] = 9{SUM}",
    f"for k, v in list(d.items()):\n        d['c'] = 9{SUM}",
    f"for k, v in d.items():\n        d = {{'a': 1}}\n        d['b'] = 3{SUM}",
    f"for k, v in d.items():\n        d.update(e){SUM}",
    f"for k, v in d.items():\n        if v > 1: continue\n        d['b'] += 4{SUM}",
    "for v in d.values():\n        for u in d.values():\n            d['c'] += v\n            c += u",
    "for k in d:\n        d['z'] = 1\n        c += 1",
    "for k, v in d.items():\n        d['z'] = 1\n        c += 1",
    "for v in d.values():\n        d['z'] = 1\n        c += 1",
    "for k in d:\n        if c == n: write(d, 'z')\n        c += 1",
    "for k in d:\n        d.pop(k)\n        c += 1",
    "for i, k in enumerate(d):\n        d['z'] = i\n        c += 1",
    "for k, x in zip(d, xs):\n        d['z'] = x\n        c += 1",
    "for x, k in zip(xs, d):\n        d['z'] = x\n        c += 1",
    "for x, k in zip(xs[:2], d):\n        d['z'] = x\n        c += 1",
    "for k, q in zip(d, e):\n        e['z'] = 1\n        c += 1",
    "for k, q in zip(e, d):\n        if c == 1: d['z'] = 1\n        c += 1",
    "for x, k in zip(xs, d):\n        xs.pop()\n        d['z'] = x\n        c += 1",
    "for k in list(d.keys()):\n        d[k + 'z'] = 1\n        c += 1",
    "r = [write(d, k + 'q') for k in d]",
    "for i, v in enumerate(xs):\n        if i < 4: xs.append(i)" + SUM,
    "for x, v in zip(xs, xs):\n        if len(xs) < 6: xs.append(x)" + SUM,
    "for v in xs:\n        xs[n] = 50" + SUM,
    "for v in xs:\n        xs.remove(v)" + SUM,
    "for v in xs[:]:\n        xs.append(v)" + SUM,
    "r = [xs.pop() for v in xs]",
]


@pytest.mark.parametrize("body", CHANGES)
def test_what_changes_while_it_is_iterated(body):
    inputs = [[{"a": 1, "b": 2, "c": 3}, {"q": 1, "b": 5}, [4, 5, 6], n] for n in (0, 2)]
    check(f"{HEAD_OF_CHANGES}{body}{TAIL}", inputs)


# -- generators with conditions and several loops

CLAUSES = [
    "return any(10 // x > 2 for x in xs if x != 7)",
    "return all(12 // x > 0 for x in xs if x > 0 if asked(x))",
    "return any(asked(x - y) for x in xs if x > 1 for y in xs if y != x)",
    "return all(x + y != 6 for x in xs for y in xs if asked(y))",
    """found: List[int] = []
    for y in (10 // x for x in xs if x != 2):
        if y == 3:
            continue
        found.append(y)
        if y == 10 and len(found) > 1:
            break
    else:
        found.append(-1)
    return found""",
    """found: List[int] = []
    for p in (x * y for x in xs if asked(x) for y in xs if y > x):
        if p == 4:
            continue
        print("body", p)
        found.append(p)
    return found""",
]


@pytest.mark.parametrize("body", CLAUSES)
def test_generators_with_clauses(body):
    check(f"{HEAD}{body}\n", generator_inputs())


def test_a_break_out_of_several_loops_of_a_generator_is_refused():
    source = (
        HEAD
        + """for p in (x * y for x in xs for y in xs):
        if p > 3:
            break
    return 1"""
    )
    with pytest.raises(NotSupportedError, match="with several loops"):
        jitlite.script(compile_source(source)["f"])
