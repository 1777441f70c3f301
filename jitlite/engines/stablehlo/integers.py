"""Division, with the rounding of Python or of C, powers, and bits of ints."""

from __future__ import annotations

import math
from functools import partial

import torch

from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder, accumulated_in
from jitlite.engines.stablehlo.elementwise import is_negative, result_operand, towards_zero

_of = CONVERTERS.of


def _operands(out: StableHloBuilder, a: object, b: object) -> tuple[Array, Array]:
    """What is divided and the divisor, as the result has them. Calls that divide an int by 0 are refused."""
    dtype = out.results[0].dtype
    if dtype is torch.bool:
        raise EngineRefusal("it divides bools")
    divided, divisor = result_operand(out, a), result_operand(out, b)
    if dtype.is_floating_point:
        return divided, divisor
    if isinstance(b, int):
        if b == 0:
            raise EngineRefusal("it divides an int by 0")
    else:
        out.all_true(out.compare("NE", divisor, out.full(0, dtype)), "an int is divided by 0")
    return divided, divisor


@_of("aten::div")
def div(out: StableHloBuilder, a: object, b: object, rounding_mode: object = None) -> Array:
    divided, divisor = _operands(out, a, b)
    if divided.dtype.is_floating_point:
        ratio = out.binary("divide", divided, divisor)
        if rounding_mode == "floor":
            return _floor_div(out, divided, divisor, ratio)
        return towards_zero(out, ratio) if rounding_mode == "trunc" else ratio
    found = out.binary("divide", divided, divisor)  # rounds towards 0
    if rounding_mode != "floor" or divided.dtype is torch.uint8:
        return found
    _, is_wrong = _rest(out, divided, divisor)
    return out.select(is_wrong, out.binary("subtract", found, out.full(1, found.dtype)), found)


def _floor_div(out: StableHloBuilder, a: Array, b: Array, divided: Array) -> Array:
    """As torch computes it: what is left is taken away before dividing, so that 1 // 0.1 is 9."""
    one, zero = out.full(1, a.dtype), out.full(0, a.dtype)
    rest, is_wrong = _rest(out, a, b)
    exact = out.binary("divide", out.binary("subtract", a, rest), b)
    exact = out.select(is_wrong, out.binary("subtract", exact, one), exact)
    floored = out.unary("floor", exact)
    is_below = out.compare("GT", out.binary("subtract", exact, floored), out.full(0.5, a.dtype))
    rounded = out.select(is_below, out.binary("add", floored, one), floored)
    return out.select(out.compare("EQ", b, zero), divided, rounded)


def _rest(out: StableHloBuilder, a: Array, b: Array) -> tuple[Array, Array]:
    """What is left with the sign of what is divided, and where that is not the sign of the divisor."""
    rest, zero = out.binary("remainder", a, b), out.full(0, a.dtype)
    differs = out.compare("NE", out.compare("LT", rest, zero), out.compare("LT", b, zero))
    return rest, out.binary("and", out.compare("NE", rest, zero), differs)


def _remainder(out: StableHloBuilder, a: Array, b: Array) -> Array:
    """With the sign of the divisor, as Python has it."""
    rest, is_wrong = _rest(out, a, b)
    return out.select(is_wrong, out.binary("add", rest, b), rest)


@_of("aten::remainder")
def remainder(out: StableHloBuilder, a: object, b: object) -> Array:
    return _remainder(out, *_operands(out, a, b))


@_of("aten::fmod")
def fmod(out: StableHloBuilder, a: object, b: object) -> Array:
    return out.binary("remainder", *_operands(out, a, b))


# -- powers


@_of("aten::pow")
def pow(out: StableHloBuilder, a: object, b: object) -> Array:
    base = result_operand(out, a)
    if base.dtype is torch.bool:
        raise EngineRefusal("it raises bools to a power")
    if isinstance(b, int | float):
        by_products = _small_power(out, base, float(b))
        if by_products is not None:
            return by_products
    if not base.dtype.is_floating_point:
        return _int_power(out, base, b)
    exponent = result_operand(out, b)
    if not out.for_iree:
        return out.binary("power", base, exponent)
    wide = accumulated_in(base.dtype)
    return out.cast(_power_for_iree(out, out.cast(base, wide), out.cast(exponent, wide)), base.dtype)


