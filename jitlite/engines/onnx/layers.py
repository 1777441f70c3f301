"""Products, convolutions, pooling, normalization and reductions."""

from __future__ import annotations

from functools import partial

import torch

from jitlite.engines.converters import Ref, constants, number
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.onnx.builder import CONVERTERS, Attribute, OnnxBuilder

_of = CONVERTERS.of


@_of("aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::dot")
def product(out: OnnxBuilder, a: object, b: object) -> Ref:
    left, right = out.given(a), out.given(b)
    if not left.dtype.is_floating_point and left.dtype not in (torch.int32, torch.int64):
        raise EngineRefusal(f"onnxruntime multiplies no matrices of {left.dtype}")
    return out.result("MatMul", [left, right])


@_of("aten::addmm")
def addmm(out: OnnxBuilder, bias: object, a: object, b: object, beta: object = 1, alpha: object = 1) -> Ref:
    if not out.results[0].dtype.is_floating_point:
        raise EngineRefusal("it multiplies ints")
    parts = [out.given(a), out.given(b), out.given(bias)]
    return out.result("Gemm", parts, alpha=number(alpha), beta=number(beta))


@_of("aten::linear")
def linear(out: OnnxBuilder, x: object, weight: object, bias: object = None) -> Ref:
    turned = out.like("Transpose", out.given(weight), perm=[1, 0])
    made = out.result("MatMul", [out.given(x), turned])
    return made if bias is None else out.result("Add", [made, out.given(bias)])


@_of("aten::convolution")
def convolution(
    out: OnnxBuilder, x: object, weight: object, bias: object, stride: object, padding: object, dilation: object,
    transposed: object, output_padding: object, groups: object,
) -> Ref:  # fmt: skip
    inputs = [out.given(v) for v in (x, weight) if v is not None]
    if bias is not None:
        inputs.append(out.given(bias))
    around = list(constants(padding))
    shared: dict[str, Attribute] = {
        "strides": constants(stride), "pads": [*around, *around], "dilations": constants(dilation),
        "group": constants(groups)[0],
    }  # fmt: skip
    if transposed:
        return out.result("ConvTranspose", inputs, output_padding=constants(output_padding), **shared)
    return out.result("Conv", inputs, **shared)


@_of("aten::_native_batch_norm_legit_no_training")
def batch_norm(
    out: OnnxBuilder,
    x: object,
    weight: object,
    bias: object,
    mean: object,
    variance: object,
    momentum: object,
    epsilon: object,
) -> Ref:
    given, average = out.given(x), out.given(mean)
    if average.dtype is not given.dtype:
        raise EngineRefusal("its statistics have another dtype")
    ones = partial(_filled_like, out, average)
    scale = ones(1) if weight is None else out.given(weight)
    shift = ones(0) if bias is None else out.given(bias)
    return out.result(
        "BatchNormalization", [given, scale, shift, average, out.given(variance)], epsilon=number(epsilon)
    )


def _filled_like(out: OnnxBuilder, x: Ref, value: int) -> Ref:
    return out.node("Expand", [out.operand(value, x.dtype), out.shape(x)], x.dtype, x.rank)


@_of("aten::native_layer_norm")
def layer_norm(out: OnnxBuilder, x: object, shape: object, weight: object, bias: object, epsilon: object) -> Ref:
    given = out.given(x)
    if not isinstance(shape, list):
        raise EngineRefusal("what it normalizes over is not written out")
    if weight is None:
        weight = out.node("Expand", [out.operand(1, given.dtype), out.ints(shape)], given.dtype, len(shape))
    parts = [given, out.given(weight)] + ([] if bias is None else [out.given(bias)])
    return out.result("LayerNormalization", parts, axis=-len(shape), epsilon=number(epsilon))


@_of("aten::_softmax", "aten::softmax")
def softmax(out: OnnxBuilder, x: object, dim: object, dtype: object = None) -> Ref:
    return _over_dim(out, "Softmax", x, dim)


