"""Random programs: text of functions that TorchScript accepts by construction, and arguments to call them with.

A program is Python source with a function `f` (and, at times, a function `g` that it calls). Expressions are templates
with typed holes; variables keep the kind they are defined with; loops are bounded; so every program compiles and ends.
What it does on the way is up to chance: it mutates lists, dicts and tensors through several names, views and
arguments, leaves loops and functions early, raises, catches, asserts and prints.

`Writer` takes its decisions from a function `pick(n) -> 0..n-1`: Hypothesis' draws (`programs()`), which shrink, or
`random.Random(seed).randrange` (`random_program(seed)`), which are fast. Simple alternatives stand first, as Hypothesis
shrinks towards 0.
"""

from __future__ import annotations

import itertools
import linecache
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import torch
from hypothesis import strategies as st
from torch import Tensor

ANNOTATIONS = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "maybe": "Optional[int]",
    "pair": "Tuple[int, str]",
    "ints": "List[int]",
    "floats": "List[float]",
    "words": "List[str]",
    "rows": "List[List[int]]",
    "counts": "Dict[str, int]",
    "vec": "Tensor",
    "mat": "Tensor",
    "vecs": "List[Tensor]",
}
"""Kinds of values and how they are annotated. A vec has shape (3,), a mat (2, 3): shapes are part of the kind."""

SCALARS = ("int", "float", "bool", "str", "maybe", "pair")
CONTAINERS = ("int", "bool", "str", "ints", "floats", "words", "rows", "counts", "pair")
TENSORS = ("int", "float", "bool", "vec", "mat", "vecs")
THEMES = {"scalars": SCALARS, "containers": CONTAINERS, "tensors": TENSORS, "everything": tuple(ANNOTATIONS)}
"""What a program is about. Expressions of other kinds appear in it only where no template of these kinds fits."""

LITERALS = {
    "int": ["0", "1", "2", "3", "-1", "7"],
    "float": ["0.0", "1.0", "0.5", "-2.5", "3.25"],
    "bool": ["False", "True"],
    "str": ["''", "'a'", "'ab'", "'b c'", "'Zoë'"],
    "maybe": ["(None if 1 > 0 else 1)", "(1 if 1 > 0 else None)"],
    "pair": ["(0, 'p')", "(2, '')"],
    "ints": ["[1]", "[3, 1, 2]", "[0, 0]"],
    "floats": ["[1.0]", "[0.5, -1.5]"],
    "words": ["['a']", "['b', 'a', 'b']"],
    "rows": ["[[1]]", "[[1, 2], [3]]"],
    "counts": ["{'a': 1}", "{'b': 2, 'a': 0}"],
    "vec": ["torch.zeros(3)", "torch.ones(3)", "torch.tensor([1.0, -2.0, 0.5])"],
    "mat": ["torch.ones(2, 3)", "torch.arange(6).float().view(2, 3)"],
    "vecs": ["[torch.ones(3)]", "[torch.zeros(3), torch.ones(3)]"],
}

