"""The elementwise operators: for which types each is, what it gives, and how it is written on vectors.

Each computes what torch's kernel for the type computes, to the bit where `is_exact`. A number that torch takes apart
from tensors (the bounds of `clamp`, the weight of `lerp`) is an operand like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jitlite.base.records import Record
from jitlite.kernels import mathematics
from jitlite.kernels.loop_ir import (
    BOOL,
    DTYPES,
    F32,
    F64,
    I32,
    I64,
    DType,
    Fill,
    Lane,
    LaneCast,
    LaneOperator,
    Scalar,
)
from jitlite.kernels.vectors import Vectors, rounded
from jitlite.native.code import NotNative

FLOATS, INTS = frozenset({F32, F64}), frozenset({I64, I32})
NUMBERS, WHOLE = FLOATS | INTS, INTS | {BOOL}
ALL = NUMBERS | {BOOL}
NARROW = frozenset(d for d in DTYPES.values() if d.wide is not None)

Emit = Callable[..., str]
"""`emit(vectors, dtype, *operands)`: writes the operator on operands of the type, gives the register of the result."""


class LaneOp(Record, eq=True):
    """An elementwise operator.

    Attributes:
        takes: the types that its operands may have; all operands have one type, but the condition of `where`.
        arity: how many operands it has.
        gives: the type of the result; None for that of the operands.
        is_exact: is the result eager's to the bit?
        chooses: is it an operand, or one without its sign or fraction? A type that has the operands has it, too.
    """

    takes: frozenset[DType]
    arity: int
    emit: Emit
    gives: DType | None = None
    is_exact: bool = True
    chooses: bool = False


def result_of(op: str, operands: tuple[DType, ...]) -> DType:
    """The type that an operator gives for operands of these types.

    Raises:
        NotNative: where there is no such operator.
    """
    found = LANES.get(op)
    if found is None or found.arity != len(operands):
        raise NotNative(f"there is no operator {op} of {len(operands)} operands")
    wanted = (BOOL, operands[-1], operands[-1]) if op == "where" else (operands[-1],) * len(operands)
    if operands != wanted or operands[-1] not in found.takes:
        raise NotNative(f"there is no {op} of {', '.join(map(repr, operands))}")
    return found.gives or operands[-1]


def emit_apply(v: Vectors, lane: LaneOperator, operands: list[str]) -> str:
    """Write an operator on vectors; gives the register of the result."""
    given = result_of(lane.op, tuple(o.dtype for o in lane.operands))
    assert given is lane.dtype, f"{lane.op} gives {given}, not {lane.dtype}"
    if lane.op == "pow":
        return _pow(v, lane.operands[-1], operands)
    return LANES[lane.op].emit(v, lane.operands[-1].dtype, *operands)


def fits(lane: Lane, dtype: DType) -> bool:
    """Is it certain that a narrow type has what a lane gives? It needs no rounding then."""
    if not dtype.is_float or lane.dtype is not dtype.wide:
        return False
    pending = [lane]
    while pending:
        each = pending.pop()
        if isinstance(each, LaneCast) and each.dtype is dtype.wide:
            each = each.operand
        if each.dtype is dtype or each.dtype is BOOL:
            continue
        if isinstance(each, Fill) and not isinstance(each.value, Scalar):
            if not _has(dtype, each.value):
                return False
        elif isinstance(each, LaneOperator) and each.dtype is dtype.wide and LANES[each.op].chooses:
            pending += each.operands
        else:
            return False
    return True


def _has(dtype: DType, number: float) -> bool:
    try:
        return rounded(dtype, number) == number
    except NotNative:
        return False


# -- arithmetic


def _by_kind(of_floats: str, of_ints: str, of_bools: str = "") -> Emit:
    """An instruction for each kind of type."""

    def emit(v: Vectors, d: DType, a: str, b: str) -> str:
        return v.binary(of_floats if d.is_float else of_bools if d is BOOL else of_ints, d, a, b)

    return emit


def _neg(v: Vectors, d: DType, a: str) -> str:
    return v.negate(d, a) if d.is_float else v.binary("sub", d, v.constant(d, 0), a)


def _abs(v: Vectors, d: DType, a: str) -> str:
    if d.is_float:
        return v.intrinsic("fabs", d, a)
    return v.select(d, v.compare("slt", d, a, v.constant(d, 0)), _neg(v, d, a), a)


def _rounded(name: str) -> Emit:
    def emit(v: Vectors, d: DType, a: str) -> str:
        return v.intrinsic(name, d, a) if d.is_float else a

    return emit


def _sqrt(v: Vectors, d: DType, a: str) -> str:
    return v.intrinsic("sqrt", d, a)


def _reciprocal(v: Vectors, d: DType, a: str) -> str:
    return v.binary("fdiv", d, v.constant(d, 1), a)


def _rsqrt(v: Vectors, d: DType, a: str) -> str:
    return _reciprocal(v, d, _sqrt(v, d, a))


def _square(v: Vectors, d: DType, a: str) -> str:
    return v.binary("fmul" if d.is_float else "mul", d, a, a)


def _cube(v: Vectors, d: DType, a: str) -> str:
    return v.binary("fmul" if d.is_float else "mul", d, _square(v, d, a), a)


def _sign(v: Vectors, d: DType, a: str) -> str:
    zero = v.constant(d, 0)
    less, more = ("olt", "ogt") if d.is_float else ("slt", "sgt")
    below = v.select(d, v.compare(less, d, a, zero), v.constant(d, -1), zero)
    return v.select(d, v.compare(more, d, a, zero), v.constant(d, 1), below)


def _fma(v: Vectors, d: DType, a: str, b: str, c: str) -> str:
    """a * b + c, rounded once where the machine can, as torch's own kernels do."""
    return v.intrinsic("fma" if v.target.bytes >= 32 else "fmuladd", d, a, b, c)


