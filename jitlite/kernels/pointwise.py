"""Elementwise operators: which lane computes them, and of which dtype and shape the result is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from jitlite.ir import types as T
from jitlite.kernels.building import Builder, NestBuilder
from jitlite.kernels.lanes import result_of
from jitlite.kernels.loop_ir import (
    BOOL,
    DTYPES,
    F32,
    F64,
    I32,
    I64,
    Apply,
    Buffer,
    Cast,
    DType,
    Fill,
    Lane,
    Operand,
    Scalar,
)
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.values import Source, TensorValue, Value, identity, is_one
from jitlite.native.code import NotNative

Element = TensorValue | Operand


# -- types


def promoted(elements: Sequence[Element]) -> DType:
    """The type that torch computes with: tensors with dimensions rule over those without, and these over numbers."""
    kinds: dict[int, torch.dtype] = {}
    for element in elements:
        kind = (2 if element.rank else 1) if isinstance(element, TensorValue) else 0
        dtype = element.dtype.torch if isinstance(element, TensorValue) else _DTYPE_OF[type(sample_of(element))]
        kinds[kind] = dtype if kind not in kinds else torch.promote_types(kinds[kind], dtype)
    if not max(kinds):
        raise NotNative("numbers alone are of the default dtype")
    found = kinds[max(kinds)]
    for kind in sorted(kinds, reverse=True)[1:]:
        high = torch.empty((1,) * (max(kinds) == 2), dtype=found, device="meta")
        low = torch.empty((), dtype=kinds[kind], device="meta") if kind else _NUMBER[kinds[kind]]
        found = torch.result_type(high, low)
    return known_dtype(found)


_DTYPE_OF = {bool: torch.bool, int: torch.int64, float: torch.float64}
_NUMBER: dict[torch.dtype, bool | int | float] = {torch.bool: True, torch.int64: 1, torch.float64: 1.0}


def known_dtype(dtype: torch.dtype) -> DType:
    """The type of elements.

    Raises:
        NotNative: if kernels do not compute with it.
    """
    found = DTYPES.get(dtype)
    if found is None:
        raise NotNative(f"kernels do not compute with {dtype}")
    return found


def sample_of(number: Operand) -> float | int | bool:
    """A number of the same type as this one."""
    if isinstance(number, Scalar):
        return True if number.type is T.BOOL else 1 if number.type is T.INT else 1.0
    return number


def floating(dtype: DType) -> DType:
    """The type that functions such as `exp` compute with. What the default dtype would decide is left to Python."""
    if not dtype.is_float:
        raise NotNative(f"a function of {dtype} is of the default dtype")
    return dtype


# -- results


def result_order(builder: Builder, sizes: Sequence[Operand], parts: Sequence[TensorValue]) -> tuple[int, ...]:
    """The order in memory of the dimensions of a result: that of the operands, as torch's TensorIterator has it."""
    rank = len(sizes)
    orders = []
    for part in parts:
        shift = rank - part.rank
        order = [d + shift for d in part.order]
        if len(order) > 1:
            orders.append(order)
    wanted = list(identity(sizes))
    if all(order == sorted(order) for order in orders):
        return tuple(wanted)
    first = orders[0]
    if any(order != first for order in orders) or sorted(first) != wanted:
        raise NotNative("operands lie in memory in different orders")
    return tuple(first)


def elementwise(
    builder: Builder, op: str, elements: Sequence[Element], compute: DType, result: DType | None = None
) -> TensorValue:
    """The tensor of an operator applied at each point.

    Raises:
        NotNative: where there is no such operator for the type.
    """
    result_of(op, (compute,) * len(elements))
    parts = tuple(e for e in elements if isinstance(e, TensorValue))
    sizes = builder.broadcast(*[p.sizes for p in parts])
    kept = list(elements)
    dtype = result or compute

    def build(nest: NestBuilder) -> Lane:
        return Apply(dtype, op, tuple(nest.operand(e, compute) for e in kept))

    order = result_order(builder, sizes, parts)
    return builder.lazy(TensorValue(dtype, sizes, order, build=build, parts=parts))


