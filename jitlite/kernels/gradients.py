"""Operators of backward passes that are elementwise, and those that bring gradients into the shape of operands.

Their formulas are those of torch's operators of the same names. `gradients_reduced.py` has the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jitlite.kernels.activations import Lanes
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.elementwise import custom, elementwise, floating
from jitlite.kernels.loop_ir import BF16, BOOL, F16, Lane, LaneOperator, Operand, Scalar
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, normalized, rule
from jitlite.kernels.totals import reduced
from jitlite.kernels.values import MemorySource, TensorValue, Value, is_one
from jitlite.kernels.views import expanded, permuted, piece, unsqueezed
from jitlite.native.code import NotNative

# -- shapes and dtypes


@rule("aten::_size_if_not_equal", of_sizes=True, narrow=Narrow.AS_THEY_ARE)
def size_if_not_equal(call: Call) -> Value:
    size, other = call.numbers("self_size"), call.numbers("other_size")
    return None if call.lowering.same_sizes(size, other) else list(size)


@rule("aten::_grad_sum_to_size")
def sum_to_size(call: Call) -> Value:
    value = call.first()
    if call.get("size") is None:
        return value
    found = summed_to(call.lowering, value, call.numbers("size"))
    if found.source is MemorySource.OWN:
        return found
    made = call.lowering.memory(found.dtype, found.sizes)  # sums are new tensors, those over a dimension of 1, too
    assert made.place is not None
    call.lowering.copy(found, made.place)
    return made


def summed_to(builder: KernelBuilder, value: TensorValue, sizes: Sequence[Operand]) -> TensorValue:
    """The sum over the dimensions along which something of these sizes was broadcast to the shape of `value`."""
    more = value.rank - len(sizes)
    if more < 0:
        raise NotNative("a gradient is summed to more dimensions than it has")
    leading = [d for d in range(more) if not is_one(value.sizes[d])]
    for d, size in enumerate(sizes, more):
        if is_one(size):
            leading += [] if is_one(value.sizes[d]) else [d]
        else:
            builder.require_equal(value.sizes[d], size, "a gradient is summed to another size")
    if leading:
        value = reduced(builder, "sum", value, leading, True)
    for _ in range(more):
        value = _without_first(builder, value)
    return value


def _without_first(builder: KernelBuilder, value: TensorValue) -> TensorValue:
    """The only element along the first dimension."""
    place = builder.force(value)
    from_first = [d - 1 for d in value.order if d]
    made = type(place)(place.buffer, place.offset, place.sizes[1:], place.strides[1:])
    return TensorValue(value.dtype, made.sizes, tuple(from_first), made, source=value.source)


@rule("prim::AutogradOptions", narrow=Narrow.AS_THEY_ARE)
def options(call: Call) -> Value:
    if call.first().dtype is not call.as_tensor(call.at(1)).dtype:
        raise NotNative("a gradient is cast to another dtype")
    return None


@rule("prim::AutogradTo", narrow=Narrow.AS_THEY_ARE)
def to_options(call: Call) -> Value:
    if call.at(1) is not None:
        raise NotNative("a gradient is cast to another dtype")
    return call.first()


def restored(builder: KernelBuilder, value: TensorValue, rank: int, dims: Sequence[int], keepdim: bool) -> TensorValue:
    """The result of a reduction, with the reduced dimensions as ones."""
    if keepdim or rank == 0:
        return value
    for d in sorted(dims):
        value = unsqueezed(builder, value, d)
    return value


def dims_of_size(call: Call, rank: int) -> list[int]:
    """The dimensions that a reduction of a tensor of this rank was over: all where it names none."""
    asked = call.constant("dim")
    if asked is None or asked == []:
        return list(range(rank))
    return sorted({normalized(d, rank) for d in (asked if isinstance(asked, list) else [asked])} - {rank})


@rule("prim::AutogradUnreduce", "prim::AutogradMean")
def unreduce(call: Call) -> Value:
    lowering, size = call.lowering, call.numbers("size")
    dims = dims_of_size(call, len(size))
    given = restored(lowering, call.first(), len(size), dims, bool(call.constant("keepdim")))
    if call.node.kind == "prim::AutogradMean":
        count = lowering.numel([size[d] for d in dims])
        given = elementwise(lowering, "div", [given, count], floating(given.dtype))
    return expanded(lowering, given, size)


@rule("prim::AutogradPermute", narrow=Narrow.AS_THEY_ARE)
def permute_back(call: Call) -> Value:
    value = call.first()
    order = [normalized(d, value.rank) for d in call.constant("dims")]
    return permuted(call.lowering, value, sorted(range(len(order)), key=order.__getitem__))


@rule("prim::AutogradSplit", narrow=Narrow.AS_THEY_ARE)
def split(call: Call) -> Value:
    value, sizes = call.first(), call.at(1)
    dim = normalized(call.at(2), value.rank)
    start: Operand = 0
    parts: list[Value] = []
    if not isinstance(sizes, list):
        raise NotNative("the sizes of what was put together are not known")
    for size in sizes:
        if not isinstance(size, list) or len(size) != value.rank or not isinstance(size[dim], int | Scalar):
            raise NotNative("a tensor of another rank was put together with others")
        length: Operand = size[dim]  # type: ignore[assignment]
        parts.append(piece(call.lowering, value, dim, start, length))
        start = call.lowering.index("add", start, length)
    return parts


# -- elementwise, of a gradient and what the forward pass had

Write = Callable[[Call, Lanes, Lane, Lane], Lane]
"""Writes the lane for an operator, the lane of a gradient and that of the operand or result."""


def _backward(kind: str, write: Write, kept: int = 1) -> None:
    """Declare an elementwise operator of a gradient and one more tensor.

    Args:
        kind: of the node.
        write: its lane.
        kept: which argument that tensor is.
    """

    def put(call: Call) -> Value:
        grad, value = call.first(), call.as_tensor(call.at(kept))
        if grad.dtype is not value.dtype:
            raise NotNative(f"{kind} of two dtypes")
        lanes = Lanes(floating(grad.dtype))
        return custom(
            call.lowering, grad.dtype, [grad, value], lambda nest: write(call, lanes, nest.lane(grad), nest.lane(value))
        )

    rule(kind)(put)


def _within(lanes: Lanes, x: Lane, low: Operand, high: Operand, then: Lane, other: Lane | Operand) -> Lane:
    """One of two values, by whether an element is between two bounds."""
    inside = LaneOperator(BOOL, "logical_and", (lanes.test("gt", x, low), lanes.test("lt", x, high)))
    return lanes.choose(inside, then, other)


def _sigmoid(lanes: Lanes, x: Lane) -> Lane:
    return lanes("sigmoid", x)


def _sigmoid_of_result(call: Call, lanes: Lanes, g: Lane, y: Lane) -> Lane:
    if call.narrow is F16:
        step = call.rounded_lane
        return lanes("mul", step(lanes("mul", g, step(lanes("sub", 1.0, y)))), y)
    return lanes("mul", g, lanes("mul", lanes("sub", 1.0, y), y))


def _silu(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    s = _sigmoid(lanes, x)
    return lanes("mul", lanes("mul", g, s), lanes("add", lanes("mul", x, lanes("sub", 1.0, s)), 1.0))


def _mish(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    s, inner = _sigmoid(lanes, x), lanes("tanh", lanes("log1p", lanes("exp", x)))
    slope = lanes("mul", lanes("mul", x, s), lanes("sub", 1.0, lanes("mul", inner, inner)))
    return lanes("mul", g, lanes("add", inner, slope))


def _gelu(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    if call.constant("approximate") == "none":
        cdf = lanes("mul", lanes("add", lanes("erf", lanes("mul", x, math.sqrt(0.5))), 1.0), 0.5)
        density = lanes("exp", lanes("mul", lanes("mul", x, x), -0.5))
        pdf = lanes("mul", density, 1.0 / math.sqrt(2.0 * math.pi))
        return lanes("mul", g, lanes("add", cdf, lanes("mul", x, pdf)))
    beta, kappa = math.sqrt(2.0 / math.pi), 0.044715
    square = lanes("mul", x, x)
    inner = lanes("mul", lanes("add", lanes("mul", lanes("mul", square, x), kappa), x), beta)
    t = lanes("tanh", inner)
    left = lanes("mul", lanes("add", t, 1.0), 0.5)
    slope = lanes("mul", lanes("add", lanes("mul", square, 3.0 * kappa), 1.0), beta)
    right = lanes("mul", lanes("mul", lanes("mul", x, 0.5), lanes("sub", 1.0, lanes("mul", t, t))), slope)
    return lanes("mul", g, lanes("add", left, right))


def _elu(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    alpha, scale, inner = (float(call.constant(name)) for name in ("alpha", "scale", "input_scale"))
    if call.constant("is_result") is not False:
        raise NotNative("elu_backward of the result")
    below = lanes("mul", lanes("mul", g, inner * alpha * scale), lanes("exp", lanes("mul", x, inner)))
    return lanes.where("le", x, 0.0, below, lanes("mul", g, scale))


def _softplus(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    beta, threshold = (float(call.constant(name)) for name in ("beta", "threshold"))
    scaled = lanes("mul", x, beta)
    raised = lanes("exp", scaled)
    return lanes.where("gt", scaled, threshold, g, lanes("div", lanes("mul", g, raised), lanes("add", raised, 1.0)))


def _hardswish(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    ramp = lanes("mul", g, lanes("add", lanes("div", x, 3.0), 0.5))
    return lanes.where("lt", x, -3.0, 0.0, lanes.where("le", x, 3.0, ramp, g))


def _leaky_relu(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    return lanes.where("gt", x, 0.0, g, lanes("mul", g, call.number("negative_slope")))


def _hardtanh(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    return _within(lanes, x, call.number("min_val"), call.number("max_val"), g, 0.0)


def _shrink(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    bound = call.rounded_number(float(call.constant("lambd")))
    kept = LaneOperator(BOOL, "logical_and", (lanes.test("ge", x, -bound), lanes.test("le", x, bound)))
    return lanes.choose(kept, 0.0, g)


def _power(call: Call, lanes: Lanes, g: Lane, x: Lane) -> Lane:
    exponent = call.constant("exponent")
    if exponent == 0:
        return lanes.number(0.0)
    lower, step = call.rounded_number(float(exponent - 1)), call.rounded_lane
    if call.narrow is BF16 and lower in (3, -2):
        raise NotNative("the gradient of such a power of bf16, which torch rounds in between")
    return lanes("mul", g, step(lanes("mul", step(lanes("pow", x, lower)), float(exponent))))


_backward("aten::tanh_backward", lambda call, lanes, g, y: lanes("mul", g, lanes("sub", 1.0, lanes("mul", y, y))))
_backward("aten::sigmoid_backward", _sigmoid_of_result)
_backward(
    "aten::threshold_backward",
    lambda call, lanes, g, x: lanes.where("le", x, call.number("threshold"), 0.0, g),
)
_backward(
    "aten::hardsigmoid_backward", lambda call, lanes, g, x: _within(lanes, x, -3.0, 3.0, lanes("div", g, 6.0), 0.0)
)
_backward("aten::hardswish_backward", _hardswish)
_backward("aten::hardtanh_backward", _hardtanh)
_backward("aten::leaky_relu_backward", _leaky_relu)
_backward("aten::hardshrink_backward", _shrink)
_backward("aten::softshrink_backward", _shrink)
_backward("aten::softplus_backward", _softplus)
_backward("aten::gelu_backward", _gelu)
_backward("aten::elu_backward", _elu, kept=5)
_backward("prim::AutogradSilu", _silu)
_backward("prim::AutogradMish", _mish)
_backward("prim::AutogradPow", _power)