def _add_scaled(v: Vectors, d: DType, a: str, b: str, factor: str) -> str:
    """a + factor * b."""
    if d.is_float:
        return _fma(v, d, factor, b, a)
    return v.binary("add", d, a, v.binary("mul", d, factor, b))


def _lerp(v: Vectors, d: DType, start: str, end: str, weight: str) -> str:
    """From the nearer end on, as torch does."""
    size = v.intrinsic("fabs", d, weight)
    is_small = v.compare("olt", d, size, v.constant(d, 0.5))
    difference = v.binary("fsub", d, end, start)
    rest = v.binary("fsub", d, weight, v.constant(d, 1))
    return _fma(v, d, v.select(d, is_small, weight, rest), difference, v.select(d, is_small, start, end))


# -- greatest and least


def _maximum(v: Vectors, d: DType, a: str, b: str) -> str:
    if d is BOOL:
        return v.either(a, b)
    found = v.select(d, v.compare("ogt" if d.is_float else "sgt", d, a, b), a, b)
    return v.select(d, v.is_nan(d, a), a, found) if d.is_float else found


def _minimum(v: Vectors, d: DType, a: str, b: str) -> str:
    if d is BOOL:
        return v.both(a, b)
    found = v.select(d, v.compare("olt" if d.is_float else "slt", d, a, b), a, b)
    return v.select(d, v.is_nan(d, a), a, found) if d.is_float else found


def _clamp_min(v: Vectors, d: DType, a: str, bound: str) -> str:
    """Where the bound is greater or NaN it is the bound."""
    return v.select(d, v.compare("ult" if d.is_float else "slt", d, a, bound), _or_nan(v, d, a, bound), a)


def _clamp_max(v: Vectors, d: DType, a: str, bound: str) -> str:
    return v.select(d, v.compare("ugt" if d.is_float else "sgt", d, a, bound), _or_nan(v, d, a, bound), a)


def _or_nan(v: Vectors, d: DType, a: str, bound: str) -> str:
    return v.select(d, v.is_nan(d, a), a, bound) if d.is_float else bound


def _clamp(v: Vectors, d: DType, a: str, low: str, high: str) -> str:
    return _clamp_max(v, d, _clamp_min(v, d, a, low), high)


def _relu(v: Vectors, d: DType, a: str) -> str:
    return _clamp_min(v, d, a, v.constant(d, 0))


def _leaky_relu(v: Vectors, d: DType, a: str, slope: str) -> str:
    below = v.binary("fmul", d, a, slope)
    return v.select(d, v.compare("ogt", d, a, v.constant(d, 0)), a, below)


