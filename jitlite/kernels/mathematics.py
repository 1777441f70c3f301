"""Functions on vectors.

In f32 the commonest are polynomials of our own. Errors against torch's values in f64, over dense samples of all
magnitudes, in units of the last place: exp 1.1, log 0.9, tanh 1.4, sigmoid 2.5, erf 1.2. At infinities, zeros and NaN
they are torch's. All others are SLEEF's, which libtorch_cpu exports and torch's own vectors call.

Coefficients are of weighted least squares at 1200 Chebyshev nodes, the weights changed sixty times towards an even
error, in doubles; then rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jitlite.kernels.loop_ir import F32, DType
from jitlite.kernels.target import function_lanes
from jitlite.kernels.torch_abi import symbol
from jitlite.kernels.vectors import Vectors
from jitlite.native.code import NotNative

# -- SLEEF

_PRECISION = {"fmod": "", "erfc": "_u15", "hypot": "_u05", "sin": "_u35", "cos": "_u35"}
"""The ends of names; most are `_u10`, within one unit of the last place."""


def sleef(v: Vectors, name: str, dtype: DType, *operands: str) -> str:
    """Call one of SLEEF's functions.

    Raises:
        NotNative: where libtorch has none for vectors of this machine.
    """
    end = _PRECISION.get(name, "_u10")
    if dtype is not F32 and name in ("sin", "cos"):
        end = "_u10"
    count = function_lanes(v.target, dtype.bytes)
    address = symbol(f"Sleef_{name}{'f' if dtype is F32 else 'd'}{count}{end}") if count else None
    if address is None:
        raise NotNative(f"there is no {name} of {count} {dtype}")
    return v.call_by_parts(address, count, dtype, operands)


def called(name: str) -> Callable[..., str]:
    """SLEEF's function of this name, as an operator."""

    def emit(v: Vectors, d: DType, *operands: str) -> str:
        return sleef(v, name, d, *operands)

    return emit


# -- parts


def _multiply_add(v: Vectors, d: DType, a: str, b: str, c: str) -> str:
    return v.intrinsic("fmuladd", d, a, b, c)


