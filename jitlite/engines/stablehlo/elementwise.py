"""Operators on elements, and on numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from jitlite.engines.converters import common_dtype, number
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder
from jitlite.engines.stablehlo.sizes import Dim

_of = CONVERTERS.of


def _declare(convert: Callable[..., Array], ops: str) -> None:
    """Declare converters: of each operator of ATen, its name and that of the operation are given."""
    words = ops.split()
    for name, op in zip(words[::2], words[1::2], strict=True):
        _of(f"aten::{name}")(partial(convert, op))


def _result_operand(out: StableHloBuilder, x: object) -> Array:
    return out.operand(x, out.results[0].dtype)


def _unary(op: str, out: StableHloBuilder, x: object) -> Array:
    given = _result_operand(out, x)
    if given.dtype is torch.bool:
        raise EngineRefusal("it is arithmetic on bools")
    return out.unary(op, given)


def _rounded(op: str, out: StableHloBuilder, x: object) -> Array:
    """Of ints, rounding is the identity."""
    given = _result_operand(out, x)
    return out.unary(op, given) if given.dtype.is_floating_point else given


_declare(
    _unary,
    "neg negate abs abs exp exponential expm1 exponential_minus_one log log log1p log_plus_one tanh tanh "
    "sigmoid logistic sqrt sqrt rsqrt rsqrt sin sine cos cosine tan tan erf chlo.erf sinh chlo.sinh cosh chlo.cosh "
    "asin chlo.asin acos chlo.acos atan chlo.atan asinh chlo.asinh acosh chlo.acosh atanh chlo.atanh erfc chlo.erfc",
)
_declare(_rounded, "floor floor ceil ceil round round_nearest_even")


@_of("aten::trunc")
def trunc(out: StableHloBuilder, x: object) -> Array:
    given = _result_operand(out, x)
    if not given.dtype.is_floating_point:
        return given
    return _towards_zero(out, given)


def _towards_zero(out: StableHloBuilder, x: Array) -> Array:
    is_negative = out.compare("LT", x, out.full(0, x.dtype))
    return out.select(is_negative, out.unary("ceil", x), out.unary("floor", x))


def _scaled_log(base: float, out: StableHloBuilder, x: object) -> Array:
    given = _result_operand(out, x)
    return out.binary("multiply", out.unary("log", given), out.full(1 / math.log(base), given.dtype))


_of("aten::log2")(partial(_scaled_log, 2))
_of("aten::log10")(partial(_scaled_log, 10))


@_of("aten::exp2")
def exp2(out: StableHloBuilder, x: object) -> Array:
    given = _result_operand(out, x)
    return out.unary("exponential", out.binary("multiply", given, out.full(math.log(2), given.dtype)))


@_of("aten::reciprocal")
def reciprocal(out: StableHloBuilder, x: object) -> Array:
    given = _result_operand(out, x)
    return out.binary("divide", out.full(1, given.dtype), given)


@_of("aten::sign", "aten::sgn")
def sign(out: StableHloBuilder, x: object) -> Array:
    """That of nan is 0 in torch."""
    given = out.given(x)
    if given.dtype is torch.bool:
        return given
    found, zero = out.unary("sign", given), out.full(0, given.dtype)
    if not given.dtype.is_floating_point:
        return found
    return out.select(out.compare("NE", given, given), zero, found)


# -- arithmetic


def _of_ints(out: StableHloBuilder, *given: object) -> list[Dim] | None:
    """The operands as sizes, if the result is an int of the graph."""
    result = out.results[0]
    if not result.is_number:
        return None
    if result.dtype is torch.bool:
        raise EngineRefusal("it computes with bools that are no tensors")
    if result.dtype is not torch.int64:
        raise EngineRefusal("it computes with floats that are no tensors")
    return [out.dim_of(value) for value in given]


def _number_of(amount: Dim) -> Array:
    return Array("", torch.int64, 0, True, amount=amount)


def _scaled(out: StableHloBuilder, value: object, factor: object) -> Array:
    given = _result_operand(out, value)
    if not isinstance(factor, Array) and factor == 1:
        return given
    return out.binary("multiply", given, _result_operand(out, factor))


@_of("aten::add")
def add(out: StableHloBuilder, a: object, b: object, alpha: object = 1) -> Array:
    if ints := _of_ints(out, a, b):
        return _number_of(ints[0] + ints[1])
    if out.results[0].dtype is torch.bool and alpha not in (1, True):
        raise EngineRefusal("it is arithmetic on bools")
    op = "or" if out.results[0].dtype is torch.bool else "add"
    return out.binary(op, _result_operand(out, a), _scaled(out, b, alpha))


@_of("aten::sub")
def sub(out: StableHloBuilder, a: object, b: object, alpha: object = 1) -> Array:
    if ints := _of_ints(out, a, b):
        return _number_of(ints[0] - ints[1])
    return out.binary("subtract", _result_operand(out, a), _scaled(out, b, alpha))


@_of("aten::rsub")
def rsub(out: StableHloBuilder, a: object, b: object, alpha: object = 1) -> Array:
    return out.binary("subtract", _result_operand(out, b), _scaled(out, a, alpha))


@_of("aten::mul")
def mul(out: StableHloBuilder, a: object, b: object) -> Array:
    if ints := _of_ints(out, a, b):
        return _number_of(ints[0] * ints[1])
    op = "and" if out.results[0].dtype is torch.bool else "multiply"
    return out.binary(op, _result_operand(out, a), _result_operand(out, b))


@_of("aten::floordiv")
def floordiv(out: StableHloBuilder, a: object, b: object) -> Array:
    ints = _of_ints(out, a, b)
    if ints is None or not isinstance(ints[1], int) or ints[1] < 1:
        raise EngineRefusal("it divides by what is no constant, or less than 1")
    return _number_of(ints[0] // ints[1])


@_of("aten::div")
def div(out: StableHloBuilder, a: object, b: object, rounding_mode: object = None) -> Array:
    dtype = out.results[0].dtype
    if not dtype.is_floating_point:
        raise EngineRefusal("it divides ints and rounds")
    divided = out.binary("divide", out.operand(a, dtype), out.operand(b, dtype))
    if rounding_mode == "floor":
        return _floor_div(out, out.operand(a, dtype), out.operand(b, dtype), divided)
    return _towards_zero(out, divided) if rounding_mode == "trunc" else divided


def _floor_div(out: StableHloBuilder, a: Array, b: Array, divided: Array) -> Array:
    """As torch computes it: what is left is taken away before dividing, so that 1 // 0.1 is 9."""
    rest = _remainder(out, a, b)
    exact = out.unary("round_nearest_even", out.binary("divide", out.binary("subtract", a, rest), b))
    by_zero = out.compare("EQ", b, out.full(0, b.dtype))
    return out.select(by_zero, divided, exact)