# -- division that gives whole numbers


def _safe_divisor(v: Vectors, d: DType, a: str, b: str) -> str:
    """Give up where eager raises, and where it overflows. Lanes that are no points divide by 1."""
    lowest = v.constant(d, -(1 << d.bytes * 8 - 1))
    overflows = v.both(v.compare("eq", d, a, lowest), v.compare("eq", d, b, v.constant(d, -1)))
    is_bad = v.either(v.compare("eq", d, b, v.constant(d, 0)), overflows)
    v.give_up_if_any(is_bad)
    return v.select(d, is_bad, v.constant(d, 1), b)


def _signs_differ(v: Vectors, d: DType, rest: str, b: str) -> str:
    """Is there a rest whose sign is not the divisor's?"""
    zero = v.constant(d, 0)
    less, differs = ("olt", "une") if d.is_float else ("slt", "ne")
    signs = v.binary("xor", BOOL, v.compare(less, d, b, zero), v.compare(less, d, rest, zero))
    return v.both(v.compare(differs, d, rest, zero), signs)


def _fmod(v: Vectors, d: DType, a: str, b: str) -> str:
    if d.is_float:
        return mathematics.sleef(v, "fmod", d, a, b)
    return v.binary("srem", d, a, _safe_divisor(v, d, a, b))


def _remainder(v: Vectors, d: DType, a: str, b: str) -> str:
    rest = _fmod(v, d, a, b)
    moved = v.binary("fadd" if d.is_float else "add", d, rest, b)
    return v.select(d, _signs_differ(v, d, rest, b), moved, rest)


def _div_floor(v: Vectors, d: DType, a: str, b: str) -> str:
    if d.is_float:
        return _div_floor_of_floats(v, d, a, b)
    divisor = _safe_divisor(v, d, a, b)
    quotient = v.binary("sdiv", d, a, divisor)
    rest = v.binary("sub", d, a, v.binary("mul", d, quotient, divisor))
    less = v.binary("sub", d, quotient, v.constant(d, 1))
    return v.select(d, _signs_differ(v, d, rest, divisor), less, quotient)


def _div_floor_of_floats(v: Vectors, d: DType, a: str, b: str) -> str:
    """The quotient of what the rest leaves, set right where that is not whole."""
    zero, one = v.constant(d, 0), v.constant(d, 1)
    rest = _fmod(v, d, a, b)
    plain = v.binary("fdiv", d, a, b)
    overflows = v.compare("oeq", d, v.intrinsic("fabs", d, plain), v.constant(d, math.inf))
    is_finite = v.compare("une", d, v.intrinsic("fabs", d, a), v.constant(d, math.inf))
    multiple = v.select(d, v.both(overflows, is_finite), a, v.binary("fsub", d, a, rest))
    quotient = v.binary("fdiv", d, multiple, b)
    quotient = v.select(d, _signs_differ(v, d, rest, b), v.binary("fsub", d, quotient, one), quotient)
    low = v.intrinsic("floor", d, quotient)
    is_far = v.compare("ogt", d, v.binary("fsub", d, quotient, low), v.constant(d, 0.5))
    whole = v.select(d, is_far, v.binary("fadd", d, low, one), low)
    signed_zero = v.intrinsic("copysign", d, zero, plain)
    whole = v.select(d, v.compare("une", d, quotient, zero), whole, signed_zero)
    return v.select(d, v.compare("oeq", d, b, zero), plain, whole)


def _div_trunc(v: Vectors, d: DType, a: str, b: str) -> str:
    if d.is_float:
        return v.intrinsic("trunc", d, v.binary("fdiv", d, a, b))
    return v.binary("sdiv", d, a, _safe_divisor(v, d, a, b))


# -- comparisons and conditions


def _compared(of_floats: str, of_ints: str) -> Emit:
    def emit(v: Vectors, d: DType, a: str, b: str) -> str:
        op = of_floats if d.is_float else of_ints.replace("s", "u") if d is BOOL else of_ints
        return v.compare(op, d, a, b)

    return emit


def truth(v: Vectors, d: DType, a: str) -> str:
    """Is it another number than zero? NaN is."""
    return a if d is BOOL else v.compare("une" if d.is_float else "ne", d, a, v.constant(d, 0))


