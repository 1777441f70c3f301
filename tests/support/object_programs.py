"""Random programs of objects: classes, enums, named tuples, dataclasses, modules, Optional and Union, recursion, `try`.

Beside `strategies.py`, whose programs are one or two functions over numbers, containers and tensors, this writes
modules of Python: definitions that a function `f`, or the forward of a module `M`, uses. A program is a tree of lines
and blocks, so that one that fails can be made smaller by taking parts away (`reduced`). Arguments may be the same
object twice, or a tensor and a view of it.

`random_program(seed)` gives a `Program`; `load(program)` what to call.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import random
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from object_grammar import (
    ANNOTATIONS,
    DEFINITIONS,
    DOUBLE,
    EXPRESSIONS,
    HEAD,
    LITERALS,
    PLAIN,
    STATEMENTS,
    TALLY,
)

_HOLE = re.compile(r"<([a-z]+)>")
_TARGET = re.compile(r"@([a-z]+)")
_CAUGHT = ("Exception", "(IndexError, KeyError)", "ValueError", "ZeroDivisionError", "AssertionError", "LookupError")
_RAISED = ("ValueError", "KeyError", "RuntimeError", "IndexError")


# -- programs as trees


@dataclass
class Block:
    """A compound statement: its clauses, each a line that ends with a colon and what is under it."""

    clauses: list[tuple[str, list[Statement]]]


Statement = str | Block


def text_of(statements: list[Statement], indent: int = 0) -> str:
    """Statements as source text; an empty body is `pass`."""
    lines: list[str] = []
    for statement in statements:
        if isinstance(statement, str):
            lines += ["    " * indent + line for line in statement.split("\n")]
            continue
        for head, body in statement.clauses:
            lines += ["    " * indent + line for line in head.split("\n")]
            lines.append(text_of(body or ["pass"], indent + 1))
    return "\n".join(lines)


@dataclass
class Program:
    """A program and arguments to call it with; `is_module` says whether that is the forward of `M` or `f`."""

    statements: list[Statement]
    is_module: bool
    inputs: list[list[Any]] = field(default_factory=list)

    @property
    def source(self) -> str:
        return f"{HEAD}\n\n{text_of(self.statements)}\n"

    def __repr__(self) -> str:
        name = "M()" if self.is_module else "f"
        calls = "\n".join(f"# {name}({', '.join(map(repr, arguments))})" for arguments in self.inputs)
        return f"{self.source}\n{calls}"


_numbers = itertools.count()
_PREFIX = "random_objects_"
"""What the modules of programs are called, before their numbers."""


def load(program: Program) -> Callable[..., Any]:
    """The function, or an instance of the module, that a program defines."""
    name = f"{_PREFIX}{next(_numbers)}"
    file = f"<{name}>"
    source = program.source
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = types.ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    exec(compile(source, file, "exec"), vars(module))
    torch.manual_seed(0)
    return module.M() if program.is_module else module.f  # type: ignore[no-any-return]


def forget() -> None:
    """Let all programs go that `load` has loaded."""
    for name in [n for n in sys.modules if n.startswith(_PREFIX)]:
        del sys.modules[name]
        linecache.cache.pop(f"<{name}>", None)


# -- the writer


@dataclass
class Scope:
    """The variables in view: name, kind, and whether it may be assigned."""

    variables: list[tuple[str, str, bool]] = field(default_factory=list)
    in_loop: bool = False
    depth: int = 0
    frozen: frozenset[str] = frozenset()
    """Kinds whose values may not be changed: a loop goes through one."""
    narrowed_outside: frozenset[str] = frozenset()
    """Variables that keep, in this block, the narrower type that a test around it gives them."""

    widened: tuple[str, ...] = ()
    """Variables that have had a narrower type, and may be given anything again."""

    def narrowed(self) -> list[str]:
        """The variables that have another type here than they are declared with."""
        return [n for n, k, _ in self.variables if k != _declared_kind(n, k)]

    def widen(self, name: str) -> None:
        """Let a variable be of its declared type from here on, and assigned."""
        self.variables = [(n, _declared_kind(n, k), True) if n == name else (n, k, may) for n, k, may in self.variables]
        self.widened += (name,)

    def names(self, kind: str, assigned: bool = False) -> list[str]:
        return [n for n, k, may in self.variables if k == kind and (may or not assigned)]

    def inner(self, **changes: Any) -> Scope:
        made = Scope(list(self.variables), self.in_loop, self.depth + 1, self.frozen)
        made.narrowed_outside = self.narrowed_outside | frozenset(self.narrowed())
        made.widened = self.widened
        for name, value in changes.items():
            setattr(made, name, value)
        return made


def _declared_kind(name: str, kind: str) -> str:
    """The kind that a variable is declared with: its name begins with it."""
    declared = name.partition("_")[0]
    return declared if declared in ("opt", "uni", "maybe") else kind


class Writer:
    """Writes one program."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self.chance = chance
        self.size = size
        self.left = size
        self.counter = itertools.count()
        self.kinds = [k for k in ANNOTATIONS if k in ("int", "bool") or chance.random() < 0.55]
        if chance.random() < 0.3:
            self.kinds = ["int", "bool", "str", "opt", "uni", "maybe", "tally"]  # much to test before it is used
        self.result: list[str] = []
        self.banned: tuple[str, ...] = ()
        """Calls that the function being written may not have: each program has to end."""

    def percent(self, n: int) -> bool:
        return self.chance.random() * 100 < n

    def fresh(self, kind: str) -> str:
        return f"{kind}_{next(self.counter)}"

    # -- expressions
    def expression(self, scope: Scope, kind: str, depth: int = 2) -> str:
        names = scope.names(kind)
        if names and self.percent(50):
            return self.chance.choice(names)
        if depth <= 0 or self.percent(15):
            return self.chance.choice(names if names and self.percent(60) else LITERALS[kind])
        return self.filled(scope, self.chance.choice(self.allowed(EXPRESSIONS[kind])), depth - 1)

    def allowed(self, templates: list[str]) -> list[str]:
        """The templates without calls that would come back to the function being written."""
        return [t for t in templates if not any(call in t for call in self.banned)]

    def filled(self, scope: Scope, template: str, depth: int) -> str:
        chosen: dict[str, str] = {}

        def target(found: re.Match[str]) -> str:
            kind = found[1]
            if kind not in chosen:
                names = scope.names(kind) or LITERALS[kind]
                chosen[kind] = self.chance.choice(names)
            return chosen[kind]

        template = _TARGET.sub(target, template)
        if "f'" in template and "'{" in template and any("'" in v for v in chosen.values()):
            return self.chance.choice(LITERALS["str"])
        return _HOLE.sub(lambda found: self.expression(scope, found[1], depth), template)

    def kind(self) -> str:
        return self.chance.choice(self.kinds)

    # -- statements
    def body(self, scope: Scope, least: int = 1) -> list[Statement]:
        found: list[Statement] = []
        count = least + self.chance.randrange(3)
        while count > 0 and (self.left > 0 or len(found) < least):
            self.left -= 1
            count -= 1
            found.append(self.statement(scope))
            if not scope.narrowed_outside.issuperset(scope.narrowed()) and self.percent(60):
                found.append(self.compound(scope))
        if self.percent(8) and scope.depth:
            found.append(self.leave(scope))
        return found

    def statement(self, scope: Scope) -> Statement:
        if scope.depth < 4 and self.percent(40) and self.left > 0:
            return self.compound(scope)
        if self.percent(35):
            changed = self.change(scope)
            if changed is not None:
                return changed
        return self.assignment(scope)

    def assignment(self, scope: Scope) -> Statement:
        again = [(n, k) for n, k, may in scope.variables if n in scope.widened and may]
        if again and self.percent(40):
            name, kind = self.chance.choice(again)
            return f"{name} = {self.expression(scope, kind)}"
        kind = self.kind()
        names = scope.names(kind, assigned=True)
        value = self.expression(scope, kind)
        if names and self.percent(40) and kind not in scope.frozen:
            return f"{self.chance.choice(names)} = {value}"
        name = self.fresh(kind)
        scope.variables.append((name, kind, True))
        return f"{name}: {ANNOTATIONS[kind]} = {value}"

    def change(self, scope: Scope) -> Statement | None:
        kinds = [k for k in dict.fromkeys(k for _, k, _ in scope.variables) if STATEMENTS[k] and k not in scope.frozen]
        if not kinds:
            return None
        kind = self.chance.choice(kinds)
        template = self.chance.choice(self.allowed(STATEMENTS[kind]) or [""])
        if not template:
            return None
        rebinds = kind in ("int", "float", "str", "bool") and "=" in template
        names = scope.names(kind, assigned=rebinds)
        if not names:
            return None
        name = self.chance.choice(names)
        return self.filled(scope, template.replace(f"@{kind}", name), 1)

    def leave(self, scope: Scope) -> Statement:
        if scope.in_loop and self.percent(60):
            return self.chance.choice(("break", "continue"))
        if self.percent(30):
            return f"raise {self.chance.choice(_RAISED)}({self.expression(scope, 'str', 1)})"
        return self.return_statement(scope)

    def return_statement(self, scope: Scope) -> str:
        values = [self.chance.choice(scope.names(k) or [self.expression(scope, k)]) for k in self.result]
        return "return " + ", ".join(values)

    def compound(self, scope: Scope) -> Statement:
        options = [self.if_, self.if_, self.for_, self.while_, self.try_, self.try_, self.with_, self.narrowed,
                   self.narrowed, self.local_function]  # fmt: skip
        for name in scope.narrowed():
            if name not in scope.narrowed_outside and self.percent(60):
                scope.widen(name)  # what is written now may give it None, or another of its types, again
        return self.chance.choice(options)(scope)

    def if_(self, scope: Scope) -> Statement:
        clauses = [(f"if {self.expression(scope, 'bool')}:", self.body(scope.inner()))]
        if self.percent(25):
            clauses.append((f"elif {self.expression(scope, 'bool')}:", self.body(scope.inner())))
        if self.percent(50):
            clauses.append(("else:", self.body(scope.inner())))
        return Block(clauses)

    def narrowed(self, scope: Scope) -> Statement:
        """A test of something Optional or of a Union, in whose branches it has the narrower type."""
        kind, test, inside, otherwise = self.chance.choice([
            ("opt", "{} is not None", "int", None), ("opt", "{} is None", None, "int"),
            ("maybe", "{} is not None", "tally", None), ("uni", "isinstance({}, int)", "int", "str"),
            ("uni", "isinstance({}, str)", "str", "int"), ("maybe", "{} is None", None, "tally"),
        ])  # fmt: skip
        names = [n for n in scope.names(kind) if "." not in n]
        if not names:
            return self.assignment(scope)
        name = self.chance.choice(names)
        if otherwise is not None and self.percent(50):
            return self.guarded(scope, name, test.format(name), (inside, otherwise))
        made = []
        for now in (inside, otherwise):
            inner = scope.inner()
            inner.variables = [v for v in inner.variables if v[0] != name]
            if now is not None:
                inner.variables.append((name, now, False))
            made.append(self.body(inner))
        clauses = [(f"if {test.format(name)}:", made[0])]
        if self.percent(60):
            clauses.append(("else:", made[1]))
        return Block(clauses)

    def guarded(self, scope: Scope, name: str, test: str, kinds: tuple[str | None, str]) -> Statement:
        """A test that leaves where it holds: behind it, and there only, the variable has the other type."""
        inner = scope.inner()
        inner.variables = [v for v in inner.variables if v[0] != name]
        if kinds[0] is not None:
            inner.variables.append((name, kinds[0], False))
        body = [*self.body(inner), self.leave(inner)]
        scope.variables = [v for v in scope.variables if v[0] != name] + [(name, kinds[1], False)]
        return Block([(f"if {test}:", body)])

    def for_(self, scope: Scope) -> Statement:
        names = scope.names
        options = [("int", f"range({self.expression(scope, 'int', 1)} % 4)", "")]
        options += [("int", n, "ints") for n in names("ints")] + [("str", n, "str") for n in names("str")]
        options += [("str", n, "dict") for n in names("dict")] + [("box", n, "boxes") for n in names("boxes")]
        options += [("items", n, "dict") for n in names("dict")] + [("pairs", n, "ints") for n in names("ints")]
        options += [("zip", n, "ints") for n in names("ints") if names("strs")]
        kind, source, through = self.chance.choice(options)
        frozen = {through, *(("strs",) if kind == "zip" else ())} - ({"dict"} if self.percent(30) else set())
        inner = scope.inner(in_loop=True, frozen=scope.frozen | frozen)
        one, two = self.fresh("v"), self.fresh("v")
        if kind in ("items", "pairs", "zip"):
            first, second = {"items": ("str", "int"), "pairs": ("int", "int"), "zip": ("int", "str")}[kind]
            inner.variables += [(one, first, False), (two, second, False)]
            other = self.chance.choice(names("strs") or [""])
            call = {"items": f"{source}.items()", "pairs": f"enumerate({source})", "zip": f"zip({source}, {other})"}[
                kind
            ]
            head = f"for {one}, {two} in {call}:"
        else:
            inner.variables.append((one, kind, False))
            head = f"for {one} in {source}:"
        clauses = [(head, self.body(inner))]
        if self.percent(15):
            clauses.append(("else:", self.body(scope.inner())))
        return Block(clauses)

    def while_(self, scope: Scope) -> Statement:
        turns = self.fresh("turns")
        body = self.body(scope.inner(in_loop=True))
        condition = self.expression(scope, "bool", 1)
        clauses = [(f"{turns} = 0\nwhile {turns} < 3 and {condition}:", [f"{turns} += 1", *body])]
        if self.percent(30):
            clauses = [(f"{turns} = 0\nwhile ({turns} := {turns} + 1) < 4 and {condition}:", body)]
        if self.percent(30):
            clauses.append(("else:", self.body(scope.inner())))
        return Block(clauses)

    def try_(self, scope: Scope) -> Statement:
        clauses = [("try:", self.body(scope.inner(), least=2))]
        if self.percent(75):
            named = self.percent(30)
            handler = scope.inner()
            handled = self.body(handler)
            if named:
                handled = ["print('caught', str(caught))", *handled]
            clauses.append((f"except {self.chance.choice(_CAUGHT)}{' as caught' if named else ''}:", handled))
            if self.percent(25):
                clauses.append(("else:", self.body(scope.inner())))
        if len(clauses) == 1 or self.percent(35):
            clauses.append(("finally:", self.body(scope.inner(in_loop=False), least=1)))
            staying = itertools.takewhile(lambda s: not _leaves(s), clauses[-1][1])  # what follows may know more
            clauses[-1] = (clauses[-1][0], [*staying] or ["print('finally')"])
        return Block(clauses)

    def with_(self, scope: Scope) -> Statement:
        managers = [
            "torch.no_grad()",
            f"Guard({self.expression(scope, 'ints', 1)}, {self.expression(scope, 'bool', 1)})",
        ]
        return Block([(f"with {self.chance.choice(managers)}:", self.body(scope.inner()))])

    def local_function(self, scope: Scope) -> Statement:
        name = self.fresh("local")
        own = [(n, k, False) for n, k, _ in scope.variables if "." not in n and k == _declared_kind(n, k)]
        inner = Scope([*own], depth=3)
        inner.variables.append(("q", "int", False))
        kind = self.chance.choice(("int", "str", "bool"))
        # The call is written anywhere below, where what is narrower here may be so no longer.
        scope.variables.append((f"{name}({self.expression(Scope(own), 'int', 1)})", kind, False))
        value = self.expression(inner, kind)
        return Block([(f"def {name}(q: int) -> {ANNOTATIONS[kind]}:", [f"return {value}"])])

    # -- definitions
    def function(self, head: str, params: dict[str, str], result: list[str], least: int = 2) -> Block:
        """A function with a random body. `head` has a hole for its parameters."""
        saved, self.result = self.result, result
        scope = Scope([(name, kind, True) for name, kind in params.items() if not name.startswith("self.")])
        scope.variables += [(name, kind, True) for name, kind in params.items() if name.startswith("self.")]
        body = self.body(scope, least)
        body.append(self.return_statement(scope))
        self.result = saved
        return Block([(head, body)])

    def definitions(self) -> list[Statement]:
        own = {"self.n": "int", "self.log": "ints"}
        everything, self.kinds = self.kinds, [k for k in self.kinds if k not in ("tally", "double", "maybe")]
        self.left, self.banned = (
            4,
            ("descend(", "helper(", ".bump(", "Tally", "Double", "<tally>", "<double>", "<maybe>"),
        )
        bump = self.function("def bump(self, k: int) -> int:", {**own, "k": "int"}, ["int"], least=1)
        tally = Block([("class Tally:", [*TALLY, bump])])
        double = Block([("class Double(Tally):", list(DOUBLE))])
        self.left = 3
        helpers: list[Statement] = []
        plain = [k for k in self.kinds if k in ("int", "bool", "ints")]
        self.kinds = plain
        helpers.append(
            self.function("def helper(a: int, xs: List[int]) -> int:", {"a": "int", "xs": "ints"}, ["int"], 1)
        )
        self.left, self.banned = 2, ("descend(",)
        descend = self.function(
            "def descend(depth: int, xs: List[int]) -> int:", {"xs": "ints", "depth": "int"}, ["int"], 1
        )
        descend.clauses[0][1].insert(0, "if depth <= 0:\n    return len(xs)")
        descend.clauses[0][1][-1] = (
            f"return descend(min(depth, 4) - 1, xs) + {self.expression(Scope([('xs', 'ints', True)]), 'int', 1)}"
        )
        self.kinds, self.banned = everything, ()
        return [*DEFINITIONS, tally, double, *helpers, descend]

    def program(self, calls: int = 3) -> Program:
        definitions = self.definitions()
        kinds = [self.chance.choice(PLAIN) for _ in range(1 + self.chance.randrange(4))]
        params = {f"{kind}_p{i}": kind for i, kind in enumerate(kinds)}
        result = [self.chance.choice(PLAIN) for _ in range(1 + self.chance.randrange(3))]
        listed = ", ".join(f"{name}: {ANNOTATIONS[kind]}" for name, kind in params.items())
        returned = ", ".join(ANNOTATIONS[k] for k in result)
        returned = f"Tuple[{returned}]" if len(result) > 1 else returned
        self.left = self.size
        is_module = self.percent(30)
        if is_module:
            own = {"self.buf": "vec", "self.count": "int", "self.seen": "ints"}
            forward = self.function(f"def forward(self, {listed}) -> {returned}:", {**params, **own}, result)
            definitions.append(_module(forward))
        else:
            definitions.append(self.function(f"def f({listed}) -> {returned}:", params, result))
        return Program(definitions, is_module, [self.arguments(kinds) for _ in range(calls)])

    # -- arguments
    def arguments(self, kinds: list[str]) -> list[Any]:
        made: list[Any] = []
        for kind in kinds:
            same = [v for k, v in zip(kinds, made, strict=False) if k == kind]
            if same and self.percent(50) and kind in ("ints", "strs", "dict", "deep", "vec", "grid"):
                made.append(self.chance.choice(same))
            else:
                made.append(self.value(kind, made))
        return made

    def value(self, kind: str, before: list[Any]) -> Any:
        choose = self.chance.choice
        if kind == "vec":
            base = torch.arange(6.0) - 2
            shared = [v for v in before if isinstance(v, torch.Tensor)]
            if shared and self.percent(40):
                return shared[0].view(3)
            return choose((base[:3], base[1:4], base[::2], torch.ones(3)))
        if kind == "deep":
            lists = [v for v in before if isinstance(v, list) and v and isinstance(v[0], int)]
            inner = choose(lists) if lists and self.percent(50) else [1, 2]
            return {"a": inner, "z": inner if self.percent(50) else []}
        values: dict[str, Callable[[], Any]] = {
            "int": lambda: choose((0, 1, -2, 5, 2**63, -(2**70))), "float": lambda: choose((0.0, 1.5, -2.0, 1e308)),
            "bool": lambda: self.percent(50), "str": lambda: choose(("", "a", "Zoë", "日本語", "ab a")),
            "opt": lambda: choose((None, 0, 3)), "pair": lambda: (choose((0, 4)), choose(("", "é"))),
            "ints": lambda: choose(([], [1], [3, 1, 2], [0, 0, 2**64])),
            "strs": lambda: choose(([], ["a"], ["é", "b", ""])),
            "dict": lambda: choose(({}, {"a": 1}, {"b": 2, "a": -1})),
            "grid": lambda: choose(({}, {"a": {"b": 1}}, {"a": {}, "ö": {"a": 3}})),
        }  # fmt: skip
        return values[kind]()