def _remainder(out: StableHloBuilder, a: Array, b: Array) -> Array:
    """With the sign of the divisor, as Python has it."""
    rest, zero = out.binary("remainder", a, b), out.full(0, a.dtype)
    differs = out.compare("NE", out.compare("LT", rest, zero), out.compare("LT", b, zero))
    wrong = out.binary("and", out.compare("NE", rest, zero), differs)
    return out.select(wrong, out.binary("add", rest, b), rest)


@_of("aten::remainder")
def remainder(out: StableHloBuilder, a: object, b: object) -> Array:
    return _remainder(out, *_floats(out, a, b))


@_of("aten::fmod")
def fmod(out: StableHloBuilder, a: object, b: object) -> Array:
    return out.binary("remainder", *_floats(out, a, b))


def _floats(out: StableHloBuilder, a: object, b: object) -> tuple[Array, Array]:
    if not out.results[0].dtype.is_floating_point:
        raise EngineRefusal("it divides ints, which may be divided by 0")
    return _result_operand(out, a), _result_operand(out, b)


@_of("aten::atan2")
def atan2(out: StableHloBuilder, a: object, b: object) -> Array:
    return out.binary("atan2", *_floats(out, a, b))


def _extremum(op: str, out: StableHloBuilder, a: object, b: object) -> Array:
    return out.binary(op, _result_operand(out, a), _result_operand(out, b))


_declare(_extremum, "maximum maximum minimum minimum")


