"""How operators on numbers are emitted, and when they bail out.

A row is an operator, the letters of its operands and result (`i` int, `f` float, `b` bool), and what emits it. Where no
row has a bool, a bool counts as the int that it is to Python. What is not here is left to Python: `int ** int` for
instance, which is typed float and stays an int.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from jitlite.ir import types as T
from jitlite.native.capi import MATHEMATICS
from jitlite.native.code import LLVMBuilder
from jitlite.native.layout import HIGHEST, LOWEST, literal

Emit = Callable[..., str]
"""Takes the code and an operand each; gives the result."""

_EXACT = 1 << 53
"""Up to here every int is a float."""


# -- ints


def _overflowing(name: str) -> Emit:
    """Addition and the like. Bails out: overflow."""

    def emit(code: LLVMBuilder, a: str, b: str) -> str:
        pair = code.intrinsic(f"{{ i64, i1 }} @llvm.{name}.with.overflow.i64(i64, i64)", a, b)
        result = code.value(f"extractvalue {{ i64, i1 }} {pair}, 0")
        code.bail_out_if(code.value(f"extractvalue {{ i64, i1 }} {pair}, 1"))
        return result

    return emit


add, subtract, multiply = _overflowing("sadd"), _overflowing("ssub"), _overflowing("smul")


def _check_divisor(code: LLVMBuilder, a: str, b: str) -> None:
    """Bails out: division by zero, and the one quotient that is too large."""
    if not b.lstrip("-").isdigit():
        code.bail_out_if(code.value(f"icmp eq i64 {b}, 0"))
    elif int(b) == 0:
        code.bail_out_if("true")
    if not b.isdigit():
        lowest, minus = code.value(f"icmp eq i64 {a}, {LOWEST}"), code.value(f"icmp eq i64 {b}, -1")
        code.bail_out_if(code.value(f"and i1 {lowest}, {minus}"))


def _is_off(code: LLVMBuilder, rest: str, b: str) -> str:
    """Has division towards zero left a rest of the wrong sign?"""
    inexact = code.value(f"icmp ne i64 {rest}, 0")
    opposite = code.value(f"icmp slt i64 {code.value(f'xor i64 {rest}, {b}')}, 0")
    return code.value(f"and i1 {inexact}, {opposite}")


def floor_divide(code: LLVMBuilder, a: str, b: str) -> str:
    """Rounded down."""
    _check_divisor(code, a, b)
    quotient, rest = code.value(f"sdiv i64 {a}, {b}"), code.value(f"srem i64 {a}, {b}")
    less = code.value(f"zext i1 {_is_off(code, rest, b)} to i64")
    return code.value(f"sub i64 {quotient}, {less}")


def remainder(code: LLVMBuilder, a: str, b: str) -> str:
    """With the sign of the divisor."""
    _check_divisor(code, a, b)
    rest = code.value(f"srem i64 {a}, {b}")
    return code.value(f"select i1 {_is_off(code, rest, b)}, i64 {code.value(f'add i64 {rest}, {b}')}, i64 {rest}")


def truncated_quotient(code: LLVMBuilder, a: str, b: str) -> str:
    """Rounded towards zero."""
    _check_divisor(code, a, b)
    return code.value(f"sdiv i64 {a}, {b}")


def true_divide(code: LLVMBuilder, a: str, b: str) -> str:
    """Bails out: division by zero, and numbers that are no floats, for Python rounds the quotient, not the numbers."""
    code.bail_out_if(code.value(f"icmp eq i64 {b}, 0"))
    return code.value(f"fdiv double {_exactly(code, a)}, {_exactly(code, b)}")


def _exactly(code: LLVMBuilder, a: str) -> str:
    """An int as the float of the same value. Bails out: where there may be none."""
    shifted = code.value(f"add i64 {a}, {_EXACT}")
    code.bail_out_if(code.value(f"icmp ugt i64 {shifted}, {2 * _EXACT}"))
    return to_float(code, a)


def negate(code: LLVMBuilder, a: str) -> str:
    """Bails out: the lowest int."""
    return subtract(code, "0", a)


def absolute(code: LLVMBuilder, a: str) -> str:
    """Bails out: the lowest int."""
    negative = code.value(f"icmp slt i64 {a}, 0")
    return code.value(f"select i1 {negative}, i64 {negate(code, a)}, i64 {a}")


def shift_left(code: LLVMBuilder, a: str, b: str) -> str:
    """Bails out: a shift by less than 0 or more than 62, and overflow."""
    code.bail_out_if(code.value(f"icmp ugt i64 {b}, 62"))
    result = code.value(f"shl i64 {a}, {b}")
    code.bail_out_if(code.value(f"icmp ne i64 {code.value(f'ashr i64 {result}, {b}')}, {a}"))
    return result


def shift_right(code: LLVMBuilder, a: str, b: str) -> str:
    """Bails out: a shift by less than 0."""
    code.bail_out_if(code.value(f"icmp slt i64 {b}, 0"))
    far = code.value(f"icmp sgt i64 {b}, 63")
    return code.value(f"ashr i64 {a}, {code.value(f'select i1 {far}, i64 63, i64 {b}')}")


def range_length(code: LLVMBuilder, start: str, stop: str, step: str) -> str:
    """The number of elements of a range. Bails out: a step of 0, and overflow on the way."""
    code.bail_out_if(code.value(f"icmp eq i64 {step}, 0"))
    sign = code.value(f"select i1 {code.value(f'icmp sgt i64 {step}, 0')}, i64 1, i64 -1")
    span = subtract(code, add(code, subtract(code, stop, start), step), sign)
    return larger_int(code, "0", floor_divide(code, span, step))


def element_of_range(code: LLVMBuilder, index: str, start: str, step: str) -> str:
    """Bails out: overflow."""
    return add(code, start, multiply(code, index, step))


def larger_int(code: LLVMBuilder, a: str, b: str) -> str:
    return code.value(f"select i1 {code.value(f'icmp sgt i64 {b}, {a}')}, i64 {b}, i64 {a}")


def smaller_int(code: LLVMBuilder, a: str, b: str) -> str:
    return code.value(f"select i1 {code.value(f'icmp slt i64 {b}, {a}')}, i64 {b}, i64 {a}")


# -- floats


def float_divide(code: LLVMBuilder, a: str, b: str) -> str:
    """Bails out: division by zero."""
    code.bail_out_if(code.value(f"fcmp oeq double {b}, 0.0"))
    return code.value(f"fdiv double {a}, {b}")


def _sign_of(code: LLVMBuilder, a: str, sign: str) -> str:
    return code.intrinsic("double @llvm.copysign.f64(double, double)", a, sign)


def _rest(code: LLVMBuilder, a: str, b: str) -> tuple[str, str, str]:
    """The remainder with the sign of a, that with the sign of b, and whether the two differ."""
    code.bail_out_if(code.value(f"fcmp oeq double {b}, 0.0"))
    rest = code.call("double", "fmod", "double, double", a, b)
    inexact = code.value(f"fcmp une double {rest}, 0.0")
    below = code.value(
        f"xor i1 {code.value(f'fcmp olt double {b}, 0.0')}, {code.value(f'fcmp olt double {rest}, 0.0')}"
    )
    corrected = code.value(f"and i1 {inexact}, {below}")
    moved = code.value(f"select i1 {corrected}, double {code.value(f'fadd double {rest}, {b}')}, double {rest}")
    wanted = code.value(f"select i1 {inexact}, double {moved}, double {_sign_of(code, '0.0', b)}")
    return rest, wanted, corrected


def float_remainder(code: LLVMBuilder, a: str, b: str) -> str:
    """Bails out: division by zero."""
    return _rest(code, a, b)[1]


def float_floor_divide(code: LLVMBuilder, a: str, b: str) -> str:
    """Python's way to a quotient that is whole. Bails out: division by zero."""
    rest, _, corrected = _rest(code, a, b)
    quotient = code.value(f"fdiv double {code.value(f'fsub double {a}, {rest}')}, {b}")
    less = code.value(f"select i1 {corrected}, double 1.0, double 0.0")
    quotient = code.value(f"fsub double {quotient}, {less}")
    whole = floor(code, quotient)
    far = code.value(f"fcmp ogt double {code.value(f'fsub double {quotient}, {whole}')}, 0.5")
    whole = code.value(f"select i1 {far}, double {code.value(f'fadd double {whole}, 1.0')}, double {whole}")
    none = _sign_of(code, "0.0", code.value(f"fdiv double {a}, {b}"))
    return code.value(f"select i1 {code.value(f'fcmp une double {quotient}, 0.0')}, double {whole}, double {none}")