def _polynomial(v: Vectors, d: DType, x: str, coefficients: Sequence[float]) -> str:
    """The sum of coefficient i times x to the i."""
    found = v.constant(d, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        found = _multiply_add(v, d, found, x, v.constant(d, c))
    return found


def _at_most(v: Vectors, d: DType, x: str, bound: float) -> str:
    """The number, or the bound if that is less; NaN stays NaN."""
    limit = v.constant(d, bound)
    return v.select(d, v.compare("ogt", d, x, limit), limit, x)


def _at_least(v: Vectors, d: DType, x: str, bound: float) -> str:
    limit = v.constant(d, bound)
    return v.select(d, v.compare("olt", d, x, limit), limit, x)


def _with_sign(v: Vectors, d: DType, x: str, sign: str) -> str:
    return v.intrinsic("copysign", d, x, sign)


# -- f32


_EXP = (0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.008368715643882751, 0.0013814599951729178)
"""(exp(r) - 1 - r) / r² for |r| < 0.3466."""
_LOG = (
    0.3333333134651184, -0.250008225440979, 0.20001226663589478, -0.16623356938362122, 0.14201761782169342,
    -0.131601944565773, 0.12761549651622772, -0.07634429633617401,
)  # fmt: skip
"""(log(1 + t) - t + t² / 2) / t³ for 1 + t from the root of 1/2 to the root of 2."""
_TANH = (-0.33333298563957214, 0.13331924378871918, -0.053783826529979706, 0.02079596370458603, -0.005895150359719992)
"""(tanh(x) / x - 1) / x² as a polynomial in x², for |x| < 0.6."""
_ERF = (
    0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853810995817184, 0.005188327748328447,
    -0.0008010192541405559, 7.853857823647559e-05,
)  # fmt: skip
"""erf(x) / x - 1 as a polynomial in x², for |x| < 1."""
_ERFC = (
    0.0002447135921102017, 1.1274750232696533, 0.6375170350074768, 0.10364032536745071, -0.022087642922997475,
    0.003008537460118532, -0.00019242607231717557,
)  # fmt: skip
"""-log(1 - erf(x)) for x from 0.95 to 4."""

_MAGIC = 12582912.0
"""1.5 * 2²³: a sum with it has no bits behind the point, so it is rounded to a whole number."""
_MAGIC_BITS = 0x4B400000
_LN2 = (0.693145751953125, 1.42860682030941723212e-6)
"""The logarithm of 2 as a number of few bits, whose products with small whole numbers are exact, and the rest."""


def _exp_parts(v: Vectors, d: DType, x: str) -> tuple[str, str]:
    """A whole number n, as an int, and exp(r) - 1 where x = n log(2) + r."""
    shifted = _multiply_add(v, d, x, v.constant(d, math.log2(math.e)), v.constant(d, _MAGIC))
    n = v.binary("fsub", d, shifted, v.constant(d, _MAGIC))
    r = x
    for part in _LN2:
        r = _multiply_add(v, d, n, v.constant(d, -part), r)
    square = v.binary("fmul", d, r, r)
    whole = v.code.value(f"sub {v.vector('i32')} {v.bits(d, shifted)}, splat (i32 {_MAGIC_BITS})")
    return whole, _multiply_add(v, d, square, _polynomial(v, d, r, _EXP), r)


def _power_of_two(v: Vectors, d: DType, n: str) -> str:
    ints = v.vector("i32")
    biased = v.code.value(f"add {ints} {n}, splat (i32 127)")
    return v.from_bits(d, v.code.value(f"shl {ints} {biased}, splat (i32 23)"))


def _exp(v: Vectors, d: DType, x: str) -> str:
    """Two factors of half the exponent each: one power of two alone may be no f32 where the result is."""
    n, part = _exp_parts(v, d, _at_most(v, d, _at_least(v, d, x, -105.0), 89.0))
    ints = v.vector("i32")
    half = v.code.value(f"ashr {ints} {n}, splat (i32 1)")
    rest = v.code.value(f"sub {ints} {n}, {half}")
    first = _power_of_two(v, d, half)
    return v.binary("fmul", d, _multiply_add(v, d, part, first, first), _power_of_two(v, d, rest))


def _exp_within(v: Vectors, d: DType, x: str) -> str:
    """exp(x) where it is neither tiny nor huge."""
    n, part = _exp_parts(v, d, x)
    scale = _power_of_two(v, d, n)
    return _multiply_add(v, d, part, scale, scale)


def _sigmoid(v: Vectors, d: DType, x: str) -> str:
    one = v.constant(d, 1)
    return v.binary("fdiv", d, one, v.binary("fadd", d, one, exp(v, d, v.negate(d, x))))


def _tanh(v: Vectors, d: DType, x: str) -> str:
    size, square = v.intrinsic("fabs", d, x), v.binary("fmul", d, x, x)
    small = v.binary("fmul", d, _polynomial(v, d, square, _TANH), square)
    small = _multiply_add(v, d, small, size, size)
    twice, one = v.binary("fmul", d, size, v.constant(d, 2)), v.constant(d, 1)
    below = v.binary("fadd", d, _exp_within(v, d, _at_most(v, d, twice, 40.0)), one)
    large = v.binary("fsub", d, one, v.binary("fdiv", d, v.constant(d, 2), below))
    found = v.select(d, v.compare("olt", d, size, v.constant(d, 0.55)), small, large)
    return _with_sign(v, d, found, x)


def _log(v: Vectors, d: DType, x: str) -> str:
    """x = m * 2**e with m from the root of 1/2 to the root of 2."""
    ints = v.vector("i32")
    is_tiny = v.compare("olt", d, x, v.constant(d, 2.0**-126))
    normal = v.select(d, is_tiny, v.binary("fmul", d, x, v.constant(d, 2.0**25)), x)
    root = 0x3F3504F3
    above = v.code.value(f"sub {ints} {v.bits(d, normal)}, splat (i32 {root})")
    exponent = v.convert("sitofp", "i32", v.code.value(f"ashr {ints} {above}, splat (i32 23)"), d.lane)
    shift = v.select(d, is_tiny, v.constant(d, -25), v.constant(d, 0))
    exponent = v.binary("fadd", d, exponent, shift)
    mantissa = v.code.value(f"and {ints} {above}, splat (i32 {(1 << 23) - 1})")
    mantissa = v.from_bits(d, v.code.value(f"add {ints} {mantissa}, splat (i32 {root})"))
    t = v.binary("fsub", d, mantissa, v.constant(d, 1))
    square = v.binary("fmul", d, t, t)
    rest = v.binary("fmul", d, v.binary("fmul", d, _polynomial(v, d, t, _LOG), t), square)
    rest = _multiply_add(v, d, square, v.constant(d, -0.5), rest)
    rest = _multiply_add(v, d, exponent, v.constant(d, _LN2[1]), rest)
    found = _multiply_add(v, d, exponent, v.constant(d, _LN2[0]), v.binary("fadd", d, rest, t))
    found = v.select(d, v.compare("olt", d, x, v.constant(d, math.inf)), found, x)
    found = v.select(d, v.compare("oeq", d, x, v.constant(d, 0)), v.constant(d, -math.inf), found)
    return v.select(d, v.compare("olt", d, x, v.constant(d, 0)), v.constant(d, math.nan), found)


def _erf(v: Vectors, d: DType, x: str) -> str:
    size, square = v.intrinsic("fabs", d, x), v.binary("fmul", d, x, x)
    small = _multiply_add(v, d, _polynomial(v, d, square, _ERF), size, size)
    logarithm = _polynomial(v, d, _at_most(v, d, size, 4.0), _ERFC)
    large = v.binary("fsub", d, v.constant(d, 1), _exp_within(v, d, v.negate(d, logarithm)))
    found = v.select(d, v.compare("olt", d, size, v.constant(d, 1)), small, large)
    return _with_sign(v, d, found, x)


_OWN: dict[str, Callable[..., str]] = {"exp": _exp, "log": _log, "tanh": _tanh, "erf": _erf}


def _best(name: str) -> Callable[..., str]:
    """Our own function in f32, SLEEF's in f64."""
    own = _OWN[name]

    def emit(v: Vectors, d: DType, x: str) -> str:
        return own(v, d, x) if d is F32 else sleef(v, name, d, x)

    return emit


exp, _tanh_of, _erf_of = _best("exp"), _best("tanh"), _best("erf")

# -- activations


def _silu(v: Vectors, d: DType, x: str) -> str:
    below = v.binary("fadd", d, v.constant(d, 1), exp(v, d, v.negate(d, x)))
    return v.binary("fdiv", d, x, below)


def _gelu(v: Vectors, d: DType, x: str) -> str:
    inner = _erf_of(v, d, v.binary("fmul", d, x, v.constant(d, math.sqrt(0.5))))
    half = v.binary("fmul", d, x, v.constant(d, 0.5))
    return v.binary("fmul", d, half, v.binary("fadd", d, v.constant(d, 1), inner))


def _gelu_tanh(v: Vectors, d: DType, x: str) -> str:
    cube = v.binary("fmul", d, v.binary("fmul", d, x, x), x)
    inner = v.binary("fadd", d, x, v.binary("fmul", d, v.constant(d, 0.044715), cube))
    inner = v.binary("fmul", d, v.constant(d, math.sqrt(2 / math.pi)), inner)
    half = v.binary("fmul", d, x, v.constant(d, 0.5))
    return v.binary("fmul", d, half, v.binary("fadd", d, v.constant(d, 1), _tanh_of(v, d, inner)))


FUNCTIONS: dict[str, Callable[..., str]] = {
    **{name: _best(name) for name in _OWN},
    **{
        name: called(name)
        for name in (
            "exp2", "expm1", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan",
            "atanh", "erfc",
        )
    },
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
}  # fmt: skip
"""Functions of one number, by name: `emit(vectors, dtype, x)`."""
