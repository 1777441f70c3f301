"""Expressions of elementwise operators: of which dtype, shape and order their results are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from jitlite.ir import types as T
from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.lanes import result_of
from jitlite.kernels.loop_ir import (
    DTYPES,
    DType,
    Fill,
    Lane,
    LaneCast,
    LaneOperator,
    Operand,
    Scalar,
)
from jitlite.kernels.values import TensorValue, identity
from jitlite.native.code import NotNative

Element = TensorValue | Operand

FUNCTIONS = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "erfc",
    "asin", "acos", "atan", "sinh", "cosh", "atanh", "pow", "silu", "gelu", "gelu_tanh",
})  # fmt: skip
"""The operators of lanes that take many instructions."""


# -- types


def promoted(elements: Sequence[Element]) -> DType:
    """The type that torch computes with: tensors with dimensions rule over those without, and these over numbers."""
    kinds: dict[int, torch.dtype] = {}
    for element in elements:
        kind = (2 if element.rank else 1) if isinstance(element, TensorValue) else 0
        dtype = element.dtype.torch if isinstance(element, TensorValue) else _DTYPE_OF[type(sample_of(element))]
        kinds[kind] = dtype if kind not in kinds else torch.promote_types(kinds[kind], dtype)
    if not max(kinds):
        raise NotNative("numbers alone are of the default dtype")
    found = kinds[max(kinds)]
    for kind in sorted(kinds, reverse=True)[1:]:
        high = torch.empty((1,) * (max(kinds) == 2), dtype=found, device="meta")
        low = torch.empty((), dtype=kinds[kind], device="meta") if kind else _NUMBER[kinds[kind]]
        found = torch.result_type(high, low)
    return known_dtype(found)


_DTYPE_OF = {bool: torch.bool, int: torch.int64, float: torch.float64}
_NUMBER: dict[torch.dtype, bool | int | float] = {torch.bool: True, torch.int64: 1, torch.float64: 1.0}


def known_dtype(dtype: torch.dtype) -> DType:
    """The type of elements.

    Raises:
        NotNative: if kernels do not compute with it.
    """
    found = DTYPES.get(dtype)
    if found is None:
        raise NotNative(f"kernels do not compute with {dtype}")
    return found


def sample_of(number: Operand) -> float | int | bool:
    """A number of the same type as this one."""
    if isinstance(number, Scalar):
        return True if number.type is T.BOOL else 1 if number.type is T.INT else 1.0
    return number


def floating(dtype: DType) -> DType:
    """The type that functions such as `exp` compute with. What the default dtype would decide is left to Python."""
    if not dtype.is_float:
        raise NotNative(f"a function of {dtype} is of the default dtype")
    return dtype


# -- results


def result_order(
    builder: KernelBuilder, sizes: Sequence[Operand], parts: Sequence[TensorValue], *, is_in_turn: bool = False
) -> tuple[int, ...]:
    """The order in memory of the dimensions of a result: that of the operands, as torch's TensorIterator has it.

    Args:
        builder: of the kernel.
        sizes: of the result.
        parts: the operands.
        is_in_turn: are they in the order in which torch takes them? Where they differ, it asks one after the other.
    """
    rank = len(sizes)
    orders = []
    for part in parts:
        shift = rank - part.rank
        order = [d + shift for d in part.order]
        if len(order) > 1:
            orders.append(order)
    wanted = list(identity(sizes))
    if all(order == sorted(order) for order in orders):
        return tuple(wanted)
    first = orders[0]
    if any(order != first for order in orders) or sorted(first) != wanted:
        if not is_in_turn:
            raise NotNative("operands lie in memory in different orders")
        first = _joined_order(wanted, orders)
    require_elements(builder, sizes)
    return tuple(first)


def _joined_order(dims: Sequence[int], orders: Sequence[Sequence[int]]) -> list[int]:
    """The order of dimensions where for each two the first operand that has both decides."""
    found = list(dims)[::-1]  # innermost first
    for start in range(1, len(found)):
        at = start
        for before in range(start - 1, -1, -1):
            order = next((o for o in orders if found[before] in o and found[at] in o), None)
            if order is None:
                continue
            if order.index(found[before]) > order.index(found[at]):
                break
            found[before], found[at] = found[at], found[before]
            at = before
    return found[::-1]


def require_elements(builder: KernelBuilder, sizes: Sequence[Operand]) -> None:
    """Go on only where there are elements: without any, torch takes a tensor for contiguous, whatever its strides."""
    builder.check(builder.index("lt", 0, builder.numel(sizes)), "the strides of an empty tensor")


def require_like(builder: KernelBuilder, value: TensorValue) -> None:
    """Go on only where a new tensor has the strides of this one as far as they are known: an empty one has them all."""
    if not value.is_lazy:
        require_elements(builder, value.sizes)


def elementwise(
    builder: KernelBuilder, op: str, elements: Sequence[Element], compute: DType, result: DType | None = None
) -> TensorValue:
    """The tensor of an operator applied at each point.

    Raises:
        NotNative: where there is no such operator for the type.
    """
    result_of(op, (compute,) * len(elements))
    parts = tuple(e for e in elements if isinstance(e, TensorValue))
    sizes = builder.broadcast(*[p.sizes for p in parts])
    kept = list(elements)
    dtype = result or compute

    def build(nest: NestBuilder) -> Lane:
        return LaneOperator(dtype, op, tuple(nest.operand(e, compute) for e in kept))

    order = result_order(builder, sizes, parts, is_in_turn=True)
    functions = (op in FUNCTIONS) + functions_of(parts)
    return builder.lazy(TensorValue(dtype, sizes, order, build=build, parts=parts, functions=functions))


def custom(
    builder: KernelBuilder, dtype: DType, parts: Sequence[TensorValue], build: Callable[[NestBuilder], Lane]
) -> TensorValue:
    """The tensor of an expression of several lanes."""
    sizes = builder.broadcast(*[p.sizes for p in parts])
    order = result_order(builder, sizes, parts)
    functions = functions_of(parts)
    return builder.lazy(TensorValue(dtype, sizes, order, build=build, parts=tuple(parts), functions=functions))


def functions_of(parts: Sequence[TensorValue]) -> int:
    """How many functions are called to compute expressions."""
    return sum(part.functions for part in parts if part.is_lazy)


def cast(builder: KernelBuilder, value: TensorValue, dtype: DType) -> TensorValue:
    """The same elements, of another type."""
    if value.dtype is dtype:
        return value

    def build(nest: NestBuilder) -> Lane:
        return LaneCast(dtype, nest.lane(value))

    order = result_order(builder, value.sizes, [value])
    return builder.lazy(TensorValue(dtype, value.sizes, order, build=build, parts=(value,)))


def filled(builder: KernelBuilder, dtype: DType, sizes: Sequence[Operand], value: Operand) -> TensorValue:
    """A tensor of the same number everywhere."""

    def build(nest: NestBuilder) -> Lane:
        return Fill(dtype, value)

    return builder.lazy(TensorValue(dtype, tuple(sizes), identity(sizes), build=build))