def c_remainder(code: LLVMBuilder, a: str, b: str) -> str:
    """`math.fmod`. Bails out: what is not a number."""
    rest = code.call("double", "fmod", "double, double", a, b)
    code.bail_out_if(code.value(f"fcmp uno double {rest}, 0.0"))
    return rest


def power(code: LLVMBuilder, a: str, b: str) -> str:
    """Bails out: operands or a result that are not finite (a root of a negative number is none), and tiny results, of
    which some are an OverflowError."""
    for operand in (a, b):
        code.bail_out_unless(is_finite(code, operand))
    result = code.call("double", "pow", "double, double", a, b)
    code.bail_out_unless(is_finite(code, result))
    tiny = code.value(f"fcmp olt double {float_absolute(code, result)}, {literal(sys.float_info.min, T.FLOAT)}")
    code.bail_out_if(code.value(f"and i1 {tiny}, {code.value(f'fcmp une double {result}, 0.0')}"))
    return result


def floor(code: LLVMBuilder, a: str) -> str:
    return code.intrinsic("double @llvm.floor.f64(double)", a)


def ceil(code: LLVMBuilder, a: str) -> str:
    return code.intrinsic("double @llvm.ceil.f64(double)", a)


def float_absolute(code: LLVMBuilder, a: str) -> str:
    return code.intrinsic("double @llvm.fabs.f64(double)", a)


