"""Graphs made at random, of operators that are differentiated symbolically and of others between them.

`program(seed)` is a graph and arguments for it. Operators are tried on the arguments while the graph is made, so it
runs. It has views, writes to intermediate tensors, branches, integers, promoted dtypes, and results that are arguments
or share memory; some arguments require a gradient.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Value
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify
from jitlite.passes.rules.formula import FormulaPlace, Sym, call, calls

_UNARY = ("abs atan ceil cos cosh erf exp expm1 gelu hardshrink hardtanh leaky_relu neg relu sigmoid silu sin sinh"
          " softplus square tan tanh trunc clone contiguous t hardswish").split()  # fmt: skip
_BINARY = "add sub mul maximum minimum div".split()
_OTHER = "sign_ detach isnan argmax lgamma cumsum".split()
_SIZES = ((2, 3), (3,), (2, 3), (3, 2), (1, 3), ())


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.graph = Graph()
        self.place = FormulaPlace(self.graph)
        self.generator = torch.Generator().manual_seed(seed)
        self.values: list[tuple[Value, torch.Tensor]] = []
        """Values that can be used, with what they are for the arguments."""
        self.arguments: list[torch.Tensor] = []

    def argument(self) -> None:
        size = self.random.choice(_SIZES)
        tensor = torch.rand(size, generator=self.generator, dtype=torch.float64) * 2 - 0.8
        kind = self.random.random()
        if kind < 0.1:
            tensor = (tensor * 3).to(torch.int64)
        elif kind < 0.25:
            tensor = tensor.float()
        if kind > 0.1:
            tensor.requires_grad_(self.random.random() < 0.75)
        self.arguments.append(tensor)
        self.values.append((self.graph.add_input(), tensor))

    def pick(self) -> tuple[Value, torch.Tensor]:
        recent = self.values[-4:] if self.random.random() < 0.6 else self.values
        return self.random.choice(recent)

    def attempt(self, kind: str, *arguments: Any) -> list[torch.Tensor] | None:
        """Insert an operator if it can be applied; arguments that are values are given as pairs."""
        before = list(self.graph.insert_point.block.nodes) if self.graph.insert_point.block else []
        try:
            symbols = [Sym(self.place, a[0]) if isinstance(a, tuple) else a for a in arguments]
            node = calls(self.place, f"aten::{kind}", *symbols)[0].value.node
            shown = {a[0]: a[1] for a in arguments if isinstance(a, tuple)}
            with torch.no_grad():
                result = node.op.fn(*[shown[v] if v in shown else v.node.attributes.get("value") for v in node.inputs])
            results = list(result) if isinstance(result, tuple | list) else [result]
            assert all(isinstance(r, torch.Tensor) and r.numel() < 100 for r in results)
        except (RuntimeError, IndexError, AssertionError, ValueError, TypeError):
            block = self.graph.insert_point.block
            assert block is not None
            for node in reversed([n for n in block.nodes if n not in before]):
                node.destroy()
            return None
        if isinstance(node.outputs[0].type, T.ListType):
            node = self.graph.insert("prim::ListUnpack", node.outputs, [T.TENSOR] * len(results))
        self.values += zip(node.outputs, results, strict=True)
        return results

    def step(self, depth: int) -> None:
        choose = self.random
        what = choose.random()
        if what < 0.36:
            self.attempt(choose.choice(_UNARY), self.pick())
        elif what < 0.62:
            self.attempt(choose.choice(_BINARY), self.pick(), self.pick())
        elif what < 0.72:
            self.attempt(*choose.choice(_with_numbers(choose, self.pick)))
        elif what < 0.82:
            self.attempt(*choose.choice(_shaping(choose, self.pick)))
        elif what < 0.88:
            self.listed()
        elif what < 0.92:
            self.attempt(choose.choice(_OTHER).rstrip("_"), self.pick(), *([0] if what > 0.9 else []))
        elif what < 0.96:
            self.write()
        elif depth < 2:
            self.branch(depth)

    def listed(self) -> None:
        one, other = self.pick(), self.pick()
        if one[1].shape != other[1].shape or one[1].dim() == 0:
            return
        elements = self.graph.insert("prim::ListConstruct", (one[0], other[0]), (T.ListType.of(T.TENSOR),)).output
        kind, dim = self.random.choice(("cat", "stack")), self.random.choice((0, -1))
        made = call(self.place, f"aten::{kind}", Sym(self.place, elements), dim).value
        self.values.append((made, getattr(torch, kind)([one[1].detach(), other[1].detach()], dim)))

    def write(self) -> None:
        """Write a tensor that was computed; not one that requires a gradient by itself."""
        value, tensor = self.pick()
        if value.node.kind != "prim::Param" and tensor.is_floating_point():
            self.attempt(self.random.choice(("mul_", "add_")), (value, tensor.clone()), 0.5)

    def branch(self, depth: int) -> None:
        """A branch: either block computes something of the values before it."""
        condition = self.graph.add_input(T.BOOL)
        flag = self.random.random() < 0.5
        self.arguments.append(flag)  # type: ignore[arg-type]
        node = self.graph.insert("prim::If", (condition,), ())
        saved, shown = list(self.values), []
        for taken in (True, False):
            block: Block = node.add_block()
            with self.graph.inserting_at_end(block):
                self.values = list(saved)
                for _ in range(self.random.randint(1, 4)):
                    self.step(depth + 1)
                value, tensor = self.pick()
                block.add_output(value)
                if taken is flag:
                    shown.append(tensor)
        self.values = [*saved, (node.add_output(), shown[0])]


def _with_numbers(choose: random.Random, pick: Callable[[], Any]) -> list[tuple[Any, ...]]:
    number = choose.choice((2, 0.5, -1.5, 1))
    return [
        ("add", pick(), number), ("sub", pick(), number, 2), ("mul", pick(), number), ("div", pick(), number),
        ("rsub", pick(), number), ("pow", pick(), choose.choice((2, 3))), ("clamp", pick(), -0.5, 0.7),
        ("gt", pick(), 0.1), ("where", *_where(pick)), ("to", pick(), choose.choice((torch.float32, torch.float64))),
        ("type_as", pick(), pick()), ("threshold", pick(), 0.1, 0.3),
    ]  # fmt: skip


def _where(pick: Callable[[], Any]) -> tuple[Any, ...]:
    condition = pick()
    return condition, pick(), pick()


def _shaping(choose: random.Random, pick: Callable[[], Any]) -> list[tuple[Any, ...]]:
    return [
        ("sum", pick()), ("mean", pick()), ("sum", pick(), [0], choose.random() < 0.5), ("softmax", pick(), -1),
        ("mean", pick(), [-1], choose.random() < 0.5), ("log_softmax", pick(), 0), ("matmul", pick(), pick()),
        ("reshape", pick(), [-1]), ("unsqueeze", pick(), 0), ("squeeze", pick(), 0), ("select", pick(), 0, 0),
        ("expand", pick(), [2, 3]), ("transpose", pick(), 0, 1), ("chunk", pick(), 2, 0), ("var", pick(), [0], False),
        ("mm", pick(), pick()), ("linear", pick(), pick()), ("unbind", pick()), ("logsumexp", pick(), [0]),
    ]  # fmt: skip


def program(seed: int, size: int = 14) -> tuple[Graph, list[Any]]:
    """A graph and arguments for it."""
    maker = _Maker(seed)
    for _ in range(maker.random.randint(2, 4)):
        maker.argument()
    for _ in range(size):
        maker.step(0)
    results = [maker.pick()[0] for _ in range(maker.random.randint(1, 3))] + [maker.values[-1][0]]
    for value in results:
        maker.graph.add_output(value)
    verify(maker.graph)
    return maker.graph, maker.arguments


# -- branches and loops

_STEPS = ("tanh", "sin", "neg", "sigmoid", "exp", "relu", "cos", "abs")
_PAIRS = ("mul", "add", "sub", "maximum")
_RISKY = ("sqrt", "log", "reciprocal")
"""Of some elements they give NaN or infinity, or have such a slope."""


class _Text:
    """Writes a program as the text of a graph: tensors of one size, numbers, branches and loops."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.tensors = ["%x", "%y", "%w"]
        self.depth = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def write(self, text: str) -> None:
        self.lines.append("  " * (self.depth + 1) + text)

    def pick(self) -> str:
        return self.random.choice(self.tensors[-4:] if self.random.random() < 0.6 else self.tensors)

    def operator(self) -> None:
        made, choice = self.fresh(), self.random.random()
        if choice < 0.4:
            self.write(f"{made} : Tensor = aten::{self.random.choice(_STEPS)}({self.pick()})")
        elif choice < 0.5:
            self.write(f"{made} : Tensor = aten::{self.random.choice(_RISKY)}({self.pick()})")
        elif choice < 0.9:
            kind = self.random.choice(_PAIRS)
            number = ", %one" if kind in ("add", "sub") else ""
            self.write(f"{made} : Tensor = aten::{kind}({self.pick()}, {self.pick()}{number})")
        elif choice < 0.95:
            self.write(f"{made} : Tensor = aten::detach({self.pick()})")
        else:
            of = self.pick()
            self.write(f"{made}t : Tensor = aten::t({of})")
            self.write(f"{made} : Tensor = aten::t({made}t)")
        self.tensors.append(made)

    def condition(self, index: str | None) -> str:
        """A bool: an argument, of a number, or of what a tensor holds."""
        made, choice = self.fresh(), self.random.random()
        if choice < 0.3:
            return self.random.choice(("%p", "%q"))
        if choice < 0.6 and index is not None:
            self.write(f"{made} : bool = aten::gt({index}, {self.random.choice(('%zero', '%one'))})")
            return made
        self.write(f"{made}s : Tensor = aten::sum({self.pick()}, %none)")
        self.write(f"{made}g : Tensor = aten::gt({made}s, %number)")
        self.write(f"{made} : bool = aten::Bool({made}g)")
        return made

    def body(self, index: str | None, size: int) -> None:
        for _ in range(size):
            choice = self.random.random()
            if choice < 0.7 or self.depth > 4:
                self.operator()
            elif choice < 0.9:
                self.branch(index)
            else:
                self.loop()

    def block(self, head: str, index: str | None, gives: int, condition: str = "") -> None:
        """A block that gives tensors: those made in it, or from outside."""
        self.depth += 1
        self.write(head)
        self.depth += 1
        saved = list(self.tensors)
        self.body(index, self.random.randint(0, 3))
        results = [self.pick() for _ in range(gives)]
        self.write(f"-> ({', '.join([*filter(None, [condition]), *results])})")
        self.depth -= 2
        self.tensors = saved

    def branch(self, index: str | None) -> None:
        condition, gives = self.condition(index), self.random.randint(1, 2)
        made = [self.fresh() for _ in range(gives)]
        self.write(f"{', '.join(f'{m} : Tensor' for m in made)} = prim::If({condition})")
        self.block("block0():", index, gives)
        self.block("block1():", index, gives)
        self.tensors += made

    def loop(self) -> None:
        gives = self.random.randint(1, 2)
        starts = [self.pick() for _ in range(gives)]
        made, inner = ([self.fresh() for _ in range(gives)] for _ in range(2))
        index = self.fresh()
        self.write(f"{', '.join(f'{m} : Tensor' for m in made)} = prim::Loop(%steps, %true, {', '.join(starts)})")
        saved = list(self.tensors)
        self.tensors += inner
        head = ", ".join([f"{index} : int", *(f"{v} : Tensor" for v in inner)])
        self.block(f"block0({head}):", index, gives, "%true")
        self.tensors = [*saved, *made]


