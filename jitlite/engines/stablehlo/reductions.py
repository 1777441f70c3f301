"""Reductions, softmax and normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch

from jitlite.engines.converters import number
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder, accumulated_in, axis_of
from jitlite.engines.stablehlo.literals import tensor_type
from jitlite.engines.stablehlo.sizes import Dim, least, product

_of = CONVERTERS.of


def _axes(x: Array, dims: object) -> list[int]:
    """The dimensions that are reduced: all, where none are named."""
    wanted = [dims] if isinstance(dims, int) else dims
    if wanted is None or wanted == []:
        return list(range(x.rank))
    if not isinstance(wanted, list | tuple):
        raise EngineRefusal("the dimensions that it reduces are no constants")
    return [] if x.rank == 0 else sorted({axis_of(d, x.rank) for d in wanted})


def _kept(out: StableHloBuilder, x: Array, axes: Sequence[int], reduced: Array, keep: object) -> Array:
    """The result, with sizes of 1 for what was reduced if these are kept."""
    return out.reshape(reduced, [1 if d in axes else n for d, n in enumerate(x.dims)]) if keep else reduced


def _back(out: StableHloBuilder, x: Array, axes: Sequence[int], reduced: Array) -> Array:
    """What was reduced, for each element of `x`."""
    return out.broadcast_to(reduced, x.dims, [d for d in range(x.rank) if d not in axes])


def _count(out: StableHloBuilder, x: Array, axes: Sequence[int], less: float = 0) -> Array:
    """How many elements are reduced to one, as an element of the dtype."""
    found: Dim = product([x.dims[d] for d in axes])
    if isinstance(found, int):
        return out.full(found - less, x.dtype)
    counted = out.cast(out.scalar(found), x.dtype)
    return out.binary("subtract", counted, out.full(less, x.dtype)) if less else counted


def _arguments(dims: object, keep: object) -> tuple[object, object]:
    """The dimensions, and are they kept? Without dimensions, a dtype stands in the place of the second."""
    return (dims, keep) if isinstance(keep, bool) else (None, False)


@_of("aten::sum")
def sum(out: StableHloBuilder, x: object, dims: object = None, keep: object = False, dtype: object = None) -> Array:
    given = out.cast(out.given(x), accumulated_in(out.results[0].dtype))
    dims, keep = _arguments(dims, keep)
    axes = _axes(given, dims)
    reduced = out.reduce("add", given, axes, 0)
    return out.cast(_kept(out, given, axes, reduced, keep), out.results[0].dtype)


@_of("aten::mean")
def mean(out: StableHloBuilder, x: object, dims: object = None, keep: object = False, dtype: object = None) -> Array:
    given = out.cast(out.given(x), accumulated_in(out.results[0].dtype))
    dims, keep = _arguments(dims, keep)
    axes = _axes(given, dims)
    reduced = _mean_over(out, given, axes)
    return out.cast(_kept(out, given, axes, reduced, keep), out.results[0].dtype)


def _mean_over(out: StableHloBuilder, x: Array, axes: Sequence[int]) -> Array:
    return out.binary("divide", out.reduce("add", x, axes, 0), _count(out, x, axes))


@_of("aten::prod")
def prod(out: StableHloBuilder, x: object, dim: object = None, keep: object = False, dtype: object = None) -> Array:
    given = out.operand(out.given(x), out.results[0].dtype)
    dims, keep = _arguments(dim, keep)
    axes = _axes(given, dims)
    return _kept(out, given, axes, out.reduce("multiply", given, axes, 1), keep)


def lowest(dtype: torch.dtype, *, of_minimum: bool = False) -> float:
    """What the extremum of no elements is."""
    if dtype.is_floating_point:
        return math.inf if of_minimum else -math.inf
    if dtype is torch.bool:
        return int(of_minimum)
    info = torch.iinfo(dtype)
    return info.max if of_minimum else info.min


def _extremum(op: str, out: StableHloBuilder, x: object, dims: object = None, keep: object = False) -> Array:
    given = out.given(x)
    axes = _axes(given, dims)
    _need_elements(out, given, axes)
    reduced = out.reduce(op, given, axes, lowest(given.dtype, of_minimum=op == "minimum"))
    return _kept(out, given, axes, reduced, keep)


def _need_elements(out: StableHloBuilder, x: Array, axes: Sequence[int]) -> None:
    """Of no elements torch has no extremum, and raises."""
    for d in axes:
        out.need(1, "<=", x.dims[d])


_of("aten::amax")(partial(_extremum, "maximum"))
_of("aten::amin")(partial(_extremum, "minimum"))


def _extremum_and_index(
    compare: str, out: StableHloBuilder, x: object, dim: object = None, keep: object = False
) -> Sequence[Array]:
    op = "maximum" if compare == "GT" else "minimum"
    if not isinstance(dim, int):
        if dim is not None:
            raise EngineRefusal("it takes the greater of two tensors")
        return [_extremum(op, out, x)]
    return [_extremum(op, out, x, dim, keep), _index_of(compare, out, x, dim, keep)]


_of("aten::max")(partial(_extremum_and_index, "GT"))
_of("aten::min")(partial(_extremum_and_index, "LT"))


def _index_of(compare: str, out: StableHloBuilder, x: object, dim: object = None, keep: object = False) -> Array:
    """Where the extremum is, the first of several; nan counts as it."""
    given = out.given(x)
    if given.dtype is torch.bool:
        given = out.cast(given, torch.int32)
    flat = out.reshape(given, [product(given.dims)]) if dim is None else given
    if flat.rank == 0:
        return out.full(0, torch.int64)
    axis = axis_of(0 if dim is None else dim, flat.rank)
    out.need(1, "<=", flat.dims[axis])
    places = out.iota(torch.int64, flat.dims, axis)
    least_value = out.full(lowest(given.dtype, of_minimum=compare == "LT"), given.dtype)
    found = _reduce_with_places(out, compare, flat, places, least_value, axis)
    if dim is None:
        return out.reshape(found, [1] * given.rank) if keep else found
    return _kept(out, given, [axis], found, keep)


def comparison_text(compare: str, dtype: torch.dtype, *, is_nan_first: bool) -> list[str]:
    """Lines that have `%taken` say whether `%a` of the place `%i` comes before `%b` of the place `%j`.

    Of two elements that are equal, or nan both, the one of the smaller place does.

    Args:
        is_nan_first: does nan come before all numbers, or behind them?
    """
    e, kind = tensor_type(dtype, ()), "FLOAT" if dtype.is_floating_point else "SIGNED"
    if dtype in (torch.uint8, torch.bool):
        kind = "UNSIGNED"
    compared = f"{kind} : ({e}, {e}) -> tensor<i1>"
    nan, other = ("%nan_a", "%nan_b") if is_nan_first else ("%nan_b", "%nan_a")
    return [
        f"%beyond = stablehlo.compare {compare}, %a, %b, {compared}",
        f"%nan_a = stablehlo.compare NE, %a, %a, {compared}",
        f"%nan_b = stablehlo.compare NE, %b, %b, {compared}",
        f"%equal = stablehlo.compare EQ, %a, %b, {compared}",
        "%before = stablehlo.compare LT, %i, %j, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>",
        "%both = stablehlo.and %nan_a, %nan_b : tensor<i1>",
        "%same = stablehlo.or %equal, %both : tensor<i1>",
        "%first = stablehlo.and %same, %before : tensor<i1>",
        f"%is_number = stablehlo.not {other} : tensor<i1>",
        f"%only = stablehlo.and {nan}, %is_number : tensor<i1>",
        "%greater = stablehlo.or %beyond, %only : tensor<i1>",
        "%taken = stablehlo.or %greater, %first : tensor<i1>",
    ]


def _reduce_with_places(out: StableHloBuilder, compare: str, x: Array, places: Array, start: Array, axis: int) -> Array:
    none = out.full(torch.iinfo(torch.int64).max, torch.int64)
    dims = [n for d, n in enumerate(x.dims) if d != axis]
    e = tensor_type(x.dtype, ())
    body = [
        *comparison_text(compare, x.dtype, is_nan_first=True),
        f"%value = stablehlo.select %taken, %a, %b : tensor<i1>, {e}",
        "%place = stablehlo.select %taken, %i, %j : tensor<i1>, tensor<i64>",
        f"stablehlo.return %value, %place : {e}, tensor<i64>",
    ]
    results = f"({tensor_type(x.dtype, dims)}, {tensor_type(torch.int64, dims)})"
    made = out.line(
        f"stablehlo.reduce({x.name} init: {start.name}), ({places.name} init: {none.name}) across dimensions = "
        f"[{axis}] : ({x.type}, {places.type}, {e}, tensor<i64>) -> {results}\n"
        f"  reducer(%a: {e}, %b: {e}) (%i: tensor<i64>, %j: tensor<i64>) {{\n    " + "\n    ".join(body) + "\n  }",
        torch.int64, dims,
    )  # fmt: skip
    out.lines[-1] = out.lines[-1].replace(f"{made.name} =", f"{made.name}:2 =", 1)
    return Array(f"{made.name}#1", torch.int64, len(dims), dims=tuple(dims))


_of("aten::argmax")(partial(_index_of, "GT"))
_of("aten::argmin")(partial(_index_of, "LT"))


def _of_bools(
    op: str, start: int, out: StableHloBuilder, x: object, dims: object = None, keep: object = False
) -> Array:
    given = out.operand(out.given(x), torch.bool)
    axes = _axes(given, dims)
    reduced = out.reduce(op, given, axes, start)
    return out.cast(_kept(out, given, axes, reduced, keep), out.results[0].dtype)


_of("aten::any")(partial(_of_bools, "or", 0))
_of("aten::all")(partial(_of_bools, "and", 1))


@_of("aten::var")
def var(out: StableHloBuilder, x: object, dims: object = None, correction: object = 1, keep: object = False) -> Array:
    given = out.cast(out.given(x), accumulated_in(out.results[0].dtype))
    if isinstance(dims, bool) or isinstance(correction, bool):
        raise EngineRefusal("it says by a bool what it divides by")
    axes = _axes(given, dims)
    centered = out.binary("subtract", given, _back(out, given, axes, _mean_over(out, given, axes)))
    total = out.reduce("add", out.binary("multiply", centered, centered), axes, 0)
    less = 1.0 if correction is None else number(correction)
    count = out.binary("maximum", _count(out, given, axes, less), out.full(0, given.dtype))
    found = out.binary("divide", total, count)
    return out.cast(_kept(out, given, axes, found, keep), out.results[0].dtype)


# -- softmax


def _shifted(out: StableHloBuilder, x: object, dim: object) -> tuple[Array, int]:
    """The elements without the greatest along the dimension, which makes no exponential overflow."""
    given = out.operand(out.given(x), accumulated_in(out.results[0].dtype))
    if given.rank == 0:
        raise EngineRefusal("its input has no dimensions")
    axis = axis_of(dim, given.rank)
    greatest = out.reduce("maximum", given, [axis], -math.inf)
    return out.binary("subtract", given, _back(out, given, [axis], greatest)), axis


@_of("aten::_softmax", "aten::softmax")
def softmax(out: StableHloBuilder, x: object, dim: object, dtype: object = None) -> Array:
    shifted, axis = _shifted(out, x, dim)
    powers = out.unary("exponential", shifted)
    total = out.reduce("add", powers, [axis], 0)
    found = out.binary("divide", powers, _back(out, powers, [axis], total))
    return out.cast(found, out.results[0].dtype)


@_of("aten::_log_softmax", "aten::log_softmax")
def log_softmax(out: StableHloBuilder, x: object, dim: object, dtype: object = None) -> Array:
    shifted, axis = _shifted(out, x, dim)
    total = out.reduce("add", out.unary("exponential", shifted), [axis], 0)
    found = out.binary("subtract", shifted, _back(out, shifted, [axis], out.unary("log", total)))
    return out.cast(found, out.results[0].dtype)


# -- normalization


def _normalized(out: StableHloBuilder, x: Array, axes: Sequence[int], epsilon: object) -> Array:
    """With the mean 0 and the variance 1 over some dimensions."""
    centered = out.binary("subtract", x, _back(out, x, axes, _mean_over(out, x, axes)))
    spread = _mean_over(out, out.binary("multiply", centered, centered), axes)
    inverse = out.unary("rsqrt", out.binary("add", spread, out.full(number(epsilon), x.dtype)))
    return out.binary("multiply", centered, _back(out, x, axes, inverse))


def _weighted(out: StableHloBuilder, x: Array, weight: object, bias: object, at: Sequence[int]) -> Array:
    """Times a weight, plus a bias, whose dimensions are these of `x`."""
    for op, factor in (("multiply", weight), ("add", bias)):
        if factor is not None:
            given = out.operand(out.given(factor), x.dtype)
            for n, d in zip(given.dims, at, strict=True):
                out.need(n, "==", x.dims[d])
            x = out.binary(op, x, out.broadcast_to(given, x.dims, at))
    return x


@_of("aten::native_layer_norm", "aten::layer_norm")
def layer_norm(
    out: StableHloBuilder, x: object, shape: object, weight: object = None, bias: object = None,
    epsilon: object = 1e-5, *rest: object,
) -> Array:  # fmt: skip
    dtype = out.results[0].dtype
    given = out.cast(out.given(x), accumulated_in(dtype))
    if not isinstance(shape, list):
        raise EngineRefusal("what it normalizes over is not written out")
    axes = list(range(given.rank - len(shape), given.rank))
    found = _normalized(out, given, axes, epsilon)
    return out.cast(_weighted(out, found, weight, bias, axes), dtype)


@_of("aten::native_group_norm")
def group_norm(
    out: StableHloBuilder, x: object, weight: object, bias: object, batch: object, channels: object, size: object,
    groups: object, epsilon: object,
) -> Array:  # fmt: skip
    dtype = out.results[0].dtype
    given = out.cast(out.given(x), accumulated_in(dtype))
    count = out.dim_of(groups)
    if not isinstance(count, int) or count < 1 or given.rank < 2:
        raise EngineRefusal("the number of groups is not known")
    together = product(given.dims[1:])
    if least(together) is None:
        raise EngineRefusal("its sizes are not known")
    parts = out.reshape(given, [given.dims[0], count, together // count])
    found = out.reshape(_normalized(out, parts, [2], epsilon), given.dims)
    return out.cast(_weighted(out, found, weight, bias, [1]), dtype)


@_of("aten::_native_batch_norm_legit")
def instance_norm(
    out: StableHloBuilder, x: object, weight: object, bias: object, training: object, momentum: object,
    epsilon: object, *more: object,
) -> Array:  # fmt: skip
    """With the statistics of what it is given. With averages, there are two arguments more, and these are written."""
    if more or training is not True:
        raise EngineRefusal("it keeps averages")
    dtype = out.results[0].dtype
    given = out.cast(out.given(x), accumulated_in(dtype))
    found = _normalized(out, given, [d for d in range(given.rank) if d != 1], epsilon)
    return out.cast(_weighted(out, found, weight, bias, [1]), dtype)


@_of("aten::_native_batch_norm_legit_no_training")
def batch_norm(
    out: StableHloBuilder, x: object, weight: object, bias: object, average: object, variance: object,
    momentum: object, epsilon: object,
) -> Array:  # fmt: skip
    dtype = out.results[0].dtype
    given = out.cast(out.given(x), accumulated_in(dtype))
    middle = out.operand(out.given(average), given.dtype)
    spread = out.operand(out.given(variance), given.dtype)
    factor = out.unary("rsqrt", out.binary("add", spread, out.full(number(epsilon), given.dtype)))
    if weight is not None:
        factor = out.binary("multiply", factor, out.operand(out.given(weight), given.dtype))
    centered = _weighted(out, given, None, out.unary("negate", middle), [1])
    return out.cast(_weighted(out, centered, factor, bias, [1]), dtype)
