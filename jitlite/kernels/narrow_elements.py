"""Elements of narrow types as LLVM: widened where they are loaded, rounded to nearest even, and stored.

A lane of such a type is a value of the wide type that the narrow one has. Widening, rounding and storing are three
steps, and what is computed between two of them stays in a register. `half` of LLVM is used where the processor converts
it: elsewhere LLVM would call functions that nobody has linked.
"""

from __future__ import annotations

from jitlite.kernels.loop_ir import BF16, F32, I32, U8, DType
from jitlite.kernels.vectors import Vectors
from jitlite.native.code import LLVMBuilder

_QUIET = 0x7FC00000
"""NaN, as the bits of f32."""


def widen(v: Vectors, dtype: DType, bits: str) -> str:
    """A vector of floats from the 16 bits of each, or of ints from theirs."""
    if not dtype.is_float:
        return v.convert("zext" if dtype is U8 else "sext", dtype.stored, bits, "i32")
    if dtype is BF16:
        whole = v.convert("zext", "i16", bits, "i32")
        return v.from_bits(F32, v.binary("shl", I32, whole, v.constant(I32, 16)))
    if v.target.has_halves:
        return v.convert("fpext", "half", v.convert("bitcast", "i16", bits, "half"), "float")
    return _widened_by_hand(v, v.convert("zext", "i16", bits, "i32"))


def rounded(v: Vectors, dtype: DType, value: str) -> str:
    """A vector of floats, each the one of the type that is nearest; or of ints, of which the last bits are kept."""
    if dtype is U8:
        return v.binary("and", I32, value, v.constant(I32, 0xFF))
    if not dtype.is_float:
        rest = v.constant(I32, 32 - 8 * dtype.bytes)
        return v.binary("ashr", I32, v.binary("shl", I32, value, rest), rest)
    if dtype is BF16:
        return v.from_bits(F32, v.binary("and", I32, _rounded_bits(v, value, 16), v.constant(I32, -1 << 16)))
    if v.target.has_halves:
        return v.convert("fpext", "half", v.convert("fptrunc", "float", value, "half"), "float")
    return _widened_by_hand(v, _halves_by_hand(v, value))


def narrow(v: Vectors, dtype: DType, value: str) -> str:
    """The bits of each element of a vector, all of which the type has."""
    if not dtype.is_float:
        return v.convert("trunc", "i32", value, dtype.stored)
    if dtype is BF16:
        high = v.binary("lshr", I32, v.bits(F32, value), v.constant(I32, 16))
        return v.convert("trunc", "i32", high, "i16")
    if v.target.has_halves:
        return v.convert("bitcast", "half", v.convert("fptrunc", "float", value, "half"), "i16")
    return v.convert("trunc", "i32", _halves_by_hand(v, value), "i16")


def _rounded_bits(v: Vectors, value: str, dropped: int) -> str:
    """The bits of floats, so much larger that what is left is rounded when the last ones are dropped."""
    bits = v.bits(F32, value)
    last = v.binary("and", I32, v.binary("lshr", I32, bits, v.constant(I32, dropped)), v.constant(I32, 1))
    half = v.binary("add", I32, last, v.constant(I32, (1 << dropped - 1) - 1))
    return v.select(I32, v.is_nan(F32, value), v.constant(I32, _QUIET), v.binary("add", I32, bits, half))


# -- f16 without help of the processor

_BIAS = 127 - 15
"""How much larger the exponent of f32 is."""


def _widened_by_hand(v: Vectors, half: str) -> str:
    """Numbers below the normal ones are so many of the smallest one; infinity and NaN have exponents of their own."""
    sign = v.binary("shl", I32, v.binary("and", I32, half, v.constant(I32, 0x8000)), v.constant(I32, 16))
    size = v.binary("and", I32, half, v.constant(I32, 0x7FFF))
    moved = v.binary("shl", I32, size, v.constant(I32, 13))
    normal = v.binary("add", I32, moved, v.constant(I32, _BIAS << 23))
    counted = v.binary("fmul", F32, v.convert("uitofp", "i32", size, "float"), v.constant(F32, 2.0**-24))
    special = v.binary("or", I32, moved, v.constant(I32, 0x7F800000))
    is_small = v.compare("ult", I32, size, v.constant(I32, 0x0400))
    is_special = v.compare("uge", I32, size, v.constant(I32, 0x7C00))
    found = v.select(I32, is_small, v.bits(F32, counted), v.select(I32, is_special, special, normal))
    return v.from_bits(F32, v.binary("or", I32, found, sign))


def _halves_by_hand(v: Vectors, value: str) -> str:
    """The bits of f16, in 32. A sum with 0.5 rounds what is below the normal numbers: its last place is the smallest
    one of f16."""
    bits = v.bits(F32, value)
    sign = v.binary("and", I32, v.binary("lshr", I32, bits, v.constant(I32, 16)), v.constant(I32, 0x8000))
    size = v.intrinsic("fabs", F32, value)
    shifted = v.binary("fadd", F32, size, v.constant(F32, 0.5))
    small = v.binary("sub", I32, v.bits(F32, shifted), v.constant(I32, 126 << 23))
    raised = v.binary("sub", I32, _rounded_bits(v, size, 13), v.constant(I32, _BIAS << 23))
    normal = v.binary("lshr", I32, raised, v.constant(I32, 13))
    is_small = v.compare("olt", F32, size, v.constant(F32, 2.0**-14))
    is_large = v.compare("oge", F32, size, v.constant(F32, 65520.0))
    found = v.select(I32, is_small, small, v.select(I32, is_large, v.constant(I32, 0x7C00), normal))
    found = v.select(I32, v.is_nan(F32, value), v.constant(I32, 0x7E00), found)
    return v.binary("or", I32, found, sign)


# -- single elements


def widened_element(code: LLVMBuilder, dtype: DType, bits: str) -> str:
    """A value from its bits in memory."""
    v = Vectors(code, 1)
    return v.first(dtype.lane, widen(v, dtype, v.splat(dtype.stored, bits)))


def rounded_element(code: LLVMBuilder, dtype: DType, value: str) -> str:
    """The float of the type that is nearest to one."""
    v = Vectors(code, 1)
    return v.first("float", rounded(v, dtype, v.splat("float", value)))