def custom(
    builder: Builder, dtype: DType, parts: Sequence[TensorValue], build: Callable[[NestBuilder], Lane]
) -> TensorValue:
    """The tensor of an expression of several lanes."""
    sizes = builder.broadcast(*[p.sizes for p in parts])
    order = result_order(builder, sizes, parts)
    return builder.lazy(TensorValue(dtype, sizes, order, build=build, parts=tuple(parts)))


def cast(builder: Builder, value: TensorValue, dtype: DType) -> TensorValue:
    """The same elements, of another type."""
    if value.dtype is dtype:
        return value

    def build(nest: NestBuilder) -> Lane:
        return Cast(dtype, nest.lane(value))

    order = result_order(builder, value.sizes, [value])
    return builder.lazy(TensorValue(dtype, value.sizes, order, build=build, parts=(value,)))


def filled(builder: Builder, dtype: DType, sizes: Sequence[Operand], value: Operand) -> TensorValue:
    """A tensor of the same number everywhere."""

    def build(nest: NestBuilder) -> Lane:
        return Fill(dtype, value)

    return builder.lazy(TensorValue(dtype, tuple(sizes), identity(sizes), build=build))


# -- one operand

_OF_FLOATS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "erfc",
    "sqrt", "rsqrt", "reciprocal", "asin", "acos", "atan", "sinh", "cosh", "atanh",
)  # fmt: skip
_KEEPING = ["neg", "abs", "relu"]
_ROUNDING = ["floor", "ceil", "trunc", "round"]


def _writing(names: Sequence[str]) -> list[str]:
    return [f"aten::{name}_" for name in names]


def _kinds(names: Sequence[str]) -> list[str]:
    return [f"aten::{name}" for name in names]


@rule(*_kinds(_OF_FLOATS))
def of_floats(call: Call) -> Value:
    value = call.first()
    return elementwise(call.lowering, call.name, [value], floating(value.dtype))


@rule(*_kinds(_KEEPING))
def keeping(call: Call) -> Value:
    value = call.first()
    if value.dtype is BOOL:
        raise NotNative(f"{call.node.kind} of bools")
    return elementwise(call.lowering, call.name, [value], value.dtype)


@rule(*_kinds(_ROUNDING))
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


@rule("aten::silu")
def silu(call: Call) -> Value:
    value = call.first()
    return elementwise(call.lowering, "silu", [value], floating(value.dtype))


@rule("aten::gelu")
def gelu(call: Call) -> Value:
    value, how = call.first(), call.constant("approximate")
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


@rule(*_kinds(["isnan", "isinf", "isfinite"]))
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