@_of("aten::pow")
def pow(out: StableHloBuilder, a: object, b: object) -> Array:
    base = _result_operand(out, a)
    if not base.dtype.is_floating_point:
        raise EngineRefusal("it raises ints to a power")
    if isinstance(b, int | float):
        by_products = _small_power(out, base, float(b))
        if by_products is not None:
            return by_products
    return out.binary("power", base, _result_operand(out, b))


def _small_power(out: StableHloBuilder, x: Array, exponent: float) -> Array | None:
    """Powers that are computed exactly by a product or a root; torch computes the same ones so."""
    if exponent == 0:
        return out.full(1, x.dtype, x.dims)
    if exponent in (0.5, -0.5):
        return out.unary("sqrt" if exponent > 0 else "rsqrt", x)
    if exponent not in (1, 2, 3, -1, -2):
        return None
    found = x
    for _ in range(abs(int(exponent)) - 1):
        found = out.binary("multiply", found, x)
    return found if exponent > 0 else out.binary("divide", out.full(1, x.dtype), found)


# -- activations


@_of("aten::relu")
def relu(out: StableHloBuilder, x: object) -> Array:
    given = out.given(x)
    return out.binary("maximum", given, out.full(0, given.dtype))


@_of("aten::gelu")
def gelu(out: StableHloBuilder, x: object, approximate: object = "none") -> Array:
    given = out.given(x)
    dtype = given.dtype
    half, one = out.full(0.5, dtype), out.full(1, dtype)
    if approximate == "tanh":
        cube = out.binary("multiply", out.binary("multiply", given, given), given)
        inner = out.binary("add", given, out.binary("multiply", cube, out.full(0.044715, dtype)))
        share = out.unary("tanh", out.binary("multiply", inner, out.full(math.sqrt(2 / math.pi), dtype)))
    else:
        share = out.unary("chlo.erf", out.binary("multiply", given, out.full(math.sqrt(0.5), dtype)))
    return out.binary("multiply", out.binary("multiply", given, half), out.binary("add", share, one))


@_of("aten::clamp")
def clamp(out: StableHloBuilder, x: object, low: object = None, high: object = None) -> Array:
    found = _result_operand(out, x)
    for op, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            found = out.binary(op, found, _result_operand(out, bound))
    return found


@_of("aten::hardtanh")
def hardtanh(out: StableHloBuilder, x: object, low: object = -1, high: object = 1) -> Array:
    return clamp(out, x, low, high)


@_of("aten::leaky_relu")
def leaky_relu(out: StableHloBuilder, x: object, slope: object = 0.01) -> Array:
    given = out.given(x)
    is_positive = out.compare("GT", given, out.full(0, given.dtype))
    return out.select(is_positive, given, out.binary("multiply", given, out.full(number(slope), given.dtype)))


@_of("aten::elu")
def elu(out: StableHloBuilder, x: object, alpha: object = 1, scale: object = 1, input_scale: object = 1) -> Array:
    given = out.given(x)
    dtype = given.dtype
    scaled = out.binary("multiply", given, out.full(number(input_scale), dtype))
    below = out.binary("multiply", out.unary("exponential_minus_one", scaled), out.full(number(alpha), dtype))
    chosen = out.select(out.compare("GT", given, out.full(0, dtype)), given, below)
    return out.binary("multiply", chosen, out.full(number(scale), dtype))


# -- comparisons and choices


def _compare(op: str, out: StableHloBuilder, a: object, b: object) -> Array:
    common = common_dtype(a, b)
    return out.compare(op, out.operand(a, common), out.operand(b, common))


_declare(_compare, "eq EQ ne NE lt LT le LE gt GT ge GE")


@_of("aten::where")
def where(out: StableHloBuilder, condition: object, a: object = None, b: object = None) -> Array:
    if a is None or b is None:
        raise EngineRefusal("how many elements it gives depends on the condition")
    return out.select(out.operand(condition, torch.bool), _result_operand(out, a), _result_operand(out, b))


@_of("aten::masked_fill")
def masked_fill(out: StableHloBuilder, x: object, mask: object, value: object) -> Array:
    return out.select(out.operand(mask, torch.bool), _result_operand(out, value), _result_operand(out, x))


def _logical(op: str, out: StableHloBuilder, a: object, b: object) -> Array:
    return out.binary(op, out.operand(a, torch.bool), out.operand(b, torch.bool))


