"""Operators of the backward passes of losses, tables and halves, and the loss of classes that has a second result."""

from __future__ import annotations

from collections.abc import Callable

from jitlite.kernels.activations import Lanes
from jitlite.kernels.building import NestBuilder
from jitlite.kernels.class_losses import (
    along_classes,
    class_dim,
    class_losses,
    class_weights,
    rows_with_classes,
    summed_classes,
)
from jitlite.kernels.elementwise import custom, elementwise, filled, floating
from jitlite.kernels.indexing import joined
from jitlite.kernels.loop_ir import BOOL, F32, F64, I32, I64, Fill, Lane, LaneOperator, Operand, Place
from jitlite.kernels.losses import MEAN, NONE, reduction
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.scattering import Point, for_each, part, position, put
from jitlite.kernels.totals import reduced
from jitlite.kernels.values import TensorValue, Value, identity
from jitlite.kernels.views import piece
from jitlite.native.code import NotNative

# -- of two tensors

Slope = Callable[[Lanes, Lane, Lane], Lane]
"""The slope of a loss times the gradient, by the distance between the tensors and the gradient."""


def _between(call: Call, slope: Slope, *, is_mean: bool) -> TensorValue:
    lowering, grad, value, target = call.lowering, call.first(), call.tensor("self"), call.tensor("target")
    if not grad.dtype is value.dtype is target.dtype or value.rank != target.rank:
        raise NotNative(f"{call.node.kind} of two dtypes or ranks")
    for size, other in zip(value.sizes, target.sizes, strict=True):
        lowering.require_equal(size, other, "a loss of tensors that are broadcast")
    lanes, count = Lanes(floating(grad.dtype)), lowering.numel(value.sizes)

    def build(nest: NestBuilder) -> Lane:
        g = nest.lane(grad)
        away = lanes("sub", nest.lane(value), nest.lane(target))
        return slope(lanes, away, lanes("div", g, count) if is_mean else g)

    return custom(lowering, grad.dtype, [grad, value, target], build)


@rule("aten::mse_loss_backward")
def mse_loss_backward(call: Call) -> Value:
    is_mean, step = reduction(call) == MEAN, call.rounded_lane
    if call.narrow is None:
        return _between(call, lambda lanes, away, g: lanes("mul", lanes("mul", away, 2.0), g), is_mean=is_mean)
    count = call.lowering.numel(call.tensor("self").sizes) if is_mean else 1

    def slope(lanes: Lanes, away: Lane, g: Lane) -> Lane:
        factor = step(lanes("div", Fill(lanes.dtype, 2.0), count))
        return lanes("mul", step(lanes("mul", step(away), factor)), g)

    return _between(call, slope, is_mean=False)


@rule("aten::smooth_l1_loss_backward", "aten::huber_loss_backward")
def smooth_loss_backward(call: Call) -> Value:
    is_huber = call.name == "huber_loss_backward"
    bound = call.constant("delta" if is_huber else "beta")
    if not isinstance(bound, int | float) or bound <= 0:
        raise NotNative(f"{call.node.kind} with such a bound")
    if call.narrow is not None:
        raise NotNative(f"{call.node.kind} of {call.narrow}, which torch rounds in between")

    def slope(lanes: Lanes, away: Lane, g: Lane) -> Lane:
        far = lanes("mul", g, float(bound)) if is_huber else g
        near = lanes("mul", away, g)
        inside = near if is_huber else lanes("div", near, float(bound))
        above = lanes.where("ge", away, float(bound), far, inside)
        return lanes.where("le", away, -float(bound), lanes("neg", far), above)

    return _between(call, slope, is_mean=reduction(call) == MEAN)


@rule("aten::binary_cross_entropy_backward", narrow=Narrow.LEFT)
def binary_cross_entropy_backward(call: Call) -> Value:
    lowering, grad, value, target = call.lowering, call.first(), call.tensor("self"), call.tensor("target")
    weight = None if call.get("weight") is None else call.tensor("weight")
    parts = [v for v in (grad, value, target, weight) if v is not None]
    if any(v.dtype is not value.dtype or not v.in_order for v in parts):
        raise NotNative("the gradient of a loss of tensors of other dtypes or orders")
    lanes, count = Lanes(floating(value.dtype)), lowering.numel(value.sizes)

    def build(nest: NestBuilder) -> Lane:
        x = nest.lane(value)
        spread = lanes("maximum", lanes("mul", lanes("sub", 1.0, x), x), 1e-12)
        slope = lanes("div", lanes("mul", nest.lane(grad), lanes("sub", x, nest.lane(target))), spread)
        slope = slope if weight is None else lanes("mul", slope, nest.lane(weight))
        return lanes("div", slope, count) if reduction(call) == MEAN else slope

    return custom(lowering, value.dtype, parts, build)


# -- of classes


