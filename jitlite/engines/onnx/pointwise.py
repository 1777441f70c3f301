"""Operators on elements, and on numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from jitlite.engines.converters import Ref, common_dtype, number
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.onnx.builder import CONVERTERS, OnnxBuilder

_of = CONVERTERS.of

_WITHOUT_INTS = ("Floor", "Ceil")
"""Of ONNX's operators that keep the dtype those that take floats only; of ints they are the identity."""


def _floating(op: str, out: OnnxBuilder, x: object) -> Ref:
    return out.result(op, [out.operand(x, out.results[0].dtype)])


def _same(op: str, out: OnnxBuilder, x: object) -> Ref:
    given = out.operand(x, out.results[0].dtype)
    return given if op in _WITHOUT_INTS and not given.dtype.is_floating_point else out.result(op, [given])


def _compare(op: str, out: OnnxBuilder, a: object, b: object) -> Ref:
    common = common_dtype(a, b)
    return out.result(op, [out.operand(a, common), out.operand(b, common)])


def _declare(convert: Callable[..., Ref], ops: str) -> None:
    """Declare converters: of each operator of ATen, its name and that of ONNX's operator are given."""
    words = ops.split()
    for name, op in zip(words[::2], words[1::2], strict=True):
        _of(f"aten::{name}")(partial(convert, op))


_declare(
    _floating,
    "sqrt Sqrt exp Exp log Log tanh Tanh sigmoid Sigmoid sin Sin cos Cos tan Tan asin Asin acos Acos atan Atan "
    "sinh Sinh cosh Cosh asinh Asinh acosh Acosh atanh Atanh erf Erf reciprocal Reciprocal",
)
_declare(_same, "neg Neg abs Abs floor Floor ceil Ceil")
_declare(_compare, "eq Equal lt Less le LessOrEqual gt Greater ge GreaterOrEqual")


@_of("aten::ne")
def ne(out: OnnxBuilder, a: object, b: object) -> Ref:
    return out.like("Not", _compare("Equal", out, a, b))


@_of("aten::relu")
def relu(out: OnnxBuilder, x: object) -> Ref:
    return out.result("Relu", [out.given(x)])


def _scaled(out: OnnxBuilder, value: object, factor: object, dtype: torch.dtype) -> Ref:
    """A value times a number, of this dtype; the factor 1 is left out."""
    given = out.operand(value, dtype)
    if not isinstance(factor, Ref) and factor == 1:
        return given
    return out.node("Mul", [given, out.operand(factor, dtype)], dtype, given.rank)


@_of("aten::add")
def add(out: OnnxBuilder, a: object, b: object, alpha: object = 1) -> Ref:
    return _added(out, "Add", "Or", a, b, alpha)


@_of("aten::sub")
def sub(out: OnnxBuilder, a: object, b: object, alpha: object = 1) -> Ref:
    return _added(out, "Sub", None, a, b, alpha)


@_of("aten::rsub")
def rsub(out: OnnxBuilder, a: object, b: object, alpha: object = 1) -> Ref:
    dtype = out.results[0].dtype
    return out.result("Sub", [out.operand(b, dtype), _scaled(out, a, alpha, dtype)])


def _added(out: OnnxBuilder, op: str, logical: str | None, a: object, b: object, alpha: object) -> Ref:
    dtype = out.results[0].dtype
    if dtype is torch.bool:
        if logical is None or alpha not in (1, True):
            raise EngineRefusal("it is arithmetic on bools")
        return out.result(logical, [out.operand(a, dtype), out.operand(b, dtype)])
    return out.result(op, [out.operand(a, dtype), _scaled(out, b, alpha, dtype)])


@_of("aten::mul")
def mul(out: OnnxBuilder, a: object, b: object) -> Ref:
    dtype = out.results[0].dtype
    return out.result("And" if dtype is torch.bool else "Mul", [out.operand(a, dtype), out.operand(b, dtype)])


@_of("aten::sign")
def sign(out: OnnxBuilder, x: object) -> Ref:
    """That of nan is 0 in torch."""
    given = out.given(x)
    if not given.dtype.is_floating_point:
        return out.like("Sign", given)
    nan = out.node("IsNaN", [given], torch.bool, given.rank)
    return out.result("Where", [nan, out.operand(0, given.dtype), out.like("Sign", given)])


@_of("aten::maximum")
def maximum(out: OnnxBuilder, a: object, b: object) -> Ref:
    return _extremum(out, "Max", a, b)


@_of("aten::minimum")
def minimum(out: OnnxBuilder, a: object, b: object) -> Ref:
    return _extremum(out, "Min", a, b)


def _extremum(out: OnnxBuilder, op: str, a: object, b: object) -> Ref:
    dtype = out.results[0].dtype
    if dtype is torch.bool:
        op = {"Max": "Or", "Min": "And"}[op]
    return out.result(op, [out.operand(a, dtype), out.operand(b, dtype)])


@_of("aten::rsqrt")
def rsqrt(out: OnnxBuilder, x: object) -> Ref:
    root = out.node("Sqrt", [out.operand(x, out.results[0].dtype)], out.results[0].dtype, out.results[0].rank)
    return out.like("Reciprocal", root)


@_of("aten::gelu")
def gelu(out: OnnxBuilder, x: object, approximate: str = "none") -> Ref:
    return out.result("Gelu", [out.given(x)], approximate=approximate)


