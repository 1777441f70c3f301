"""Conversions: of vectors as `Tensor.to(dtype)` does, of scalars as `fill_` does."""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.kernels.context import KernelCode
from jitlite.kernels.lanes import truth
from jitlite.kernels.loop_ir import BOOL, I64, DType, Operand, Scalar
from jitlite.kernels.narrow_elements import rounded, rounded_element, widened_element
from jitlite.kernels.vectors import LARGEST, Vectors, number_text, range_of
from jitlite.native.code import LLVMBuilder, NotNative
from jitlite.native.layout import literal


def emit_cast(v: Vectors, source: DType, target: DType, value: str) -> str:
    """A vector in another type."""
    if source is target:
        return value
    if source.wide is not None:  # its lanes are those of the wide type
        return emit_cast(v, source.wide, target, value)
    if target.wide is not None:
        return rounded(v, target, emit_cast(v, source, target.wide, value))
    if target is BOOL:
        return truth(v, source, value)
    if source.is_float and not target.is_float:
        return _to_int(v, source, target, value)
    return v.convert(_instruction(source, target), source.lane, value, target.lane)


def _instruction(source: DType, target: DType) -> str:
    if target.is_float:
        if source.is_float:
            return "fpext" if source.bytes < target.bytes else "fptrunc"
        return "uitofp" if source is BOOL else "sitofp"
    return "zext" if source is BOOL else "sext" if source.bytes < target.bytes else "trunc"


def _to_int(v: Vectors, source: DType, target: DType, value: str) -> str:
    """What does not fit becomes the lowest number, as the processor has it; LLVM says nothing of it."""
    bits = target.bytes * 8
    limit = float(1 << bits - 1)
    fits = v.both(
        v.compare("oge", source, value, v.constant(source, -limit)),
        v.compare("olt", source, value, v.constant(source, limit)),
    )
    converted = v.convert("fptosi", source.lane, value, target.lane)
    return v.select(target, fits, converted, v.constant(target, -(1 << bits - 1)))


# -- scalars


def fill_text(kc: KernelCode, dtype: DType, value: Operand) -> str:
    """A scalar as an element of a type. Gives up where `fill_` raises: where it does not fit.

    Raises:
        NotNative: where a number that is known does not fit.
    """
    if not isinstance(value, Scalar):
        return number_text(dtype, value)
    register = kc.operand(value)
    if value.type is T.BOOL:
        return _of_bool(kc.code, dtype, register)
    if value.type is T.INT:
        return _of_int(kc.code, dtype, register)
    if value.type is T.FLOAT:
        return _of_float(kc.code, dtype, register)
    raise NotNative(f"elements of {value.type}")


def number_of(code: LLVMBuilder, dtype: DType, element: str) -> str:
    """An element in memory as a number of Python's."""
    if dtype is BOOL:
        return code.value(f"icmp ne i8 {element}, 0")
    if dtype.wide is not None:
        element = widened_element(code, dtype, element)
    if dtype.lane == "float":
        return code.value(f"fpext float {element} to double")
    return code.value(f"sext i32 {element} to i64") if dtype.lane == "i32" else element


def _of_bool(code: LLVMBuilder, dtype: DType, value: str) -> str:
    if dtype is BOOL:
        return value
    return code.value(f"{'uitofp' if dtype.is_float else 'zext'} i1 {value} to {dtype.lane}")


def _of_int(code: LLVMBuilder, dtype: DType, value: str) -> str:
    if dtype is BOOL:
        return code.value(f"icmp ne i64 {value}, 0")
    if dtype.wide is not None and dtype.is_float:
        return _of_float(code, dtype, code.value(f"sitofp i64 {value} to double"))
    if dtype.is_float:
        return code.value(f"sitofp i64 {value} to {dtype.lane}")
    if dtype.bytes == 8:
        return value
    if dtype.wide is not None:
        low, high = range_of(dtype)
        above = code.value(f"icmp sge i64 {value}, {low}")
        code.bail_out_unless(code.value(f"and i1 {above}, {code.value(f'icmp sle i64 {value}, {high}')}"))
    short = code.value(f"trunc i64 {value} to {dtype.lane}")
    code.bail_out_if(code.value(f"icmp ne i64 {code.value(f'sext {dtype.lane} {short} to i64')}, {value}"))
    return short


def _of_float(code: LLVMBuilder, dtype: DType, value: str) -> str:
    if dtype is BOOL:
        return code.value(f"fcmp une double {value}, 0.0")
    if dtype.wide is not None and not dtype.is_float:
        return _of_int(code, dtype, _of_float(code, I64, value))
    if not dtype.is_float:
        limit = float(1 << dtype.bytes * 8 - 1)
        above = code.value(f"fcmp oge double {value}, {-limit}")
        code.bail_out_unless(code.value(f"and i1 {above}, {code.value(f'fcmp olt double {value}, {limit}')}"))
        return code.value(f"fptosi double {value} to {dtype.lane}")
    if dtype.bytes == 8:
        return value
    size = code.intrinsic("double @llvm.fabs.f64(double)", value)
    is_large = code.value(f"fcmp ogt double {size}, {literal(LARGEST[dtype], T.FLOAT)}")
    is_finite = code.value(f"fcmp one double {size}, 0x7FF0000000000000")
    code.bail_out_if(code.value(f"and i1 {is_large}, {is_finite}"))
    short = code.value(f"fptrunc double {value} to {dtype.lane}")
    return short if dtype.wide is None else rounded_element(code, dtype, short)