EXPRESSIONS = {
    "int": [
        "(<int> + <int>)", "(<int> - <int>)", "(<int> * <int>) % 97", "(-<int>)", "abs(<int>)", "len(<str>)",
        "<int> // 3", "<int> % 5", "<int> // <int>", "(<int> % <int>)", "(<int> if <bool> else <int>)",
        "min(<int>, <int>)", "max(<int>, <int>)", "int(<bool>)", "(<int> & 7)", "(<int> ^ <int>)", "(<int> | 1)",
        "<pair>[0]", "<str>.find(<str>)", "<str>.count('a')", "int(min(max(<float>, -9.0), 9.0))",
        "((<int> % 4) << 1)", "len(<ints>)", "sum(<ints>)", "<ints>[0]", "<ints>[-1]", "<ints>[<int> % 2]",
        "len(<counts>)", "<counts>['a']", "<counts>.get('b', <int>)", "len(<words>)", "<rows>[0][0]", "len(<rows>)",
        "<ints>.count(<int>)", "<ints>.index(1)", "max(<ints>)", "<vec>.size(0)", "int(<vec>.argmax())", "<mat>.dim()",
        "len(<vecs>)", "<mat>.numel()", "ord(<str>[0])",
    ],
    "float": [
        "(<float> + <float>)", "(<float> - <float>)", "(<float> * 0.5)", "(<float> * <float>)", "(-<float>)",
        "float(<int>)", "abs(<float>)", "(<float> + <int>)", "(<int> * <float>)", "(<int> / 4)", "(<float> / <float>)",
        "(<int> / <int>)", "(<float> // 2.0)", "(<float> % 1.5)", "math.sqrt(abs(<float>))", "min(<float>, <float>)",
        "max(<float>, 0.0)", "(<float> if <bool> else <float>)", "float(<bool>)", "<floats>[0]", "sum(<floats>)",
        "<floats>[-1]", "float(<vec>.sum())", "float(<vec>[0])", "float(<mat>[1, 2])", "(<float> ** 2)",
    ],
    "bool": [
        "(<int> < <int>)", "(<int> == <int>)", "(<int> >= 1)", "(not <bool>)", "(<bool> and <bool>)",
        "(<bool> or <bool>)", "(<float> > <float>)", "(<float> != <float>)", "(<str> == <str>)", "(<str> < <str>)",
        "('a' in <str>)", "<str>.startswith('a')", "<str>.isdigit()", "(<maybe> is None)", "(<maybe> is not None)",
        "(<int> in <ints>)", "('a' in <counts>)", "(<ints> == <ints>)", "(len(<ints>) > 1)", "(<str> in <words>)",
        "bool(<int>)", "bool((<vec> > 0).any())", "bool(<vec>.sum() > <float>)", "(0 < <int> < 5)",
        "torch.equal(<vec>, <vec>)", "(<bool> != <bool>)", "(<ints> is <ints>)",
    ],
    "str": [
        "(<str> + <str>)[:9]", "str(<int>)", "<str>.upper()", "<str>[1:]", "<str>[:2]", "<str>[::2]", "<str>[0]",
        "(<str> if <bool> else <str>)", "<str>.replace('a', 'xy')[:9]", "'-'.join(<words>)[:9]", "<str>.strip()",
        'f"{@int}:{@str}"[:9]', "'{}/{}'.format(<int>, <bool>)", "('%d%s' % (<int>, <str>))[:9]", "str(<bool>)",
        "str(<float>)", "<pair>[1]", "<words>[0]", "<str>.lower()", "str(<ints>)[:9]",
        "<str>.rjust(4, '.')", "chr(97 + <int> % 5)",
    ],
    # the comparison, as a condition that literals decide would leave one branch and its type
    "maybe": ["(<int> if <bool> == <bool> else None)", "(None if <bool> == <bool> else <int>)", "<counts>.get(<str>)"],
    "pair": ["(<int>, <str>)", "(<pair> if <bool> else <pair>)"],
    "ints": [
        "[<int>, <int>]", "<ints>[1:]", "<ints>[:2]", "<ints>[::-1]", "(<ints> + <ints>)[:6]", "sorted(<ints>)",
        "list(range(<int> % 4))", "[c + 1 for c in <ints>]", "[<int> for _ in range(2)]", "<rows>[0]", "<rows>[-1]",
        "<ints>.copy()", "list(<ints>)", "(<ints> if <bool> else <ints>)", "list(<counts>.values())", "([<int>] * 2)",
        "[len(w) for w in <words>]",
    ],
    "floats": [
        "[<float>]", "[<float>, <float>]", "<floats>[1:]", "(<floats> + <floats>)[:6]", "[c * 0.5 for c in <floats>]",
        "[float(c) for c in <ints>]", "(<floats> if <bool> else <floats>)",
    ],
    "words": [
        "[<str>, <str>]", "<str>.split()", "<str>.split('a')", "(<words> + <words>)[:5]", "sorted(<words>)",
        "list(<counts>.keys())", "[c.upper() for c in <words>]", "<words>[::-1]",
    ],
    "rows": ["[<ints>, <ints>]", "<rows>[:1]", "(<rows> + <rows>)[:4]", "[[c] for c in <ints>]",
             "[<ints> for _ in range(2)]"],
    "counts": ["{<str>: <int>}", "{'a': <int>, <str>: <int>}", "<counts>.copy()", "{w: len(w) for w in <words>}"],
    "vec": [
        "(<vec> + <vec>)", "(<vec> - <vec>)", "(<vec> * <float>)", "(<vec> * (<int> % 7))", "torch.relu(<vec>)",
        "<vec>.abs()", "<vec>.clone()", "<mat>[0]", "<mat>[1]", "<mat>[<int> % 2]", "<mat>.sum(0)", "<mat>.mean(dim=0)",
        "torch.where(<vec> > <vec>, <vec>, <vec>)", "<vec>.view(3)", "<mat>.view(-1)[:3]", "<vecs>[0]", "<vecs>[-1]",
        "torch.cat([<vec>[:1], <vec>[1:]])", "(<vec> if <bool> else <vec>)", "torch.full([3], <float>)",
        "torch.rand(3)", "<vec>.sigmoid()", "(-<vec>)", "<vec>.flip(0)", "<mat>[:, 1:][0].new_zeros(3)",
        "torch.clamp(<vec>, -1.0, 1.0)", "<mat>.max(dim=0)[0]", "(1.0 - <vec>)", "<vec>.reshape(3, 1).squeeze(1)",
        "(<vec> / 2)", "torch.tensor([<float>, <float>, <float>])", "<vec>.detach()", "<mat>.unbind(0)[1]",
        "torch.nn.functional.relu(<vec>)", "torch.dropout(<vec>, 0.5, <bool>)",
    ],
    "mat": [
        "torch.stack([<vec>, <vec>])", "(<mat> + <vec>)", "(<mat> * <mat>)", "<mat>.t().t()", "<mat>.clone()",
        "<mat>.view(2, 3)", "<mat>.view(-1).view(2, 3)", "torch.tanh(<mat>)", "(<mat> if <bool> else <mat>)",
        "<vec>.expand(2, 3).contiguous()", "(<mat> * <float>)", "<mat>[[1, 0]]", "<mat>.masked_fill(<mat> > 1, 0.0)",
        "torch.softmax(<mat>, dim=1)", "<mat>[:, [2, 0, 1]]", "(<mat> @ torch.eye(3))", "<mat>[None][0]",
    ],
    "vecs": ["[<vec>]", "[<vec>, <vec>]", "list(<mat>.unbind(0))", "<vecs>[:1]", "(<vecs> + <vecs>)[:4]",
             "[c + 1 for c in <vecs>]"],
}  # fmt: skip
"""Templates by kind; `<int>` is a hole for an expression of that kind, `@int` for a name or a literal (in f-strings,
where Python before 3.12 takes no nested quotes)."""

