"""Conversions, copies, and new tensors of a known value."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitlite.kernels.building import NestBuilder
from jitlite.kernels.elementwise import cast, filled, known_dtype, require_like, result_order, sample_of
from jitlite.kernels.loop_ir import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    I32,
    I64,
    DType,
    Fill,
    Lane,
    LaneCast,
    LaneOperator,
    Operand,
    Place,
    Scalar,
)
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, aten, rule
from jitlite.kernels.values import TensorValue, Value, identity
from jitlite.native.code import NotNative

# -- conversions


def dtype_argument(call: Call, name: str = "dtype") -> DType | None:
    """The dtype that an argument says; None where it says none."""
    if not call.has(name):
        return None
    found = call.constant(name)
    return None if found is None else coded_dtype(found)


def coded_dtype(code: object) -> DType:
    """The dtype of a number that stands for one in graphs, or of torch's own."""
    for dtype in DTYPES.values():
        if code is dtype.torch or (type(code) is int and code == dtype.code):
            return dtype
    raise NotNative(f"kernels do not compute with dtype {code!r}")


@rule("aten::to", view=True, may_copy=True)
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


@rule("aten::type_as", view=True, may_copy=True)
def type_as(call: Call) -> Value:
    return cast(call.lowering, call.first(), call.tensor("other").dtype)


@rule(*aten(["float", "double", "long", "int", "bool", "half", "bfloat16"]), view=True, may_copy=True)
def named_cast(call: Call) -> Value:
    names = {"float": F32, "double": F64, "long": I64, "int": I32, "bool": BOOL, "half": F16, "bfloat16": BF16}
    return cast(call.lowering, call.first(), names[call.name])


@rule("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout", view=True)
def dropout(call: Call) -> Value:
    if call.constant("p") != 0:
        call.require_false("train", "dropout draws random numbers")
    return call.first()


@rule("aten::clone", narrow=Narrow.AS_THEY_ARE)
def clone(call: Call) -> Value:
    call.default("memory_format", None)
    value, lowering = call.first(), call.lowering
    require_like(lowering, value)

    def build(nest: NestBuilder) -> Lane:
        return nest.lane(value)

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
    if not call.has("size"):
        require_like(call.lowering, call.first())
        if not call.first().in_order:
            raise NotNative("a tensor like one that lies in another order")
    return filled(call.lowering, dtype, sizes, value)


def _size(call: Call, size: Operand) -> Operand:
    call.lowering.check(call.lowering.index("le", 0, size), "a size is negative")
    return size


def default_dtype(call: Call) -> DType:
    """The default dtype of this moment; the kernel holds for it only."""
    call.lowering.kernel.default_dtype = torch.get_default_dtype()
    return known_dtype(torch.get_default_dtype())


@rule("aten::zeros", "aten::ones", "aten::zeros_like", "aten::ones_like", narrow=Narrow.AS_THEY_ARE)
def new(call: Call) -> Value:
    like = call.first().dtype if call.name.endswith("_like") else default_dtype(call)
    return _factory(call, like, 1 if call.name.startswith("ones") else 0)


@rule("aten::full", "aten::full_like", narrow=Narrow.AS_THEY_ARE)
def full(call: Call) -> Value:
    value = call.number("fill_value")
    if call.name == "full_like":
        return _factory(call, call.first().dtype, value)
    sample = sample_of(value)
    like = BOOL if isinstance(sample, bool) else I64 if isinstance(sample, int) else default_dtype(call)
    return _factory(call, like, value)


@rule("aten::new_zeros", "aten::new_ones", "aten::new_full", narrow=Narrow.AS_THEY_ARE)
def new_like(call: Call) -> Value:
    value: Operand = call.number("fill_value") if call.name == "new_full" else int(call.name == "new_ones")
    return _factory(call, call.first().dtype, value)


@rule("aten::empty", "aten::empty_like", "aten::new_empty", narrow=Narrow.AS_THEY_ARE)
def empty(call: Call) -> Value:
    """What is in new memory is nobody's business; zeros are as good as anything."""
    if call.name != "empty_like":
        return _factory(call, default_dtype(call) if call.name == "empty" else call.first().dtype, 0)
    return _factory(call, call.first().dtype, 0)


@rule("aten::eye", narrow=Narrow.AS_THEY_ARE)
def eye(call: Call) -> Value:
    dtype = _plain_dtype(call)
    sizes = tuple(_size(call, call.number(name)) for name in ("n", "m" if call.has("m") else "n"))

    def build(nest: NestBuilder) -> Lane:
        row, column = (nest.position(d) or Fill(I64, 0) for d in (0, 1))
        return LaneCast(dtype, LaneOperator(BOOL, "eq", (row, column)))

    return call.lowering.lazy(TensorValue(dtype, sizes, identity(sizes), build=build))


def _plain_dtype(call: Call) -> DType:
    for name in ("layout", "device"):
        call.default(name, None)
    if call.has("pin_memory") and call.constant("pin_memory"):
        raise NotNative("pinned memory")
    return dtype_argument(call) or default_dtype(call)


MOST_ELEMENTS = 32
"""Numbers that are stored one by one."""


@rule("aten::tensor", narrow=Narrow.AS_THEY_ARE)
def tensor(call: Call) -> Value:
    call.default("device", None)
    call.default("requires_grad", False)
    given = call.at(0)
    kind, found = _numbers_of_one_type(given if isinstance(given, list) else [given])
    dtype = dtype_argument(call) or {bool: BOOL, int: I64}.get(kind) or default_dtype(call)
    if kind is float and not dtype.is_float:
        raise NotNative("a tensor of ints is made of floats")
    lowering = call.lowering
    if not isinstance(given, list):
        return filled(lowering, dtype, (), found[0])
    made = lowering.memory(dtype, [len(found)])
    assert made.place is not None
    for i, number in enumerate(found):
        NestBuilder(lowering, (), ()).write([(Place(made.place.buffer, i, (), ()), Fill(dtype, number))])
    return made


def _numbers_of_one_type(numbers: Sequence[object]) -> tuple[type, list[Scalar | bool | int | float]]:
    if not numbers or len(numbers) > MOST_ELEMENTS:
        raise NotNative("a tensor of so many numbers")
    found = [v for v in numbers if isinstance(v, Scalar | bool | int | float)]
    kinds = {type(sample_of(v)) for v in found}
    if len(found) < len(numbers) or len(kinds) > 1:
        raise NotNative("a tensor of what are not numbers of one type")
    [kind] = kinds
    return kind, found


@rule("aten::arange", narrow=Narrow.AS_THEY_ARE)
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
        found: Lane = LaneOperator(I64, "add", (at, Fill(I64, start)))
        return found if dtype is I64 else LaneCast(dtype, found)

    return lowering.lazy(TensorValue(dtype, sizes, identity(sizes), build=build))