def square_root(code: LLVMBuilder, a: str) -> str:
    """Bails out: numbers below 0."""
    code.bail_out_if(code.value(f"fcmp olt double {a}, 0.0"))
    return code.intrinsic("double @llvm.sqrt.f64(double)", a)


def _mathematics(name: str, above: float | None = None) -> Emit:
    """A function of C's library. Bails out: an operand or a result that is not finite, an operand not above a bound."""

    def emit(code: LLVMBuilder, a: str) -> str:
        code.bail_out_unless(is_finite(code, a))
        if above is not None:
            code.bail_out_unless(code.value(f"fcmp ogt double {a}, {literal(above, T.FLOAT)}"))
        result = code.call("double", name, "double", a)
        code.bail_out_unless(is_finite(code, result))
        return result

    return emit


def is_finite(code: LLVMBuilder, a: str) -> str:
    return code.value(f"fcmp olt double {float_absolute(code, a)}, {literal(math.inf, T.FLOAT)}")


def is_infinite(code: LLVMBuilder, a: str) -> str:
    return code.value(f"fcmp oeq double {float_absolute(code, a)}, {literal(math.inf, T.FLOAT)}")


def larger_float(code: LLVMBuilder, a: str, b: str) -> str:
    return code.value(f"select i1 {code.value(f'fcmp ogt double {b}, {a}')}, double {b}, double {a}")


def smaller_float(code: LLVMBuilder, a: str, b: str) -> str:
    return code.value(f"select i1 {code.value(f'fcmp olt double {b}, {a}')}, double {b}, double {a}")


# -- conversions


def to_float(code: LLVMBuilder, a: str) -> str:
    """To the nearest float, ties to even, as Python does."""
    return code.value(f"sitofp i64 {a} to double")


def to_int(code: LLVMBuilder, a: str) -> str:
    """Towards zero. Bails out: NaN, and what does not fit."""
    code.bail_out_unless(code.value(f"fcmp oge double {a}, {literal(float(LOWEST), T.FLOAT)}"))
    code.bail_out_unless(code.value(f"fcmp olt double {a}, {literal(float(HIGHEST), T.FLOAT)}"))
    return code.value(f"fptosi double {a} to i64")


def widened(code: LLVMBuilder, a: str) -> str:
    """A bool as an int."""
    return code.value(f"zext i1 {a} to i64")


# -- the table


def _same(code: LLVMBuilder, a: str) -> str:
    return a


def _plain(template: str) -> Emit:
    """One instruction."""
    return lambda code, *operands: code.value(template.format(*operands))


def _then(first: Emit, second: Emit) -> Emit:
    return lambda code, *operands: second(code, first(code, *operands))


def _of_floats(emit: Emit, left: Emit = to_float, right: Emit = to_float) -> dict[str, Emit]:
    """An operator on floats, of which one may be an int."""
    return {
        "ff": emit,
        "if": lambda code, a, b: emit(code, left(code, a), b),
        "fi": lambda code, a, b: emit(code, a, right(code, b)),
    }


def _of_ints(emit: Emit) -> Emit:
    """An operator on floats of two ints."""
    return lambda code, a, b: emit(code, to_float(code, a), to_float(code, b))