def _small_power(out: StableHloBuilder, x: Array, exponent: float) -> Array | None:
    """Powers that are computed exactly by a product or a root; torch computes the same ones so."""
    if exponent == 0:
        return out.full(1, x.dtype, x.dims)
    if not x.dtype.is_floating_point and exponent < 0:
        raise EngineRefusal("it raises ints to a negative power")
    if exponent in (0.5, -0.5):
        return out.unary("sqrt" if exponent > 0 else "rsqrt", x)
    if exponent not in (1, 2, 3, -1, -2):
        return None
    found = x
    for _ in range(abs(int(exponent)) - 1):
        found = out.binary("multiply", found, x)
    return found if exponent > 0 else out.binary("divide", out.full(1, x.dtype), found)


def _power_for_iree(out: StableHloBuilder, x: Array, y: Array) -> Array:
    """IREE computes exp(y * log(x)), which says nothing of a negative `x`, nor of some numbers that are not finite."""
    dtype = x.dtype
    zero, one, infinity = (out.full(n, dtype) for n in (0, 1, math.inf))
    size = out.unary("abs", x)
    found = out.binary("power", size, y)
    is_unit = out.binary("and", out.compare("EQ", size, one), out.compare("EQ", out.unary("abs", y), infinity))
    found = out.select(is_unit, one, found)
    is_whole = out.compare("EQ", out.unary("floor", y), y)
    half = out.binary("multiply", y, out.full(0.5, dtype))
    is_odd = out.binary("and", is_whole, out.compare("NE", out.unary("floor", half), half))
    below = out.compare("LT", x, zero)
    found = out.select(out.binary("and", is_negative(out, x), is_odd), out.unary("negate", found), found)
    has_none = out.binary(
        "and", out.binary("and", below, out.compare("LT", size, infinity)), out.unary("not", is_whole)
    )
    found = out.select(has_none, out.full(math.nan, dtype), found)
    is_one = out.binary("or", out.compare("EQ", y, zero), out.compare("EQ", x, one))
    return out.select(is_one, one, found)


def _int_power(out: StableHloBuilder, base: Array, exponent: object) -> Array:
    """By squares, a bit of the exponent after another. A negative one gives what is left of a fraction."""
    if isinstance(exponent, int):
        return _power_by_squares(out, base, exponent)
    raise EngineRefusal("it raises ints to powers that are no constant")


def _power_by_squares(out: StableHloBuilder, base: Array, exponent: int) -> Array:
    found, square = out.full(1, base.dtype, base.dims), base
    while exponent:
        if exponent & 1:
            found = out.binary("multiply", found, square)
        exponent >>= 1
        square = out.binary("multiply", square, square) if exponent else square
    return found


# -- bits


def _shifted(op: str, out: StableHloBuilder, a: object, b: object) -> Array:
    given, places = result_operand(out, a), result_operand(out, b)
    dtype = given.dtype
    if dtype.is_floating_point or dtype is torch.bool:
        raise EngineRefusal("it shifts what are no ints")
    width = dtype.itemsize * 8
    if op == "right":
        kind = "shift_right_logical" if dtype is torch.uint8 else "shift_right_arithmetic"
        most = out.full(width - 1, dtype)
        inside = out.binary("and", out.compare("GE", places, out.full(0, dtype)), out.compare("LT", places, most))
        return out.binary(kind, given, out.select(inside, places, most))
    inside = out.binary(
        "and", out.compare("GE", places, out.full(0, dtype)), out.compare("LT", places, out.full(width, dtype))
    )
    zero = out.full(0, dtype)
    return out.select(inside, out.binary("shift_left", given, out.select(inside, places, zero)), zero)


_of("aten::__lshift__", "aten::bitwise_left_shift")(partial(_shifted, "left"))
_of("aten::__rshift__", "aten::bitwise_right_shift")(partial(_shifted, "right"))