def _logical(instruction: str) -> Emit:
    def emit(v: Vectors, d: DType, a: str, b: str) -> str:
        return v.binary(instruction, BOOL, truth(v, d, a), truth(v, d, b))

    return emit


def _logical_not(v: Vectors, d: DType, a: str) -> str:
    return v.opposite(truth(v, d, a))


def _bitwise_not(v: Vectors, d: DType, a: str) -> str:
    return v.binary("xor", d, a, v.constant(d, True if d is BOOL else -1))


def _shift(instruction: str) -> Emit:
    """By a negative count, or by as many bits as there are or more, nothing is left but the sign."""

    def emit(v: Vectors, d: DType, a: str, count: str) -> str:
        last = v.constant(d, d.bytes * 8 - 1)
        is_far = v.compare("ugt", d, count, last)
        moved = v.binary(instruction, d, a, v.select(d, is_far, last, count))
        return moved if instruction == "ashr" else v.select(d, is_far, v.constant(d, 0), moved)

    return emit


def _where(v: Vectors, d: DType, condition: str, a: str, b: str) -> str:
    return v.select(d, condition, a, b)


def _isnan(v: Vectors, d: DType, a: str) -> str:
    return v.is_nan(d, a)


def _size_compared(op: str) -> Emit:
    def emit(v: Vectors, d: DType, a: str) -> str:
        return v.compare(op, d, v.intrinsic("fabs", d, a), v.constant(d, math.inf))

    return emit


# -- order


def _order_key(v: Vectors, d: DType, a: str) -> str:
    """A number of 64 bits that is lower where the element comes first: zeros are alike, and NaN comes last."""
    if not d.is_float:
        return a if d is I64 else v.convert("zext" if d is BOOL else "sext", d.lane, a, "i64")
    whole = I32 if d.bytes == 4 else I64
    bits = v.convert("bitcast", d.lane, v.binary("fadd", d, a, v.constant(d, 0)), whole.lane)
    largest = v.constant(whole, (1 << whole.bytes * 8 - 1) - 1)
    is_negative = v.compare("slt", whole, bits, v.constant(whole, 0))
    key = v.select(whole, is_negative, v.binary("xor", whole, bits, largest), bits)
    key = v.select(whole, v.is_nan(d, a), largest, key)
    return key if whole is I64 else v.convert("sext", whole.lane, key, "i64")


# -- powers

_POWERS: dict[float, Emit] = {2: _square, 3: _cube}
_POWERS_OF_FLOATS: dict[float, Emit] = {
    0.5: _sqrt,
    -0.5: _rsqrt,
    -1: _reciprocal,
    -2: lambda v, d, a: _reciprocal(v, d, _square(v, d, a)),
    1: lambda v, d, a: a,
    0: lambda v, d, a: v.constant(d, 1),
}


def _pow(v: Vectors, exponent: Lane, operands: list[str]) -> str:
    """torch has own formulas for some numbers as exponents."""
    d = exponent.dtype
    number = exponent.value if isinstance(exponent, Fill) and isinstance(exponent.value, (int, float)) else None
    if number is not None:
        found = _POWERS.get(number) or (_POWERS_OF_FLOATS.get(number) if d.is_float else None)
        if found is not None:
            return found(v, d, operands[0])
    return LANES["pow"].emit(v, d, *operands)


def _power(v: Vectors, d: DType, a: str, b: str) -> str:
    if d in INTS:
        raise NotNative("powers of ints with such an exponent")
    return mathematics.sleef(v, "pow", d, a, b)


# -- the table


def _function(name: str) -> LaneOp:
    return LaneOp(FLOATS, 1, mathematics.FUNCTIONS[name], is_exact=False)