STATEMENTS = {
    "int": ["@int += <int>", "@int -= 1", "@int *= 1", "print(@int, <str>)"],
    "float": ["@float += <float>", "@float *= 0.5", "print(@float)"],
    "bool": ["assert @bool or <bool>, 'neither'", "print(@bool)"],
    "str": ["@str += <str>[:2]", "print(@str, <int>)"],
    "pair": ["print(@pair)"],
    "ints": [
        "@ints.append(<int>)", "@ints.insert(0, <int>)", "@ints.extend(<ints>[:2])", "@ints.reverse()", "@ints.sort()",
        "@ints[0] = <int>", "@ints[-1] += <int>", "@ints.pop()", "@ints += [<int>]", "@ints.clear()", "del @ints[0]",
        "@ints.remove(1)", "print(@ints)",
    ],
    "floats": ["@floats.append(<float>)", "@floats[0] = <float>", "@floats.pop(0)", "@floats.sort(reverse=<bool>)"],
    "words": ["@words.append(<str>)", "@words.sort()", "@words[0] = <str>", "print(@words)"],
    "rows": ["@rows.append(<ints>)", "@rows[0].append(<int>)", "@rows[0] = <ints>", "@rows[-1][0] = <int>",
             "@rows[0] += <ints>[:1]"],
    "counts": ["@counts[<str>] = <int>", "@counts['a'] += <int>", "del @counts['a']", "@counts.update(<counts>)",
               "@counts.setdefault(<str>, <int>)", "@counts.pop('b')", "@counts.clear()"],
    "vec": [
        "@vec.add_(<float>)", "@vec.mul_(<vec>)", "@vec += <vec>", "@vec[0] = <float>", "@vec[<int> % 3] = <float>",
        "@vec.copy_(<vec>)", "@vec.zero_()", "@vec -= 1", "@vec[1:] = 0.5", "@vec[@vec > 0] = <float>", "@vec.neg_()",
        "@vec[0] += <float>", "torch.add(<vec>, <vec>, out=@vec)", "@vec.view(3).mul_(2)", "@vec.uniform_(0.0, 1.0)",
        "print(@vec)",
    ],
    "mat": [
        "@mat[0] = <vec>", "@mat[:, 1] = <float>", "@mat[1] += <vec>", "@mat.add_(<vec>)", "@mat[0].mul_(<float>)",
        "@mat *= 0.5", "@mat.t().add_(1.0)", "@mat[:, 0:2] += 1", "@mat[0, 0] = <float>",
    ],
    "vecs": ["@vecs.append(<vec>)", "@vecs[0].add_(<vec>)", "@vecs[0] = <vec>", "@vecs[-1] += 1"],
}  # fmt: skip
"""Templates of simple statements; `@ints` is a variable of that kind, the same one in all of a template."""