def _comparison(ints: str, floats: str) -> dict[str, Emit]:
    """Python compares an int with a float as they are: exact, where the int is a float."""
    mixed = _of_floats(_plain(f"fcmp {floats} double {{}}, {{}}"), _exactly, _exactly)
    return {f"{letters}->b": emit for letters, emit in mixed.items()} | {"ii->b": _plain(f"icmp {ints} i64 {{}}, {{}}")}


def _arithmetic(ints: Emit, floats: Emit) -> dict[str, Emit]:
    return {f"{letters}->f": emit for letters, emit in _of_floats(floats).items()} | {"ii->i": ints}


def _bits(name: str) -> dict[str, Emit]:
    return {"ii->i": _plain(f"{name} i64 {{}}, {{}}"), "bb->b": _plain(f"{name} i1 {{}}, {{}}")}


def _real(emit: Emit) -> dict[str, Emit]:
    return {"f->f": emit, "i->f": _then(to_float, emit)}


SCALAR_RULES: dict[str, dict[str, Emit]] = {
    "aten::add": _arithmetic(add, _plain("fadd double {}, {}")),
    "aten::sub": _arithmetic(subtract, _plain("fsub double {}, {}")),
    "aten::mul": _arithmetic(multiply, _plain("fmul double {}, {}")),
    "aten::div": {f"{k}->f": e for k, e in _of_floats(float_divide).items()} | {"ii->f": true_divide},
    "aten::floordiv": _arithmetic(floor_divide, float_floor_divide),
    "aten::remainder": _arithmetic(remainder, float_remainder),
    "aten::__round_to_zero_floordiv": {"ii->i": truncated_quotient},
    "aten::fmod": {f"{k}->f": e for k, e in _of_floats(c_remainder).items()},
    "aten::pow": {f"{k}->f": e for k, e in _of_floats(power).items()},
    "aten::mathpow": {f"{k}->f": e for k, e in _of_floats(power).items()} | {"ii->f": _of_ints(power)},
    "aten::neg": {"i->i": negate, "f->f": _plain("fneg double {}")},
    "prim::abs": {"i->i": absolute, "f->f": float_absolute},
    "aten::fabs": _real(float_absolute),
    "aten::copysign": {"ff->f": _sign_of},
    "prim::min": {"ii->i": smaller_int, "ff->f": smaller_float},
    "prim::max": {"ii->i": larger_int, "ff->f": larger_float},
    "aten::eq": _comparison("eq", "oeq"),
    "aten::ne": _comparison("ne", "une"),
    "aten::lt": _comparison("slt", "olt"),
    "aten::le": _comparison("sle", "ole"),
    "aten::gt": _comparison("sgt", "ogt"),
    "aten::ge": _comparison("sge", "oge"),
    "aten::__and__": _bits("and"),
    "aten::__or__": _bits("or"),
    "aten::__xor__": _bits("xor"),
    "aten::__lshift__": {"ii->i": shift_left},
    "aten::__rshift__": {"ii->i": shift_right},
    "aten::__not__": {"b->b": _plain("xor i1 {}, true")},
    "aten::__range_length": {"iii->i": range_length},
    "aten::__derive_index": {"iii->i": element_of_range},
    "aten::Int": {"f->i": to_int, "b->i": widened},
    "aten::Float": {"i->f": to_float, "b->f": _then(widened, to_float)},
    "aten::Bool": {"i->b": _plain("icmp ne i64 {}, 0"), "f->b": _plain("fcmp une double {}, 0.0")},
    "aten::floor": {"f->i": _then(floor, to_int), "i->i": _same},
    "aten::ceil": {"f->i": _then(ceil, to_int), "i->i": _same},
    "aten::isnan": {"f->b": lambda code, a: code.value(f"fcmp uno double {a}, 0.0")},
    "aten::isinf": {"f->b": is_infinite},
    "aten::isfinite": {"f->b": is_finite},
    "aten::sqrt": _real(square_root),
    "aten::log": _real(_mathematics("log", above=0.0)),
    "aten::log10": _real(_mathematics("log10", above=0.0)),
    "prim::unchecked_cast": {"i->i": _same, "f->f": _same, "b->b": _same},
}

SCALAR_RULES |= {
    f"aten::{name}": _real(_mathematics(name)) for name in MATHEMATICS if name not in ("fmod", "pow", "log", "log10")
}
