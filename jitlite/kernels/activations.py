"""Elementwise operators that are made of several lanes: activations, and losses before they are summed up."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from jitlite.kernels.building import NestBuilder
from jitlite.kernels.elementwise import custom, elementwise, floating
from jitlite.kernels.loop_ir import BOOL, DType, Fill, Lane, LaneOperator, Operand, Scalar
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.values import TensorValue, Value
from jitlite.kernels.views import piece
from jitlite.native.code import NotNative


class Lanes:
    """Writes lanes of one type; numbers stand for themselves."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __call__(self, op: str, *operands: Lane | Operand) -> Lane:
        return LaneOperator(self.dtype, op, tuple(map(self._lane, operands)))

    def where(self, op: str, a: Lane | Operand, b: Lane | Operand, then: Lane | Operand, other: Lane | Operand) -> Lane:
        """One of two values, by a comparison of others."""
        return self.choose(self.test(op, a, b), then, other)

    def test(self, op: str, a: Lane | Operand, b: Lane | Operand) -> Lane:
        """A comparison."""
        return LaneOperator(BOOL, op, (self._lane(a), self._lane(b)))

    def choose(self, condition: Lane, then: Lane | Operand, other: Lane | Operand) -> Lane:
        """One of two values, by a condition."""
        return LaneOperator(self.dtype, "where", (condition, self._lane(then), self._lane(other)))

    def number(self, value: Operand) -> Lane:
        """The same number everywhere."""
        return Fill(self.dtype, value)

    def _lane(self, operand: Lane | Operand) -> Lane:
        return operand if isinstance(operand, Lane) else Fill(self.dtype, operand)


def within(lanes: Lanes, x: Lane, low: Operand, high: Operand) -> Lane:
    """Is an element between two bounds, or one of them? NaN is not."""
    return LaneOperator(BOOL, "logical_and", (lanes.test("ge", x, low), lanes.test("le", x, high)))


def xlogy(lanes: Lanes, x: Lane, y: Lane) -> Lane:
    """`x * log(y)`, 0 where `x` is that, NaN where `y` is."""
    found = lanes.where("eq", x, 0.0, 0.0, lanes("mul", x, lanes("log", y)))
    return lanes.choose(LaneOperator(BOOL, "isnan", (y,)), math.nan, found)


def _activation(call: Call, write: Callable[[Lanes, Lane], Lane]) -> TensorValue:
    """The tensor of an expression of one operand."""
    value = call.first()
    lanes = Lanes(floating(value.dtype))
    return custom(call.lowering, value.dtype, [value], lambda nest: write(lanes, nest.lane(value)))


def _factor(lanes: Lanes, lane: Lane, factor: Operand) -> Lane:
    return lane if not isinstance(factor, Scalar) and factor == 1 else lanes("mul", lane, factor)


def _constants(call: Call, *names: str) -> list[float]:
    found = [call.constant(name) if call.has(name) else 1 for name in names]
    if any(not isinstance(v, bool | int | float) for v in found):
        raise NotNative(f"{call.node.kind} with numbers that are not known")
    return [float(v) for v in found]


@rule("aten::elu", "aten::selu", "aten::celu")
def elu(call: Call) -> Value:
    alpha, scale, input_scale = _constants(call, "alpha", "scale", "input_scale")
    if call.name == "selu":
        alpha, scale = 1.6732632423543772, 1.0507009873554805
    elif call.name == "celu":
        if alpha == 0:
            raise NotNative("celu divides by zero")
        input_scale = 1.0 / alpha
    dtype = call.first().dtype.torch
    below = float(torch.tensor(alpha, dtype=dtype) * torch.tensor(scale, dtype=dtype))

    def write(lanes: Lanes, x: Lane) -> Lane:
        left = _factor(lanes, lanes("expm1", _factor(lanes, x, input_scale)), below)
        return lanes.where("lt", x, 0.0, left, _factor(lanes, x, scale))

    return _activation(call, write)


@rule("aten::softplus")
def softplus(call: Call) -> Value:
    beta, threshold = _constants(call, "beta", "threshold")

    def write(lanes: Lanes, x: Lane) -> Lane:
        scaled = _factor(lanes, x, beta)
        soft = lanes("log1p", lanes("exp", scaled))
        return lanes.where("gt", scaled, threshold, x, soft if beta == 1 else lanes("div", soft, beta))

    return _activation(call, write)


@rule("aten::hardswish", "aten::hardsigmoid")
def hard(call: Call) -> Value:
    def write(lanes: Lanes, x: Lane) -> Lane:
        ramp = lanes("minimum", lanes("maximum", lanes("add", x, 3.0), 0.0), 6.0)
        return lanes("div", lanes("mul", x, ramp) if call.name == "hardswish" else ramp, 6.0)

    return _activation(call, write)