_CAUGHT = (
    "Exception", "(IndexError, KeyError)", "ValueError", "ZeroDivisionError", "(ValueError, AssertionError)",
    "RuntimeError", "LookupError",
)  # fmt: skip
"""What handlers catch."""

MUTABLE = ("ints", "floats", "words", "rows", "counts", "vec", "mat", "vecs")
_HOLE = re.compile(r"<([a-z]+)>")
_TARGET = re.compile(r"@([a-z]+)")
_LOOP_TURNS = 4
"""Most turns of one loop: three nested ones still end in an instant."""


@dataclass
class Program:
    """Source text, the kinds of the parameters of `f`, and lists of arguments to call it with."""

    source: str
    params: list[str]
    inputs: list[list[Any]]

    def __repr__(self) -> str:
        calls = "\n".join(f"# f({', '.join(map(repr, args))})" for args in self.inputs)
        return f"Program:\n{self.source}\n{calls}"


@dataclass
class Scope:
    """Variables in view, inner ones last, and what the code being written may do."""

    variables: list[tuple[str, str, bool]] = field(default_factory=list)
    """(name, kind, may be assigned)"""
    in_loop: bool = False
    frozen: tuple[str, ...] = ()
    """Kinds that may not be mutated: a loop runs over one of them."""
    depth: int = 0

    def names(self, kind: str, assignable: bool = False) -> list[str]:
        return [n for n, k, a in self.variables if k == kind and (a or not assignable)]

    def inner(self, **changes: Any) -> Scope:
        scope = Scope(list(self.variables), self.in_loop, self.frozen, self.depth + 1)
        for key, value in changes.items():
            setattr(scope, key, value)
        return scope


