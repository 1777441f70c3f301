"""Division, powers, logarithms and rounding, as torch computes them."""

from __future__ import annotations

import math

import torch

from jitlite.engines.converters import Ref
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.onnx.builder import CONVERTERS, OnnxBuilder

_of = CONVERTERS.of
_LARGEST_POWER = 8
"""Ints are multiplied for powers up to this."""


def _binary(out: OnnxBuilder, op: str, a: Ref, b: Ref) -> Ref:
    return out.node(op, [a, b], a.dtype, max(a.rank, b.rank))


def _compared(out: OnnxBuilder, op: str, a: Ref, b: object) -> Ref:
    other = out.operand(b, a.dtype)
    return out.node(op, [a, other], torch.bool, max(a.rank, other.rank))


def _chosen(out: OnnxBuilder, condition: Ref, a: Ref, b: Ref) -> Ref:
    return out.node("Where", [condition, a, b], a.dtype, max(condition.rank, a.rank, b.rank))


def _joined(out: OnnxBuilder, op: str, a: Ref, b: Ref) -> Ref:
    return out.node(op, [a, b], torch.bool, max(a.rank, b.rank))


# -- division


def _operands(out: OnnxBuilder, a: object, b: object) -> tuple[Ref, Ref]:
    """Both as one dtype in which onnxruntime divides. A call in which an int is divided by 0 fails."""
    dtype = out.results[0].dtype
    if dtype is torch.bool:
        raise EngineRefusal("it is arithmetic on bools")
    if out.results[0].is_number and dtype.is_floating_point and (isinstance(b, Ref) or b == 0):
        raise EngineRefusal("it divides numbers, which raises where the divisor is 0")
    if dtype.is_floating_point:
        return out.operand(a, dtype), out.operand(b, dtype)
    divisor = out.operand(b, torch.int64)
    if isinstance(b, Ref | torch.Tensor):
        divisor = _binary(out, "Add", divisor, _zero_unless_any(out, _compared(out, "Equal", divisor, 0)))
    elif b == 0:
        raise EngineRefusal("it divides ints by 0")
    return out.operand(a, torch.int64), divisor


def _zero_unless_any(out: OnnxBuilder, is_wrong: Ref) -> Ref:
    """The int 0; where one of the bools is true, an index out of range, which makes the call fail."""
    flat = out.node("Reshape", [is_wrong, out.ints([-1])], torch.bool, 1)
    count = out.node("ReduceSum", [out.cast(flat, torch.int64)], torch.int64, 0, keepdims=0)
    return out.node("Gather", [out.ints([0]), count], torch.int64, 0, axis=0)


def _floored(out: OnnxBuilder, a: Ref, b: Ref) -> Ref:
    """The quotient of ints rounded down; ONNX rounds it towards 0, and its remainder has the sign of the divisor."""
    return _binary(out, "Div", _binary(out, "Sub", a, _binary(out, "Mod", a, b)), b)


@_of("aten::div")
def div(out: OnnxBuilder, a: object, b: object, rounding_mode: object = None) -> Ref:
    left, right = _operands(out, a, b)
    if not left.dtype.is_floating_point:
        made = _floored(out, left, right) if rounding_mode == "floor" else _binary(out, "Div", left, right)
        return out.cast(made, out.results[0].dtype)
    divided = _binary(out, "Div", left, right)
    if rounding_mode == "floor":
        return _floor_divided(out, left, right, divided)
    return _towards_zero(out, divided) if rounding_mode == "trunc" else divided


def _floor_divided(out: OnnxBuilder, a: Ref, b: Ref, divided: Ref) -> Ref:
    """As torch computes it: what is left is taken away before dividing, so that 1 // 0.1 is 9."""
    rest, is_wrong = _rest(out, a, b)
    exact = _binary(out, "Div", _binary(out, "Sub", a, rest), b)
    # one less, and not `rest` one divisor more: the divisor may be infinite
    exact = _chosen(out, is_wrong, _binary(out, "Sub", exact, out.operand(1, a.dtype)), exact)
    signed = _binary(out, "Mul", divided, out.operand(0, a.dtype))
    rounded = _chosen(out, _compared(out, "Equal", exact, 0), signed, out.like("Round", exact))
    return _chosen(out, _compared(out, "Equal", b, 0), divided, rounded)


def _rest(out: OnnxBuilder, a: Ref, b: Ref) -> tuple[Ref, Ref]:
    """What is left with the sign of what is divided, and where that is not the sign of the divisor."""
    rest = out.node("Mod", [a, b], a.dtype, max(a.rank, b.rank), fmod=1)
    differs = _joined(out, "Xor", _compared(out, "Less", rest, 0), _compared(out, "Less", b, 0))
    is_rest = out.like("Not", _compared(out, "Equal", rest, 0))
    return rest, _joined(out, "And", is_rest, differs)


def _remainder(out: OnnxBuilder, a: Ref, b: Ref) -> Ref:
    """With the sign of the divisor, as Python has it."""
    if not a.dtype.is_floating_point:
        return _binary(out, "Mod", a, b)
    rest, is_wrong = _rest(out, a, b)
    return _chosen(out, is_wrong, _binary(out, "Add", rest, b), rest)


@_of("aten::floordiv")
def floordiv(out: OnnxBuilder, a: object, b: object) -> Ref:
    if out.results[0].dtype is not torch.int64:
        raise EngineRefusal("it divides floats that are no tensors")
    return _floored(out, *_operands(out, a, b))


@_of("aten::remainder")
def remainder(out: OnnxBuilder, a: object, b: object) -> Ref:
    return out.cast(_remainder(out, *_operands(out, a, b)), out.results[0].dtype)