def _leaves(statement: Statement) -> bool:
    """Does a statement, or one within it, leave a function or a loop? From a `finally` that would be refused."""
    if isinstance(statement, str):
        return any(word in statement for word in ("return ", "break", "continue", "raise "))
    return any(map(_leaves, (s for head, body in statement.clauses if not head.startswith("def ") for s in body)))


def _module(forward: Block) -> Block:
    return Block([
        ("class M(nn.Module):", [
            "seen: List[int]",
            Block([("def __init__(self):", [
                "super().__init__()", "self.register_buffer('buf', torch.zeros(3))", "self.count: int = 0",
                "self.seen: List[int] = [1]",
            ])]),
            forward,
        ]),
    ])  # fmt: skip


def random_program(seed: int, size: int = 14) -> Program:
    """The program of a number."""
    return Writer(random.Random(seed), size).program()


# -- smaller programs


def reduced(program: Program, fails: Callable[[Program], bool], most: int = 600) -> Program:
    """A smaller program that still fails; `most` is how many are tried."""
    tried = itertools.count()
    goes_on = True
    while goes_on:
        goes_on = False
        for smaller in _smaller(program):
            if next(tried) >= most:
                return program
            if fails(smaller):
                program, goes_on = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    for i in range(len(program.inputs)) if len(program.inputs) > 1 else ():
        yield Program(program.statements, program.is_module, [program.inputs[i]])
    for statements in _smaller_statements(program.statements):
        yield Program(statements, program.is_module, program.inputs)


