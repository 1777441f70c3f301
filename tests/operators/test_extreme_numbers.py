"""Functions of numbers do what Python does: exceptions, their messages, infinities, ints of any size."""

from __future__ import annotations

import itertools
import math

import pytest
from strategies import compile_source

import jitlite
from jitlite.base import options
from jitlite.debug.equality import difference
from jitlite.debug.outcome import observe

VALUES = {
    "int": [0, 1, -1, 3, -7, 63, 10**400, -(10**400), 1 << 63, -(1 << 63), 170, 171],
    "float": [0.0, -0.0, 1.0, -1.0, 0.5, -1.5, math.inf, -math.inf, math.nan, 1e308, 5e-324, 400.0, 2.5, 171.0],
    "bool": [True, False],
}
FUNCTIONS = (
    "ceil erf erfc exp expm1 fabs floor gamma lgamma log log10 log1p sqrt isnan asinh atanh cosh sinh tanh acos asin"
    " atan cos sin tan acosh modf frexp isinf degrees radians isfinite"
)
OF_ONE = ["-a", "+a", "~a", "abs(a)", "round(a)", "int(a)", "float(a)", "bool(a)", "str(a)", "complex(a)", "not a",
          *(f"math.{name}(a)" for name in FUNCTIONS.split())]  # fmt: skip
OF_TWO = ["a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "a & b", "a | b", "a ^ b", "a >> b", "a < b", "a <= b",
          "a > b", "a >= b", "a == b", "a != b", "divmod(a, b)", "complex(a, b)", "math.copysign(a, b)",
          "math.pow(a, b)", "math.log(a, b)", "math.atan2(a, b)", "math.fmod(a, b)", "math.ldexp(a, b)",
          "math.gcd(a, b)", "math.remainder(a, b)"]  # fmt: skip


def told(function, arguments):
    """What a call gives, or its exception with the message."""
    try:
        result = function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)
    return type(result).__name__, repr(result)


def ways(function):
    """The function compiled for each tier, and written as Python."""
    for tier in options.TIERS:
        with options.override(tier=tier):
            scripted = jitlite.script(function)
            yield tier, scripted
    namespace = {}
    exec(jitlite.to_python(scripted).source, namespace)
    yield "to_python", namespace["f"]


@pytest.mark.parametrize("expression", [*OF_ONE, *OF_TWO])
def test_functions_of_numbers(expression):
    count = 1 if expression in OF_ONE else 2
    compiled = 0
    for types in itertools.product(VALUES, repeat=count):
        parameters = ", ".join(f"{name}: {t}" for name, t in zip("ab", types))
        function = compile_source(f"def f({parameters}):\n    return {expression}\n")["f"]
        try:
            found = list(ways(function))
        except jitlite.CompileError:
            continue
        compiled += 1
        for arguments in itertools.product(*(VALUES[t] for t in types)):
            wanted = told(function, arguments)
            for name, run in found:
                assert told(run, arguments) == wanted, (name, types, arguments)
    assert compiled


BODIES = [
    "for i in range({b}, {b} + n): s += i % 5",
    "for i in range({b} - n, {b}, 2): s += i % 5",
    "for i in range({b}, {b} - n, -1): s += i % 5",
    "for i in range(n):\n        for j in range({b}, {b} + i): s += j",
    "for i in range({b}):\n        if i > n: break\n        s += i",
    "for i in range(n, {b}):\n        s += i\n        if s > 99: return s, xs",
    "for i, x in enumerate(xs, {b}): s += i * x",
    "for i, x in enumerate(xs, {b} - 1): s += i * x",
    "for (i, x), y in zip(enumerate(xs, {b}), xs): s += i * x + y",
    "for i, x in zip(range({b}, {b} + 2), xs): s += i * x",
    "for i, x in enumerate((1, 2), {b}): s += i * x",
    "s = sum([i for i, x in enumerate(xs, {b})])",
    "i = {b}\n    while i < {b} + n:\n        s += i % 3\n        i += 1",
    "s = {b}\n    for i in range(n): s = s * 3 + i",
    "for i in range(n):\n        if i * {b} > 7: s += {b} // 3",
    "for i in [{b}, 2, {b}]: s += i",
    "d = {{{b}: n}}\n    for i in range(n): d[{b} + i] = i\n    s = d[{b} + 1] + len(d) + int({b} in d)",
    "s = len(xs[{b}:]) + 10 * len(xs[:{b}]) + 100 * len(xs[::{b}]) + 1000 * len(xs[-{b}:n])",
    "s = len(st[{b}:]) + 10 * len(st[:{b}]) + 100 * len(st[::{b}])",
    "s = xs[{b}]",
    "xs[{b}] = 3",
    "xs.insert({b}, 3)",
    "s = len([1] * -{b})",
    "s = len([0] * ({b} - {b} + n))",
    "s = ({b} >> n) + ({b} << n) + (-{b} >> 64) + (n >> {b}) + ({b} & n) + ({b} ^ n)",
    "s = 1 << {b}",
    "s = divmod({b}, 7)[1] + max({b}, n) + abs(-{b}) + int(float({b}))",
]


@pytest.mark.parametrize("body", BODIES)
def test_ints_beyond_64_bits(body):
    for big in (1 << 63, (1 << 63) - 1, -(1 << 63), -(1 << 63) - 1, 1 << 70):
        if body == "s = 1 << {b}" and 0 < big < 1 << 63:
            continue  # takes all memory
        for written in (f"({big})", "b"):
            text = body.format(b=written)
            source = f"def f(n: int, xs: List[int], st: str, b: int):\n    s = 0\n    {text}\n    return s, xs\n"
            function = compile_source(source)["f"]
            arguments = [5, [3, 1, 2], "abc", big]
            wanted = observe(function, arguments)
            for changes in ({"tier": "stack"}, {"native": "off"}, {"native": "now"}):
                with options.override(**changes):
                    got = observe(jitlite.script(function), arguments)
                found = difference(wanted.told, got.told)
                assert not found, f"{changes} {found}\n{source}"
