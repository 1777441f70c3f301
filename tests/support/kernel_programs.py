"""Random programs over tensors, of which regions become kernels.

A program is written statement by statement, each of which is tried in eager Python at once, so that shapes and dtypes
are known; what raises is seldom kept. Numbers stay small and whole, so that sums do not depend on their order, unless
the program is inexact.
"""

from __future__ import annotations

import copy
import linecache
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

INT, FLOAT = "int", "float"
LARGEST = 60.0
MOST_ELEMENTS = 400


@dataclass
class Statement:
    """A line, or a head (`for`, `while`, `if`) with blocks."""

    text: str
    blocks: list[list[Statement]] = field(default_factory=list)

    def lines(self, indent: str = "    ") -> Iterator[str]:
        yield indent + self.text
        for i, block in enumerate(self.blocks):
            if i:
                yield f"{indent}else:"
            inner = [line for s in block for line in s.lines(indent + "    ")]
            yield from inner or [f"{indent}    pass"]


@dataclass
class Program:
    """A function.

    Attributes:
        parameters: with annotations.
        body: its statements.
        results: the names that it returns.
        inputs: several lists of arguments; the first one is what it was written with.
        is_exact: are results equal to the bit?
    """

    parameters: list[str]
    body: list[Statement]
    results: list[str]
    inputs: list[list[Any]]
    is_exact: bool = True

    @property
    def source(self) -> str:
        lines = [line for s in self.body for line in s.lines()]
        head = f"def program({', '.join(self.parameters)}):"
        return "\n".join([head, *lines, f"    return {', '.join(self.results)}", ""])


_numbers = count()


def function_of(source: str) -> Callable[..., Any]:
    """The function of a text, with source lines that `inspect` finds."""
    filename = f"<kernel program {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"torch": torch, "List": list, "F": torch.nn.functional, "__name__": "kernel_programs"}
    scope["Tensor"] = torch.Tensor
    exec(compile(source, filename, "exec"), scope)
    made: Callable[..., Any] = scope["program"]
    return made


# -- arguments