@_of("aten::clamp")
def clamp(out: OnnxBuilder, x: object, low: object = None, high: object = None) -> Ref:
    return _clamped(out, x, low, high)


def _clamped(out: OnnxBuilder, x: object, low: object, high: object) -> Ref:
    dtype = out.results[0].dtype
    result = out.operand(x, dtype)
    for op, bound in (("Max", low), ("Min", high)):
        if bound is not None:
            result = out.node(op, [result, out.operand(bound, dtype)], dtype, out.results[0].rank)
    return result


@_of("aten::hardtanh")
def hardtanh(out: OnnxBuilder, x: object, low: object = -1, high: object = 1) -> Ref:
    return _clamped(out, x, low, high)


@_of("aten::leaky_relu")
def leaky_relu(out: OnnxBuilder, x: object, slope: object = 0.01) -> Ref:
    return out.result("LeakyRelu", [out.given(x)], alpha=number(slope))


@_of("aten::elu")
def elu(out: OnnxBuilder, x: object, alpha: object = 1, scale: object = 1, input_scale: object = 1) -> Ref:
    if number(input_scale) != 1:
        raise EngineRefusal("it scales its input")
    made = out.like("Elu", out.given(x), alpha=number(alpha))
    return _scaled(out, made, scale, made.dtype)


@_of("aten::where")
def where(out: OnnxBuilder, condition: object, a: object, b: object) -> Ref:
    dtype = out.results[0].dtype
    return out.result("Where", [out.operand(condition, torch.bool), out.operand(a, dtype), out.operand(b, dtype)])


@_of("aten::logical_not")
def logical_not(out: OnnxBuilder, x: object) -> Ref:
    return out.result("Not", [out.operand(x, torch.bool)])


@_of("aten::bitwise_not")
def bitwise_not(out: OnnxBuilder, x: object) -> Ref:
    return out.result("Not" if out.results[0].dtype is torch.bool else "BitwiseNot", [out.given(x)])


def _logical(op: str, out: OnnxBuilder, a: object, b: object) -> Ref:
    return out.result(op, [out.operand(a, torch.bool), out.operand(b, torch.bool)])


def _by_bits(op: str, out: OnnxBuilder, a: object, b: object) -> Ref:
    dtype = out.results[0].dtype
    name = op if dtype is torch.bool else f"Bitwise{op}"
    return out.result(name, [out.operand(a, dtype), out.operand(b, dtype)])


_declare(_logical, "logical_and And logical_or Or logical_xor Xor")
_declare(_by_bits, "bitwise_and And bitwise_or Or bitwise_xor Xor")


@_of("aten::isnan")
def isnan(out: OnnxBuilder, x: object) -> Ref:
    return _of_floats(out, "IsNaN", x)


@_of("aten::isinf")
def isinf(out: OnnxBuilder, x: object) -> Ref:
    return _of_floats(out, "IsInf", x)


def _of_floats(out: OnnxBuilder, op: str, x: object) -> Ref:
    given = out.given(x)
    if not given.dtype.is_floating_point:
        raise EngineRefusal("it asks about ints")
    return out.result(op, [given])


@_of("aten::to", "aten::_to_copy", "prims::convert_element_type")
def to(out: OnnxBuilder, x: object, *options: object) -> Ref:
    return out.cast(out.given(x), out.results[0].dtype)


@_of("aten::alias", "aten::clone", "aten::detach", "aten::contiguous", "aten::lift_fresh_copy")
def alias(out: OnnxBuilder, x: object, *options: object) -> Ref:
    return out.result("Identity", [out.given(x)])


@_of("aten::full_like")
def full_like(out: OnnxBuilder, x: object, value: object, *options: object) -> Ref:
    dtype = out.results[0].dtype
    return out.result("Expand", [out.operand(value, dtype), out.shape(out.given(x))])


@_of("aten::full")
def full(out: OnnxBuilder, sizes: object, value: object, *options: object) -> Ref:
    if not isinstance(sizes, list):
        raise EngineRefusal("its sizes are not written out")
    return out.result("Expand", [out.operand(value, out.results[0].dtype), out.ints(sizes)])


@_of("aten::empty")
def empty(out: OnnxBuilder, sizes: object, *options: object) -> Ref:
    return full(out, sizes, 0)


@_of("aten::scalar_tensor")
def scalar_tensor(out: OnnxBuilder, value: object, *options: object) -> Ref:
    return out.operand(value, out.results[0].dtype)


@_of("aten::arange")
def arange(out: OnnxBuilder, *arguments: object) -> Ref:
    bounds = list(arguments[:-4])  # behind them are dtype, layout, device and pin_memory
    dtype, first = out.results[0].dtype, bounds.pop(0) if len(bounds) > 1 else 0
    end, step = [*bounds, 1][:2]
    if dtype not in (torch.int16, torch.int32, torch.int64, torch.float32, torch.float64):
        raise EngineRefusal(f"ONNX has no range of {dtype}")
    return out.result("Range", [out.operand(v, dtype) for v in (first, end, step)])


@_of("aten::Float")
def to_float(out: OnnxBuilder, x: object) -> Ref:
    return _number(out.operand(x, torch.float64))


def _number(x: Ref) -> Ref:
    return Ref(x.name, x.dtype, 0, True)