@_of("aten::_log_softmax", "aten::log_softmax")
def log_softmax(out: OnnxBuilder, x: object, dim: object, dtype: object = None) -> Ref:
    return _over_dim(out, "LogSoftmax", x, dim)


def _over_dim(out: OnnxBuilder, op: str, x: object, dim: object) -> Ref:
    given = out.operand(out.given(x), out.results[0].dtype)
    if given.rank == 0:
        raise EngineRefusal("its input has no dimensions")
    return out.result(op, [given], axis=constants(dim)[0] % given.rank)


def _reduce(
    op: str, out: OnnxBuilder, x: object, dims: object = None, keep: object = False, dtype: object = None
) -> Ref:
    sizes = out.given(x).sizes
    given = out.operand(out.given(x), out.results[0].dtype)
    if given.dtype is torch.bool:
        raise EngineRefusal("it reduces bools")
    kept, over = (keep, dims) if isinstance(keep, bool) else (False, None)
    wanted = [over] if isinstance(over, int) else over
    axes = list(range(given.rank)) if not wanted else [d % max(given.rank, 1) for d in constants(wanted)]
    settings = {"keepdims": int(kept), "noop_with_empty_axes": int(given.rank == 0)}
    if op in _OF_SOMETHING and any(len(sizes) <= axis or not sizes[axis] for axis in axes):
        count = _length_of(out, given, axes)
        if op == "ReduceMean":
            total = out.result("ReduceSum", [given, out.ints(axes)], **settings)
            return out.result("Div", [total, out.cast(count, given.dtype)])
        return _failing_without(out, count, out.result(op, [given, out.ints(axes)], **settings))
    return out.result(op, [given, out.ints(axes)], **settings)


# what onnxruntime takes for a number where there are no elements; torch gives nan or raises
_OF_SOMETHING = frozenset({"ReduceMean", "ReduceMax", "ReduceMin"})


def _length_of(out: OnnxBuilder, x: Ref, axes: list[int]) -> Ref:
    """How many elements there are along these axes."""
    lengths = out.node("Gather", [out.node("Shape", [x], torch.int64, 1), out.ints(axes)], torch.int64, 1, axis=0)
    return out.node("ReduceProd", [lengths], torch.int64, 0, keepdims=0)


def _failing_without(out: OnnxBuilder, count: Ref, x: Ref) -> Ref:
    """The tensor; where the count is 0, an index out of range, which makes the call fail."""
    is_none = out.cast(out.node("Equal", [count, out.operand(0, torch.int64)], torch.bool, 0), torch.int64)
    rows = out.node("Unsqueeze", [x, out.ints([0])], x.dtype, x.rank + 1)
    return out.node("Gather", [rows, is_none], x.dtype, x.rank, axis=0)


for _kind, _op in (("mean", "Mean"), ("sum", "Sum"), ("amax", "Max"), ("amin", "Min"), ("prod", "Prod")):
    _of(f"aten::{_kind}")(partial(_reduce, f"Reduce{_op}"))


@_of("aten::any")
def any_of(out: OnnxBuilder, x: object, dims: object = None, keep: object = False) -> Ref:
    return out.like("Not", _is_none(out, out.cast(out.given(x), torch.bool), dims, keep))


@_of("aten::all")
def all_of(out: OnnxBuilder, x: object, dims: object = None, keep: object = False) -> Ref:
    return _is_none(out, out.like("Not", out.cast(out.given(x), torch.bool)), dims, keep)


def _is_none(out: OnnxBuilder, x: Ref, dims: object, keep: object) -> Ref:
    """Is none of the bools true? They are counted, for extrema of no elements are none."""
    wanted = [dims] if isinstance(dims, int) else dims
    axes = list(range(x.rank)) if not wanted else [d % max(x.rank, 1) for d in constants(wanted)]
    given = [out.cast(x, torch.int64), out.ints(axes)]
    settings = {"keepdims": int(bool(keep)), "noop_with_empty_axes": int(x.rank == 0)}
    count = out.node("ReduceSum", given, torch.int64, out.results[0].rank, **settings)
    return out.node("Equal", [count, out.operand(0, torch.int64)], torch.bool, count.rank)
