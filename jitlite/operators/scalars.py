"""Operators on numbers: arithmetic, comparison, mathematics and conversion.

Values follow Python: ints have no limit, division by zero raises, `round` gives an int. Where TorchScript types a
result float and Python yields an int (`2 ** 3`, `round(2.5)`), the int is kept: it may stand where a float is wanted.

An overload is named after the types of its operands: `float_int` takes a float and an int, no name is Scalar. Most
operators are rows of the two tables below, in which `float->int` is the overload `float` with an int result.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from jitlite.ir.ops import op, op_family
from jitlite.ir.traits import Link, Spelling, Trait, known

_Number = Any

PYTHON_MATH = ("hypot", "dist", "fsum", "log2", "nextafter", "ulp")
"""Functions of `math` that are Python's own operators."""

PYTHON_3_11_MATH = tuple(name for name in ("cbrt", "exp2") if hasattr(math, name))
"""Functions of `math` that Python has from 3.11 on."""


def _by_kind(name: str) -> Callable[..., Any]:
    """The function of `math`, or of `cmath` where an operand is complex."""
    real, complex_ = getattr(math, name), getattr(cmath, name)

    def call(*operands: _Number) -> _Number:
        return (complex_ if any(isinstance(a, complex) for a in operands) else real)(*operands)

    vars(call)["for_reals"] = real  # for those who know that no operand is complex
    return call


# -- one operand

_REAL = "Scalar->Scalar float->float int->float"
_COMPLEX = f"{_REAL} complex->complex"


def _unary(name: str, fn: Callable[..., Any], overloads: str, doc: str, total: str = "") -> None:
    for overload in overloads.split():
        operand, _, result = overload.partition("->")
        op(f"{name}.{operand}({operand} a) -> {result}", total=operand in total.split(), doc=doc)(fn)


_UNARY: tuple[tuple[Any, ...], ...] = (
    ("aten::neg", operator.neg, "Scalar->Scalar complex->complex float->float int->int", "`-a`.",
     "Scalar complex float int"),
    ("prim::abs", abs, "Scalar->Scalar complex->float float->float int->int", "`abs(a)`.", "float int"),
    ("aten::fabs", math.fabs, _REAL, "`math.fabs(a)`: the absolute value as a float.", "float"),
    ("aten::ceil", math.ceil, "Scalar->Scalar float->int int->int", "`math.ceil(a)`.", "int"),
    ("aten::floor", math.floor, "Scalar->Scalar float->int int->int", "`math.floor(a)`.", "int"),
    ("aten::round", round, _REAL, "`round(a)`: an int, half to even.", "int"),
    ("aten::sqrt", _by_kind("sqrt"), _COMPLEX, "The square root."),
    ("aten::exp", _by_kind("exp"), _COMPLEX, "e to the power of a."),
    ("aten::expm1", math.expm1, _REAL, "`math.expm1(a)`: exp(a) - 1 without loss near 0."),
    ("aten::log", _by_kind("log"), _COMPLEX, "The natural logarithm."),
    ("aten::log10", _by_kind("log10"), _COMPLEX, "The logarithm to base 10."),
    ("aten::log1p", math.log1p, _REAL, "`math.log1p(a)`: log(1 + a) without loss near 0."),
    ("aten::sin", _by_kind("sin"), _COMPLEX, "The sine of a (in radians)."),
    ("aten::cos", _by_kind("cos"), _COMPLEX, "The cosine of a (in radians)."),
    ("aten::tan", _by_kind("tan"), _COMPLEX, "The tangent of a (in radians)."),
    ("aten::asin", _by_kind("asin"), _COMPLEX, "The arc sine, in radians."),
    ("aten::acos", _by_kind("acos"), _COMPLEX, "The arc cosine, in radians."),
    ("aten::atan", _by_kind("atan"), _COMPLEX, "The arc tangent, in radians.", "float"),
    ("aten::sinh", _by_kind("sinh"), _COMPLEX, "The hyperbolic sine."),
    ("aten::cosh", _by_kind("cosh"), _COMPLEX, "The hyperbolic cosine."),
    ("aten::tanh", _by_kind("tanh"), _COMPLEX, "The hyperbolic tangent.", "float"),
    ("aten::asinh", _by_kind("asinh"), _COMPLEX, "The inverse hyperbolic sine.", "float"),
    ("aten::acosh", _by_kind("acosh"), _COMPLEX, "The inverse hyperbolic cosine."),
    ("aten::atanh", _by_kind("atanh"), _COMPLEX, "The inverse hyperbolic tangent."),
    ("aten::erf", math.erf, _REAL, "The error function.", "float"),
    ("aten::erfc", math.erfc, _REAL, "The complementary error function.", "float"),
    ("aten::gamma", math.gamma, _REAL, "The gamma function."),
    ("aten::lgamma", math.lgamma, _REAL, "The logarithm of the absolute value of the gamma function."),
    ("aten::degrees", math.degrees, _REAL, "The angle a, given in radians, in degrees.", "float"),
    ("aten::radians", math.radians, _REAL, "The angle a, given in degrees, in radians.", "float"),
    ("aten::angle", cmath.phase, "Scalar->Scalar complex->float float->float int->float",
     "The angle of a number in the complex plane: 0 or pi for a real one.", "complex float"),
    ("aten::factorial", math.factorial, "int->int", "`math.factorial(a)`."),
    ("aten::isnan", _by_kind("isnan"), "complex->bool float->bool", "Is it not a number?", "complex float"),
    ("aten::isinf", _by_kind("isinf"), "complex->bool float->bool", "Is it infinite?", "complex float"),
    ("aten::isfinite", _by_kind("isfinite"), "complex->bool float->bool", "Is it neither infinite nor NaN?",
     "complex float"),
)  # fmt: skip
"""Name, meaning, overloads, documentation, and the overloads that cannot raise."""

