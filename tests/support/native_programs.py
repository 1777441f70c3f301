"""Random programs about numbers, for machine code: loops with ints, floats, bools, lists, dicts and extreme numbers.

Like `strategies.py`, in small: text that TorchScript accepts by construction, and arguments. Every program has a loop,
overflows, divides by zero, leaves lists and misses keys as chance has it. Products are reduced: squared again and
again, ints would soon fill the memory.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from strategies import Program

KINDS = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "ints": "List[int]",
    "floats": "List[float]",
    "flags": "List[bool]",
    "table": "Dict[int, float]",
    "rows": "List[List[int]]",
}
PARAMETERS = ("int", "int", "float", "bool", "ints", "floats", "flags")

INTS = [0, 1, -1, 2, 3, 7, -5, 63, 64, 2**31, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), 2**63, 10**30]
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    3.0,
    1e16,
    1e308,
    -1e308,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    2.0**63,
    -(2.0**63),
]

LITERALS = {
    "int": ["0", "1", "2", "-1", "3", "7", "9007199254740993", "4611686018427387904", "9223372036854775807"],
    "float": ["0.0", "-0.0", "1.0", "0.5", "-2.5", "1e308", "9007199254740992.0", "9.223372036854775807e18"],
    "bool": ["True", "False"],
    "ints": ["[1, 2, 3]", "[0]"],
    "floats": ["[0.5, -0.0]", "[1.0]"],
    "flags": ["[True, False]"],
    "table": ["{1: 0.5}", "{0: 1.0, 2: -1.0}"],
    "rows": ["[[1], [2, 3]]"],
}
EXPRESSIONS = {
    "int": [
        "(<int> + <int>)", "(<int> - <int>)", "(<int> * <int>) % 9223372036854775783", "(<int> // <int>)",
        "(<int> % <int>)", "(-<int>)",
        "abs(<int>)", "min(<int>, <int>)", "max(<int>, <int>)", "(<int> & <int>)", "(<int> | <int>)", "(<int> ^ <int>)",
        "(<int> << (<int> % 70)) % 9223372036854775783", "(<int> >> (<int> % 70))", "(<int> >> <int>)", "int(<float>)",
        "int(<bool>)", "(<int> if <bool> else <int>)", "len(<ints>)", "<ints>[<int>]", "<ints>[<int> % 3]",
        "<ints>[-1]",
        "len(<table>)", "math.floor(<float>)", "math.ceil(<float>)", "(<int> + <bool>)", "(<bool> * <int>)",
        "<rows>[0][-1]", "len(<floats>)", "(<int> % 1000)", "(<int> // 16)", "<rows>[<int> % 2][0]",
    ],
    "float": [
        "(<float> + <float>)", "(<float> - <float>)", "(<float> * <float>)", "(<float> / <float>)", "(-<float>)",
        "(<float> // <float>)", "(<float> % <float>)", "(<int> / <int>)", "float(<int>)", "float(<bool>)",
        "(<float> + <int>)", "(<int> * <float>)", "(<int> // <float>)", "(<float> % <int>)", "abs(<float>)",
        "min(<float>, <float>)", "max(<float>, <float>)", "math.sqrt(<float>)", "math.exp(<float>)",
        "math.log(<float>)",
        "math.sin(<float>)", "math.atan(<float>)", "(abs(<float>) ** <float>)", "(<float> ** 2)",
        "math.fmod(<float>, <float>)",
        "math.copysign(<float>, <float>)", "(<float> if <bool> else <float>)", "<floats>[<int>]", "<floats>[0]",
        "<table>[<int>]", "<table>.get(<int>, <float>)", "math.tanh(<float>)", "math.fabs(<int>)", "math.sqrt(<int>)",
    ],
    "bool": [
        "(<int> < <int>)", "(<int> == <int>)", "(<int> >= <float>)", "(<float> < <int>)", "(<float> == <int>)",
        "(<float> > <float>)", "(<float> != <float>)", "(<float> <= <float>)", "(not <bool>)", "(<bool> and <bool>)",
        "(<bool> or <bool>)", "(<bool> != <bool>)", "bool(<int>)", "bool(<float>)", "math.isnan(<float>)",
        "math.isinf(<float>)", "(<int> in <table>)", "<flags>[<int> % 2]", "(<bool> & <bool>)", "(<bool> ^ <bool>)",
        "math.isfinite(<float>)", "(<int> != <float>)",
    ],
    "ints": ["[<int>, <int>]", "list(<table>.keys())", "([<int>] * (<int> % 4))", "list(<ints>)", "<rows>[<int> % 2]",
             "list(range(<int> % 5))", "[c + 1 for c in <ints>]"],
    "floats": ["[<float>]", "[<float>, <float>]", "list(<table>.values())", "([<float>] * 3)",
               "[float(c) for c in <ints>]"],
    "flags": ["[<bool>, <bool>]", "([<bool>] * 2)"],
    "table": ["{<int>: <float>}", "{<int>: <float>, <int>: <float>}"],
    "rows": ["[<ints>, <ints>]", "[[<int>] * 2 for _ in range(2)]"],
}  # fmt: skip
STATEMENTS = {
    "int": ["@int += <int>", "@int -= 1", "@int = <int>", "@int = @int * 3 % 9223372036854775807"],
    "float": ["@float += <float>", "@float = <float>", "@float *= 0.5"],
    "bool": ["@bool = <bool>", "@bool = not @bool"],
    "ints": ["@ints.append(<int>)", "@ints[<int> % 3] = <int>", "@ints[-1] = <int>", "@ints.pop()", "@ints = <ints>",
             "@ints.clear()", "@ints.pop(0)"],
    "floats": ["@floats.append(<float>)", "@floats[0] = <float>", "@floats = <floats>"],
    "flags": ["@flags[0] = <bool>", "@flags.append(<bool>)"],
    "table": ["@table[<int>] = <float>", "@table[<int> % 5] = <float>", "@table = <table>"],
    "rows": ["@rows.append(<ints>)", "@rows[0].append(<int>)", "@rows[0] = <ints>", "@rows[-1][0] = <int>"],
}  # fmt: skip
_HOLE = re.compile(r"<([a-z]+)>")
_TARGET = re.compile(r"@([a-z]+)")


class Writer:
    """Writes one program, taking each decision with `pick(n)`."""

    def __init__(self, pick: Callable[[int], int], size: int) -> None:
        self.pick = pick
        self.left = size
        self.lines: list[str] = []
        self.numbers = itertools.count()
        self.names: list[tuple[str, str]] = []
        self.returned: list[str] = []
        self.counters: set[str] = set()
        """Those that loops count with, which nothing else writes."""

    def one_of(self, options: Any) -> Any:
        return options[self.pick(len(options))]

    def program(self) -> Program:
        parameters = [self.one_of(PARAMETERS) for _ in range(1 + self.pick(4))]
        self.names = [(f"{k}_{i}", k) for i, k in enumerate(parameters)]
        returned = self.returned = [self.one_of(list(KINDS)) for _ in range(1 + self.pick(3))]
        result = ", ".join(KINDS[k] for k in returned)
        result = f"Tuple[{result}]" if len(returned) > 1 else result
        self.lines.append(f"def f({', '.join(f'{n}: {KINDS[k]}' for n, k in self.names)}) -> {result}:")
        for kind in ("int", "float", self.one_of(list(KINDS))):
            self.define(1, kind)
        while self.left > 0:
            self.loop(1)
            self.statement(1)
            if self.pick(3) == 0:
                self.write(1, f"print({self.expression('int', 1)})")  # which ends a region
        self.write(1, "return " + ", ".join(self.expression(k, 1) for k in returned))
        calls = [[self.argument(k) for k in parameters] for _ in range(4)]
        return Program("\n".join(self.lines) + "\n", parameters, calls)

    def argument(self, kind: str) -> Any:
        if kind in ("ints", "floats", "flags"):
            return [self.argument(kind[:-1] if kind != "flags" else "bool") for _ in range(self.pick(4))]
        if kind == "bool":
            return bool(self.pick(2))
        if kind == "float":
            # an int is taken for a float, and stays an int
            return self.one_of([*FLOATS, 3, 2**53 + 1]) if self.pick(3) else float(self.pick(9))
        return self.one_of(INTS) if self.pick(2) else self.pick(6)

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def expression(self, kind: str, depth: int = 2) -> str:
        known = [n for n, k in self.names if k == kind]
        if known and self.pick(100) < 50:
            return str(self.one_of(known))
        if depth <= 0 or self.pick(100) < 20:
            return str(self.one_of(known or LITERALS[kind]))
        return self.fill(self.one_of(EXPRESSIONS[kind]), depth - 1)

    def fill(self, template: str, depth: int) -> str:
        return _HOLE.sub(lambda hole: self.expression(hole.group(1), depth), template)

    def define(self, indent: int, kind: str) -> None:
        name = f"{kind}_v{next(self.numbers)}"
        self.write(indent, f"{name} = {self.expression(kind)}")
        self.names.append((name, kind))

    def statement(self, indent: int) -> None:
        kind = self.one_of(sorted({k for n, k in self.names if n not in self.counters}))
        if self.pick(4) == 0:
            self.define(indent, self.one_of(list(KINDS)))
            return
        target = self.one_of([n for n, k in self.names if k == kind and n not in self.counters])
        self.write(indent, self.fill(_TARGET.sub(target, self.one_of(STATEMENTS[kind])), 1))

    def body(self, indent: int, in_loop: bool) -> None:
        names = list(self.names)
        for _ in range(1 + self.pick(3)):
            self.left -= 1
            choice = self.pick(10)
            if choice < 5 or indent > 4:
                self.statement(indent)
            elif choice < 7:
                self.write(indent, f"if {self.expression('bool')}:")
                self.body(indent + 1, in_loop)
                if self.pick(2):
                    self.write(indent, "else:")
                    self.body(indent + 1, in_loop)
            elif choice == 7 and in_loop:
                self.write(indent, f"if {self.expression('bool')}:")
                results = ", ".join(self.expression(k, 1) for k in self.returned)
                self.write(
                    indent + 1, self.one_of(["break", "continue", "raise ValueError('no')", f"return {results}"])
                )
            else:
                self.loop(indent)
        self.names = names

    def loop(self, indent: int) -> None:
        name = f"i{next(self.numbers)}"
        names = list(self.names)
        self.counters.add(name)
        if self.pick(3):
            bounds = ["3", "1, 4", "3, -2, -1", "0, 9, 3", f"{self.expression('int', 1)} % 5", "-2, 2"]
            self.write(indent, f"for {name} in range({self.one_of(bounds)}):")
        else:
            self.write(indent, f"{name} = 0")
            self.write(indent, f"while {name} < 5 and {self.expression('bool')}:")
            self.write(indent + 1, f"{name} += 1")
        self.names.append((name, "int")) if self.pick(2) else None
        self.body(indent + 1, True)
        self.names = names


@st.composite
def number_programs(draw: Any, size: int = 8) -> Program:
    """Hypothesis' programs."""
    return Writer(lambda n: draw(st.integers(0, n - 1)), size).program()


def random_number_program(seed: int, size: int = 8) -> Program:
    """The program with this number."""
    return Writer(random.Random(seed).randrange, size).program()