class Writer:
    """Writes one program, taking each decision with `pick(n)`."""

    def __init__(self, pick: Callable[[int], int], theme: str = "everything", size: int = 12) -> None:
        self.pick = pick
        self.kinds = THEMES[theme]
        self.budget = size
        self.lines: list[str] = []
        self.counter = itertools.count()
        self.returns: list[str] = []
        self.helper: tuple[list[str], str] | None = None

    def one_of(self, options: Any) -> Any:
        return options[self.pick(len(options))]

    def chance(self, percent: int) -> bool:
        return self.pick(100) >= 100 - percent

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self.counter)}"

    # -------------------------------------------------------------- functions

    def program(self, calls: int = 3) -> Program:
        if self.chance(35):
            size, self.budget = self.budget, 4
            params = [self.one_of(self.kinds) for _ in range(1 + self.pick(2))]
            result = [self.one_of(self.kinds)]
            self.function("g", params, result)
            self.helper, self.budget = (params, result[0]), size
        params = [self.one_of(self.kinds) for _ in range(1 + self.pick(4))]
        self.function("f", params, [self.one_of(self.kinds) for _ in range(1 + self.pick(3))])
        return Program("\n".join(self.lines) + "\n", params, [self.arguments(params) for _ in range(calls)])

    def function(self, name: str, params: list[str], returns: list[str]) -> None:
        self.returns = returns
        result = ", ".join(ANNOTATIONS[k] for k in returns)
        result = f"Tuple[{result}]" if len(returns) > 1 else result
        scope = Scope([(f"{k}_{i}", k, True) for i, k in enumerate(params)])
        listed = ", ".join(f"{n}: {ANNOTATIONS[k]}" for n, k, _ in scope.variables)
        self.lines.append(f"def {name}({listed}) -> {result}:")
        if self.block(scope, 1, at_least=3):
            self.write(1, self.return_text(scope))
        self.lines.append("")

    def return_text(self, scope: Scope) -> str:
        return "return " + ", ".join(self.result(scope, k) for k in self.returns)

    def result(self, scope: Scope, kind: str) -> str:
        names = scope.names(kind)
        return self.one_of(names) if names and self.chance(70) else self.expression(scope, kind, 1)

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    # -------------------------------------------------------------- expressions

    def expression(self, scope: Scope, kind: str, depth: int = 2) -> str:
        names = scope.names(kind)
        if names and self.chance(45):
            return self.one_of(names)
        if self.helper and self.helper[1] == kind and depth > 0 and self.chance(25):
            return f"g({', '.join(self.expression(scope, k, 0) for k in self.helper[0])})"
        if depth <= 0 or self.chance(15):
            return self.one_of(names) if names and self.chance(60) else self.one_of(LITERALS[kind])
        return self.fill(scope, self.template(scope, kind), depth - 1)

    def template(self, scope: Scope, kind: str) -> str:
        """A template; those with holes that a variable could fill, or of the theme's kinds, are tried for first."""
        for _ in range(3):
            template = self.one_of(EXPRESSIONS[kind])
            if all(k in self.kinds or scope.names(k) for k in _HOLE.findall(template)):
                return template
        return template

    def fill(self, scope: Scope, template: str, depth: int) -> str:
        template = _HOLE.sub(lambda hole: self.expression(scope, hole.group(1), depth), template)
        return _TARGET.sub(lambda hole: self.one_of(scope.names(hole.group(1)) or LITERALS[hole.group(1)]), template)

    # -------------------------------------------------------------- statements

    def block(self, scope: Scope, indent: int, at_least: int = 1) -> bool:
        """Write some statements; False if control cannot come out at the end."""
        for _ in range(at_least + self.pick(4)):
            if self.budget <= 0 and at_least <= 0:
                break
            self.budget -= 1
            at_least -= 1
            if not self.statement(scope, indent):
                return False
        return True

    def statement(self, scope: Scope, indent: int) -> bool:
        """Write one statement; False if it leaves the block for good."""
        simple = [self.define, self.mutate, self.assign, self.mutate, self.alias]
        compound = [
            self.if_,
            self.for_range,
            self.for_each,
            self.while_,
            self.refine,
            self.either,
            self.unpack,
            self.no_grad,
            self.try_,
        ]
        if scope.depth > 0 and self.chance(14):
            return self.leave(scope, indent)
        if scope.depth < 3 and self.budget > 0 and self.chance(45):
            self.one_of(compound)(scope, indent)
        else:
            self.one_of(simple)(scope, indent)
        return True

    def define(self, scope: Scope, indent: int) -> None:
        kind = self.one_of(self.kinds)
        name = self.fresh(kind + "_v")
        annotation = f": {ANNOTATIONS[kind]}" if kind == "maybe" or self.chance(30) else ""
        self.write(indent, f"{name}{annotation} = {self.expression(scope, kind)}")
        scope.variables.append((name, kind, True))

    def assign(self, scope: Scope, indent: int) -> None:
        # an early exit may have narrowed an Optional to an int, which it then has to stay in nested blocks
        choices = [(n, k) for n, k, assignable in scope.variables if assignable and (k != "maybe" or not scope.depth)]
        if not choices:
            return self.define(scope, indent)
        name, kind = self.one_of(choices)
        return self.write(indent, f"{name} = {self.expression(scope, kind)}")

    def alias(self, scope: Scope, indent: int) -> None:
        """A second name for a list, a dict or a tensor."""
        choices = [(n, k) for n, k, _ in scope.variables if k in MUTABLE]
        if not choices:
            return self.define(scope, indent)
        old, kind = self.one_of(choices)
        name = self.fresh(kind + "_v")
        self.write(indent, f"{name} = {old}")
        return scope.variables.append((name, kind, True))

    def mutate(self, scope: Scope, indent: int) -> None:
        """A statement from the table, about a variable in view."""
        kinds = sorted({k for _, k, a in scope.variables if a and k in STATEMENTS and k not in scope.frozen})
        if not kinds:
            return self.define(scope, indent)
        template = self.one_of(STATEMENTS[self.one_of(kinds)])
        targets: dict[str, str] = {}

        def target(match: re.Match[str]) -> str:
            kind = match.group(1)
            if kind not in targets:
                targets[kind] = self.one_of(scope.names(kind, assignable=True))
            return targets[kind]

        return self.write(indent, self.fill(scope, _TARGET.sub(target, template), 1))

    def leave(self, scope: Scope, indent: int) -> bool:
        ways = [self.return_text(scope), "raise ValueError('stop')"]
        if scope.in_loop:
            ways += ["break", "continue", "break", "continue"]
        self.write(indent, self.one_of(ways))
        return False

    def if_(self, scope: Scope, indent: int) -> None:
        self.write(indent, f"if {self.expression(scope, 'bool')}:")
        self.block(scope.inner(), indent + 1)
        if self.chance(25):
            self.write(indent, f"elif {self.expression(scope, 'bool')}:")
            self.block(scope.inner(), indent + 1)
        if self.chance(50):
            self.write(indent, "else:")
            self.block(scope.inner(), indent + 1)

    def either(self, scope: Scope, indent: int) -> None:
        """A variable that both branches define."""
        kind = self.one_of(self.kinds)
        name = self.fresh(kind + "_v")
        annotation = f": {ANNOTATIONS[kind]}" if kind == "maybe" else ""  # else it is an int where a literal decides
        self.write(indent, f"if {self.expression(scope, 'bool')}:")
        inner = scope.inner(in_loop=False)  # TorchScript counts return and raise as leaving here, not break
        if self.block(inner, indent + 1):
            self.write(indent + 1, f"{name}{annotation} = {self.expression(inner, kind)}")
        self.write(indent, "else:")
        self.write(indent + 1, f"{name}{annotation} = {self.expression(scope, kind)}")
        scope.variables.append((name, kind, True))

    def for_range(self, scope: Scope, indent: int) -> None:
        name = self.fresh("i")
        bounds = ["2", "3", f"{self.expression(scope, 'int', 1)} % {_LOOP_TURNS}", "1, 4", "3, 0, -1"]
        self.write(indent, f"for {name} in range({self.one_of(bounds)}):")
        inner = scope.inner(in_loop=True)
        inner.variables.append((name, "int", False))
        self.block(inner, indent + 1)
        self.loop_else(scope, indent)

    def for_each(self, scope: Scope, indent: int) -> None:
        """A loop over something else than a range; what it runs over is not mutated in the body, or is a copy."""
        name, second = self.fresh("e"), self.fresh("e")
        turns = f"[:{_LOOP_TURNS}]"
        ints, text = self.expression(scope, "ints", 1), self.expression(scope, "str", 1)
        forms: list[tuple[str, list[tuple[str, str]], tuple[str, ...]]] = [
            (f"for {name} in {ints}{turns}:", [(name, "int")], ()),
            (f"for {name} in {text}{turns}:", [(name, "str")], ()),
            (f"for {name}, {second} in enumerate({text}{turns}):", [(name, "int"), (second, "str")], ()),
            (f"for {name}, {second} in zip({ints}{turns}, {text}):", [(name, "int"), (second, "str")], ()),
        ]
        if counts := scope.names("counts"):
            head = f"for {name}, {second} in {self.one_of(counts)}.items():"
            forms.append((head, [(name, "str"), (second, "int")], ("counts",)))
            forms.append((f"for {name} in {self.one_of(counts)}:", [(name, "str")], ("counts",)))
        if plain := scope.names("ints"):
            forms.append((f"for {name} in {self.one_of(plain)}:", [(name, "int")], ("ints", "rows")))
        if rows := scope.names("rows"):
            forms.append((f"for {name} in {self.one_of(rows)}{turns}:", [(name, "ints")], ()))
        if mats := scope.names("mat"):
            forms.append((f"for {name} in {self.one_of(mats)}:", [(name, "vec")], ()))
        if vecs := scope.names("vecs"):
            forms.append((f"for {name} in {self.one_of(vecs)}{turns}:", [(name, "vec")], ()))
        head, variables, frozen = self.one_of(forms)
        self.write(indent, head)
        inner = scope.inner(in_loop=True, frozen=scope.frozen + frozen)
        # An element may be mutated, never assigned: a loop variable keeps the type of what it runs over.
        inner.variables += [(n, k, k in ("vec", "ints")) for n, k in variables]
        self.block(inner, indent + 1)
        self.loop_else(scope, indent)

    def while_(self, scope: Scope, indent: int) -> None:
        name = self.fresh("k")
        self.write(indent, f"{name} = 0")
        test = f" and {self.expression(scope, 'bool', 1)}" if self.chance(60) else ""
        self.write(indent, f"while {name} < {1 + self.pick(_LOOP_TURNS)}{test}:")
        self.write(indent + 1, f"{name} += 1")
        inner = scope.inner(in_loop=True)
        inner.variables.append((name, "int", False))
        self.block(inner, indent + 1)
        self.loop_else(scope, indent)

    def loop_else(self, scope: Scope, indent: int) -> None:
        if self.chance(20):
            self.write(indent, "else:")
            self.block(scope.inner(), indent + 1)

    def try_(self, scope: Scope, indent: int) -> None:
        """A try with handlers, finally or both. What its body defines is known in the else and nowhere else."""
        way = self.pick(5)
        self.write(indent, "try:")
        body = scope.inner()
        comes_out = self.block(body, indent + 1, at_least=2)
        for _ in range(0 if way == 4 else 1 + self.pick(2)):
            self.write(indent, f"except {self.one_of(_CAUGHT)}:")
            inner = scope.inner()
            if self.block(inner, indent + 1) and self.chance(15):
                self.write(indent + 1, "raise")
        if way != 4 and comes_out and self.chance(30):
            self.write(indent, "else:")
            self.block(body.inner(depth=scope.depth + 1), indent + 1)
        if way >= 3:
            self.write(indent, "finally:")
            self.block(scope.inner(in_loop=False), indent + 1)

    def refine(self, scope: Scope, indent: int) -> None:
        """Take the int out of an Optional[int], in one of the ways that TorchScript understands."""
        optional, name = self.fresh("o"), self.fresh("int_v")
        self.write(indent, f"{optional}: Optional[int] = {self.expression(scope, 'maybe', 1)}")
        way = self.pick(3)
        if way == 0:
            self.write(indent, f"{name} = {optional} if {optional} is not None else {self.expression(scope, 'int', 1)}")
        elif way == 1:
            self.write(indent, f"if {optional} is None:")
            self.write(indent + 1, self.return_text(scope))
            self.write(indent, f"{name} = {optional} + 1")
        else:
            self.write(indent, f"{name} = 0")
            self.write(indent, f"if {optional} is not None and {optional} > 0:")
            self.write(indent + 1, f"{name} = {optional} * 2")
        scope.variables.append((name, "int", True))

    def unpack(self, scope: Scope, indent: int) -> None:
        number, text = self.fresh("int_v"), self.fresh("str_v")
        self.write(indent, f"{number}, {text} = {self.expression(scope, 'pair', 1)}")
        scope.variables += [(number, "int", True), (text, "str", True)]

    def no_grad(self, scope: Scope, indent: int) -> None:
        self.write(indent, "with torch.no_grad():")
        before = scope.in_loop
        inner = scope.inner(in_loop=False)
        self.block(Scope(inner.variables, False, inner.frozen, 3), indent + 1)
        scope.in_loop = before

    # -------------------------------------------------------------- arguments

    def arguments(self, params: list[str]) -> list[Any]:
        """Arguments for these kinds; at times one object is passed for two parameters."""
        args: list[Any] = []
        for i, kind in enumerate(params):
            twin = [j for j in range(i) if params[j] == kind]
            args.append(args[twin[0]] if twin and self.chance(25) else self.value(kind))
        return args

    def value(self, kind: str) -> Any:
        few = range(self.pick(4))
        if kind == "maybe":
            return None if self.chance(40) else self.value("int")
        if kind == "pair":
            return (self.value("int"), self.value("str"))
        if kind in _ELEMENTS:
            return [self.value(_ELEMENTS[kind]) for _ in few]
        if kind == "counts":
            return {self.one_of("abxy"): self.value("int") for _ in few}
        if kind == "vec":
            return torch.tensor([self.value("float") for _ in range(3)])
        if kind == "mat":
            return torch.tensor([[self.value("float") for _ in range(3)] for _ in range(2)])
        return self.one_of(_VALUES[kind])