for _row in _UNARY:
    _unary(*_row)


# -- two operands


def _never(left: str, right: str) -> bool:
    return False


def _always(left: str, right: str) -> bool:
    return True


def _without_conversion(left: str, right: str) -> bool:
    """An int meets no float: it could be too large for one. Scalars can be anything."""
    return left == right != "Scalar" or {left, right} == {"float", "complex"}


def _of_floats(left: str, right: str) -> bool:
    """No int, which could be too large for a float."""
    return left == right == "float"


def _ordered(left: str, right: str) -> bool:
    """Only complex numbers, which a Scalar can be, have no order."""
    return "Scalar" not in (left, right)


def _binary(
    name: str,
    fn: Callable[..., Any],
    overloads: str,
    doc: str,
    total: Callable[[str, str], bool] = _never,
    names: str = "ab",
) -> None:
    for overload in overloads.split():
        operands, _, result = overload.partition("->")
        left, _, right = (operands or "Scalar").partition("_")
        right = right or left
        dotted = f".{operands}" if operands else ""
        schema = f"{name}{dotted}({left} {names[0]}, {right} {names[1]}) -> {result}"
        op(schema, total=total(left, right), doc=doc)(fn)


def _truncated_division(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def power(a: _Number, b: _Number) -> _Number:
    """`a ** b`. An int to the power of an int that is not negative is an int.

    The root of a negative number, which Python gives as a complex number, is a ValueError: the result is typed float.
    """
    result = a**b
    if isinstance(result, complex) and not isinstance(a, complex) and not isinstance(b, complex):
        raise ValueError(f"{a} ** {b} is a complex number, and the result is typed float: write complex({a}) ** {b}")
    return result


_MIXED = "->{0} float->{0} float_int->{0} int->{0} int_float->{0}"
_ARITHMETIC = (
    "->Scalar complex->complex complex_float->complex complex_int->complex float->float float_complex->complex"
    " float_int->float int->int int_complex->complex int_float->float"
)
_INTEGRAL = "->Scalar float->float float_int->float int->int int_float->float"
_EQUALITY = f"{_MIXED.format('bool')} bool->bool complex->bool complex_float->bool float_complex->bool"

_BINARY: tuple[tuple[Any, ...], ...] = (
    ("aten::add", operator.add, _ARITHMETIC, "`a + b`.", _without_conversion),
    ("aten::sub", operator.sub, _ARITHMETIC, "`a - b`.", _without_conversion),
    ("aten::mul", operator.mul, _ARITHMETIC, "`a * b`.", _without_conversion),
    ("aten::div", operator.truediv, "->float complex->complex float->float int->float",
     "`a / b`. Division by zero is a ZeroDivisionError."),
    ("aten::floordiv", operator.floordiv, _INTEGRAL, "`a // b`, rounded down."),
    ("aten::remainder", operator.mod, _INTEGRAL, "`a % b`, with the sign of b."),
    ("aten::fmod", math.fmod, _MIXED.format("float"), "`math.fmod(a, b)`, with the sign of a."),
    ("aten::mathremainder", math.remainder, _MIXED.format("float"),
     "`math.remainder(a, b)`: the distance to the nearest multiple of b."),
    ("aten::__round_to_zero_floordiv", _truncated_division, "int->int", "The quotient, rounded towards zero."),
    ("aten::pow", power, "Scalar_Scalar->float complex->complex complex_float->complex float->float"
     " float_complex->complex float_int->float int->float int_float->float", power.__doc__ or ""),
    ("aten::mathpow", math.pow, _MIXED.format("float"),
     "`math.pow(a, b)`: a float for ints too, and a ValueError where `a ** b` is another error or complex."),
    ("aten::log", _by_kind("log"), "Scalar_Scalar->float complex_complex->complex complex_float->complex"
     " complex_int->complex float_complex->complex float_float->float float_int->float int_complex->complex"
     " int_float->float int_int->float", "The logarithm of a to base b."),
    ("aten::atan2", math.atan2, f"Scalar_Scalar{_MIXED.format('float')}",
     "`math.atan2(a, b)`: the angle of the point (b, a).", _of_floats),
    ("aten::copysign", math.copysign, _MIXED.format("float"), "`math.copysign(a, b)`: a with the sign of b.",
     _of_floats),
    ("aten::polar", cmath.rect, "Scalar_Scalar->Scalar float->complex float_int->complex int->complex"
     " int_float->complex", "The complex number of length a and angle b."),
    ("aten::gcd", math.gcd, "int->int", "The greatest common divisor.", _always),
    ("aten::__lshift__", operator.lshift, "int->int", "`a << b`."),
    ("aten::__rshift__", operator.rshift, "int->int", "`a >> b`."),
    ("aten::__and__", operator.and_, "bool->bool int->int", "`a & b`.", _always),
    ("aten::__or__", operator.or_, "bool->bool int->int", "`a | b`.", _always),
    ("aten::__xor__", operator.xor, "bool->bool int->int", "`a ^ b`.", _always),
    ("aten::eq", operator.eq, _EQUALITY, "`a == b`.", _always),
    ("aten::ne", operator.ne, _EQUALITY, "`a != b`.", _always),
    ("aten::lt", operator.lt, _MIXED.format("bool"), "`a < b`.", _ordered),
    ("aten::le", operator.le, _MIXED.format("bool"), "`a <= b`.", _ordered),
    ("aten::gt", operator.gt, _MIXED.format("bool"), "`a > b`.", _ordered),
    ("aten::ge", operator.ge, _MIXED.format("bool"), "`a >= b`.", _ordered),
    ("prim::min", min, _INTEGRAL, "`min(a, b)`: the smaller operand as it is.", _ordered),
    ("prim::max", max, _INTEGRAL, "`max(a, b)`: the larger operand as it is.", _ordered),
)  # fmt: skip
"""Name, meaning, overloads, documentation, and for which operands it cannot raise."""

for _row in _BINARY:
    _binary(*_row)
op("aten::pow.int_to_int(int a, int b) -> int", traits=(Trait.GROWING, Spelling.BINARY("pow operator")))(power)


# -- the rest


@op("aten::divmod.float(float x, float y) -> (float, float)")
@op("aten::divmod.float_int(float x, int y) -> (float, float)")
@op("aten::divmod.int(int x, int y) -> (int, int)")
@op("aten::divmod.int_float(int x, float y) -> (float, float)")
@op("aten::divmod.Scalar(Scalar x, Scalar y) -> (Scalar, Scalar)")
def divide_with_remainder(x: _Number, y: _Number) -> Any:
    """`divmod(x, y)`: quotient rounded down, and remainder."""
    return divmod(x, y)


@op("python::int(str text, int base) -> int")
def int_in_base(text: str, base: int) -> int:
    """`int(text, base)`."""
    return int(text, base)


op("python::hypot.two(float x, float y) -> float", doc="`math.hypot(x, y)`: the length of a vector.")(math.hypot)
op("python::hypot.three(float x, float y, float z) -> float", doc="`math.hypot(x, y, z)`.")(math.hypot)
op("python::dist.float(float[] p, float[] q) -> float", doc="`math.dist(p, q)`: the distance of two points.")(math.dist)
op("python::dist.int(int[] p, int[] q) -> float", doc="`math.dist(p, q)` of points with whole coordinates.")(math.dist)
op("python::fsum.float(float[] values) -> float", doc="`math.fsum(values)`: the sum without loss.")(math.fsum)
op("python::fsum.int(int[] values) -> float", doc="`math.fsum(values)` of ints.")(math.fsum)
op("python::log2.float(float x) -> float", doc="`math.log2(x)`.")(math.log2)
op("python::log2.int(int x) -> float", doc="`math.log2(x)` of an int.")(math.log2)
op("python::nextafter(float x, float y) -> float", doc="`math.nextafter(x, y)`.", total=True)(math.nextafter)
op("python::ulp(float x) -> float", doc="`math.ulp(x)`: the value of the last digit.", total=True)(math.ulp)
for _name in PYTHON_3_11_MATH:
    op(f"python::{_name}(float x) -> float", doc=f"`math.{_name}(x)`.")(getattr(math, _name))
op("aten::frexp(float a) -> (float, int)", total=True, doc="`math.frexp(a)`: mantissa and exponent.")(math.frexp)
op("aten::modf(float a) -> (float, float)", total=True, doc="`math.modf(a)`: fractional and whole part.")(math.modf)
op("aten::ldexp(float x, int i) -> float", doc="`x * 2 ** i`.", traits=(Trait.GROWING,))(math.ldexp)
op(
    "aten::__not__(bool self) -> bool",
    total=True,
    doc="`not self`.",
    traits=(Trait.CONNECTIVE, Spelling.OPCODE("__NOT__")),
)(operator.not_)


@op(
    "aten::__range_length(int lo, int hi, int step) -> int",
    traits=(Trait.STAYS_IN_LOOPS, Trait.PLAIN_INT, Trait.ALWAYS_NESTED),
)
def range_length(lo: int, hi: int, step: int) -> int:
    """The number of elements of `range(lo, hi, step)`.

    A step of 0 is a ValueError.
    """
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    # Not len(range(..)): that is limited to machine integers.
    return max(0, (hi - lo + step - (1 if step > 0 else -1)) // step)


@op("aten::__derive_index(int index, int start, int step) -> int", total=True, traits=(Trait.PLAIN_INT,))
def derive_index(index: int, start: int, step: int) -> int:
    """Element `index` of a range."""
    return start + index * step


# -- conversion

op_family("aten::Bool.{}({} a) -> bool", "float int", total=True, doc="`bool(a)`.")(bool)
op(
    "aten::Bool.Tensor(Tensor a) -> bool",
    doc="`bool(a)`; a RuntimeError unless the tensor has one element.",
    traits=(Trait.CORE_QUESTION,),
)(bool)
op_family(
    "aten::Int.{}({} a) -> int",
    "Scalar bool float str",
    total="bool",
    doc="`int(a)`, towards zero. Text that is no number is a ValueError.",
)(int)
op(
    "aten::Int.Tensor(Tensor a) -> int",
    doc="`int(a)` of a tensor with one element.",
    traits=(Trait.PLAIN_INT, Trait.CORE_QUESTION, Trait.PACKS_NUMBERS),
)(int)
op_family(
    "aten::Float.{}({} a) -> float",
    "Scalar bool int str",
    total="bool",
    doc="`float(a)`. Text that is no number is a ValueError.",
)(float)
op(
    "aten::Float.Tensor(Tensor a) -> float",
    doc="`float(a)` of a tensor with one element.",
    traits=(Trait.CORE_QUESTION,),
)(float)
op("aten::Complex.Scalar(Scalar a) -> complex", doc="`complex(a)`.")(complex)
_binary(
    "aten::Complex",
    complex,
    "bool_bool->complex bool_float->complex bool_int->complex float_bool->complex"
    " float_float->complex float_int->complex int_bool->complex int_float->complex int_int->complex",
    "`complex(x, y)`.",
    lambda left, right: "int" not in (left, right),
    names="xy",
)
_binary(
    "aten::Complex",
    complex,
    "Tensor_bool->complex Tensor_float->complex Tensor_int->complex"
    " bool_Tensor->complex float_Tensor->complex int_Tensor->complex",
    "`complex(x, y)`, of which one is a tensor with one element.",
    names="xy",
)
op(
    "aten::Complex.Tensor_Tensor(Tensor a, Tensor b) -> complex", doc="`complex(a, b)` of two tensors with one element."
)(complex)


def _implicit(tensor: torch.Tensor) -> _Number:
    """The number in a tensor that was given where a number is wanted; torch's conditions and messages."""
    if tensor.requires_grad:
        raise RuntimeError("Cannot input a tensor that requires grad as a scalar argument")
    if tensor.dim() != 0:
        raise RuntimeError("Cannot input a tensor of dimension other than 0 as a scalar argument")
    return tensor.item()


@op("aten::FloatImplicit(Tensor a) -> float", traits=(Trait.CORE_QUESTION,))
def implicit_float(a: torch.Tensor) -> float:
    """The float that a 0-dimensional tensor without gradient stands for, else a RuntimeError."""
    return float(_implicit(a))


@op("aten::IntImplicit(Tensor a) -> int", traits=(Trait.CORE_QUESTION,))
def implicit_int(a: torch.Tensor) -> int:
    """The int that a 0-dimensional tensor of integers stands for, else a RuntimeError."""
    number = _implicit(a)
    if type(number) is not int:
        raise RuntimeError(f"Cannot input a tensor of type {a.dtype} as an integral argument")
    return number


@op("prim::AsInt(Scalar a) -> int")
def as_int(a: _Number) -> int:
    """The int that a number is where an int is wanted. A float is a TypeError, as in Python; a bool is an int."""
    if not isinstance(a, int):
        message = f"'{type(a).__name__}' object cannot be interpreted as an integer: {a} is where an int is wanted"
        raise TypeError(message)
    return int(a)


@op("prim::AsIndex(Scalar a) -> int")
def as_index(a: _Number) -> int:
    """The int that a number is in the index of a tensor. Another one is an IndexError; in eager, a bool adds a
    dimension."""
    if type(a) is not int:
        message = f"only integers can index a tensor, and this number is a {type(a).__name__}: {a}"
        raise IndexError(message)
    return a


@op("aten::ComplexImplicit(Tensor a) -> complex")
def implicit_complex(a: torch.Tensor) -> complex:
    """The complex number that a 0-dimensional tensor without gradient stands for, else a RuntimeError."""
    return complex(_implicit(a))


@op("aten::ScalarImplicit(Tensor a) -> Scalar")
def implicit_number(a: torch.Tensor) -> _Number:
    """The number that a 0-dimensional tensor without gradient stands for, else a RuntimeError."""
    return _implicit(a)


# -- what is known of operators that are declared in families

known("aten::__and__", Trait.FRESH, Trait.PLAIN_INT, Trait.CONNECTIVE, Spelling.BINARY("&"))
known("aten::__or__", Trait.FRESH, Trait.PLAIN_INT, Trait.CONNECTIVE, Spelling.BINARY("|"))
known("aten::__xor__", Trait.FRESH, Trait.PLAIN_INT, Spelling.BINARY("^"))
known("aten::isfinite", Trait.FRESH)
known("prim::abs", Trait.FRESH, Trait.PLAIN_INT)
known("aten::eq", Trait.COMPARES_ELEMENTS, Trait.COMPARES_CODES, Link.OPPOSITE("aten::ne"), Spelling.BINARY("eq"))
known("aten::ge", Trait.COMPARES_ELEMENTS, Link.OPPOSITE("aten::lt"), Link.MIRRORED("aten::le"), Spelling.BINARY("ge"))
known("aten::gt", Trait.COMPARES_ELEMENTS, Link.OPPOSITE("aten::le"), Link.MIRRORED("aten::lt"), Spelling.BINARY(">"))
known("aten::le", Trait.COMPARES_ELEMENTS, Link.OPPOSITE("aten::gt"), Link.MIRRORED("aten::ge"), Spelling.BINARY("le"))
known("aten::lt", Trait.COMPARES_ELEMENTS, Link.OPPOSITE("aten::ge"), Link.MIRRORED("aten::gt"), Spelling.BINARY("<"))
known("aten::ne", Trait.COMPARES_ELEMENTS, Trait.COMPARES_CODES, Link.OPPOSITE("aten::eq"), Spelling.BINARY("ne"))
known("aten::__lshift__", Trait.GROWING, Trait.PLAIN_INT, Spelling.BINARY("<<"))
known("aten::factorial", Trait.GROWING)
known(
    "aten::mul",
    Trait.SYMBOLIC,
    Trait.GROWING,
    Trait.PLAIN_INT,
    Trait.TENSOR_OR_NUMBER,
    Trait.MKLDNN_ARITHMETIC,
    Trait.MKLDNN_IN_PLACE,
    Spelling.BINARY("*"),
)
known("aten::__rshift__", Trait.PLAIN_INT, Spelling.BINARY(">>"))
known(
    "aten::add",
    Trait.SYMBOLIC,
    Trait.PLAIN_INT,
    Trait.TENSOR_OR_NUMBER,
    Trait.MKLDNN_ARITHMETIC,
    Trait.MKLDNN_IN_PLACE,
    Spelling.BINARY("+"),
)
known("aten::floordiv", Trait.SYMBOLIC, Trait.PLAIN_INT, Spelling.BINARY("floordiv"))
known("aten::neg", Trait.PLAIN_INT, Spelling.UNARY("unary minus"))
known("aten::remainder", Trait.PLAIN_INT, Spelling.BINARY("%"))
known("aten::sub", Trait.SYMBOLIC, Trait.PLAIN_INT, Trait.TENSOR_OR_NUMBER, Spelling.BINARY("-"))
known("prim::max", Trait.HANDS_ON_CODES, Trait.COMPARES_CODES, Trait.KEEPS_BOOLS)
known("prim::min", Trait.HANDS_ON_CODES, Trait.COMPARES_CODES, Trait.KEEPS_BOOLS)
known("aten::ceil", Trait.KEEPS_BOOLS)
known("aten::floor", Trait.KEEPS_BOOLS)
known("aten::div", Trait.TENSOR_OR_NUMBER, Spelling.BINARY("/"))
known("aten::tanh", Trait.MKLDNN_IN_PLACE, Link.MKLDNN("aten::tanh"))
