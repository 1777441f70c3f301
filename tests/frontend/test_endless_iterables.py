"""`itertools.count` and `cycle`, which something else ends."""

from __future__ import annotations

import io

import pytest
from strategies import compile_source

import jitlite
from jitlite import options

PROGRAMS = {
    "counted from one": "for i, x in zip(itertools.count(1), xs): n += i * x\nreturn n",
    "counted by steps": "for i, x in zip(itertools.count(n, 3), xs): n += i * x\nreturn n",
    "counted down": "for i, x in zip(itertools.count(10, step=-1), xs): n += i * x\nreturn n",
    "counted behind": "return [x * i for x, i in zip(xs, itertools.count())]",
    "counted until a break": "for i in itertools.count(start=n):\n  if i * i > 50: break\n  n += i\nreturn n",
    "counted until a return": "for i in itertools.count():\n  if i > n: return i * 2\nreturn 0",
    "mapped": "for i, x in zip(map(lambda v: v * v, itertools.count(2)), xs): n += i * x\nreturn n",
    "cycled list": "for w, x in zip(itertools.cycle([1, -1]), xs): n += w * x\nreturn n",
    "cycled tuple": "for x, w in zip(xs, itertools.cycle((1, 2, 3))): n += w * x\nreturn n",
    "cycled argument": "for i, x in zip(range(7), itertools.cycle(xs)): n += i * x\nreturn n",
    "cycled text": "return ''.join([c for c, x in zip(itertools.cycle('ab'), xs)])",
    "cycled range": "return [i for i, x in zip(itertools.cycle(range(2)), xs)]",
    "cycled until a break": "for x in itertools.cycle(xs):\n  n += x\n  if n > 20: break\nreturn n",
    "enumerated": "for i, (w, x) in enumerate(zip(itertools.cycle([1, 2]), xs)): n += i * w * x\nreturn n",
    "both": "for i, w, x in zip(itertools.count(), itertools.cycle([5, 6]), xs): n += i * w * x\nreturn n",
    "kept in a variable": "c = itertools.count(4)\nfor i, x in zip(c, xs): n += i * x\nreturn n",
}
WAYS = ({"tier": "stack"}, {"native": "now"}, {"executor": "off"}, {})


def function_of(body):
    lines = "\n    ".join(body.split("\n"))
    return compile_source(f"import itertools\ndef f(xs: List[int], n: int):\n    {lines}")["f"]


@pytest.mark.parametrize("what", PROGRAMS)
def test_what_has_no_end_is_gone_through_as_in_python(what):
    function = function_of(PROGRAMS[what])
    script = jitlite.script(function)
    buffer = io.BytesIO()
    jitlite.save(script, buffer)
    buffer.seek(0)
    loaded = jitlite.load(buffer)
    inputs = [([1, 2, 3, 4, 5], 2), ([7], 0), ([3, 3], -1), *([([], 1)] if "break" not in what else [])]
    for xs, n in inputs:
        wanted = function(list(xs), n)
        for changes in WAYS:
            with options.override(**changes):
                assert jitlite.script(function)(list(xs), n) == wanted, (xs, n, changes)
        assert loaded(list(xs), n) == wanted


REFUSED = {
    "return list(map(lambda v: v, itertools.count(0.5)))": "itertools.count is compiled for ints",
    "return sum(xs) in itertools.count()": "itertools.count",
    "c = itertools.cycle(xs)\nfor i, x in zip(xs, c): n += x\nfor i, x in zip(xs, c): n += x\nreturn n": "gone through",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_python_would_do_otherwise_is_refused(body):
    with pytest.raises(jitlite.CompileError, match=REFUSED[body]):
        jitlite.script(function_of(body))
