"""Losses."""

from __future__ import annotations

from collections.abc import Callable

from jitlite.kernels.activations import Lanes, distance
from jitlite.kernels.building import NestBuilder
from jitlite.kernels.elementwise import cast, custom, elementwise, floating
from jitlite.kernels.loop_ir import BOOL, F16, I64, Fill, Lane, LaneOperator
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.totals import averaged, log_softmaxed, reduced
from jitlite.kernels.values import TensorValue, Value, identity
from jitlite.native.code import NotNative

NONE, MEAN, SUM = range(3)
"""What is done with the losses of elements."""


def reduction(call: Call) -> int:
    """What the operator does with the losses of elements."""
    found = call.constant("reduction")
    if found not in (NONE, MEAN, SUM):
        raise NotNative(f"{call.node.kind} with reduction {found!r}")
    return int(found)


def _summed_up(call: Call, value: TensorValue) -> TensorValue:
    how, dims, value = reduction(call), range(value.rank), call.rounded(value)
    if how == NONE:
        return value
    if how == MEAN:
        return averaged(call.lowering, value, dims, False)
    return reduced(call.lowering, "sum", value, dims, False)


@rule("aten::mse_loss")
def mse_loss(call: Call) -> Value:
    return _summed_up(call, distance(call, lambda lanes, away: lanes("mul", away, away), rounds=True))


@rule("aten::l1_loss")
def l1_loss(call: Call) -> Value:
    return _summed_up(call, distance(call, lambda lanes, away: lanes("abs", away)))


@rule("aten::smooth_l1_loss", "aten::huber_loss")
def smooth_loss(call: Call) -> Value:
    is_huber = call.name == "huber_loss"
    bound = call.constant("delta" if is_huber else "beta")
    if not isinstance(bound, int | float) or bound <= 0:
        raise NotNative(f"{call.node.kind} with such a bound")
    if call.narrow is F16 or (is_huber and call.narrow is not None):
        raise NotNative(f"{call.node.kind} of {call.narrow}, which torch rounds in between")

    def write(lanes: Lanes, away: Lane) -> Lane:
        size = lanes("abs", away)
        near = lanes("mul", lanes("mul", size, 0.5), size)
        half = lanes("mul", Fill(lanes.dtype, 0.5), float(bound))
        if is_huber:
            return lanes.where("le", size, float(bound), near, lanes("mul", lanes("sub", size, half), float(bound)))
        return lanes.where("lt", size, float(bound), lanes("div", near, float(bound)), lanes("sub", size, half))

    return _summed_up(call, distance(call, write))


@rule("aten::nll_loss", "aten::nll_loss_nd")
def nll_loss(call: Call) -> Value:
    return _of_classes(call, call.first())


@rule("aten::cross_entropy_loss")
def cross_entropy_loss(call: Call) -> Value:
    call.default("label_smoothing", 0.0)
    value = call.first()
    floating(value.dtype)
    if value.rank not in (1, 2):
        raise NotNative("cross_entropy_loss of more dimensions")
    return _of_classes(call, call.rounded(log_softmaxed(call, value, [value.rank - 1])))


def _of_classes(call: Call, value: TensorValue) -> TensorValue:
    """What the log-probability of the class is less than 0, for each row, where the class is not to be ignored."""
    losses, counted = class_losses(call, value)
    return summed_classes(call, losses, lambda: reduced(call.lowering, "sum", counted, range(counted.rank), False))


def summed_classes(call: Call, losses: TensorValue, number: Callable[[], TensorValue]) -> TensorValue:
    """The losses of rows as the operator sums them up; `number` gives how many count."""
    how = reduction(call)
    if how == NONE:
        return losses
    total = reduced(call.lowering, "sum", losses, range(losses.rank), False)
    return total if how == SUM else elementwise(call.lowering, "div", [total, number()], losses.dtype)


def class_losses(call: Call, value: TensorValue) -> tuple[TensorValue, TensorValue]:
    """The losses of rows, and whether they count: 1 or 0."""
    lowering, target = call.lowering, call.tensor("target")
    call.default("weight", None)
    ignored = call.constant("ignore_index")
    dtype = floating(value.dtype)
    if value.rank not in (1, 2) or target.rank != value.rank - 1 or target.dtype is not I64:
        raise NotNative(f"{call.node.kind} of such shapes")
    if target.rank:
        lowering.require_equal(value.sizes[0], target.sizes[0], "there are not as many classes as rows")
    place = lowering.force(value)
    lowering.force(target)

    def counts(nest: NestBuilder) -> Lane:
        return LaneOperator(BOOL, "ne", (nest.lane(target), Fill(I64, ignored)))

    def build(nest: NestBuilder) -> Lane:
        is_counted = counts(nest)
        index = LaneOperator(I64, "where", (is_counted, nest.lane(target), Fill(I64, 0)))
        found = nest.gather(place, [*range(target.rank), index], wraps=False)
        return LaneOperator(dtype, "where", (is_counted, LaneOperator(dtype, "neg", (found,)), Fill(dtype, 0.0)))

    sizes = target.sizes
    losses = lowering.lazy(TensorValue(dtype, sizes, identity(sizes), build=build, parts=(value, target)))
    return losses, cast(lowering, custom(lowering, BOOL, [target], counts), dtype)


@rule("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(call: Call) -> Value:
    value, target = call.first(), call.tensor("target")
    weight, positive = (None if call.get(name) is None else call.tensor(name) for name in ("weight", "pos_weight"))
    parts = [v for v in (value, target, weight, positive) if v is not None]
    if any(v.dtype is not value.dtype or not v.in_order for v in parts):
        raise NotNative("a loss of tensors of other dtypes or orders")
    lanes, step = Lanes(floating(value.dtype)), call.rounded_lane

    def build(nest: NestBuilder) -> Lane:
        x, t = nest.lane(value), nest.lane(target)
        away = lanes("exp", lanes("neg", lanes("abs", x)))
        log = step(lanes("sub", lanes("minimum", x, 0.0), lanes("log1p", away)))
        if positive is not None:
            more = step(lanes("mul", step(lanes("sub", nest.lane(positive), 1.0)), t))
            log = step(lanes("mul", log, step(lanes("add", more, 1.0))))
        loss = step(lanes("sub", step(lanes("mul", step(lanes("sub", 1.0, t)), x)), log))
        return loss if weight is None else lanes("mul", loss, nest.lane(weight))

    return _summed_up(call, custom(call.lowering, value.dtype, parts, build))