@rule("aten::add", "aten::sub", "aten::subtract", "aten::rsub")
def sums(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    alpha = call.number("alpha") if call.has("alpha") else 1
    if isinstance(alpha, Scalar) or alpha != 1 or isinstance(alpha, bool):
        raise NotNative(f"{call.node.kind} with an alpha that is not 1")
    dtype = _not_bools(call, promoted([a, b]))
    if call.name == "rsub":
        a, b = b, a
    return elementwise(call.lowering, "add" if call.name == "add" else "sub", [a, b], dtype)


@rule("aten::mul", "aten::multiply")
def products(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    dtype = promoted([a, b])
    return elementwise(call.lowering, "logical_and" if dtype is BOOL else "mul", [a, b], dtype)


@rule("aten::div", "aten::divide", "aten::true_divide", "aten::floor_divide")
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
    return elementwise(call.lowering, f"div_{mode}", [a, b], dtype)


@rule("aten::remainder", "aten::fmod")
def remainders(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    return elementwise(call.lowering, call.name, [a, b], _not_bools(call, promoted([a, b])))


@rule("aten::maximum", "aten::minimum")
def extremes(call: Call) -> Value:
    a, b = call.first(), call.tensor("other")
    return larger_or_smaller(call, call.name, a, b)


def larger_or_smaller(call: Call, op: str, a: TensorValue, b: TensorValue) -> TensorValue:
    """The maximum or the minimum of two tensors, at each point."""
    dtype = promoted([a, b])
    if dtype is BOOL:
        op = "logical_or" if op == "maximum" else "logical_and"
    return elementwise(call.lowering, op, [a, b], dtype)


@rule("aten::pow")
def power(call: Call) -> Value:
    base, exponent = call.element("self"), call.element("exponent")
    if not isinstance(base, TensorValue) or isinstance(exponent, TensorValue | Scalar):
        raise NotNative("pow with an exponent that is no constant")
    dtype = floating(promoted([base, exponent]))
    if dtype is not base.dtype:
        raise NotNative("pow of another dtype")
    return elementwise(call.lowering, "pow", [base, float(exponent)], dtype)


@rule(*_kinds(["eq", "ne", "lt", "le", "gt", "ge"]))
def comparisons(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    return elementwise(call.lowering, call.name, [a, b], promoted([a, b]), BOOL)


@rule(*_kinds(["logical_and", "logical_or", "logical_xor"]))
def logic(call: Call) -> Value:
    a, b = call.first(), call.tensor("other")
    return elementwise(call.lowering, call.name, [a, b], promoted([a, b]), BOOL)


@rule(*_kinds(["__and__", "__or__", "__xor__", "bitwise_and", "bitwise_or", "bitwise_xor"]))
def bits(call: Call) -> Value:
    a, b = call.element("self"), _second(call)
    dtype = promoted([a, b])
    if dtype.is_float:
        raise NotNative(f"{call.node.kind} of floats")
    which = call.name.strip("_").removeprefix("bitwise_")
    return elementwise(call.lowering, f"{'logical' if dtype is BOOL else 'bitwise'}_{which}", [a, b], dtype)


# -- more operands


@rule("aten::clamp", "aten::clamp_min", "aten::clamp_max", "aten::hardtanh", "aten::clip")
def clamp(call: Call) -> Value:
    value = call.first()
    low: Value = None
    high: Value = None
    names = ("min_val", "max_val") if call.name == "hardtanh" else ("min", "max")
    if call.has(names[0]):
        low = call.get(names[0])
    if call.has(names[1]):
        high = call.get(names[1])
    bounds = [b for b in (low, high) if b is not None]
    if not bounds or any(isinstance(b, TensorValue) for b in bounds):
        raise NotNative("clamp to tensors")
    elements: list[Element] = [value, *bounds]  # type: ignore[list-item]
    dtype = _not_bools(call, promoted(elements))
    if dtype is not value.dtype and call.name == "hardtanh":
        raise NotNative("hardtanh of another dtype")
    op = "clamp" if len(bounds) == 2 else "clamp_min" if low is not None else "clamp_max"
    return elementwise(call.lowering, op, elements, dtype)


@rule("aten::relu6")
def relu6(call: Call) -> Value:
    value = call.first()
    return elementwise(call.lowering, "clamp", [value, 0, 6], _not_bools(call, value.dtype))


@rule("aten::where")
def where(call: Call) -> Value:
    condition = call.tensor("condition")
    if condition.dtype is not BOOL or not call.has("other"):
        raise NotNative("where with a condition that is not of bools")
    a, b = call.element("self"), call.element("other")
    dtype = promoted([a, b])
    parts = [condition, *(e for e in (a, b) if isinstance(e, TensorValue))]

    def build(nest: NestBuilder) -> Lane:
        return Apply(dtype, "where", (nest.lane(condition), nest.operand(a, dtype), nest.operand(b, dtype)))

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
        return Apply(value.dtype, "where", (nest.lane(mask), Fill(value.dtype, fill), kept))

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


# -- conversions


def dtype_argument(call: Call, name: str = "dtype") -> DType | None:
    """The dtype that an argument says; None where it says none."""
    if not call.has(name):
        return None
    found = call.constant(name)
    return None if found is None else coded_dtype(found)


def coded_dtype(code: object) -> DType:
    """The dtype of a number that stands for one in graphs, or of torch's own."""
    for dtype in (F32, F64, I64, I32, BOOL):
        if code is dtype.torch or (type(code) is int and code == dtype.code):
            return dtype
    raise NotNative(f"kernels do not compute with dtype {code!r}")


@rule("aten::to", view=True)
def to(call: Call) -> Value:
    value = call.first()
    for name in ("device", "layout", "pin_memory"):
        call.default(name, None)
    if call.has("memory_format"):
        call.default("memory_format", None)
    if call.has("copy"):
        call.default("copy", False)
    if call.has("other"):
        dtype: DType | None = call.tensor("other").dtype
    else:
        dtype = dtype_argument(call)
    return value if dtype is None else cast(call.lowering, value, dtype)


@rule("aten::type_as", view=True)
def type_as(call: Call) -> Value:
    return cast(call.lowering, call.first(), call.tensor("other").dtype)


@rule(*_kinds(["float", "double", "long", "int", "bool"]), view=True)
def named_cast(call: Call) -> Value:
    names = {"float": F32, "double": F64, "long": I64, "int": I32, "bool": BOOL}
    return cast(call.lowering, call.first(), names[call.name])


@rule("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", view=True)
def dropout(call: Call) -> Value:
    if call.constant("train") is not False and call.constant("p") != 0:
        raise NotNative("dropout draws random numbers")
    return call.first()


@rule("aten::clone")
def clone(call: Call) -> Value:
    call.default("memory_format", None)
    value = call.first()

    def build(nest: NestBuilder) -> Lane:
        return nest.lane(value)

    lowering = call.lowering
    order = result_order(lowering, value.sizes, [value])
    made = TensorValue(value.dtype, value.sizes, order, build=build, parts=(value,))
    lowering.lazy(made)
    lowering.force(made)  # what is written to the one is not seen in the other
    return made


# -- new tensors


def _factory(call: Call, default: DType | None, value: Operand) -> Value:
    for name in ("layout", "device", "memory_format"):
        call.default(name, None)
    if call.has("pin_memory") and call.constant("pin_memory"):
        raise NotNative("pinned memory")
    dtype = dtype_argument(call) or default
    if dtype is None:
        raise NotNative("a new tensor is of the default dtype")
    sizes = [_size(call, s) for s in call.numbers("size")] if call.has("size") else list(call.first().sizes)
    if not call.has("size") and not call.first().in_order:
        raise NotNative("a tensor like one that lies in another order")
    return filled(call.lowering, dtype, sizes, value)


def _size(call: Call, size: Operand) -> Operand:
    call.lowering.check(call.lowering.index("le", 0, size), "a size is negative")
    return size


def default_dtype(call: Call) -> DType:
    """The default dtype of this moment; the kernel holds for it only."""
    call.lowering.kernel.default_dtype = torch.get_default_dtype()
    return known_dtype(torch.get_default_dtype())


@rule("aten::zeros", "aten::ones", "aten::zeros_like", "aten::ones_like")
def new(call: Call) -> Value:
    like = call.first().dtype if call.name.endswith("_like") else default_dtype(call)
    return _factory(call, like, 1 if call.name.startswith("ones") else 0)


@rule("aten::full", "aten::full_like")
def full(call: Call) -> Value:
    value = call.number("fill_value")
    if call.name == "full_like":
        return _factory(call, call.first().dtype, value)
    sample = sample_of(value)
    like = BOOL if isinstance(sample, bool) else I64 if isinstance(sample, int) else default_dtype(call)
    return _factory(call, like, value)


@rule("aten::new_zeros", "aten::new_ones", "aten::new_full")
def new_like(call: Call) -> Value:
    value: Operand = call.number("fill_value") if call.name == "new_full" else int(call.name == "new_ones")
    return _factory(call, call.first().dtype, value)


@rule("aten::arange")
def arange(call: Call) -> Value:
    for name in ("layout", "device"):
        call.default(name, None)
    bounds = [call.number(n) for n in ("start", "end", "step") if call.has(n)]
    if any(isinstance(sample_of(b), float) for b in bounds):
        raise NotNative("arange of floats")
    start, end = (bounds[0], bounds[1]) if call.has("start") else (0, bounds[0])
    step = call.constant("step") if call.has("step") else 1
    dtype = dtype_argument(call) or I64
    if step != 1 or dtype not in (I64, I32):
        raise NotNative("arange with such a step or dtype")
    lowering = call.lowering
    lowering.check(lowering.index("le", start, end), "arange of a negative length")
    sizes = (lowering.index("sub", end, start),)

    def build(nest: NestBuilder) -> Lane:
        at = nest.position(0) or Fill(I64, 0)
        found: Lane = Apply(I64, "add", (at, Fill(I64, start)))
        return found if dtype is I64 else Cast(dtype, found)

    return lowering.lazy(TensorValue(dtype, sizes, identity(sizes), build=build))


# -- writing


def store(lowering: Builder, place_of: TensorValue, value: Element) -> None:
    """Write elements into a tensor that is in memory, broadcast as `copy_` does."""
    if place_of.source is not Source.OWN:
        raise NotNative("a tensor that comes from outside is written")
    into = lowering.force(place_of)
    if any(
        not isinstance(s, Scalar) and s == 0 and not is_one(n) for s, n in zip(into.strides, into.sizes, strict=True)
    ):
        raise NotNative("an expanded tensor is written")
    lowering.before_write(into.buffer)
    builder = NestBuilder(lowering, into.sizes, tuple(range(into.rank)))
    if isinstance(value, TensorValue):
        if value.rank > into.rank:
            raise NotNative("a tensor of more dimensions is written")
        lowering.broadcast(into.sizes, value.sizes)
        for size, own in zip(reversed(into.sizes), reversed(value.sizes), strict=False):
            if not is_one(own):
                lowering.require_equal(size, own, "a tensor of another shape is written")
        if _may_overlap(value, into.buffer):
            raise NotNative("a tensor is written with what it holds elsewhere")
    builder.write([(into, builder.operand(value, place_of.dtype))])


def _may_overlap(value: TensorValue, buffer: Buffer) -> bool:
    """Does the value read the memory that is written? `before_write` has stored expressions, so it is a view."""
    return value.place is not None and value.place.buffer is buffer


@rule("aten::copy_", "aten::fill_", writes=True)
def copy_(call: Call) -> Value:
    into = call.first()
    value = call.lowering.value(call.node.inputs[1])
    if call.name == "copy_" and call.has("non_blocking"):
        call.default("non_blocking", False)
    if not isinstance(value, TensorValue | Scalar | bool | int | float):
        raise NotNative(f"{call.node.kind} gets no tensor or number")
    store(call.lowering, into, value)
    return into


@rule("aten::zero_", writes=True)
def zero_(call: Call) -> Value:
    into = call.first()
    store(call.lowering, into, 0)
    return into


_IN_PLACE: dict[str, Callable[[Call], Value]] = {
    "add": sums, "sub": sums, "mul": products, "div": quotients, "clamp": clamp, "clamp_min": clamp, "clamp_max": clamp,
    "relu": keeping, "neg": keeping, "abs": keeping, "masked_fill": masked_fill,
    **dict.fromkeys(_OF_FLOATS, of_floats), **dict.fromkeys(_ROUNDING, rounding),
}  # fmt: skip


class _Plain(Call):
    """The operator that an in-place one applies."""

    @property
    def name(self) -> str:
        return super().name.removesuffix("_")


@rule(*_writing(list(_IN_PLACE)), writes=True)
def in_place(call: Call) -> Value:
    into = call.first()
    if into.source is not Source.OWN:
        raise NotNative("a tensor that comes from outside is written")
    plain = _Plain(call.lowering, call.node)
    value = _IN_PLACE[plain.name](plain)
    assert isinstance(value, TensorValue)
    if value.dtype is not into.dtype:
        raise NotNative(f"{call.node.kind} would give another dtype")
    if not call.lowering.same_sizes(value.sizes, into.sizes):
        raise NotNative(f"{call.node.kind} broadcasts the tensor that it writes")
    call.lowering.force(value)  # all of it before the first element is written
    store(call.lowering, into, value)
    return into