def random_tensor(rng: random.Random, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of small whole numbers in some layout."""
    dims = list(range(len(shape)))
    how = rng.randrange(8)
    if how == 0:
        rng.shuffle(dims)
    stored = [shape[d] for d in dims]
    start = steps = None
    if how == 1 and shape:
        stored[-1] = 2 * stored[-1] + 1
        start, steps = 1, 2
    elif how == 2 and shape:
        stored[0] += 2
        start, steps = 2, 1
    total = torch.Size(stored).numel()
    least = 0 if dtype is torch.uint8 else -4
    values = torch.tensor([rng.randint(least, 5) for _ in range(total)], dtype=torch.int64).to(dtype).view(stored)
    if how == 1 and shape:
        values = values[..., start::steps][..., : shape[-1]]
    elif how == 2 and shape:
        values = values[start:]
    elif how == 3 and shape and shape[0] > 1:
        values = values[:1].expand(shape)
    return values.permute([dims.index(d) for d in range(len(dims))]) if how == 0 else values


SHAPES = [[], [4], [3], [1], [3, 4], [4, 4], [3, 1], [1, 4], [2, 3, 4], [4, 3], [0], [0, 4], [5], [1, 1], [2, 1, 4]]
DTYPES = ([torch.float64] * 5 + [torch.float32] * 4 + [torch.int64] * 3 + [torch.bool, torch.int32]) * 3
DTYPES += [torch.bfloat16, torch.float16, torch.uint8]


class Writer:
    """Writes one program.

    Args:
        seed: of all that is random.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.is_exact = self.rng.random() < 0.7
        self.scope: dict[str, Any] = {}
        self.own: set[str] = set()
        """Tensors whose memory the program has made."""
        self.count = 0

    # -- the whole
    def program(self) -> Program:
        rng = self.rng
        parameters, first = [], []
        for i in range(rng.randint(1, 4)):
            if i and rng.random() < 0.15:
                value: Any = rng.choice([rng.randint(-2, 4), float(rng.randint(-2, 3))])
                parameters.append(f"p{i}: {type(value).__name__}")
            else:
                value = random_tensor(
                    rng, list(rng.choice(SHAPES[:10] if rng.random() < 0.9 else SHAPES)), rng.choice(DTYPES)
                )
                earlier = [t for t in first if isinstance(t, torch.Tensor)]
                if earlier and rng.random() < 0.06:
                    value = rng.choice(earlier)
                elif earlier and rng.random() < 0.06:
                    one = rng.choice(earlier)
                    value = one[..., :] if one.dim() else one.view_as(one)
                parameters.append(f"p{i}")
            first.append(value)
            self.scope[f"p{i}"] = value
        given = copy.deepcopy(first)
        self.scope = {
            **{f"p{i}": v for i, v in enumerate(copy.deepcopy(given))},
            "torch": torch,
            "F": torch.nn.functional,
        }
        body = self.block(rng.randint(3, 12), 0)
        names = self.tensors() + self.numbers(INT) + self.numbers(FLOAT)
        made = [n for n in names if not n.startswith("p")] or names
        results = [rng.choice(made) for _ in range(rng.randint(1, 3))]
        results += [rng.choice(names)] if rng.random() < 0.1 else []
        return Program(parameters, body, results, [given, self.other(given)], self.is_exact)

    def other(self, given: list[Any]) -> list[Any]:
        """Arguments of the same dtypes and ranks, with other sizes, layouts and numbers."""
        rng = self.rng
        sizes = {n: rng.choice([1, 2, 5, 6]) if rng.random() < 0.3 else n for n in range(8)}
        sizes[1] = 1
        found: list[Any] = []
        for value in given:
            if isinstance(value, torch.Tensor):
                found.append(random_tensor(rng, [sizes[s] for s in value.shape], value.dtype))
            else:
                found.append(type(value)(rng.randint(-2, 4)))
        return found

    # -- names
    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def tensors(self, wanted: Callable[[torch.Tensor], bool] = lambda t: True) -> list[str]:
        return [n for n, v in self.scope.items() if isinstance(v, torch.Tensor) and wanted(v)]

    def numbers(self, kind: str) -> list[str]:
        return [n for n, v in self.scope.items() if type(v).__name__ == kind]

    def tensor(self, wanted: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
        found = self.tensors(wanted)
        if not found:
            raise LookupError
        return self.rng.choice(found[-6:] if self.rng.random() < 0.7 else found)

    def integer(self) -> str:
        names = self.numbers(INT)
        return self.rng.choice(names) if names and self.rng.random() < 0.5 else str(self.rng.randint(-1, 3))

    def real(self) -> str:
        names = self.numbers(FLOAT)
        return self.rng.choice(names) if names and self.rng.random() < 0.5 else str(float(self.rng.randint(-2, 3)))

    # -- statements
    def block(self, length: int, depth: int) -> list[Statement]:
        found: list[Statement] = []
        tries = 0
        while len(found) < length and tries < 10 * length:
            tries += 1
            before = dict(self.scope)
            saved = copy.deepcopy({n: v for n, v in before.items() if isinstance(v, torch.Tensor | list)})
            try:
                made = self.statement(depth)
            except Exception:
                self.scope = {n: saved.get(n, v) for n, v in before.items()}
                continue
            found += made
        return found

    def statement(self, depth: int) -> list[Statement]:
        rng = self.rng
        kind = rng.random()
        if kind < 0.12 and depth < 2:
            return self.loop(depth)
        if kind < 0.2 and depth < 2:
            return self.branch(depth)
        if kind < 0.34:
            return self.write()
        if kind < 0.42:
            return self.number()
        if kind < 0.47:
            return self.several()
        text = self.expression()
        name = self.fresh("v") if depth == 0 or rng.random() < 0.5 else rng.choice(self.tensors())
        return self.assign(name, text)

    def run(self, text: str) -> None:
        exec(text, self.scope)
        self.scope.pop("__builtins__", None)

    def assign(self, name: str, text: str) -> list[Statement]:
        self.run(f"{name} = {text}")
        value = self.scope[name]
        found = [Statement(f"{name} = {text}")]
        assert isinstance(value, torch.Tensor) and value.numel() <= MOST_ELEMENTS and value.dim() < 5
        self.own.discard(name)
        if value.dtype is torch.bool or not value.numel() or bool((value.abs() <= LARGEST).all()):
            return found
        assert not value.is_floating_point() or bool(value.isfinite().all())
        tamed = f"{name} = {name}.clamp(-9, 8)"
        self.run(tamed)
        return [*found, Statement(tamed)]

    def expression(self) -> str:
        makers = [self.pointwise] * 6 + [self.view] * 4 + [self.reduction] * 2 + [self.product, self.joined, self.new]
        if not self.is_exact:
            makers += [self.function] * 3
        return self.rng.choice(makers)()

    def pointwise(self) -> str:
        rng = self.rng
        x = self.tensor()
        y = self.tensor() if rng.random() < 0.8 else rng.choice([self.integer(), self.real()])
        b = (
            self.tensor(lambda t: t.dtype is torch.bool)
            if self.tensors(lambda t: t.dtype is torch.bool)
            else f"({x} > 0)"
        )
        return rng.choice([
            f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{y} - {x}", f"torch.maximum({x}, {self.tensor()})",
            f"torch.minimum({x}, {self.tensor()})", f"{x}.abs()", f"-{x}", f"torch.relu({x})", f"{x}.clamp(-3, 4)",
            f"{x}.clamp(min={self.integer()})", f"{x} > {y}", f"{x} <= {y}", f"{x} == {y}", f"{x} != {y}",
            f"torch.where({b}, {x}, {y})", f"torch.where({x} > 0, {y}, {x})", f"{x}.masked_fill({b}, {self.integer()})",
            f"{x} // 3", f"{x} % 3", f"{x}.float()", f"{x}.long()", f"{x}.double()", f"{x}.bool()", f"{x}.int()",
            f"{x}.to(torch.float64)", f"{x}.type_as({self.tensor()})", f"{x} & {y}", f"{x} | {y}", f"~{x}",
            f"{x} ^ {y}",
            f"torch.logical_and({x}, {self.tensor()})", f"{x}.square()", f"{x}.floor()", f"{x}.clone()",
            f"{x} * {x} + {x}",
            f"{x}.logical_not()", f"{x}.sub({y}).add({x})", f"1 - {x}", f"{x}.neg().relu()", f"({x} * 0.5).round()",
            f"{x} / 2", f"({x} * {y}) % 5", f"torch.div({x}, 2, rounding_mode='trunc')",
            f"{x}.remainder({self.integer()})",
            f"torch.fmod({x}, 3)", f"{x}.rsub(2)", f"F.relu6({x})", f"{x}.to(torch.int64)", f"{x} ** 2",
            f"F.leaky_relu({x}, 0.5)", f"{x}.lerp({self.tensor()}, 0.5)", f"{x}.new_zeros({x}.shape) + {y}",
        ])  # fmt: skip

    def function(self) -> str:
        x = self.tensor(lambda t: t.is_floating_point())
        return self.rng.choice([
            f"torch.exp(-{x}.abs())", f"torch.tanh({x})", f"torch.sigmoid({x})", f"{x}.abs().sqrt()", f"F.gelu({x})",
            f"F.silu({x})", f"torch.softmax({x}, -1)", f"torch.log_softmax({x}, 0)", f"{x} / ({x}.abs() + 1)",
            f"{x}.mean()", f"{x}.mean(-1)", f"{x}.var(-1)", f"{x}.std(0, keepdim=True)", f"{x}.logsumexp(-1)",
            f"torch.erf({x})", f"F.layer_norm({x}, [{x}.shape[-1]])", f"torch.sin({x})", f"torch.log1p({x}.abs())",
        ])  # fmt: skip

    def view(self) -> str:
        rng, x = self.rng, self.tensor()
        shape = self.scope[x].shape
        shuffled = list(range(len(shape)))
        rng.shuffle(shuffled)
        return rng.choice([
            f"{x}.t()", f"{x}.transpose(0, -1)", f"{x}[1:]", f"{x}[:, 1:]", f"{x}[::2]", f"{x}[0]", f"{x}[-1]",
            f"{x}[{self.integer()}]", f"{x}.unsqueeze(0)", f"{x}.unsqueeze(-1)", f"{x}.squeeze()", f"{x}.squeeze(0)",
            f"{x}.reshape(-1)", f"{x}.flatten()", f"{x}.view(-1)", f"{x}.expand(3, {', '.join(map(str, shape))})",
            f"{x}.permute({shuffled})", f"{x}.narrow(0, 1, 2)", f"{x}.contiguous()", f"{x}.detach()", f"{x}[None]",
            f"{x}[..., 0]", f"{x}[..., -2:]", f"{x}[:{self.integer()}]", f"{x}[{self.integer()}:]",
            f"{x}.reshape(2, -1)",
            f"{x}[{x} > 0]", f"{x}.expand_as({self.tensor()})", f"{x}.select(-1, 1)", f"{x}.view({x}.shape)",
            f"{x}[torch.arange(2)]", f"{x}[torch.arange(2), torch.arange(2)]", f"{x}.flip(0)",
            f"{x}.argsort(stable=True)", f"{x}.index_select(0, torch.arange(2))", f"{x}[:, None]", f"{x}.view(-1, 2)",
        ])  # fmt: skip

    def reduction(self) -> str:
        x = self.tensor()
        return self.rng.choice([
            f"{x}.sum()", f"{x}.sum(0)", f"{x}.sum(-1, keepdim=True)", f"{x}.max()", f"{x}.amax(0)",
            f"{x}.amin(-1, keepdim=True)",
            f"{x}.argmax()", f"{x}.argmax(-1)", f"{x}.argmin(0)", f"{x}.any()", f"{x}.all()", f"{x}.any(0)",
            f"{x}.all(-1)",
            f"{x}.clamp(-1, 2).prod()", f"{x}.clamp(-1, 1).prod(0)", f"{x}.min()", f"{x}.sum((0, -1))", f"{x}.sum(1)",
        ])  # fmt: skip

    def product(self) -> str:
        x = self.tensor(lambda t: t.is_floating_point())
        y = self.tensor(lambda t: t.is_floating_point())
        z = self.tensor(lambda t: t.is_floating_point())
        return self.rng.choice([
            f"{x} @ {y}", f"{x} @ {y}.t()", f"torch.mm({x}, {y})", f"F.linear({x}, {y})", f"F.linear({x}, {y}, {z})",
            f"torch.matmul({x}, {y})", f"{x}.t() @ {y}", f"torch.bmm({x}, {y})", f"torch.addmm({z}, {x}, {y})",
            f"{x}.mv({y})", f"{x}.dot({y})", f"{x} @ {x}.transpose(-1, -2)",
        ])  # fmt: skip

    def joined(self) -> str:
        x, y = self.tensor(), self.tensor()
        return self.rng.choice([
            f"torch.cat([{x}, {y}])", f"torch.stack([{x}, {y}])", f"torch.cat([{x}, {x}], -1)",
            f"torch.stack([{x}, {y}], -1)",
            f"torch.stack([{x}, {x} + 1, {y}], 1)", f"torch.cat([{x}[:1], {y}, {x}])",
        ])  # fmt: skip

    def new(self) -> str:
        x, rng = self.tensor(), self.rng
        return rng.choice([
            f"torch.zeros_like({x})", f"torch.ones_like({x})", "torch.zeros(3, 4)",
            "torch.ones([4], dtype=torch.float64)",
            f"torch.full([3], {self.integer()})", f"torch.arange({self.integer()})", "torch.arange(1, 5)",
            f"torch.full_like({x}, {self.integer()})", f"torch.zeros({x}.shape, dtype=torch.int64)",
            f"{x}.new_ones([3, 4])",
            f"torch.zeros({x}.size(0), 2)", "torch.zeros([])", "torch.full([], 2.0)",
        ])  # fmt: skip

    def write(self) -> list[Statement]:
        """A write to memory of the program's own, or to a view of it; seldom to an argument."""
        rng = self.rng
        found: list[Statement] = []
        mine = [n for n in self.own if n in self.scope]
        if not mine or rng.random() < 0.3:
            name = self.fresh("w")
            x = self.tensor()
            found += self.assign(
                name, rng.choice([f"{x}.clone()", f"torch.zeros_like({x})", "torch.zeros(3, 4)", f"{x} * 1"])
            )
            self.own.add(name)
        elif rng.random() < 0.04:
            name = self.tensor()
        else:
            name = rng.choice(sorted(mine))
        x = self.tensor()
        y = rng.choice([x, x, self.integer(), self.real()])
        text = rng.choice([
            f"{name}.add_({y})", f"{name} += {y}", f"{name}[0] = {y}", f"{name}[1:] += {y}", f"{name}.mul_({y})",
            f"{name}[0, 1] = {y}",
            f"{name}.fill_({self.integer()})", f"{name}.copy_({x})", f"{name}.zero_()", f"{name}[..., 0] = {y}",
            f"{name}.clamp_(-2, 2)",
            f"{name}[{self.integer()}] = {y}", f"{name}[:, 0].add_({y})", f"{name}.t().add_({y})",
            f"{name}[1:] = {name}[:-1]",
            f"{name}.relu_()", f"{name}.sub_({name})", f"{name}[0] += {name}[1]", f"{name}.masked_fill_({name} > 0, 1)",
            f"{name}[{name} > 1] = 0", f"{name}[torch.arange(2)] = {y}", f"{name}[torch.arange(2)] += 1",
            f"{name}.index_add_(0, torch.arange(2), {name}[:2] * 2)", f"{name}[:, torch.arange(3)] = {y}",
            f"{name}.index_fill_(-1, torch.arange(2), {self.integer()})",
            f"{name}.scatter_(0, torch.arange(2), {self.integer()})", f"{name}[::2] = {y}", f"{name}.neg_()",
            f"{name}.view(-1)[0] = {y}",
        ])  # fmt: skip
        self.run(text)
        value = self.scope[name]
        if value.numel() and value.dtype is not torch.bool and not bool((value.abs() <= LARGEST).all()):
            self.run(f"{name}.clamp_(-9, 8)")
            return [*found, Statement(text), Statement(f"{name}.clamp_(-9, 8)")]
        return [*found, Statement(text)]

    def number(self) -> list[Statement]:
        rng, x = self.rng, self.tensor()
        name = self.fresh("n")
        text = rng.choice([
            f"int({x}.sum()) % 4", f"float({x}.max())", f"{x}.size(0)", f"{x}.dim()", f"{x}.numel()",
            f"int({x}.argmax())", f"len({x})",
            f"float({x}.sum())", f"int({x}[0, 1])", f"{x}.shape[-1]", f"int(({x} > 0).sum())", f"float({x}[0])",
            f"int({x}[-1])",
            f"{self.integer()} + 1", f"{self.real()} * 0.5", f"max({self.integer()}, 1)", f"{x}.shape[0] // 2",
            f"float({x}.mean())",
        ])  # fmt: skip
        self.run(f"{name} = {text}")
        assert type(self.scope[name]) in (int, float) and abs(self.scope[name]) <= LARGEST
        return [Statement(f"{name} = {text}")]

    def several(self) -> list[Statement]:
        """Several results at once."""
        x = self.tensor()
        a, b = self.fresh("v"), self.fresh("v")
        text = self.rng.choice([
            f"{a}, {b} = {x}.max(0)", f"{a}, {b} = {x}.min(-1, keepdim=True)", f"{a}, {b} = {x}.chunk(2)",
            f"{a}, {b} = {x}.chunk(2, -1)",
            f"{a}, {b} = {x}.unbind(0)", f"{a}, {b} = {x}.split(2)", f"{a}, {b} = {x}.split([1, 2], -1)",
            f"{a}, {b} = {x}.max(-1)",
            f"{a}, {b} = {x}.split(2, -1)", f"{a}, {b} = {x}.topk(2)", f"{a}, {b} = {x}.topk(1, 0, False)",
            f"{a}, {b} = {x}.sort(stable=True)", f"{a}, {b} = {x}.sort(0, descending=True)",
            f"{a}, {b} = torch.sort({x}, dim=-1, stable=True, descending=True)",
        ])  # fmt: skip
        self.run(text)
        return [Statement(text)]

    # -- blocks
    def condition(self) -> str:
        x = self.tensor()
        return self.rng.choice([
            f"bool({x}.sum() > 0)", f"bool({x}.any())", f"{self.integer()} > 1", f"float({x}.sum()) < 2.0",
            f"{x}.size(0) > 2",
            f"bool(({x} > 1).all())", f"{x}.dim() == 2", f"{self.real()} > 0.0",
        ])  # fmt: skip

    def inside(self, length: int, depth: int) -> list[Statement]:
        """A block; what it names is not known behind it."""
        before, own = set(self.scope), set(self.own)
        made = self.block(length, depth + 1)
        self.scope = {n: v for n, v in self.scope.items() if n in before}
        self.own &= own
        return made

    def branch(self, depth: int) -> list[Statement]:
        text = self.condition()
        eval(text, self.scope)
        self.scope.pop("__builtins__", None)
        start = dict(self.scope)
        kept = copy.deepcopy({n: v for n, v in start.items() if isinstance(v, torch.Tensor)})
        first = self.inside(self.rng.randint(1, 3), depth)
        self.scope = {n: kept.get(n, v) for n, v in start.items()}
        second = self.inside(self.rng.randint(0, 2), depth)
        return [Statement(f"if {text}:", [first, second] if second else [first])]

    def loop(self, depth: int) -> list[Statement]:
        rng, found = self.rng, []
        carried = self.fresh("c")
        found += self.assign(carried, self.expression() if rng.random() < 0.5 else f"{self.tensor()}.clone()")
        grows = self.fresh("l") if rng.random() < 0.3 else None
        i = self.fresh("i")
        if rng.random() < 0.25:
            self.run(f"{i} = 0")
            found.append(Statement(f"{i} = 0"))
            head = f"while {i} < {rng.choice([2, 3])} and {self.condition()}:"
            body = self.inside(rng.randint(1, 4), depth) + [Statement(f"{i} = {i} + 1")]
            grows = None
        else:
            head = f"for {i} in range({rng.choice([2, 3, 3, self.integer()])}):"
            self.scope[i] = 0
            body = self.inside(rng.randint(1, 4), depth)
            self.scope.pop(i, None)
        update = rng.choice([
            f"{carried} = {carried} + {self.tensor()}", f"{carried} = ({carried} * {self.tensor()}).clamp(-9, 8)",
            f"{carried} = torch.cat([{carried}, {carried}[:1]])", f"{carried} = {carried}.relu() - 1",
            f"{carried} = {carried} @ {carried}",
            f"{carried} = torch.where({carried} > 0, {carried} - 1, {carried} + 2)",
            f"{carried} = {carried}.transpose(0, -1)",
            f"{carried}[0] = {carried}[0] + 1", f"{carried} = {carried}[1:]", f"{carried}.add_(1)",
            f"{carried} = {carried}.clamp(-5, 5)",
        ])  # fmt: skip
        self.run(update)
        body += [Statement(update), Statement(f"{carried} = {carried}.clamp(-9, 8)")]
        self.run(f"{carried} = {carried}.clamp(-9, 8)")
        if grows is not None:
            found.append(Statement(f"{grows}: List[torch.Tensor] = []"))
            body.append(Statement(f"{grows}.append({carried}{rng.choice(['', '.sum()', ' * 2', '[0]'])})"))
        found.append(Statement(head, [body]))
        if grows is not None:
            name = self.fresh("v")
            text = f"{name} = torch.{rng.choice(['stack', 'cat'])}({grows}{rng.choice(['', '', ', -1'])})"
            self.scope[name] = self.scope[carried].unsqueeze(0)
            found.append(Statement(text))
        return found


def random_program(seed: int) -> Program:
    """The program of this number."""
    return Writer(seed).program()


# -- smaller


def smaller(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The program without the statements that do not matter to the failure."""
    while True:
        for body in _without_one(program.body):
            tried = Program(program.parameters, body, program.results, program.inputs, program.is_exact)
            if fails(tried):
                program = tried
                break
        else:
            break
    for i in reversed(range(len(program.results))):
        if len(program.results) > 1:
            kept = program.results[:i] + program.results[i + 1 :]
            tried = Program(program.parameters, program.body, kept, program.inputs, program.is_exact)
            program = tried if fails(tried) else program
    return program


def _without_one(body: list[Statement]) -> Iterator[list[Statement]]:
    for i in reversed(range(len(body))):
        if not re.fullmatch(r"(i\d+) = \1 \+ 1", body[i].text):  # without it a loop would not end
            yield body[:i] + body[i + 1 :]
        for b, block in enumerate(body[i].blocks):
            yield body[:i] + block + body[i + 1 :]
            for inner in _without_one(block):
                blocks = [*body[i].blocks[:b], inner, *body[i].blocks[b + 1 :]]
                yield [*body[:i], Statement(body[i].text, blocks), *body[i + 1 :]]
