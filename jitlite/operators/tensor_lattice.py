"""What is known about values while types are propagated: facts, and how two of them become one.

The fact about a tensor is a `TensorFact`; about a list or tuple the tuple of the facts about its elements; about an int
that is not known a `Symbol`; about any other value the value itself, if it is a plain one, else `UNKNOWN`.
Every dimension of a tensor of known rank has an int or a symbol. Equal symbols are equal numbers in every run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import field
from enum import Enum
from typing import Any, NamedTuple

import torch

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.types import Type
from jitlite.ir.value_keys import value_key


class Symbol(NamedTuple):
    """An int that is not known. With `is_size` it is at least 0."""

    number: int
    is_size: bool


Dim = int | Symbol


class Special(Enum):
    """What is known about a value that is neither a tensor nor known."""

    UNKNOWN = "nothing is known"
    FLOAT = "some float"
    BOOL = "some bool"
    COMPLEX = "some complex number"
    NEVER = "there is no value: what an exit leaves behind, which nobody looks at"


UNKNOWN = Special.UNKNOWN
NEVER = Special.NEVER

Fact = Any
"""See the top of the file."""


class TensorFact(NamedTuple):
    """What is known about a tensor; None where nothing is."""

    dtype: torch.dtype | None = None
    dims: tuple[Dim, ...] | None = None
    strides: tuple[int | None, ...] | None = None
    device: torch.device | None = None
    requires_grad: bool | None = None


PLAIN = TensorFact()

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "ceildiv": lambda a, b: -(-a // b), "broadcast": lambda a, b: b if a == 1 else a, "min": min, "max": max,
}  # fmt: skip
"""What a symbol may be computed by."""

_KEEPS_SIZES = frozenset({"add", "mul", "floordiv", "ceildiv", "broadcast", "min", "max"})
"""What gives no negative number for numbers that are not."""


class Symbols(Record, eq=True, frozen=False):
    """The symbols of one graph, in order of creation. The first `count` numbers are those that types name."""

    count: int = 0
    definitions: dict[Symbol, tuple[str, Dim, Dim]] = field(default_factory=dict)
    """How a symbol is computed from others, where that is known."""
    _known: dict[tuple[str, Dim, Dim], Symbol] = field(default_factory=dict)

    def fresh(self, is_size: bool = True) -> Symbol:
        """A number that need not equal any other."""
        self.count += 1
        return Symbol(self.count, is_size)

    def compute(self, how: str, a: Dim, b: Dim) -> Dim:
        """`how` of two numbers: the same symbol for the same numbers.

        Raises:
            ZeroDivisionError: the numbers are known, and it cannot be computed.
        """
        if isinstance(a, int) and isinstance(b, int):
            return _ARITHMETIC[how](a, b)
        simple = _simplified(how, a, b)
        if simple is not None:
            return simple
        key = (how, a, b)
        found = self._known.get(key)
        if found is None:
            is_size = how in _KEEPS_SIZES and _is_size(a) and _is_size(b)
            found = self._known[key] = self.fresh(is_size)
            self.definitions[found] = key
        return found

    def definition(self, symbol: Symbol) -> tuple[str, Dim, Dim] | None:
        """How the symbol is computed from others, also if it is known to be a size only where it is asked about."""
        return self.definitions.get(symbol) or self.definitions.get(symbol._replace(is_size=not symbol.is_size))


def _simplified(how: str, a: Dim, b: Dim) -> Dim | None:
    if a == b and how in ("min", "max", "broadcast"):
        return a
    if how == "broadcast":
        return b if a == 1 else a if b == 1 else None
    return _without_neutral(how, a, b)


def _without_neutral(how: str, a: Dim, b: Dim) -> Dim | None:
    """`a` for `a + 0`, `a * 1` and so on."""
    neutral = {"add": 0, "sub": 0, "mul": 1, "floordiv": 1, "ceildiv": 1}.get(how)
    if neutral is not None and type(b) is int and b == neutral:
        return a
    return b if how in ("add", "mul") and type(a) is int and a == neutral else None


def _is_size(dim: Dim) -> bool:
    return dim.is_size if isinstance(dim, Symbol) else dim >= 0


# -- facts and types


def _dims_of_type(t: T.TensorType, symbols: Symbols) -> tuple[Dim, ...] | None:
    if t.sizes is None:
        return None
    numbers = t.symbols or (None,) * len(t.sizes)
    pairs = zip(t.sizes, numbers, strict=True)
    return tuple(Symbol(n, True) if n else symbols.fresh() if s is None else s for s, n in pairs)


def fact_of_type(t: Type, symbols: Symbols) -> Fact:
    """What a type says."""
    if isinstance(t, T.TensorType):
        return TensorFact(t.dtype, _dims_of_type(t, symbols), t.strides, t.device, t.requires_grad)
    if isinstance(t, T.TupleType):
        return tuple(fact_of_type(e, symbols) for e in t.elements)
    if t is T.INT:
        return symbols.fresh(is_size=False)
    return None if t is T.NONE else UNKNOWN


def fact_of_constant(value: object) -> Fact:
    """What is known about a given value."""
    if isinstance(value, torch.Tensor):
        t = T.TensorType.from_tensor(value)
        return TensorFact(t.dtype, tuple(value.shape), t.strides, t.device, t.requires_grad)
    if isinstance(value, list | tuple):
        return tuple(fact_of_constant(v) for v in value)
    known = value is None or isinstance(value, int | float | complex | str | torch.dtype | torch.device)
    return value if known or isinstance(value, torch.layout | torch.memory_format) else UNKNOWN


def tensor_type_of(fact: TensorFact, symbols: Callable[[Symbol], int | None]) -> T.TensorType:
    """The type that says what is known; `symbols` gives the number under which a symbol is written, or None."""
    sizes = numbers = None
    if fact.dims is not None:
        sizes = [d if isinstance(d, int) else None for d in fact.dims]
        numbers = [symbols(d) if isinstance(d, Symbol) else None for d in fact.dims]
    return T.TensorType.of(fact.dtype, sizes, fact.strides, fact.device, fact.requires_grad, numbers)


def type_of_fact(fact: Fact, declared: Type, symbols: Callable[[Symbol], int | None]) -> Type:
    """The declared type, with the facts about the tensors in it.

    Args:
        fact: what is known.
        declared: the type so far; what it says about tensors is forgotten.
        symbols: the number under which a symbol is written, or None.
    """
    if isinstance(declared, T.TensorType):
        return tensor_type_of(fact, symbols) if isinstance(fact, TensorFact) else T.TENSOR
    if isinstance(declared, T.TupleType) and isinstance(fact, tuple) and len(fact) == len(declared.elements):
        pairs = zip(fact, declared.elements, strict=True)
        elements = [type_of_fact(f, e, symbols) for f, e in pairs]
        return declared if tuple(elements) == declared.elements else declared.with_contained(elements)
    return T.unshaped(declared)


def tensors_in(fact: Fact) -> list[TensorFact]:
    """The facts about tensors in a fact."""
    if isinstance(fact, TensorFact):
        return [fact]
    if isinstance(fact, tuple) and not isinstance(fact, Symbol):
        return [t for element in fact for t in tensors_in(element)]
    return []


def is_listed(fact: Fact) -> bool:
    """Are the elements of the list or tuple known?"""
    return isinstance(fact, tuple) and not isinstance(fact, TensorFact | Symbol)


# -- joining


def join(a: Fact, b: Fact, symbols: Symbols) -> Fact:
    """What is known about a value that is one of two."""
    if a is NEVER or a is b:
        return b
    if b is NEVER:
        return a
    if isinstance(a, TensorFact) and isinstance(b, TensorFact):
        return _join_tensors(a, b, symbols)
    if is_listed(a) and is_listed(b):
        return tuple(join(x, y, symbols) for x, y in zip(a, b, strict=True)) if len(a) == len(b) else UNKNOWN
    return a if _are_equal(a, b) else UNKNOWN


def _are_equal(a: Fact, b: Fact) -> bool:
    """Are two facts, not both of them lists or tensors, the same?"""
    if isinstance(a, Symbol) or isinstance(b, Symbol) or a is UNKNOWN or b is UNKNOWN:
        return bool(a == b)
    return not is_listed(a) and value_key(a) == value_key(b)


def _common_strides(a: TensorFact, b: TensorFact) -> tuple[int | None, ...] | None:
    if a.strides is None or b.strides is None:
        return None
    return tuple(x if x == y else None for x, y in zip(a.strides, b.strides, strict=True))


def _join_tensors(a: TensorFact, b: TensorFact, symbols: Symbols) -> TensorFact:
    if a == b:
        return a
    dims = strides = None
    if a.dims is not None and b.dims is not None and len(a.dims) == len(b.dims):
        dims = tuple(x if x == y else symbols.fresh() for x, y in zip(a.dims, b.dims, strict=True))
        strides = _common_strides(a, b)
    return TensorFact(
        a.dtype if a.dtype == b.dtype else None,
        dims,
        strides,
        a.device if a.device == b.device else None,
        a.requires_grad if a.requires_grad is b.requires_grad else None,
    )