def _by_bits(op: str, out: StableHloBuilder, a: object, b: object) -> Array:
    return out.binary(op, _result_operand(out, a), _result_operand(out, b))


_declare(_logical, "logical_and and logical_or or logical_xor xor")
_declare(_by_bits, "bitwise_and and bitwise_or or bitwise_xor xor")


@_of("aten::logical_not")
def logical_not(out: StableHloBuilder, x: object) -> Array:
    return out.unary("not", out.operand(x, torch.bool))


@_of("aten::bitwise_not")
def bitwise_not(out: StableHloBuilder, x: object) -> Array:
    return out.unary("not", out.given(x))


@_of("aten::isnan")
def isnan(out: StableHloBuilder, x: object) -> Array:
    given = out.given(x)
    return out.compare("NE", given, given)


@_of("aten::isinf")
def isinf(out: StableHloBuilder, x: object) -> Array:
    given = out.given(x)
    if not given.dtype.is_floating_point:
        raise EngineRefusal("it asks about ints")
    return out.compare("EQ", out.unary("abs", given), out.full(math.inf, given.dtype))


# -- copies, and tensors that are filled


@_of("aten::to", "aten::_to_copy", "prims::convert_element_type")
def to(out: StableHloBuilder, x: object, *options: object) -> Array:
    return _result_operand(out, x)


@_of("aten::alias", "aten::clone", "aten::detach", "aten::contiguous", "aten::lift_fresh_copy")
def alias(out: StableHloBuilder, x: object, *options: object) -> Array:
    return out.given(x)


@_of("aten::full_like")
def full_like(out: StableHloBuilder, x: object, value: object, *options: object) -> Array:
    return out.broadcast_to(_result_operand(out, value), out.given(x).dims)


@_of("aten::zeros_like")
def zeros_like(out: StableHloBuilder, x: object, *options: object) -> Array:
    return full_like(out, x, 0)


@_of("aten::ones_like")
def ones_like(out: StableHloBuilder, x: object, *options: object) -> Array:
    return full_like(out, x, 1)


@_of("aten::full")
def full(out: StableHloBuilder, sizes: object, value: object, *options: object) -> Array:
    if not isinstance(sizes, list):
        raise EngineRefusal("its sizes are not written out")
    return out.broadcast_to(_result_operand(out, value), [out.dim_of(n) for n in sizes])


@_of("aten::zeros")
def zeros(out: StableHloBuilder, sizes: object, *options: object) -> Array:
    return full(out, sizes, 0)


@_of("aten::ones")
def ones(out: StableHloBuilder, sizes: object, *options: object) -> Array:
    return full(out, sizes, 1)


@_of("aten::scalar_tensor")
def scalar_tensor(out: StableHloBuilder, value: object, *options: object) -> Array:
    return _result_operand(out, value)


@_of("aten::arange")
def arange(out: StableHloBuilder, *arguments: object) -> Array:
    bounds = list(arguments[:-4])  # behind them are dtype, layout, device and pin_memory
    dtype, start = out.results[0].dtype, bounds.pop(0) if len(bounds) > 1 else 0
    end, step = [*bounds, 1][:2]
    if not isinstance(step, int | float) or step == 0:
        raise EngineRefusal("its step is no constant")
    length: Dim
    if isinstance(start, int | float) and isinstance(end, int | float):
        length = max(math.ceil((end - start) / step), 0)
    elif step == 1:
        length = out.dim_of(end) - out.dim_of(start)
        out.need(0, "<=", length)
    else:
        raise EngineRefusal("how many numbers it gives is not known")
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    numbers = out.binary("multiply", out.iota(wide, [length], 0), out.full(step, wide))
    return out.cast(out.binary("add", numbers, out.operand(start, wide)), dtype)


@_of("aten::Float")
def to_float(out: StableHloBuilder, x: object) -> Array:
    made = out.operand(x, torch.float64)
    return Array(made.name, made.dtype, 0, True)


@_of("aten::sym_size", "aten::size")
def size(out: StableHloBuilder, x: object, dim: object = None) -> Array:
    given = out.given(x)
    if not isinstance(dim, int) or not -given.rank <= dim < given.rank:
        raise EngineRefusal("it gives all sizes, or the dimension is no constant")
    return _number_of(given.dims[dim])
