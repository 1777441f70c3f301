"""Norms: of batches, groups, root mean squares, vectors; and variances with their means."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.elementwise import cast, elementwise, floating
from jitlite.kernels.factories import dtype_argument
from jitlite.kernels.loop_ir import DType, Operand, Place
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.totals import averaged, count_of, dims_of, last_dims, norm_parameter, reduced, spread, varied
from jitlite.kernels.values import MemorySource, TensorValue, Value, identity, is_one
from jitlite.native.code import NotNative


def _along(builder: KernelBuilder, value: TensorValue, dim: int, rank: int) -> TensorValue:
    """A tensor of one dimension as one of more, whose sizes are 1 but for one."""
    place = builder.force(value)
    sizes, strides = [1 if d != dim else place.sizes[0] for d in range(rank)], [0] * rank
    found = Place(place.buffer, place.offset, tuple(sizes), (*strides[:dim], place.strides[0], *strides[dim + 1 :]))
    return TensorValue(value.dtype, found.sizes, identity(found.sizes), found, source=value.source)


def _channels(call: Call, value: TensorValue, name: str) -> TensorValue | None:
    """A parameter with an element for each channel."""
    if call.get(name) is None:
        return None
    found = call.tensor(name)
    if found.dtype is not value.dtype or found.rank != 1:
        raise NotNative(f"{call.node.kind} with a parameter of another dtype or rank")
    call.lowering.require_equal(found.sizes[0], value.sizes[1], "there are not as many parameters as channels")
    return found


@rule("aten::batch_norm")
def batch_norm(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    call.require_false("training", "batch_norm with statistics of the batch")
    dtype = floating(value.dtype)
    if value.rank < 2 or not value.in_order:
        raise NotNative("batch_norm of a tensor that lies in another order")
    weight, bias, mean, var = (
        _channels(call, value, name) for name in ("weight", "bias", "running_mean", "running_var")
    )
    if mean is None or var is None:
        raise NotNative("batch_norm without running statistics")
    eps = call.number("eps")
    root = elementwise(lowering, "sqrt", [elementwise(lowering, "add", [var, eps], dtype)], dtype)
    scale = elementwise(lowering, "reciprocal", [root], dtype)
    if weight is not None:
        scale = elementwise(lowering, "mul", [scale, weight], dtype)
    moved = elementwise(lowering, "mul", [mean, scale], dtype)
    shift = elementwise(lowering, "neg" if bias is None else "sub", [moved] if bias is None else [bias, moved], dtype)
    lowering.force_all([scale, shift])
    return _scaled(lowering, value, *(_along(lowering, v, 1, value.rank) for v in (scale, shift)))


def _scaled(builder: KernelBuilder, value: TensorValue, scale: TensorValue, shift: TensorValue) -> TensorValue:
    return elementwise(builder, "add", [elementwise(builder, "mul", [value, scale], value.dtype), shift], value.dtype)


@rule("aten::group_norm")
def group_norm(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    dtype, groups, eps = floating(value.dtype), call.constant("num_groups"), call.number("eps")
    place = lowering.force(value)
    if value.rank < 2 or not lowering.is_contiguous(place) or type(groups) is not int or groups < 1:
        raise NotNative("group_norm of such a tensor")
    weight, bias = _channels(call, value, "weight"), _channels(call, value, "bias")
    each = lowering.index("floordiv", value.sizes[1], groups)
    lowering.require_equal(lowering.index("mul", each, groups), value.sizes[1], "channels do not make groups")
    inner = lowering.numel(value.sizes[2:])
    sizes = (value.sizes[0], groups, each, inner)
    for size in sizes:
        lowering.check(lowering.index("lt", 0, size), "group_norm of no elements")
    view = Place(place.buffer, place.offset, sizes, lowering.strides_of(sizes))
    parts = TensorValue(dtype, sizes, identity(sizes), view, source=MemorySource.MIXED)
    mean = averaged(lowering, parts, [2, 3], True)
    var = spread(lowering, parts, [2, 3], True, count_of(lowering, parts, [2, 3]), mean)
    scale = elementwise(lowering, "rsqrt", [elementwise(lowering, "add", [var, eps], dtype)], dtype)
    lowering.force(scale)
    found = elementwise(lowering, "mul", [elementwise(lowering, "sub", [parts, mean], dtype), scale], dtype)
    for op, parameter in (("mul", weight), ("add", bias)):
        if parameter is not None:
            found = elementwise(lowering, op, [found, _grouped(lowering, parameter, (1, groups, each, 1))], dtype)
    made = lowering.memory(dtype, value.sizes)
    assert made.place is not None
    lowering.copy(found, Place(made.place.buffer, 0, sizes, view.strides))
    return made


def _grouped(builder: KernelBuilder, value: TensorValue, sizes: Sequence[Operand]) -> TensorValue:
    place = builder.force(value)
    _, groups, each, _ = sizes
    stride = place.strides[0]
    strides = (0, 0 if is_one(groups) else builder.index("mul", each, stride), 0 if is_one(each) else stride, 0)
    found = Place(place.buffer, place.offset, tuple(sizes), strides)
    return TensorValue(value.dtype, found.sizes, identity(found.sizes), found, source=value.source)


@rule("aten::rms_norm")
def rms_norm(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    dtype = floating(value.dtype)
    dims = last_dims(call, value)
    weight = norm_parameter(call, value, dims, "weight")
    if not value.in_order:
        raise NotNative("a norm of a tensor that lies in another order")
    eps = torch.finfo(dtype.torch).eps if call.get("eps") is None else call.number("eps")
    lowering.force(value)
    squares = averaged(lowering, elementwise(lowering, "mul", [value, value], dtype), dims, True)
    scale = elementwise(lowering, "rsqrt", [elementwise(lowering, "add", [squares, eps], dtype)], dtype)
    lowering.force(scale)
    found = elementwise(lowering, "mul", [value, scale], dtype)
    return found if weight is None else elementwise(lowering, "mul", [found, weight], dtype)


@rule("aten::var_mean", "aten::std_mean")
def spread_and_mean(call: Call) -> Value:
    value = call.first()
    call.lowering.force(value)
    found = varied(call, value, is_root=call.name == "std_mean")
    keep = bool(call.has("keepdim") and call.constant("keepdim"))
    return [found, averaged(call.lowering, value, dims_of(call, value), keep)]


@rule("aten::norm", "aten::linalg_vector_norm")
def vector_norm(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    order = call.constant("p" if call.has("p") else "ord")
    dtype: DType = floating(dtype_argument(call) or value.dtype)
    if dtype is not value.dtype or order not in (None, 1, 2):
        raise NotNative("a norm of such an order or dtype")
    value = cast(lowering, value, dtype)
    dims = dims_of(call, value)
    keep = bool(call.has("keepdim") and call.constant("keepdim"))
    if order == 1:
        return reduced(lowering, "sum", elementwise(lowering, "abs", [value], dtype), dims, keep)
    total = reduced(lowering, "sum", elementwise(lowering, "mul", [value, value], dtype), dims, keep)
    return elementwise(lowering, "sqrt", [total], dtype)
