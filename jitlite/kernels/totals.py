"""Reductions: sums, means, extremes, and what is made of them (softmax, norms)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.elementwise import cast, custom, elementwise, floating
from jitlite.kernels.factories import dtype_argument
from jitlite.kernels.loop_ir import BF16, BOOL, I64, U8, DType, Fill, Lane, LaneOperator, Operand, Place, Reduce
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.pointwise import larger_or_smaller
from jitlite.kernels.rules import Call, normalized, rule
from jitlite.kernels.values import TensorValue, Value, identity, is_one
from jitlite.native.code import NotNative


def reduced(
    builder: KernelBuilder, op: str, value: TensorValue, dims: Sequence[int], keep: bool, dtype: DType | None = None
) -> TensorValue:
    """A tensor reduced over some dimensions."""
    return _reduced(builder, op, value, dims, keep, dtype, None)[0]


def _reduced(
    builder: KernelBuilder,
    op: str,
    value: TensorValue,
    dims: Sequence[int],
    keep: bool,
    dtype: DType | None,
    with_index: object,
) -> tuple[TensorValue, TensorValue | None]:
    _check_order(value, dims)
    full = _with_ones(value.sizes, dims)
    order = [d for d in range(value.rank) if d not in dims] + sorted(dims)
    nest = NestBuilder(builder, value.sizes, order)
    lane = nest.lane(value)
    made = builder.alloc(dtype or value.dtype, full)
    index = builder.alloc(I64, full) if with_index else None
    inner = frozenset(i for i, d in enumerate(nest.dims) if d in dims)
    places = [None if p is None else _single(nest.strides(p), inner) for p in (made, index)]
    assert places[0] is not None
    builder.write(Reduce(nest.strides(made).sizes, inner, op, lane, places[0], places[1]))
    return _shaped(made, dims, keep), None if index is None else _shaped(index, dims, keep)


def _check_order(value: TensorValue, dims: Sequence[int]) -> None:
    if not value.in_order and len(value.order) > 1 and len(set(value.order) - set(dims)) > 1:
        raise NotNative("a tensor is reduced whose dimensions lie in another order")


def _single(place: Place, dims: frozenset[int]) -> Place:
    """A place that has one element along some dimensions."""
    return Place(place.buffer, place.offset, _with_ones(place.sizes, dims), place.strides)


def _with_ones(sizes: Sequence[Operand], dims: Collection[int]) -> tuple[Operand, ...]:
    """The sizes after a reduction that keeps its dimensions."""
    return tuple(1 if d in dims else size for d, size in enumerate(sizes))


def _shaped(place: Place, dims: Sequence[int], keep: bool) -> TensorValue:
    if not keep:
        kept = [d for d in range(place.rank) if d not in dims]
        sizes, strides = tuple(place.sizes[d] for d in kept), tuple(place.strides[d] for d in kept)
        place = Place(place.buffer, place.offset, sizes, strides)
    return TensorValue(place.dtype, place.sizes, identity(place.sizes), place)


def dims_of(call: Call, value: TensorValue, name: str = "dim") -> list[int]:
    """The dimensions that an operator reduces: all where it names none."""
    asked = call.constant(name) if call.has(name) else None
    if asked is None or asked == []:
        return list(range(value.rank))
    dims = [normalized(d, value.rank) for d in (asked if isinstance(asked, list) else [asked])]
    if len(set(dims)) != len(dims):
        raise NotNative("a dimension is reduced twice")
    return [d for d in dims if d < value.rank]


def _keeps(call: Call) -> bool:
    return bool(call.has("keepdim") and call.constant("keepdim"))


def _not_empty(call: Call, value: TensorValue, dims: Sequence[int]) -> None:
    lowering = call.lowering
    for d in dims:
        if not is_one(value.sizes[d]):
            lowering.check(lowering.index("lt", 0, value.sizes[d]), "there are no elements to choose from")


@rule("aten::sum", "aten::prod")
def total(call: Call) -> Value:
    value = call.first()
    wanted = dtype_argument(call)
    dtype = wanted or (value.dtype if value.dtype.is_float else I64)
    dims = dims_of(call, value)
    if call.narrow is BF16 and call.name == "prod":
        raise NotNative("prod of bf16, which torch rounds after each element")
    return reduced(call.lowering, call.name, cast(call.lowering, value, dtype), dims, _keeps(call), dtype)


@rule("aten::mean")
def mean(call: Call) -> Value:
    value = call.first()
    dtype = floating(dtype_argument(call) or value.dtype)
    return averaged(call.lowering, cast(call.lowering, value, dtype), dims_of(call, value), _keeps(call))


def count_of(builder: KernelBuilder, value: TensorValue, dims: Sequence[int]) -> Operand:
    """How many elements are reduced to one."""
    return builder.numel([value.sizes[d] for d in dims])


def averaged(builder: KernelBuilder, value: TensorValue, dims: Sequence[int], keep: bool) -> TensorValue:
    """The mean over some dimensions."""
    found = reduced(builder, "sum", value, dims, keep)
    return elementwise(builder, "div", [found, count_of(builder, value, dims)], value.dtype)


@rule("aten::var", "aten::std")
def variance(call: Call) -> Value:
    return varied(call, call.first(), is_root=call.name == "std")


def varied(call: Call, value: TensorValue, *, is_root: bool) -> TensorValue:
    """The variance that an operator asks for, or its root."""
    lowering = call.lowering
    floating(value.dtype)
    dims = dims_of(call, value)
    correction: object = 1
    if call.has("unbiased"):
        correction = int(bool(call.constant("unbiased")))
    elif call.has("correction"):
        given = call.constant("correction")
        correction = 1 if given is None else given
    if type(correction) is not int or correction not in (0, 1):
        raise NotNative("var with such a correction")
    count = count_of(lowering, value, dims)
    lowering.check(lowering.index("lt", correction, count), "var of too few elements")
    found = spread(lowering, value, dims, _keeps(call), lowering.index("sub", count, correction))
    return elementwise(lowering, "sqrt", [found], value.dtype) if is_root else found


def spread(
    builder: KernelBuilder,
    value: TensorValue,
    dims: Sequence[int],
    keep: bool,
    divisor: Operand,
    mean: TensorValue | None = None,
) -> TensorValue:
    """The sum of squared distances from the mean, divided."""
    builder.force(value)
    middle = averaged(builder, value, dims, True) if mean is None else mean
    builder.force(middle)
    away = elementwise(builder, "sub", [value, middle], value.dtype)
    squares = reduced(builder, "sum", elementwise(builder, "mul", [away, away], value.dtype), dims, keep)
    return elementwise(builder, "div", [squares, divisor], value.dtype)


@rule("aten::amax", "aten::amin")
def extreme(call: Call) -> Value:
    value = call.first()
    dims = dims_of(call, value)
    _not_empty(call, value, dims)
    return reduced(call.lowering, call.name, value, dims, _keeps(call))


@rule("aten::max", "aten::min", narrow=Narrow.PROMOTED)
def extremes(call: Call) -> Value:
    value = call.first()
    if call.has("other"):
        other = call.tensor("other")
        return larger_or_smaller(call, "maximum" if call.name == "max" else "minimum", value, other)
    op = f"a{call.name}"
    if not call.has("dim"):
        _not_empty(call, value, range(value.rank))
        return reduced(call.lowering, op, value, range(value.rank), False)
    dims = dims_of(call, value)
    _not_empty(call, value, dims)
    found, index = _reduced(call.lowering, op, value, dims, _keeps(call), None, True)
    return [found, index]


@rule("aten::aminmax")
def both_extremes(call: Call) -> Value:
    value = call.first()
    dims = dims_of(call, value)
    _not_empty(call, value, dims)
    return [reduced(call.lowering, op, value, dims, _keeps(call)) for op in ("amin", "amax")]


@rule("aten::count_nonzero")
def count_nonzero(call: Call) -> Value:
    value = cast(call.lowering, cast(call.lowering, call.first(), BOOL), I64)
    return reduced(call.lowering, "sum", value, dims_of(call, value), False, I64)


@rule("aten::trace")
def trace(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    if value.rank != 2:
        raise NotNative("the trace of what is no matrix")
    place = lowering.force(value)
    length, stride = lowering.index("min", *place.sizes), lowering.index("add", *place.strides)
    diagonal = TensorValue(value.dtype, (length,), (0,), Place(place.buffer, place.offset, (length,), (stride,)))
    dtype = value.dtype if value.dtype.is_float else I64
    return reduced(lowering, "sum", cast(lowering, diagonal, dtype), [0], False, dtype)


@rule("aten::argmax", "aten::argmin")
def argument(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    dims = dims_of(call, value)
    _not_empty(call, value, dims)
    if len(dims) > 1:
        if call.constant("dim") is not None or not value.in_order or _keeps(call):
            raise NotNative("argmax of all elements that lie in another order")
        flat = _flat(lowering, value)
        return reduced(lowering, call.name, flat, [0], False, I64)
    return reduced(lowering, call.name, value, dims, _keeps(call), I64)


def _flat(builder: KernelBuilder, value: TensorValue) -> TensorValue:
    place = builder.force(value)
    if not builder.is_contiguous(place):
        copy = builder.memory(value.dtype, value.sizes)
        assert copy.place is not None
        builder.copy(value, copy.place)
        place = copy.place
    sizes = (builder.numel(value.sizes),)
    found = Place(place.buffer, place.offset, sizes, builder.strides_of(sizes))
    return TensorValue(value.dtype, sizes, identity(sizes), found)


@rule("aten::any", "aten::all")
def any_or_all(call: Call) -> Value:
    value = call.first()
    dims = dims_of(call, value)
    found = reduced(call.lowering, call.name, cast(call.lowering, value, BOOL), dims, _keeps(call), BOOL)
    return found if call.narrow is not U8 else cast(call.lowering, found, value.dtype)  # bools were bytes once


# -- softmax


@rule("aten::softmax", "aten::_softmax", "aten::log_softmax", "aten::_log_softmax")
def softmax(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    if call.has("half_to_float"):
        call.default("half_to_float", False)
    dtype = floating(dtype_argument(call) or value.dtype)
    value = cast(lowering, value, dtype)
    dims = [d for d in [call.dim("dim", value.rank)] if d < value.rank]
    if not value.in_order:
        raise NotNative("softmax of a tensor that lies in another order")
    if "log" in call.name:
        return log_softmaxed(call, value, dims)
    away = _below_most(lowering, value, dims)
    raised = elementwise(lowering, "exp", [away], dtype)
    lowering.force(raised)
    total = reduced(lowering, "sum", raised, dims, True)
    return elementwise(lowering, "div", [raised, total], dtype)


def _below_most(builder: KernelBuilder, value: TensorValue, dims: Sequence[int]) -> TensorValue:
    """How far the elements are from the largest one."""
    for d in dims:
        if not is_one(value.sizes[d]):
            builder.check(builder.index("lt", 0, value.sizes[d]), "softmax of no elements")
    builder.force(value)
    most = reduced(builder, "amax", value, dims, True)
    return elementwise(builder, "sub", [value, most], value.dtype)


def log_softmaxed(call: Call, value: TensorValue, dims: Sequence[int]) -> TensorValue:
    """The logarithm of softmax, over at most one dimension. That along rows rounds sums and their logarithms."""
    builder = call.lowering
    away, dtype = _below_most(builder, value, dims), value.dtype
    total = reduced(builder, "sum", elementwise(builder, "exp", [away], dtype), dims, True)
    is_along_rows = all(is_one(size) for d in dims for size in value.sizes[d + 1 :])
    total = call.rounded(total) if is_along_rows else total
    logarithm = elementwise(builder, "log", [total], dtype)
    logarithm = call.rounded(logarithm) if is_along_rows else logarithm
    builder.force(logarithm)
    return elementwise(builder, "sub", [away, logarithm], dtype)


@rule("aten::logsumexp")
def logsumexp(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    floating(value.dtype)
    dims = dims_of(call, value)
    _not_empty(call, value, dims)
    lowering.force(value)
    most = reduced(lowering, "amax", value, dims, True)

    def finite(nest: NestBuilder) -> Lane:
        lane = nest.lane(most)
        return LaneOperator(
            value.dtype, "where", (LaneOperator(BOOL, "isfinite", (lane,)), lane, Fill(value.dtype, 0.0))
        )

    held = custom(lowering, value.dtype, [most], finite)
    lowering.force(held)
    away = call.rounded(elementwise(lowering, "sub", [value, held], value.dtype))
    raised = call.rounded(elementwise(lowering, "exp", [away], value.dtype))
    total = call.rounded(reduced(lowering, "sum", raised, dims, True))
    logarithm = call.rounded(elementwise(lowering, "log", [total], value.dtype))
    found = elementwise(lowering, "add", [logarithm, held], value.dtype)
    if _keeps(call):
        return found
    return _shaped(lowering.force(found), dims, False)


# -- norms


def last_dims(call: Call, value: TensorValue) -> list[int]:
    """The dimensions that a norm is over."""
    shape = call.numbers("normalized_shape")
    if len(shape) > value.rank or not shape:
        raise NotNative("a norm over more dimensions than there are")
    dims = list(range(value.rank - len(shape), value.rank))
    for d, size in zip(dims, shape, strict=True):
        call.lowering.require_equal(value.sizes[d], size, "a norm over another shape")
    return dims


def norm_parameter(call: Call, value: TensorValue, dims: Sequence[int], name: str) -> TensorValue | None:
    """A weight or bias with an element for each one of a row, None where there is none."""
    if not call.has(name) or call.get(name) is None:
        return None
    found = call.tensor(name)
    if found.dtype is not value.dtype or found.rank != len(dims):
        raise NotNative("a norm with a weight of another dtype or rank")
    for d, size in zip(dims, found.sizes, strict=True):
        call.lowering.require_equal(size, value.sizes[d], "a norm with a weight of another shape")
    return found


@rule("aten::layer_norm")
def layer_norm(call: Call) -> Value:
    return layer_normed(call)[0]


def layer_normed(call: Call) -> list[TensorValue]:
    """What a layer norm gives, the mean of each row, and the reciprocal of its standard deviation."""
    value, lowering = call.first(), call.lowering
    dtype = floating(value.dtype)
    dims = last_dims(call, value)
    weight, bias = norm_parameter(call, value, dims, "weight"), norm_parameter(call, value, dims, "bias")
    if not value.in_order:
        raise NotNative("a norm of a tensor that lies in another order")
    mean = averaged(lowering, value, dims, True)
    var = spread(lowering, value, dims, True, count_of(lowering, value, dims), mean)
    scale = elementwise(lowering, "rsqrt", [elementwise(lowering, "add", [var, call.number("eps")], dtype)], dtype)
    lowering.force(scale)
    found = elementwise(lowering, "mul", [elementwise(lowering, "sub", [value, mean], dtype), scale], dtype)
    if weight is not None:
        found = elementwise(lowering, "mul", [found, weight], dtype)
    if bias is not None:
        found = elementwise(lowering, "add", [found, bias], dtype)
    return [found, mean, scale]
