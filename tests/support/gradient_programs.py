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