@_of("aten::fmod")
def fmod(out: OnnxBuilder, a: object, b: object) -> Ref:
    left, right = _operands(out, a, b)
    made = out.node("Mod", [left, right], left.dtype, max(left.rank, right.rank), fmod=1)
    return out.cast(made, out.results[0].dtype)


@_of("aten::__lshift__", "aten::bitwise_left_shift")
def left_shift(out: OnnxBuilder, x: object, count: object) -> Ref:
    factor = _shift_factor(count)
    return _binary(out, "Mul", _of_ints(out, x), out.operand(factor, out.results[0].dtype))


@_of("aten::__rshift__", "aten::bitwise_right_shift")
def right_shift(out: OnnxBuilder, x: object, count: object) -> Ref:
    wide = out.cast(_of_ints(out, x), torch.int64)
    return out.cast(_floored(out, wide, out.operand(_shift_factor(count), torch.int64)), out.results[0].dtype)


def _shift_factor(count: object) -> int:
    if not isinstance(count, int) or not 0 <= count < 31:
        raise EngineRefusal("by how many bits it shifts is no constant")
    return 1 << count


def _of_ints(out: OnnxBuilder, x: object) -> Ref:
    given = out.operand(x, out.results[0].dtype)
    if given.dtype.is_floating_point or given.dtype is torch.bool:
        raise EngineRefusal("it shifts floats or bools")
    return given


# -- powers and logarithms


@_of("aten::pow")
def pow(out: OnnxBuilder, a: object, b: object) -> Ref:
    dtype = out.results[0].dtype
    base = out.operand(a, dtype)
    if dtype.is_floating_point:
        return out.result("Pow", [base, out.operand(b, dtype)])
    if not isinstance(b, int) or not 0 <= b <= _LARGEST_POWER or dtype is torch.bool:
        raise EngineRefusal("it raises ints to a power that is no small constant")
    found = out.node("Expand", [out.operand(1, dtype), out.shape(base)], dtype, base.rank) if b == 0 else base
    for _ in range(b - 1):
        found = _binary(out, "Mul", found, base)
    return found


def _scaled_log(out: OnnxBuilder, x: object, base: float) -> Ref:
    given = out.operand(x, out.results[0].dtype)
    return _binary(out, "Mul", out.like("Log", given), out.operand(1 / math.log(base), given.dtype))


@_of("aten::log2")
def log2(out: OnnxBuilder, x: object) -> Ref:
    return _scaled_log(out, x, 2)


@_of("aten::log10")
def log10(out: OnnxBuilder, x: object) -> Ref:
    return _scaled_log(out, x, 10)


@_of("aten::log1p")
def log1p(out: OnnxBuilder, x: object) -> Ref:
    """As Kahan computes it: what is lost when 1 is added is lost in a quotient, too."""
    given = out.operand(x, out.results[0].dtype)
    one = out.operand(1, given.dtype)
    more = _binary(out, "Add", given, one)
    log = out.like("Log", more)
    corrected = _binary(out, "Mul", log, _binary(out, "Div", given, _binary(out, "Sub", more, one)))
    found = _chosen(out, out.node("IsInf", [more], torch.bool, given.rank), log, corrected)
    return _chosen(out, _compared(out, "Equal", more, 1), given, found)


@_of("aten::expm1")
def expm1(out: OnnxBuilder, x: object) -> Ref:
    given = out.operand(x, out.results[0].dtype)
    power = out.like("Exp", given)
    less = _binary(out, "Sub", power, out.operand(1, given.dtype))
    corrected = _binary(out, "Mul", less, _binary(out, "Div", given, out.like("Log", power)))
    is_exact = _joined(out, "Or", out.node("IsInf", [power], torch.bool, given.rank), _compared(out, "Equal", less, -1))
    return _chosen(out, _compared(out, "Equal", power, 1), given, _chosen(out, is_exact, less, corrected))


def _is_negative(out: OnnxBuilder, x: Ref) -> Ref:
    """Is the sign of it set, that of 0 too?"""
    inverse = out.like("Reciprocal", x)
    is_zero = _joined(out, "And", _compared(out, "Equal", x, 0), _compared(out, "Less", inverse, 0))
    return _joined(out, "Or", _compared(out, "Less", x, 0), is_zero)


@_of("aten::atan2")
def atan2(out: OnnxBuilder, a: object, b: object) -> Ref:
    dtype = out.results[0].dtype
    if not dtype.is_floating_point:
        raise EngineRefusal("it is an angle of ints")
    y, x = out.operand(a, dtype), out.operand(b, dtype)
    infinite = [out.node("IsInf", [v], torch.bool, v.rank) for v in (y, x)]
    both = _joined(out, "And", *infinite)
    above, beside = (_chosen(out, both, out.like("Sign", v), v) for v in (y, x))
    at_origin = _joined(out, "And", _compared(out, "Equal", y, 0), _compared(out, "Equal", x, 0))
    angle = _chosen(out, at_origin, y, out.like("Atan", _binary(out, "Div", above, beside)))
    half = _chosen(out, _is_negative(out, y), out.operand(-math.pi, dtype), out.operand(math.pi, dtype))
    return _chosen(out, _is_negative(out, x), _binary(out, "Add", angle, half), angle)


# -- rounding


@_of("aten::round")
def round(out: OnnxBuilder, x: object) -> Ref:
    given = out.operand(x, out.results[0].dtype)
    return out.like("Round", given) if given.dtype.is_floating_point else given


@_of("aten::trunc")
def trunc(out: OnnxBuilder, x: object) -> Ref:
    given = out.operand(x, out.results[0].dtype)
    return _towards_zero(out, given) if given.dtype.is_floating_point else given


def _towards_zero(out: OnnxBuilder, x: Ref) -> Ref:
    return _chosen(out, _compared(out, "Less", x, 0), out.like("Ceil", x), out.like("Floor", x))
