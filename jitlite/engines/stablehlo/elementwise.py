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


def result_operand(out: StableHloBuilder, x: object) -> Array:
    return out.operand(x, out.results[0].dtype)


def _unary(op: str, out: StableHloBuilder, x: object) -> Array:
    given = result_operand(out, x)
    if given.dtype is torch.bool:
        raise EngineRefusal("it is arithmetic on bools")
    return out.unary(op, given)


def _rounded(op: str, out: StableHloBuilder, x: object) -> Array:
    """Of ints, rounding is the identity."""
    given = result_operand(out, x)
    return out.unary(op, given) if given.dtype.is_floating_point else given


_declare(
    _unary,
    "neg negate abs abs exp exponential expm1 exponential_minus_one log log log1p log_plus_one tanh tanh "
    "sigmoid logistic sqrt sqrt rsqrt rsqrt erf chlo.erf sinh chlo.sinh cosh chlo.cosh "
    "asin chlo.asin acos chlo.acos atan chlo.atan asinh chlo.asinh acosh chlo.acosh atanh chlo.atanh erfc chlo.erfc",
)
_declare(_rounded, "floor floor ceil ceil round round_nearest_even")


_FARTHEST_ANGLE = 1e9
"""Up to here the rest of a division by a full turn, in float64, has all digits of float32."""


def _periodic(op: str, out: StableHloBuilder, x: object) -> Array:
    """IREE computes it well near 0 only, so it is given what is left of the angle without full turns."""
    given = result_operand(out, x)
    if not out.for_iree or given.dtype is not torch.float32:
        return out.unary(op, given)
    size, wide = out.unary("abs", given), out.cast(given, torch.float64)
    too_far = out.compare("GT", size, out.full(_FARTHEST_ANGLE, given.dtype))
    too_far = out.binary("and", too_far, out.compare("LT", size, out.full(math.inf, given.dtype)))
    out.all_true(out.unary("not", too_far), "an angle is very large")
    turns = out.unary("round_nearest_even", out.binary("divide", wide, out.full(math.tau, wide.dtype)))
    rest = out.binary("subtract", wide, out.binary("multiply", turns, out.full(math.tau, wide.dtype)))
    return out.unary(op, out.cast(rest, given.dtype))


_declare(_periodic, "sin sine cos cosine tan tan")


@_of("aten::trunc")
def trunc(out: StableHloBuilder, x: object) -> Array:
    given = result_operand(out, x)
    if not given.dtype.is_floating_point:
        return given
    return towards_zero(out, given)


def towards_zero(out: StableHloBuilder, x: Array) -> Array:
    is_negative = out.compare("LT", x, out.full(0, x.dtype))
    return out.select(is_negative, out.unary("ceil", x), out.unary("floor", x))


def _scaled_log(base: float, out: StableHloBuilder, x: object) -> Array:
    given = result_operand(out, x)
    return out.binary("multiply", out.unary("log", given), out.full(1 / math.log(base), given.dtype))


_of("aten::log2")(partial(_scaled_log, 2))
_of("aten::log10")(partial(_scaled_log, 10))


@_of("aten::exp2")
def exp2(out: StableHloBuilder, x: object) -> Array:
    given = result_operand(out, x)
    return out.unary("exponential", out.binary("multiply", given, out.full(math.log(2), given.dtype)))


@_of("aten::reciprocal")
def reciprocal(out: StableHloBuilder, x: object) -> Array:
    given = result_operand(out, x)
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
    given = result_operand(out, value)
    if not isinstance(factor, Array) and factor == 1:
        return given
    return out.binary("multiply", given, result_operand(out, factor))


@_of("aten::add")
def add(out: StableHloBuilder, a: object, b: object, alpha: object = 1) -> Array:
    if ints := _of_ints(out, a, b):
        return _number_of(ints[0] + ints[1])
    if out.results[0].dtype is torch.bool and alpha not in (1, True):
        raise EngineRefusal("it is arithmetic on bools")
    op = "or" if out.results[0].dtype is torch.bool else "add"
    return out.binary(op, result_operand(out, a), _scaled(out, b, alpha))


@_of("aten::sub")
def sub(out: StableHloBuilder, a: object, b: object, alpha: object = 1) -> Array:
    if ints := _of_ints(out, a, b):
        return _number_of(ints[0] - ints[1])
    return out.binary("subtract", result_operand(out, a), _scaled(out, b, alpha))


@_of("aten::rsub")
def rsub(out: StableHloBuilder, a: object, b: object, alpha: object = 1) -> Array:
    return out.binary("subtract", result_operand(out, b), _scaled(out, a, alpha))


