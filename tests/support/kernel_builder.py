"""Kernels written by hand, for tests."""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.kernels.loop_ir import (
    F32,
    Buffer,
    DType,
    Lane,
    LaneOperator,
    Load,
    Operand,
    Owner,
    Place,
    Scalar,
    TensorInput,
)


def integer(name: str) -> Scalar:
    return Scalar(name, T.INT)


def number(name: str) -> Scalar:
    return Scalar(name, T.FLOAT)


def truth(name: str) -> Scalar:
    return Scalar(name, T.BOOL)


def arena(name: str, dtype: DType = F32) -> Buffer:
    return Buffer(name, dtype, Owner.ARENA)


def result(name: str, dtype: DType = F32) -> Buffer:
    return Buffer(name, dtype, Owner.RESULT)


def tensor(
    position: int, name: str, *sizes: Operand, strides: tuple[Operand, ...] | None = None, dtype: DType = F32
) -> TensorInput:
    """An argument of the kernel; without strides it is contiguous, and only one of its sizes may be a scalar then, the
    first one."""
    found = contiguous(*sizes) if strides is None else strides
    buffer = Buffer(name, dtype, Owner.ARGUMENT)
    order = tuple(d for d, size in enumerate(sizes) if size != 1)
    return TensorInput(position, buffer, sizes, found, order, strides is None)


def contiguous(*sizes: Operand) -> tuple[Operand, ...]:
    strides: list[Operand] = []
    for size in reversed((*sizes[1:], 1)):
        assert isinstance(size, int)
        last = strides[-1] if strides else 1
        assert isinstance(last, int)
        strides.append(last * size)
    return tuple(reversed(strides))[: len(sizes)]


def window(buffer: Buffer, *sizes: Operand, strides: tuple[Operand, ...] | None = None, offset: Operand = 0) -> Place:
    return Place(buffer, offset, sizes, contiguous(*sizes) if strides is None else strides)


def load(buffer: Buffer, *sizes: Operand, strides: tuple[Operand, ...] | None = None, offset: Operand = 0) -> Load:
    return Load(buffer.dtype, window(buffer, *sizes, strides=strides, offset=offset))


def apply(op: str, *operands: Lane, dtype: DType | None = None) -> LaneOperator:
    return LaneOperator(dtype or operands[0].dtype, op, operands)