def branched_program(seed: int) -> tuple[Graph, list[Any]]:
    """A graph with branches, and loops that run, over tensors of one size; and arguments for it."""
    text = _Text(seed)
    choose = text.random
    while not any("prim::If" in line for line in text.lines):
        text.body(None, 4)
    results = [text.fresh() for _ in range(choose.randint(1, 2))]
    for result in results:
        text.write(f"{result} : Tensor = aten::mul({text.pick()}, %two)")
    heads = ("%x : Tensor", "%y : Tensor", "%w : Tensor", "%p : bool", "%q : bool", "%steps : int")
    lines = [
        f"graph({', '.join(heads)}):",
        "  %zero : int = prim::Constant[value=0]()",
        "  %one : int = prim::Constant[value=1]()",
        "  %two : int = prim::Constant[value=2]()",
        "  %true : bool = prim::Constant[value=1]()",
        "  %number : float = prim::Constant[value=0.25]()",
        "  %none : NoneType = prim::Constant()",
        *text.lines,
        f"  return ({', '.join(results)})",
    ]
    graph = parse("\n".join(lines))
    verify(graph)
    generator = torch.Generator().manual_seed(seed)
    size = choose.choice(((2, 3), (2, 3), (1, 3), (0, 3)))
    tensors = [torch.rand(size, generator=generator, dtype=torch.float64) * 3 - 1 for _ in range(3)]
    for tensor in tensors:
        tensor.requires_grad_(choose.random() < 0.8)
    tensors[choose.randrange(3)].requires_grad_()
    return graph, [*tensors, choose.random() < 0.5, choose.random() < 0.5, choose.randint(1, 3)]
