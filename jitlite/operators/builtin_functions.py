"""Operators that are written in terms of others.

An `Expansion` has a schema, so that overload resolution can choose it, and a body over its arguments, which takes the
place of the call. A body is an argument's name, a constant, or a tuple of an operator's name and further bodies:
`("aten::mul", ("aten::reciprocal", "b"), "a")` is `reciprocal(b) * a`.

Most are reflected operators: TorchScript has no overload of `aten::sub` for a number and a tensor, and without one
the tensor would be turned into a number. Meanings follow `torch.Tensor.__rsub__` and its like. A bool in front of a
tensor stays a bool, so that `True & mask` is a mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from jitlite.base.records import Record
from jitlite.ir.ops import Effect, op
from jitlite.ir.schema import Schema, parse_schema
from jitlite.ir.traits import Trait

Body = str | int | None | tuple[Any, ...]


class Expansion(Record, eq=True):
    """A builtin that other operators make up.

    Attributes:
        schema: its signature.
        body: what it stands for, see the top of this file.
        exact: chosen before all operators, but only for arguments of exactly these types.
    """

    schema: Schema
    body: Body
    exact: bool = False


_EXCHANGED = {
    "mul": "mul", "add": "add", "ne": "ne", "eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le",
}  # fmt: skip
"""Operators of a number and a tensor that are another one of the tensor and the number."""

_BITWISE = {
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor", "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}  # fmt: skip
"""Operators whose overload for a number and a tensor goes by another name."""


def _reflected() -> Iterator[tuple[str, Body]]:
    for number in ("Scalar", "bool"):
        operands = f"({number} a, Tensor b) -> Tensor"
        for name, exchanged in _EXCHANGED.items():
            yield f"aten::{name}{operands}", (f"aten::{exchanged}", "b", "a")
        for name, bitwise in _BITWISE.items():
            yield f"aten::{name}{operands}", (f"aten::{bitwise}", "a", "b")
        yield f"aten::sub{operands}", ("aten::rsub", "b", "a")
        yield f"aten::div{operands}", ("aten::mul", ("aten::reciprocal", "b"), "a")
        yield f"aten::floordiv(Tensor self, {number} other) -> Tensor", ("aten::floor_divide", "self", "other")
    yield "aten::floordiv(Tensor self, Tensor other) -> Tensor", ("aten::floor_divide", "self", "other")
    # without these, `aten::pow(Scalar, Scalar) -> float` would be chosen
    yield "aten::pow(complex a, int b) -> complex", ("aten::pow", "a", ("aten::Complex", "b"))
    yield "aten::pow(int a, complex b) -> complex", ("aten::pow", ("aten::Complex", "a"), "b")


def _helpers() -> Iterator[tuple[str, Body]]:
    for element in ("float", "int"):
        for name, length in (("_single", 1), ("_pair", 2), ("_triple", 3), ("_quadruple", 4)):
            yield f"aten::{name}({element}[{length}] x) -> {element}[]", "x"
    yield "aten::_assert_int_or_pair(int[] vals, str name, str message) -> NoneType", None
    yield "aten::device(str type) -> Device", ("aten::device", "type")
    yield (
        "aten::type(Tensor self, int dtype, bool non_blocking=False, bool copy=False) -> Tensor",
        ("aten::to", "self", "dtype", "non_blocking", "copy"),
    )
    found = ("aten::find", "self", "key", 0, ("aten::len", "self"))
    yield "aten::__contains__(str self, str key) -> bool", ("aten::ne", found, -1)
    yield "prim::ndim(Tensor a) -> int", ("aten::dim", "a")
    yield "prim::shape(Tensor a) -> int[]", ("aten::size", "a")
    yield "prim::T(Tensor a) -> Tensor", ("aten::numpy_T", "a")
    yield "prim::H(Tensor a) -> Tensor", ("aten::matrix_H", "a")
    yield "prim::mT(Tensor a) -> Tensor", ("aten::mT", "a")
    yield "prim::mH(Tensor a) -> Tensor", ("aten::mH", "a")


def _by_name() -> dict[str, tuple[Expansion, ...]]:
    found: dict[str, list[Expansion]] = {}
    for entries, exact in ((_reflected(), True), (_helpers(), False)):
        for text, body in entries:
            schema = parse_schema(text)
            found.setdefault(schema.name, []).append(Expansion(schema, body, exact))
    return {name: tuple(expansions) for name, expansions in found.items()}


EXPANSIONS: dict[str, tuple[Expansion, ...]] = _by_name()
"""The expansions of each operator's name."""


@op("aten::ScalarImplicit.bool(bool a) -> Scalar", total=True, traits=(Trait.CORE_QUESTION,))
def bool_as_scalar(a: bool) -> bool:
    """Pass a bool where a Scalar is wanted. It stays a bool, as the dtype of `mask & True` depends on it."""
    return a


@op("aten::floordiv.Scalar_Tensor(Scalar a, Tensor b) -> Tensor")
@op("aten::floordiv.bool_Tensor(bool a, Tensor b) -> Tensor")
def number_floordiv_tensor(a: complex, b: torch.Tensor) -> torch.Tensor:
    """Divide a number by a tensor, rounded down."""
    divide: Any = torch.floor_divide  # its annotation wants a tensor first
    result: torch.Tensor = divide(a, b)
    return result


@op("aten::_assert(bool condition, str message) -> ()", Effect.SIDE, traits=(Trait.RAISES_OR_WARNS,))
@op("aten::_assert.Tensor(Tensor condition, str message) -> ()", Effect.SIDE)
def assert_(condition: object, message: str) -> None:
    """Raise an AssertionError with this message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


@op("aten::list_with_default(int[] out_size, int[] defaults) -> int[]", traits=(Trait.SUGAR,))
def list_with_default(out_size: list[int], defaults: list[int]) -> list[int]:
    """The list itself; ValueError unless there are more defaults than sizes."""
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return out_size