@_of("aten::mul")
def mul(out: StableHloBuilder, a: object, b: object) -> Array:
    if ints := _of_ints(out, a, b):
        return _number_of(ints[0] * ints[1])
    op = "and" if out.results[0].dtype is torch.bool else "multiply"
    return out.binary(op, result_operand(out, a), result_operand(out, b))


@_of("aten::floordiv")
def floordiv(out: StableHloBuilder, a: object, b: object) -> Array:
    ints = _of_ints(out, a, b)
    if ints is None or not isinstance(ints[1], int) or ints[1] < 1:
        raise EngineRefusal("it divides by what is no constant, or less than 1")
    return _number_of(ints[0] // ints[1])


@_of("aten::atan2")
def atan2(out: StableHloBuilder, a: object, b: object) -> Array:
    if not out.results[0].dtype.is_floating_point:
        raise EngineRefusal("it gives ints")
    y, x = result_operand(out, a), result_operand(out, b)
    if not out.for_iree:
        return out.binary("atan2", y, x)
    # IREE has no angle of two infinite numbers, and of 0 and -0 the same.
    size, infinity = out.unary("abs", y), out.full(math.inf, y.dtype)
    both = out.binary("and", out.compare("EQ", size, infinity), out.compare("EQ", out.unary("abs", x), infinity))
    one = out.full(1, y.dtype)
    found = out.binary("atan2", out.select(both, one, size), out.select(both, out.unary("sign", x), x))
    zero = out.full(0, y.dtype)
    at_0 = out.select(is_negative(out, x), out.full(math.pi, y.dtype), zero)
    is_straight = out.binary("and", out.compare("EQ", size, zero), out.compare("EQ", x, x))
    found = out.select(is_straight, at_0, found)
    return out.select(is_negative(out, y), out.unary("negate", found), found)


def is_negative(out: StableHloBuilder, x: Array) -> Array:
    """Is its sign that of -1? That of -0 is."""
    zero = out.full(0, x.dtype)
    inverse = out.binary("divide", out.full(1, x.dtype), x)
    return out.binary("or", out.compare("LT", x, zero), out.compare("LT", inverse, zero))


def _extremum(op: str, out: StableHloBuilder, a: object, b: object) -> Array:
    return out.binary(op, result_operand(out, a), result_operand(out, b))


_declare(_extremum, "maximum maximum minimum minimum")


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
    found = result_operand(out, x)
    for op, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            found = out.binary(op, found, result_operand(out, bound))
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
    return out.select(out.operand(condition, torch.bool), result_operand(out, a), result_operand(out, b))


@_of("aten::masked_fill")
def masked_fill(out: StableHloBuilder, x: object, mask: object, value: object) -> Array:
    return out.select(out.operand(mask, torch.bool), result_operand(out, value), result_operand(out, x))


def _logical(op: str, out: StableHloBuilder, a: object, b: object) -> Array:
    return out.binary(op, out.operand(a, torch.bool), out.operand(b, torch.bool))


def _by_bits(op: str, out: StableHloBuilder, a: object, b: object) -> Array:
    return out.binary(op, result_operand(out, a), result_operand(out, b))


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
        return out.full(0, torch.bool, given.dims)
    return out.compare("EQ", out.unary("abs", given), out.full(math.inf, given.dtype))


# -- copies, and tensors that are filled


@_of("aten::to", "aten::_to_copy", "prims::convert_element_type")
def to(out: StableHloBuilder, x: object, *options: object) -> Array:
    return result_operand(out, x)


@_of("aten::alias", "aten::clone", "aten::detach", "aten::contiguous", "aten::lift_fresh_copy")
def alias(out: StableHloBuilder, x: object, *options: object) -> Array:
    return out.given(x)


@_of("aten::full_like")
def full_like(out: StableHloBuilder, x: object, value: object, *options: object) -> Array:
    return out.broadcast_to(result_operand(out, value), out.given(x).dims)


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
    return out.broadcast_to(result_operand(out, value), [out.dim_of(n) for n in sizes])


@_of("aten::zeros")
def zeros(out: StableHloBuilder, sizes: object, *options: object) -> Array:
    return full(out, sizes, 0)


@_of("aten::empty")
def empty(out: StableHloBuilder, sizes: object, *options: object) -> Array:
    """What is in it is not to be read; zeros are as good as all else."""
    return full(out, sizes, 0)


@_of("aten::ones")
def ones(out: StableHloBuilder, sizes: object, *options: object) -> Array:
    return full(out, sizes, 1)


@_of("aten::scalar_tensor")
def scalar_tensor(out: StableHloBuilder, value: object, *options: object) -> Array:
    return result_operand(out, value)


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
