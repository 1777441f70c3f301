"""What the rules for sizes are given and work with: a call with what is known of its arguments, and sums on sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jitlite.ir.ops import Op
from jitlite.operators.tensor_lattice import Dim, Fact, Symbol, Symbols, TensorFact, is_listed

Dims = tuple[Dim, ...]
Sizes = Dims | list[Dims] | None
"""Of one result."""


class Unclear(Exception):
    """The rule cannot say what the sizes are."""


class ShapeCall:
    """An operator with what is known about its arguments."""

    __slots__ = ("_facts", "op", "symbols")

    def __init__(self, op: Op, facts: Sequence[Fact], symbols: Symbols) -> None:
        self.op = op
        self.symbols = symbols
        self._facts = dict(zip((a.name for a in op.schema.arguments), facts, strict=True))

    def has(self, name: str) -> bool:
        """Has the operator an argument of this name?"""
        return name in self._facts

    def fact(self, name: str) -> Fact:
        try:
            return self._facts[name]
        except KeyError:
            raise Unclear from None

    @property
    def first(self) -> Fact:
        """The first argument."""
        return next(iter(self._facts.values()))

    def dims(self, name: str | None = None) -> Dims:
        """The dimensions of a tensor, of the first argument if no name is given."""
        return dims_of(self.first if name is None else self.fact(name))

    def number(self, name: str) -> int:
        """An int that is known."""
        value = self.fact(name)
        if type(value) is not int:
            raise Unclear
        return value

    def flag(self, name: str) -> bool:
        value = self.fact(name)
        if type(value) is not bool:
            raise Unclear
        return value

    def items(self, name: str) -> tuple[Fact, ...]:
        """A list whose elements are told apart."""
        value = self.fact(name)
        if not is_listed(value):
            raise Unclear
        items: tuple[Fact, ...] = value
        return items

    def compute(self, how: str, a: Dim, b: Dim) -> Dim:
        try:
            return self.symbols.compute(how, a, b)
        except ZeroDivisionError:
            raise Unclear from None

    def product(self, dims: Sequence[Dim]) -> Dim:
        result: Dim = math.prod(d for d in dims if isinstance(d, int))
        if result == 0:
            return 0
        for dim in sorted((d for d in dims if isinstance(d, Symbol)), key=lambda s: s.number):
            result = self.compute("mul", result, dim)
        return result

    def wrap(self, dim: int, rank: int) -> int:
        """A dimension counted from the front."""
        bound = max(rank, 1)
        if not -bound <= dim < bound:
            raise Unclear
        return dim % bound


Rule = Callable[[ShapeCall], Sequence[Sizes]]


def dims_of(fact: Fact) -> Dims:
    if not isinstance(fact, TensorFact) or fact.dims is None:
        raise Unclear
    return fact.dims


def as_size(value: Fact, symbols: Symbols) -> Dim:
    """A number given as a size: one that may be negative stands for another one."""
    if isinstance(value, Symbol):
        return value if value.is_size else symbols.fresh()
    if type(value) is not int:
        return symbols.fresh()
    if value < 0:
        raise Unclear
    return value


def broadcast(call: ShapeCall, shapes: Sequence[Dims]) -> Dims:
    """The sizes that tensors of these sizes are expanded to."""
    rank = max(map(len, shapes), default=0)
    result = []
    for position in range(rank):
        size: Dim = 1
        for dims in shapes:
            index = position - rank + len(dims)
            if index >= 0:
                size = _broadcast_one(call, size, dims[index])
        result.append(size)
    return tuple(result)


def _broadcast_one(call: ShapeCall, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        if a != b and 1 not in (a, b):
            raise Unclear
        return b if a == 1 else a
    if isinstance(a, int):
        return b if a == 1 else a
    if isinstance(b, int):
        return a if b == 1 else b
    return call.compute("broadcast", *sorted((a, b)))


def same(a: Dim, b: Dim) -> Dim:
    """The size of two dimensions that must be equal."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise Unclear
    return a if isinstance(a, int) or (isinstance(b, Symbol) and a.number <= b.number) else b