def _smaller_statements(statements: list[Statement]) -> Iterator[list[Statement]]:
    for i in reversed(range(len(statements))):
        before, at, after = statements[:i], statements[i], statements[i + 1 :]
        if isinstance(at, str) and at.startswith("turns_") and "+=" in at:
            continue  # the loop has to end
        yield before + after
        if isinstance(at, str):
            yield from ([*before, simpler, *after] for simpler in _simpler_line(at))
            continue
        for j, (head, body) in enumerate(at.clauses):
            if not head.startswith(("def", "class")):
                yield [*before, *body, *after]
            rest = at.clauses[:j], at.clauses[j + 1 :]
            if len(at.clauses) > 1:
                yield [*before, Block([*rest[0], *rest[1]]), *after]
            for inner in _smaller_statements(body):
                yield [*before, Block([*rest[0], (head, inner), *rest[1]]), *after]


def _simpler_line(line: str) -> Iterator[str]:
    """Lines with a smaller expression: a part of it in parentheses, or the literal of the variable's kind."""
    target, sign, value = line.partition(" = ")
    kind = target.partition(":")[0].partition("_")[0]
    if sign and value not in LITERALS.get(kind, [value]):
        yield f"{target} = {LITERALS[kind][0]}"
    for found in re.finditer(r"\(([^()]*)\)", line):
        for part in (found[1], *re.split(r" (?:[-+*/%<>=&^]+|if|else|and|or|in|is) |, ", found[1])):
            if part and part != found[0]:
                yield line[: found.start()] + part + line[found.end() :]


def copied(program: Program) -> Program:
    """A copy whose arguments are other objects."""
    return Program(program.statements, program.is_module, copy.deepcopy(program.inputs))