LANES: dict[str, LaneOp] = {
    "add": LaneOp(ALL, 2, _by_kind("fadd", "add", "or")),
    "sub": LaneOp(NUMBERS, 2, _by_kind("fsub", "sub")),
    "mul": LaneOp(ALL, 2, _by_kind("fmul", "mul", "and")),
    "div": LaneOp(FLOATS, 2, _by_kind("fdiv", "")),
    "add_scaled": LaneOp(NUMBERS, 3, _add_scaled),
    "neg": LaneOp(NUMBERS, 1, _neg, chooses=True),
    "abs": LaneOp(NUMBERS, 1, _abs, chooses=True),
    "sqrt": LaneOp(FLOATS, 1, _sqrt),
    "rsqrt": LaneOp(FLOATS, 1, _rsqrt),
    "reciprocal": LaneOp(FLOATS, 1, _reciprocal),
    "square": LaneOp(NUMBERS, 1, _square),
    "relu": LaneOp(NUMBERS, 1, _relu, chooses=True),
    "leaky_relu": LaneOp(FLOATS, 2, _leaky_relu),
    "maximum": LaneOp(ALL, 2, _maximum, chooses=True),
    "minimum": LaneOp(ALL, 2, _minimum, chooses=True),
    "clamp_min": LaneOp(NUMBERS, 2, _clamp_min, chooses=True),
    "clamp_max": LaneOp(NUMBERS, 2, _clamp_max, chooses=True),
    "clamp": LaneOp(NUMBERS, 3, _clamp, chooses=True),
    "floor": LaneOp(NUMBERS, 1, _rounded("floor"), chooses=True),
    "ceil": LaneOp(NUMBERS, 1, _rounded("ceil"), chooses=True),
    "trunc": LaneOp(NUMBERS, 1, _rounded("trunc"), chooses=True),
    "round": LaneOp(NUMBERS, 1, _rounded("roundeven"), chooses=True),
    "sign": LaneOp(NUMBERS, 1, _sign, chooses=True),
    "fmod": LaneOp(NUMBERS, 2, _fmod),
    "remainder": LaneOp(NUMBERS, 2, _remainder),
    "div_floor": LaneOp(NUMBERS, 2, _div_floor),
    "div_trunc": LaneOp(NUMBERS, 2, _div_trunc),
    "lerp": LaneOp(FLOATS, 3, _lerp),
    "pow": LaneOp(NUMBERS, 2, _power, is_exact=False),
    "eq": LaneOp(ALL, 2, _compared("oeq", "eq"), BOOL),
    "ne": LaneOp(ALL, 2, _compared("une", "ne"), BOOL),
    "lt": LaneOp(ALL, 2, _compared("olt", "slt"), BOOL),
    "le": LaneOp(ALL, 2, _compared("ole", "sle"), BOOL),
    "gt": LaneOp(ALL, 2, _compared("ogt", "sgt"), BOOL),
    "ge": LaneOp(ALL, 2, _compared("oge", "sge"), BOOL),
    "logical_and": LaneOp(ALL, 2, _logical("and"), BOOL),
    "logical_or": LaneOp(ALL, 2, _logical("or"), BOOL),
    "logical_xor": LaneOp(ALL, 2, _logical("xor"), BOOL),
    "logical_not": LaneOp(ALL, 1, _logical_not, BOOL),
    "bitwise_and": LaneOp(WHOLE, 2, _by_kind("", "and", "and")),
    "bitwise_or": LaneOp(WHOLE, 2, _by_kind("", "or", "or")),
    "bitwise_xor": LaneOp(WHOLE, 2, _by_kind("", "xor", "xor")),
    "bitwise_not": LaneOp(WHOLE, 1, _bitwise_not),
    "shift_left": LaneOp(INTS, 2, _shift("shl")),
    "shift_right": LaneOp(INTS, 2, _shift("ashr")),
    "where": LaneOp(ALL | NARROW, 3, _where, chooses=True),
    "order_key": LaneOp(ALL, 1, _order_key, I64),
    "isnan": LaneOp(FLOATS, 1, _isnan, BOOL),
    "isinf": LaneOp(FLOATS, 1, _size_compared("oeq"), BOOL),
    "isfinite": LaneOp(FLOATS, 1, _size_compared("one"), BOOL),
    "atan2": LaneOp(FLOATS, 2, mathematics.called("atan2"), is_exact=False),
    "hypot": LaneOp(FLOATS, 2, mathematics.called("hypot"), is_exact=False),
    **{name: _function(name) for name in mathematics.FUNCTIONS},
}
"""By name; the result has the type of the operands or is a bool."""