@rule("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss_forward(call: Call) -> Value:
    """The loss, and how many rows count; 0 where the losses of rows are the result."""
    lowering, value = call.lowering, call.first()
    losses, counted = class_losses(call, value)
    dims = range(losses.rank)
    if reduction(call) == NONE and losses.rank:
        return [losses, filled(lowering, value.dtype, [], 0)]
    number = reduced(lowering, "sum", counted, dims, False)
    return [summed_classes(call, losses, lambda: number), number]


@rule("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_loss_backward(call: Call) -> Value:
    lowering, grad, value = call.lowering, call.first(), call.tensor("self")
    target, weight, dim = rows_with_classes(call, value), class_weights(call, value), class_dim(value)
    ignored, how = call.constant("ignore_index"), reduction(call)
    dtype = floating(value.dtype)
    if grad.dtype is not dtype or grad.rank != (target.rank if how == NONE else 0):
        raise NotNative(f"{call.node.kind} of a gradient of another dtype or shape")
    if how == MEAN:
        grad = elementwise(lowering, "div", [grad, call.tensor("total_weight")], dtype)
    lowering.force_all([grad, target])
    sizes, lanes = value.sizes, Lanes(dtype)

    def build(nest: NestBuilder) -> Lane:
        index = nest.load(_along(target, dim))
        at = nest.position(dim) or Fill(I64, 0)
        is_class = LaneOperator(BOOL, "eq", (index, at))
        counts = LaneOperator(BOOL, "ne", (index, Fill(I64, ignored)))
        slope = lanes("neg", nest.load(_along(grad, dim) if grad.rank else lowering.force(grad)))
        if weight is not None:
            slope = lanes("mul", slope, nest.lane(along_classes(weight, value.rank)))
        return lanes.choose(LaneOperator(BOOL, "logical_and", (is_class, counts)), slope, 0.0)

    return lowering.lazy(TensorValue(dtype, sizes, identity(sizes), build=build, parts=(grad, target)))


def _along(value: TensorValue, dim: int) -> Place:
    """The memory of a tensor, repeated along a new dimension."""
    own = value.place
    assert own is not None
    sizes, strides = (*own.sizes[:dim], 1, *own.sizes[dim:]), (*own.strides[:dim], 0, *own.strides[dim:])
    return Place(own.buffer, own.offset, sizes, strides)


# -- rows of tables


@rule("aten::embedding_backward", "aten::embedding_dense_backward")
def embedding_backward(call: Call) -> Value:
    """Rows of the gradient are added up in the order of the indices; those of the padding are left out."""
    lowering, grad, index = call.lowering, call.first(), call.tensor("indices")
    call.default("scale_grad_by_freq", False)
    call.default("sparse", False)
    padding, count = call.constant("padding_idx"), call.number("num_weights")
    if call.narrow is not None:
        raise NotNative(f"sums of {call.narrow} at places that tensors say, which torch rounds in between")
    if grad.dtype not in (F32, F64) or index.dtype not in (I64, I32) or grad.rank != index.rank + 1:
        raise NotNative("the gradient of a table of such shapes")
    for size, own in zip(index.sizes, grad.sizes, strict=False):
        lowering.require_equal(size, own, "there are not as many rows as indices")
    made = filled(lowering, grad.dtype, [count, grad.sizes[-1]], 0)
    lowering.force_all([grad, index])
    into = lowering.force(made)
    assert grad.place is not None and index.place is not None
    rows, places = grad.place, index.place

    def one(at: Point) -> None:
        to = position(lowering, places, at, count, wraps=False)
        row = part(lowering, into, [0], [to])
        source = part(lowering, rows, range(index.rank), at)
        if padding < 0:
            put(lowering, row, source, adds=True)
        else:
            _add_unless(call, row, source, lowering.index("eq", to, padding))

    for_each(lowering, places.sizes, one)
    return made


def _add_unless(call: Call, into: Place, source: Place, condition: Operand) -> None:
    nest = NestBuilder(call.lowering, into.sizes, identity(into.sizes))
    more = LaneOperator(into.dtype, "add", (nest.load(into), nest.load(source)))
    nest.write([(into, LaneOperator(into.dtype, "where", (Fill(BOOL, condition), nest.load(into), more)))])


# -- halves


@rule("aten::glu_backward")
def glu_backward(call: Call) -> Value:
    lowering, grad, value = call.lowering, call.first(), call.tensor("self")
    lanes = Lanes(floating(value.dtype))
    if value.rank == 0 or grad.dtype is not value.dtype or not (value.in_order and grad.in_order):
        raise NotNative("the gradient of glu of such tensors")
    dim = call.dim("dim", value.rank)
    half = lowering.index("floordiv", value.sizes[dim], 2)
    lowering.require_equal(lowering.index("mul", half, 2), value.sizes[dim], "glu of an odd size")
    lowering.force_all([value, grad])
    a, b = (piece(lowering, value, dim, start, half) for start in (0, half))

    def for_first(nest: NestBuilder) -> Lane:
        return lanes("mul", call.rounded_lane(lanes("sigmoid", nest.lane(b))), nest.lane(grad))

    def for_second(nest: NestBuilder) -> Lane:
        s = call.rounded_lane(lanes("sigmoid", nest.lane(b)))
        slope = lanes("mul", lanes("mul", lanes("sub", 1.0, s), s), nest.lane(grad))
        return lanes("mul", slope, nest.lane(a))

    first = custom(lowering, value.dtype, [grad, b], for_first)
    second = custom(lowering, value.dtype, [grad, a, b], for_second)
    return joined(lowering, [first, second], dim)
