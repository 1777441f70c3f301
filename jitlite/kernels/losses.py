"""Losses of two tensors, element by element; `class_losses.py` has those of classes."""

from __future__ import annotations

from jitlite.kernels.activations import Lanes, distance, within, xlogy
from jitlite.kernels.building import NestBuilder
from jitlite.kernels.elementwise import custom, floating
from jitlite.kernels.loop_ir import BOOL, F16, Fill, Lane, LaneOperator
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.reading import read
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.totals import averaged, reduced
from jitlite.kernels.values import TensorValue, Value
from jitlite.native.code import NotNative

NONE, MEAN, SUM = range(3)
"""What is done with the losses of elements."""


def reduction(call: Call) -> int:
    """What the operator does with the losses of elements."""
    found = call.constant("reduction")
    if found not in (NONE, MEAN, SUM):
        raise NotNative(f"{call.node.kind} with reduction {found!r}")
    return int(found)


def summed_up(call: Call, value: TensorValue) -> TensorValue:
    how, dims, value = reduction(call), range(value.rank), call.rounded(value)
    if how == NONE:
        return value
    if how == MEAN:
        return averaged(call.lowering, value, dims, False)
    return reduced(call.lowering, "sum", value, dims, False)


@rule("aten::mse_loss")
def mse_loss(call: Call) -> Value:
    return summed_up(call, distance(call, lambda lanes, away: lanes("mul", away, away), rounds=True))


@rule("aten::l1_loss")
def l1_loss(call: Call) -> Value:
    return summed_up(call, distance(call, lambda lanes, away: lanes("abs", away)))


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

    return summed_up(call, distance(call, write))


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

    return summed_up(call, custom(call.lowering, value.dtype, parts, build))


@rule("aten::binary_cross_entropy", narrow=Narrow.LEFT)
def binary_cross_entropy(call: Call) -> Value:
    """Logarithms are no less than -100; what is no probability is left to Python, which raises."""
    lowering, value, target = call.lowering, call.first(), call.tensor("target")
    weight = None if call.get("weight") is None else call.tensor("weight")
    parts = [v for v in (value, target, weight) if v is not None]
    if any(v.dtype is not value.dtype or not v.in_order for v in parts):
        raise NotNative("a loss of tensors of other dtypes or orders")
    if not lowering.same_sizes(lowering.broadcast(*(v.sizes for v in parts)), value.sizes):
        raise NotNative("a loss of tensors that are broadcast")
    lanes = Lanes(floating(value.dtype))

    def is_none(nest: NestBuilder) -> Lane:
        x = nest.lane(value)
        return LaneOperator(BOOL, "logical_not", (within(lanes, x, 0.0, 1.0),))

    lowering.force(value)
    outside = reduced(lowering, "any", custom(lowering, BOOL, [value], is_none), range(value.rank), False)
    lowering.check(lowering.index("not", read(lowering, outside)), "an element is no probability")

    def build(nest: NestBuilder) -> Lane:
        x, t = nest.lane(value), nest.lane(target)
        logs = [lanes("maximum", lanes(*f), -100.0) for f in (("log1p", lanes("neg", x)), ("log", x))]
        loss = lanes("sub", lanes("mul", lanes("sub", t, 1.0), logs[0]), lanes("mul", t, logs[1]))
        return loss if weight is None else lanes("mul", loss, nest.lane(weight))

    return summed_up(call, custom(lowering, value.dtype, parts, build))


@rule("aten::kl_div", narrow=Narrow.LEFT)
def kl_div(call: Call) -> Value:
    value, target = call.first(), call.tensor("target")
    if value.dtype is not target.dtype:
        raise NotNative("kl_div of two dtypes")
    lanes, is_log = Lanes(floating(value.dtype)), call.constant("log_target")

    def build(nest: NestBuilder) -> Lane:
        x, t = nest.lane(value), nest.lane(target)
        if is_log:
            return lanes("mul", lanes("exp", t), lanes("sub", t, x))
        entropy = xlogy(lanes, t, t)
        return lanes("sub", entropy, lanes("mul", t, x))

    return summed_up(call, custom(call.lowering, value.dtype, [value, target], build))
