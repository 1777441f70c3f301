"""What a kernel takes to be so of its arguments.

A fact is what has to be known while code is written: rank and dtype, which sizes are 1 (they broadcast), which strides
are 1 or 0, and in which order dimensions lie in memory (it is the order in which results lie). Sizes are no facts: one
kernel serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitlite.base.records import Record
from jitlite.interpreter.guards import PLAIN
from jitlite.ir.graph import Value
from jitlite.kernels.loop_ir import DTYPES, DType
from jitlite.native.code import NotNative

MOST_DIMENSIONS = 8


class ArgumentFact(Record, eq=True):
    """What is known of a tensor.

    Attributes:
        dtype: of its elements.
        ones: for each dimension, is its size 1?
        strides: for each dimension 1 or 0 where the stride is that, else None; 0 as well where the size is 1.
        order: the dimensions that have neither size 1 nor stride 0, from the outermost one in memory inwards.
        is_dense: does its memory have no gaps, in this order?
    """

    dtype: DType
    ones: tuple[bool, ...]
    strides: tuple[int | None, ...]
    order: tuple[int, ...]
    is_dense: bool

    @property
    def rank(self) -> int:
        return len(self.ones)

    def __str__(self) -> str:
        sizes = ", ".join("1" if one else "*" for one in self.ones)
        if self.is_dense:
            layout = "" if list(self.order) == sorted(self.order) else f" in the order {self.order}"
        else:
            layout = " with gaps"
        return f"{self.dtype}[{sizes}]{layout}"


class NoneFact(Record, eq=True):
    """The argument is None."""

    def __str__(self) -> str:
        return "None"


class SizesFact(Record, eq=True):
    """The argument is a list of sizes.

    Attributes:
        ones: for each size, is it 1?
    """

    ones: tuple[bool, ...]

    def __str__(self) -> str:
        return f"sizes[{', '.join('1' if one else '*' for one in self.ones)}]"


class DtypeFact(Record, eq=True):
    """The argument is a dtype."""

    dtype: DType

    def __str__(self) -> str:
        return f"dtype {self.dtype}"


Fact = ArgumentFact | NoneFact | DtypeFact | SizesFact | None
"""None for what is no tensor: its type says all."""


def text_of_facts(facts: Sequence[Fact], values: Sequence[Value]) -> str:
    """The facts of arguments, `(f32[*, 1], int)`: a size that is no fact is a star.

    Args:
        values: what the arguments are in the graph, whose types say what is no tensor.
    """
    return f"({', '.join(str(v.type if f is None else f) for f, v in zip(facts, values, strict=True))})"


def fact_of(value: object) -> Fact:
    """What is known of an argument.

    Raises:
        NotNative: if there is no kernel for such a tensor, whatever is done with it.
    """
    if value is None:
        return NoneFact()
    if isinstance(value, torch.dtype):
        return DtypeFact(_known(value))
    if not isinstance(value, torch.Tensor):
        return None
    if type(value) not in PLAIN:  # nothing is asked of it: its class would see that
        raise NotNative(f"a tensor of {type(value).__name__} is no plain one")
    if value.layout is not torch.strided or value.device.type != "cpu":
        raise NotNative(f"a tensor of {value.layout}, {value.device} is no plain one")
    return tensor_fact(value)


def recorded_fact_of(value: object) -> Fact:
    """The same of what a forward pass has kept for the backward pass: lists of ints are sizes there."""
    if isinstance(value, list) and all(type(size) is int for size in value):
        return SizesFact(tuple(size == 1 for size in value))
    return fact_of(value)


def tensor_fact(value: torch.Tensor) -> ArgumentFact:
    """What is known of a plain tensor.

    Raises:
        NotNative: if its elements are of no type that kernels compute with, or it has too many dimensions.
    """
    dtype = _known(value.dtype)
    if value.dim() > MOST_DIMENSIONS:
        raise NotNative(f"a tensor has more than {MOST_DIMENSIONS} dimensions")
    sizes, strides, dims = value.shape, value.stride(), range(value.dim())
    ones = tuple(size == 1 for size in sizes)
    wide = [d for d in dims if not ones[d]]
    if value.numel() == 0:
        return ArgumentFact(dtype, ones, _dense_strides(ones, wide), tuple(wide), True)
    order = sorted((d for d in wide if strides[d] != 0), key=lambda d: -strides[d])
    if len(order) == len(wide) and _is_dense(sizes, strides, order):
        return ArgumentFact(dtype, ones, _dense_strides(ones, order), tuple(order), True)
    known = tuple(0 if ones[d] else s if (s := strides[d]) in (0, 1) else None for d in dims)
    return ArgumentFact(dtype, ones, known, tuple(order), False)


def _known(dtype: torch.dtype) -> DType:
    found = DTYPES.get(dtype)
    if found is None:
        raise NotNative(f"kernels do not compute with {dtype}")
    return found


def _dense_strides(ones: Sequence[bool], order: Sequence[int]) -> tuple[int | None, ...]:
    """What is known of the strides of memory without gaps."""
    return tuple(0 if one else 1 if d == order[-1] else None for d, one in enumerate(ones))


def _is_dense(sizes: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    expected = 1
    for d in reversed(order):
        if strides[d] != expected:
            return False
        expected *= sizes[d]
    return True