@rule("aten::hardshrink", "aten::softshrink")
def shrink(call: Call) -> Value:
    """Softshrink keeps NaN, as a product with 0."""
    (bound,) = _constants(call, "lambd")
    is_soft = call.name == "softshrink"
    if is_soft and not bound >= 0:
        raise NotNative("softshrink with a negative bound")
    if is_soft and call.narrow is not None:
        raise NotNative(f"softshrink of {call.narrow}: versions of torch round its bound or do not")
    bound = call.rounded_number(bound)

    def write(lanes: Lanes, x: Lane) -> Lane:
        near = lanes("mul", x, 0.0) if is_soft else lanes.number(0.0)
        below = lanes.where("lt", x, -bound, lanes("add", x, bound), near) if is_soft else None
        if below is not None:
            return lanes.where("gt", x, bound, lanes("sub", x, bound), below)
        return lanes.choose(within(lanes, x, -bound, bound), near, x)

    return _activation(call, write)


@rule("aten::logaddexp", narrow=Narrow.LEFT)
def logaddexp(call: Call) -> Value:
    a, b = call.first(), call.tensor("other")
    if a.dtype is not b.dtype:
        raise NotNative("logaddexp of two dtypes")
    lanes = Lanes(floating(a.dtype))

    def build(nest: NestBuilder) -> Lane:
        x, y = nest.lane(a), nest.lane(b)
        away = lanes("exp", lanes("neg", lanes("abs", lanes("sub", x, y))))
        found = lanes("add", lanes("maximum", x, y), lanes("log1p", away))
        same = LaneOperator(BOOL, "logical_and", (lanes.test("eq", x, y), lanes.test("eq", lanes("abs", x), math.inf)))
        return lanes.choose(same, x, found)

    return custom(call.lowering, a.dtype, [a, b], build)


@rule("aten::xlogy", narrow=Narrow.LEFT)
def xlogy_(call: Call) -> Value:
    a, b = call.first(), call.tensor("other")
    if a.dtype is not b.dtype:
        raise NotNative("xlogy of two dtypes")
    lanes = Lanes(floating(a.dtype))
    return custom(call.lowering, a.dtype, [a, b], lambda nest: xlogy(lanes, nest.lane(a), nest.lane(b)))


@rule("aten::frac")
def frac(call: Call) -> Value:
    return _activation(call, lambda lanes, x: lanes("sub", x, lanes("trunc", x)))


@rule("aten::mish")
def mish(call: Call) -> Value:
    return _activation(call, lambda lanes, x: lanes("mul", x, lanes("tanh", lanes("log1p", lanes("exp", x)))))


@rule("aten::log_sigmoid")
def log_sigmoid(call: Call) -> Value:
    if not call.first().in_order:
        raise NotNative("log_sigmoid of a tensor that lies in another order")

    def write(lanes: Lanes, x: Lane) -> Lane:
        away = lanes("exp", lanes("neg", lanes("abs", x)))
        return lanes("sub", lanes("minimum", x, 0.0), lanes("log1p", away))

    return _activation(call, write)


@rule("aten::threshold")
def threshold(call: Call) -> Value:
    least, instead = call.number("threshold"), call.number("value")
    return _activation(call, lambda lanes, x: lanes.where("le", x, least, instead, x))


@rule("aten::glu")
def glu(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    floating(value.dtype)
    if value.rank == 0:
        raise NotNative("glu of a tensor without dimensions")
    dim = call.dim("dim", value.rank)
    half = lowering.index("floordiv", value.sizes[dim], 2)
    lowering.require_equal(lowering.index("mul", half, 2), value.sizes[dim], "glu of an odd size")
    a, b = (piece(lowering, value, dim, start, half) for start in (0, half))
    return elementwise(lowering, "mul", [a, elementwise(lowering, "sigmoid", [b], value.dtype)], value.dtype)


def distance(call: Call, write: Callable[[Lanes, Lane], Lane], *, rounds: bool = False) -> TensorValue:
    """An expression of the difference between two tensors of one type; `rounds` it first."""
    a, b = call.first(), call.tensor("target")
    if a.dtype is not b.dtype:
        raise NotNative(f"{call.node.kind} of two dtypes")
    lanes = Lanes(floating(a.dtype))

    away = elementwise(call.lowering, "sub", [a, b], a.dtype)
    away = call.rounded(away) if rounds else away
    return custom(call.lowering, a.dtype, [away], lambda nest: write(lanes, nest.lane(away)))
