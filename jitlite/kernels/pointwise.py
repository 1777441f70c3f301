"""Elementwise operators: which lane computes them."""

from __future__ import annotations

import math

import torch

from jitlite.kernels.building import NestBuilder
from jitlite.kernels.elementwise import Element, custom, elementwise, floating, promoted, sample_of
from jitlite.kernels.loop_ir import (
    BF16,
    BOOL,
    DType,
    Fill,
    Lane,
    LaneOperator,
    Scalar,
)
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, aten, rule
from jitlite.kernels.scalar_nodes import compared_sizes
from jitlite.kernels.values import TensorValue, Value, identity, is_one
from jitlite.kernels.views import unsqueezed
from jitlite.native.code import NotNative

# -- one operand

OF_FLOATS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "erfc",
    "sqrt", "rsqrt", "reciprocal", "asin", "acos", "atan", "sinh", "cosh", "atanh",
)  # fmt: skip
_KEEPING = ["neg", "abs", "relu"]
ROUNDING = ["floor", "ceil", "trunc", "round"]


@rule(*aten(OF_FLOATS))
def of_floats(call: Call) -> Value:
    value = call.first()
    return elementwise(call.lowering, call.name, [value], floating(value.dtype))


@rule(*aten(_KEEPING))
def keeping(call: Call) -> Value:
    value = call.first()
    if value.dtype is BOOL:
        raise NotNative(f"{call.node.kind} of bools")
    return elementwise(call.lowering, call.name, [value], value.dtype)


@rule(*aten(ROUNDING))
def rounding(call: Call) -> Value:
    value = call.first()
    if call.has("decimals"):
        call.default("decimals", 0)
    return elementwise(call.lowering, call.name, [value], floating(value.dtype))


@rule("aten::square")
def square(call: Call) -> Value:
    value = call.first()
    if value.dtype is BOOL:
        raise NotNative("square of bools")
    return elementwise(call.lowering, "mul", [value, value], value.dtype)


@rule("aten::sign", "aten::sgn")
def sign(call: Call) -> Value:
    value = call.first()
    if value.dtype is BOOL:
        raise NotNative("the sign of bools")
    return elementwise(call.lowering, "sign", [value], value.dtype)


@rule("aten::nan_to_num")
def nan_to_num(call: Call) -> Value:
    value = call.first()
    dtype = floating(value.dtype)
    largest = torch.finfo((call.narrow or dtype).torch).max
    found = {name: call.optional_number(name) for name in ("nan", "posinf", "neginf")}
    nan, high, low = (0.0 if v is None else v for v in found.values())
    high, low = (largest if found["posinf"] is None else high), (-largest if found["neginf"] is None else low)

    def build(nest: NestBuilder) -> Lane:
        lane = nest.lane(value)
        for op, operands, instead in (
            ("isnan", (lane,), nan),
            ("eq", (lane, Fill(dtype, math.inf)), high),
            ("eq", (lane, Fill(dtype, -math.inf)), low),
        ):
            lane = LaneOperator(dtype, "where", (LaneOperator(BOOL, op, operands), Fill(dtype, instead), lane))
        return lane

    return custom(call.lowering, dtype, [value], build)


@rule("aten::silu")
def silu(call: Call) -> Value:
    value = call.first()
    return elementwise(call.lowering, "silu", [value], floating(value.dtype))


@rule("aten::gelu")
def gelu(call: Call) -> Value:
    value, how = call.first(), call.constant("approximate")
    if how not in ("none", "tanh"):
        raise NotNative(f"gelu as {how!r}")
    return elementwise(call.lowering, "gelu" if how == "none" else "gelu_tanh", [value], floating(value.dtype))


@rule("aten::logical_not")
def logical_not(call: Call) -> Value:
    value = call.first()
    return elementwise(call.lowering, "logical_not", [value], value.dtype, BOOL)


@rule("aten::bitwise_not")
def bitwise_not(call: Call) -> Value:
    value = call.first()
    if value.dtype.is_float:
        raise NotNative("bitwise_not of floats")
    return elementwise(call.lowering, "logical_not" if value.dtype is BOOL else "bitwise_not", [value], value.dtype)


@rule(*aten(["isnan", "isinf", "isfinite"]))
def tests(call: Call) -> Value:
    value = call.first()
    return elementwise(call.lowering, call.name, [value], floating(value.dtype), BOOL)


# -- two operands

_OTHER = {"add": "add", "sub": "sub", "rsub": "sub", "__radd__": "add"}


def _second(call: Call) -> Element:
    return call.element("other")


def _not_bools(call: Call, dtype: DType) -> DType:
    if dtype is BOOL:
        raise NotNative(f"{call.node.kind} of bools")
    return dtype


