"""Operators of backward passes that reduce, multiply matrices, or write a gradient into a larger one."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.kernels.activations import Lanes
from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.elementwise import custom, elementwise, filled, floating
from jitlite.kernels.gradients import dims_of_size, restored, summed_to
from jitlite.kernels.indexing import joined
from jitlite.kernels.loop_ir import Lane, Operand
from jitlite.kernels.matrices import as_rows, batched, product, unrolled
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.totals import averaged, count_of, last_dims, layer_normed, norm_parameter, reduced
from jitlite.kernels.values import TensorValue, Value
from jitlite.kernels.views import permuted, selected, sliced, unsqueezed
from jitlite.kernels.writing import store
from jitlite.native.code import NotNative


def _joined(builder: KernelBuilder, op: str, a: TensorValue | Operand, b: TensorValue | Operand) -> TensorValue:
    dtype = next(v.dtype for v in (a, b) if isinstance(v, TensorValue))
    return elementwise(builder, op, [a, b], floating(dtype))


def _times(builder: KernelBuilder, a: TensorValue | Operand, b: TensorValue | Operand) -> TensorValue:
    return _joined(builder, "mul", a, b)


# -- softmax and statistics


@rule("aten::_softmax_backward_data", "aten::_log_softmax_backward_data")
def softmax_backward(call: Call) -> Value:
    grad, result, lowering = call.first(), call.tensor("output"), call.lowering
    if grad.dtype is not result.dtype or not result.in_order:
        raise NotNative("the gradient of softmax of another dtype or order")
    dims = [d for d in [call.dim("dim", grad.rank)] if d < grad.rank]
    lowering.force_all([grad, result])
    if "log" in call.name:
        total = reduced(lowering, "sum", grad, dims, True)
        raised = elementwise(lowering, "exp", [result], result.dtype)
        return _joined(lowering, "sub", grad, _times(lowering, raised, total))
    total = reduced(lowering, "sum", _times(lowering, grad, result), dims, True)
    return _times(lowering, result, _joined(lowering, "sub", grad, total))


@rule("prim::AutogradVar", "prim::AutogradStd")
def spread_backward(call: Call) -> Value:
    lowering, grad, value = call.lowering, call.first(), call.tensor("self")
    dims, keepdim = dims_of_size(call, value.rank), bool(call.constant("keepdim"))
    given = call.constant("correction")
    correction = 1 if given is None else given
    if type(correction) is not int or not value.in_order:
        raise NotNative("the gradient of a variance with such a correction")
    freedom = lowering.index("sub", count_of(lowering, value, dims), correction)
    lowering.check(lowering.index("lt", 0, freedom), "the gradient of a variance of too few elements")
    if call.node.kind == "prim::AutogradStd":
        grad = _of_root(call, grad)
    grad = restored(lowering, grad, value.rank, dims, keepdim)
    lowering.force_all([value, grad])
    mean = call.rounded(averaged(lowering, value, dims, True))
    scaled = call.rounded(_joined(lowering, "div", _times(lowering, grad, 2.0), freedom))
    lowering.force_all([mean, scaled])
    return _times(lowering, scaled, call.rounded(_joined(lowering, "sub", value, mean)))


def _of_root(call: Call, grad: TensorValue) -> TensorValue:
    """The gradient for what the root was taken of; 0 where that was 0."""
    result = call.tensor("result")
    lanes = Lanes(floating(grad.dtype))

    def build(nest: NestBuilder) -> Lane:
        g, root = nest.lane(grad), nest.lane(result)
        slope = call.rounded_lane(lanes("div", g, call.rounded_lane(lanes("mul", root, 2.0))))
        return lanes.where("eq", root, 0.0, 0.0, slope)

    return custom(call.lowering, grad.dtype, [grad, result], build)


@rule("prim::AutogradLogsumexp")
def logsumexp_backward(call: Call) -> Value:
    lowering, value = call.lowering, call.tensor("self")
    dims, keepdim = dims_of_size(call, value.rank), bool(call.constant("keepdim"))
    grad, result = (restored(lowering, call.as_tensor(call.at(i)), value.rank, dims, keepdim) for i in (0, 2))
    away = call.rounded(_joined(lowering, "sub", value, result))
    return _times(lowering, grad, call.rounded(elementwise(lowering, "exp", [away], value.dtype)))


# -- layer norm


@rule("aten::native_layer_norm")
def native_layer_norm(call: Call) -> Value:
    return [*layer_normed(call)]


@rule("aten::native_layer_norm_backward")
def native_layer_norm_backward(call: Call) -> Value:
    lowering, grad, value = call.lowering, call.first(), call.tensor("input")
    dims, mask = last_dims(call, value), call.constant("output_mask")
    weight = norm_parameter(call, value, dims, "weight")
    mean, scale = call.tensor("mean"), call.tensor("rstd")
    if grad.dtype is not value.dtype or not (grad.in_order and value.in_order):
        raise NotNative("the gradient of a norm of another dtype or order")
    outer = list(range(value.rank - len(dims)))
    lowering.force_all([grad, value, mean, scale])
    normal = _times(lowering, _joined(lowering, "sub", value, mean), scale)
    found: list[Value] = [None, None, None]
    if mask[0]:
        slope = grad if weight is None else _times(lowering, grad, weight)
        count = count_of(lowering, value, dims)
        average = _joined(lowering, "div", reduced(lowering, "sum", slope, dims, True), count)
        along = _joined(lowering, "div", reduced(lowering, "sum", _times(lowering, slope, normal), dims, True), count)
        lowering.force_all([average, along])
        away = _joined(lowering, "sub", _joined(lowering, "sub", slope, average), _times(lowering, normal, along))
        found[0] = _times(lowering, away, scale)
    if mask[1]:
        found[1] = reduced(lowering, "sum", _times(lowering, grad, normal), outer, False)
    if mask[2]:
        found[2] = reduced(lowering, "sum", grad, outer, False)
    return found


# -- products


@rule("prim::AutogradMatmulSelf", "prim::AutogradMatmulOther")
def matmul_backward(call: Call) -> Value:
    lowering, grad, other = call.lowering, call.first(), call.as_tensor(call.at(1))
    size = call.numbers("size")
    is_left = call.node.kind == "prim::AutogradMatmulSelf"
    if len(size) < 2 or other.rank < 2 or grad.rank < 2:
        return _of_vectors(call, grad, other, size, is_left)
    if is_left:
        turned = _turned(lowering, other)
        if other.rank == 2:
            found = unrolled(
                lowering, product(lowering, as_rows(lowering, grad), turned), [*grad.sizes[:-1], turned.sizes[1]]
            )
        else:
            found = batched(lowering, grad, turned)
    elif len(size) == 2:
        return product(lowering, _turned(lowering, as_rows(lowering, other)), as_rows(lowering, grad))
    else:
        found = batched(lowering, _turned(lowering, other), grad)
    return summed_to(lowering, found, size)


def _of_vectors(
    call: Call, grad: TensorValue, other: TensorValue, size: Sequence[Operand], is_left: bool
) -> TensorValue:
    """The gradient of a product with a vector."""
    lowering = call.lowering
    if grad.rank == 0:
        return _times(lowering, grad, other)
    if len(size) == 1 and other.rank == 2:  # a vector times a matrix, or a matrix times a vector
        matrix = other if is_left else _turned(lowering, other)
        column = unsqueezed(lowering, grad, 1)
        return unrolled(lowering, product(lowering, matrix, column), [matrix.sizes[0]])
    if len(size) == 2 and other.rank == 1:
        first, second = (grad, other) if is_left else (other, grad)
        return _times(lowering, unsqueezed(lowering, first, 1), unsqueezed(lowering, second, 0))
    raise NotNative("the gradient of a product of vectors in batches")


def _turned(builder: KernelBuilder, value: TensorValue) -> TensorValue:
    return permuted(builder, value, [*range(value.rank - 2), value.rank - 1, value.rank - 2])


@rule("prim::AutogradLinearInput")
def linear_input(call: Call) -> Value:
    lowering, grad, weight = call.lowering, call.first(), call.tensor("weight")
    if weight.rank != 2 or grad.rank < 1:
        raise NotNative("the gradient of linear of such shapes")
    found = product(lowering, _rows(lowering, grad), weight)
    return unrolled(lowering, found, [*grad.sizes[:-1], weight.sizes[1]])


@rule("prim::AutogradLinearWeight")
def linear_weight(call: Call) -> Value:
    lowering, grad, value = call.lowering, call.first(), call.tensor("input")
    if len(call.numbers("size")) != 2 or grad.rank < 1:
        raise NotNative("the gradient of linear of such shapes")
    return product(lowering, _turned(lowering, _rows(lowering, grad)), _rows(lowering, value))


def _rows(builder: KernelBuilder, value: TensorValue) -> TensorValue:
    return unsqueezed(builder, value, 0) if value.rank == 1 else as_rows(builder, value)


@rule("aten::ger")
def outer(call: Call) -> Value:
    lowering, a, b = call.lowering, call.first(), call.tensor("vec2")
    return _times(lowering, unsqueezed(lowering, a, 1), unsqueezed(lowering, b, 0))


# -- a gradient in a larger one


@rule("aten::select_backward", narrow=Narrow.AS_THEY_ARE)
def select_backward(call: Call) -> Value:
    lowering, grad = call.lowering, call.first()
    made = _zeros(call, grad)
    part = selected(lowering, made, call.dim("dim", made.rank), call.number("index"))
    store(lowering, part, grad)
    return made


@rule("aten::slice_backward", narrow=Narrow.AS_THEY_ARE)
def slice_backward(call: Call) -> Value:
    lowering, grad = call.lowering, call.first()
    step = call.constant("step")
    if type(step) is not int or step < 1:
        raise NotNative("the gradient of a slice with such a step")
    made = _zeros(call, grad)
    start, end = call.optional_number("start"), call.optional_number("end")
    store(lowering, sliced(lowering, made, call.dim("dim", made.rank), start, end, step), grad)
    return made


def _zeros(call: Call, grad: TensorValue) -> TensorValue:
    name = "input_sizes" if call.has("input_sizes") else "size"
    made = filled(call.lowering, grad.dtype, call.numbers(name), 0)
    call.lowering.force(made)
    return made


@rule("prim::AutogradCat", "prim::AutogradStack", narrow=Narrow.AS_THEY_ARE)
def rejoin(call: Call) -> Value:
    parts = call.at(0)
    if not isinstance(parts, list):
        raise NotNative("gradients in a list that is not known")
    tensors = [call.as_tensor(part) for part in parts]
    if call.node.kind == "prim::AutogradStack":
        dim = call.dim("dim", tensors[0].rank + 1)
        tensors = [unsqueezed(call.lowering, t, dim) for t in tensors]
    else:
        dim = call.dim("dim", tensors[0].rank)
    return joined(call.lowering, tensors, dim)