_ELEMENTS = {"ints": "int", "floats": "float", "words": "str", "rows": "ints", "vecs": "vec"}
_VALUES: dict[str, list[Any]] = {
    "int": [0, 1, 2, 3, -1, -4, 10],
    "float": [0.0, 1.0, 0.5, -1.5, 2.25, 1e3],
    "bool": [False, True],
    "str": ["", "a", "ab", "ba b", "Éa"],
}


@st.composite
def programs(draw: Any, theme: str = "everything", size: int = 12) -> Program:
    """Hypothesis' programs."""
    return Writer(lambda n: draw(st.integers(0, n - 1)), theme, size).program()


def random_program(seed: int, theme: str = "everything", size: int = 12) -> Program:
    """The program with this number: the same one every time."""
    return Writer(random.Random(seed).randrange, theme, size).program()


_files = itertools.count()
_kept: list[str] = []
_NAMESPACE = {
    "torch": torch,
    "math": math,
    "Tensor": Tensor,
    "List": List,
    "Dict": Dict,
    "Optional": Optional,
    "Tuple": Tuple,
}


def compile_source(text: str) -> dict[str, Any]:
    """Execute source text so that `inspect.getsource` finds the text of its functions; gives its names."""
    name = f"<generated_{next(_files)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    _kept.append(name)
    if len(_kept) > 64:  # the last few suffice: a session writes thousands
        linecache.cache.pop(_kept.pop(0), None)
    namespace: dict[str, Any] = dict(_NAMESPACE, __name__="generated")
    exec(compile(text, name, "exec"), namespace)
    return namespace