@rule("aten::add", of_sizes=True, narrow=Narrow.PROMOTED)
def sum_or_list(call: Call) -> Value:
    if isinstance(call.at(0), list):
        return [*call.as_numbers(call.at(0)), *call.as_numbers(call.at(1))]
    return sums(call)


@rule("aten::sub", "aten::subtract", "aten::rsub", narrow=Narrow.PROMOTED)
def sums(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    alpha = call.number("alpha") if call.has("alpha") else 1
    if isinstance(alpha, Scalar) or alpha != 1 or isinstance(alpha, bool):
        raise NotNative(f"{call.node.kind} with an alpha that is not 1")
    dtype = _not_bools(call, promoted([a, b]))
    if call.name != "add" and any(isinstance(v, TensorValue) and v.dtype is BOOL for v in (a, b)):
        raise NotNative(f"{call.node.kind} of bools")
    if call.name == "rsub":
        a, b = b, a
    return elementwise(call.lowering, "add" if call.name == "add" else "sub", [a, b], dtype)


@rule("aten::atan2", "aten::hypot", narrow=Narrow.PROMOTED)
def angles(call: Call) -> Value:
    a, b = call.first(), call.tensor("other")
    return elementwise(call.lowering, call.name, [a, b], floating(promoted([a, b])))


@rule("aten::outer", narrow=Narrow.PROMOTED)
def outer(call: Call) -> Value:
    a, b, lowering = call.first(), call.tensor("vec2"), call.lowering
    if a.rank != 1 or b.rank != 1:
        raise NotNative("outer of what are no vectors")
    return elementwise(lowering, "mul", [unsqueezed(lowering, a, 1), b], promoted([a, b]))


@rule("aten::__lshift__", "aten::__rshift__", "aten::bitwise_left_shift", "aten::bitwise_right_shift")
def shifts(call: Call) -> Value:
    elements = [call.element(v) for v in ("self", "other")]
    dtype = promoted(elements)
    if dtype is BOOL or dtype.is_float:
        raise NotNative(f"{call.node.kind} of {dtype}")
    return elementwise(
        call.lowering, "shift_left" if "l" in call.name.partition("shift")[0] else "shift_right", elements, dtype
    )


@rule("aten::mul", "aten::multiply", narrow=Narrow.SCALED)
def products(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    dtype = promoted([a, b])
    return elementwise(call.lowering, "logical_and" if dtype is BOOL else "mul", [a, b], dtype)


@rule("aten::div", "aten::divide", "aten::true_divide", "aten::floor_divide", narrow=Narrow.SCALED)
def quotients(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    mode = (
        "floor"
        if call.name == "floor_divide"
        else call.constant("rounding_mode")
        if call.has("rounding_mode")
        else None
    )
    dtype = _not_bools(call, promoted([a, b]))
    if mode is None:
        return elementwise(call.lowering, "div", [a, b], floating(dtype))
    is_half = call.narrow is not None and call.narrow.is_float
    if is_half and isinstance(b, TensorValue) and not all(map(is_one, b.sizes)):
        raise NotNative(f"{call.node.kind} of {call.narrow} to whole numbers, which torch rounds in between")
    return elementwise(call.lowering, f"div_{mode}", [a, b], dtype)


@rule("aten::remainder", "aten::fmod", narrow=Narrow.PROMOTED)
def remainders(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    return elementwise(call.lowering, call.name, [a, b], _not_bools(call, promoted([a, b])))


@rule("aten::maximum", "aten::minimum", narrow=Narrow.PROMOTED)
def extremes(call: Call) -> Value:
    a, b = call.first(), call.tensor("other")
    return larger_or_smaller(call, call.name, a, b)


def larger_or_smaller(call: Call, op: str, a: TensorValue, b: TensorValue) -> TensorValue:
    """The maximum or the minimum of two tensors, at each point."""
    dtype = promoted([a, b])
    if dtype is BOOL:
        op = "logical_or" if op == "maximum" else "logical_and"
    return elementwise(call.lowering, op, [a, b], dtype)


@rule("aten::pow", narrow=Narrow.PROMOTED)
def power(call: Call) -> Value:
    base, exponent = call.element("self"), call.element("exponent")
    if not isinstance(base, TensorValue) or isinstance(exponent, TensorValue | Scalar):
        raise NotNative("pow with an exponent that is no constant")
    dtype = floating(promoted([base, exponent]))
    if dtype is not base.dtype:
        raise NotNative("pow of another dtype")
    if call.narrow is BF16 and exponent in (3, -2):
        square = call.rounded(elementwise(call.lowering, "mul", [base, base], dtype))
        if exponent == 3:
            return elementwise(call.lowering, "mul", [square, base], dtype)
        return elementwise(call.lowering, "reciprocal", [square], dtype)
    return elementwise(call.lowering, "pow", [base, float(exponent)], dtype)


@rule("aten::eq", "aten::ne", of_sizes=True, narrow=Narrow.PROMOTED)
def equal(call: Call) -> Value:
    if isinstance(call.at(0), list):
        found = compared_sizes(call.lowering, call.as_numbers(call.at(0)), call.as_numbers(call.at(1)))
        return found if call.name == "eq" else call.lowering.index("not", found)
    return comparisons(call)


@rule(*aten(["lt", "le", "gt", "ge"]), narrow=Narrow.PROMOTED)
def comparisons(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    return elementwise(call.lowering, call.name, [a, b], promoted([a, b]), BOOL)


@rule(*aten(["logical_and", "logical_or", "logical_xor"]), narrow=Narrow.PROMOTED)
def logic(call: Call) -> Value:
    a, b = call.first(), call.tensor("other")
    return elementwise(call.lowering, call.name, [a, b], promoted([a, b]), BOOL)


@rule(*aten(["__and__", "__or__", "__xor__", "bitwise_and", "bitwise_or", "bitwise_xor"]))
def bits(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    dtype = promoted([a, b])
    if dtype.is_float:
        raise NotNative(f"{call.node.kind} of floats")
    which = call.name.strip("_").removeprefix("bitwise_")
    return elementwise(call.lowering, f"{'logical' if dtype is BOOL else 'bitwise'}_{which}", [a, b], dtype)


# -- more operands


@rule("aten::clamp", "aten::clamp_min", "aten::clamp_max", "aten::hardtanh", "aten::clip", narrow=Narrow.PROMOTED)
def clamp(call: Call) -> Value:
    value = call.first()
    names = ("min_val", "max_val") if call.name == "hardtanh" else ("min", "max")
    given = [name for name in names if call.has(name) and call.get(name) is not None]
    if not given or any(isinstance(call.get(name), TensorValue) for name in given):
        raise NotNative("clamp to tensors")
    elements: list[Element] = [value, *map(call.element, given)]
    dtype = _not_bools(call, promoted(elements))
    if dtype is not value.dtype and call.name == "hardtanh":
        raise NotNative("hardtanh of another dtype")
    op = "clamp" if len(given) == 2 else "clamp_min" if given[0] == names[0] else "clamp_max"
    return elementwise(call.lowering, op, elements, dtype)


@rule("aten::relu6")
def relu6(call: Call) -> Value:
    value = call.first()
    return elementwise(call.lowering, "clamp", [value, 0, 6], _not_bools(call, value.dtype))


@rule("aten::where", narrow=Narrow.PROMOTED)
def where(call: Call) -> Value:
    condition = call.tensor("condition")
    if condition.dtype is not BOOL or not call.has("other"):
        raise NotNative("where with a condition that is not of bools")
    a, b = call.element("self"), call.element("other")
    dtype = promoted([a, b])
    parts = [condition, *(e for e in (a, b) if isinstance(e, TensorValue))]

    def build(nest: NestBuilder) -> Lane:
        return LaneOperator(dtype, "where", (nest.lane(condition), nest.operand(a, dtype), nest.operand(b, dtype)))

    return custom(call.lowering, dtype, parts, build)


@rule("aten::masked_fill")
def masked_fill(call: Call) -> Value:
    value, mask, fill = call.first(), call.tensor("mask"), call.element("value")
    if mask.dtype is not BOOL or isinstance(fill, TensorValue):
        raise NotNative("masked_fill with such a mask or value")
    if isinstance(sample_of(fill), float) and not value.dtype.is_float:
        raise NotNative("masked_fill of ints with a float")

    def build(nest: NestBuilder) -> Lane:
        kept = nest.lane(value)
        return LaneOperator(value.dtype, "where", (nest.lane(mask), Fill(value.dtype, fill), kept))

    sizes = call.lowering.broadcast(value.sizes, mask.sizes)
    made = TensorValue(value.dtype, sizes, identity(sizes), build=build, parts=(value, mask))
    return call.lowering.lazy(made)  # contiguous, whatever the tensor is


@rule("aten::addcmul", "aten::addcdiv")
def addc(call: Call) -> Value:
    raise NotNative("addcmul and addcdiv round in another way than their parts")


@rule("aten::lerp")
def lerp(call: Call) -> Value:
    start, end, weight = call.first(), call.tensor("end"), call.element("weight")
    elements: list[Element] = [start, end, weight]
    if any(isinstance(e, TensorValue) and e.dtype is not start.dtype for e in elements):
        raise NotNative("lerp of several dtypes")
    return elementwise(call.lowering, "lerp", elements, floating(start.dtype))


@rule("aten::leaky_relu")
def leaky_relu(call: Call) -> Value:
    value, slope = call.first(), call.number("negative_slope")
    return elementwise(call.lowering, "leaky_relu", [value, slope], floating(value.dtype))
