"""Rules for the sizes of results of products, convolutions, pools, paddings and losses. See `shapes.py`."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir.traits import Trait
from jitlite.operators.shape_call import Dims, Rule, ShapeCall, Sizes, Unclear, as_size, broadcast, dims_of, same
from jitlite.operators.tensor_lattice import Dim, Fact, Symbol, TensorFact, is_listed

# -- products


def _mm(call: ShapeCall) -> Sequence[Sizes]:
    a, b = call.dims("self"), call.dims("mat2")
    _need(len(a) == len(b) == 2)
    same(a[1], b[0])
    return [(a[0], b[1])]


def _bmm(call: ShapeCall) -> Sequence[Sizes]:
    a, b = call.dims("self"), call.dims("mat2")
    _need(len(a) == len(b) == 3)
    same(a[2], b[1])
    return [(same(a[0], b[0]), a[1], b[2])]


def _need(condition: bool) -> None:
    if not condition:
        raise Unclear


def _matmul(call: ShapeCall) -> Sequence[Sizes]:
    return [_product(call, call.dims("self"), call.dims("other"))]


def _product(call: ShapeCall, a: Dims, b: Dims) -> Dims:
    _need(bool(a) and bool(b))
    same(a[-1], b[-2] if len(b) > 1 else b[0])
    if len(a) == 1 and len(b) == 1:
        return ()
    if len(b) == 1:
        return a[:-1]
    if len(a) == 1:
        return (*b[:-2], b[-1])
    return (*broadcast(call, [a[:-2], b[:-2]]), a[-2], b[-1])


def _linear(call: ShapeCall) -> Sequence[Sizes]:
    inputs, weight = call.dims("input"), call.dims("weight")
    _need(bool(inputs) and len(weight) in (1, 2))
    same(inputs[-1], weight[-1])
    return [(*inputs[:-1], weight[0]) if len(weight) == 2 else inputs[:-1]]


def _addmm(call: ShapeCall) -> Sequence[Sizes]:
    a, b = call.dims("mat1"), call.dims("mat2")
    _need(len(a) == len(b) == 2)
    same(a[1], b[0])
    return [(a[0], b[1])]


def _baddbmm(call: ShapeCall) -> Sequence[Sizes]:
    a, b = call.dims("batch1"), call.dims("batch2")
    _need(len(a) == len(b) == 3)
    same(a[2], b[1])
    return [(same(a[0], b[0]), a[1], b[2])]


def _mv(call: ShapeCall) -> Sequence[Sizes]:
    return [call.dims("self")[:1]]


def _dot(call: ShapeCall) -> Sequence[Sizes]:
    return [()]


def _outer(call: ShapeCall) -> Sequence[Sizes]:
    a, b = call.dims("self"), call.dims("vec2")
    _need(len(a) == len(b) == 1)
    return [(a[0], b[0])]


def _attention(call: ShapeCall) -> Sequence[Sizes]:
    query, key, value = (call.dims(n) for n in ("query", "key", "value"))
    _need(len(query) == len(key) == len(value) > 2)
    batch = broadcast(call, [query[:-3], key[:-3], value[:-3]])
    _need(len(query) == 3 or query[-3] == key[-3] == value[-3])  # heads may be shared out in groups
    heads = query[-3:-2] if len(query) > 3 else (same(same(query[0], key[0]), value[0]),)
    return [(*batch, *heads, query[-2], value[-1])]


# -- recurrent cells


def _cell(call: ShapeCall) -> Sequence[Sizes]:
    return [_next_state(call, call.dims("hx"))]


def _lstm_cell(call: ShapeCall) -> Sequence[Sizes]:
    return [_next_state(call, dims_of(state)) for state in call.items("hx")]


def _next_state(call: ShapeCall, state: Dims) -> Dims:
    inputs = call.dims("input")
    _need(len(inputs) == len(state) == 2)
    return same(inputs[0], state[0]), state[1]


# -- convolutions


def _per_dimension(value: Fact, count: int) -> list[int]:
    """One number for each dimension: a list with one stands for all."""
    numbers = [value] if type(value) is int else list(value) if is_listed(value) else []
    if not numbers or not all(type(n) is int for n in numbers):
        raise Unclear
    if len(numbers) == 1:
        return numbers * count
    _need(len(numbers) == count)
    return numbers


def _window(call: ShapeCall, size: Dim, kernel: Dim, stride: int, padding: int, dilation: int) -> Dim:
    """How many windows there are: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1"""
    reach = call.compute("add", call.compute("mul", call.compute("sub", kernel, 1), dilation), 1)
    if isinstance(reach, int):
        free = call.compute("add", size, 2 * padding - reach)
    else:
        free = call.compute("sub", call.compute("add", size, 2 * padding), reach)
    if isinstance(free, int) and free < 0:
        raise Unclear
    return _as_dim(call, call.compute("add", call.compute("floordiv", free, stride), 1))


def _window_rounded_up(call: ShapeCall, size: Dim, kernel: Dim, stride: int, padding: int, dilation: int) -> Dim:
    """As many as begin in the image or in the padding before it, the last one beyond its end or not."""
    if not isinstance(size, int) or not isinstance(kernel, int):
        return call.symbols.fresh()
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = -(-free // stride) + 1
    if (count - 1) * stride >= size + padding:
        count -= 1
    if count < 1:
        raise Unclear
    return count


def _as_dim(call: ShapeCall, dim: Dim) -> Dim:
    """A computed number that is known to be a size: the call fails where it is negative."""
    return dim._replace(is_size=True) if isinstance(dim, Symbol) else dim


def _batched(inputs: Dims, spatial: int) -> Dims:
    """What stands before the channels: the batch, if there is one."""
    _need(len(inputs) in (spatial + 1, spatial + 2))
    return inputs[: -spatial - 1]


def _conv(call: ShapeCall) -> Sequence[Sizes]:
    inputs, weight = call.dims("input"), call.dims("weight")
    spatial = len(weight) - 2
    _need(spatial in (1, 2, 3))
    batch = _batched(inputs, spatial)
    stride, dilation = (_per_dimension(call.fact(n), spatial) for n in ("stride", "dilation"))
    if call.fact("padding") == "same":
        return [(*batch, weight[0], *inputs[-spatial:])]
    padding = [0] * spatial if call.fact("padding") == "valid" else _per_dimension(call.fact("padding"), spatial)
    sizes = (
        _window(call, inputs[i - spatial], weight[i + 2], stride[i], padding[i], dilation[i]) for i in range(spatial)
    )
    return [(*batch, weight[0], *sizes)]


def _conv_transpose(call: ShapeCall) -> Sequence[Sizes]:
    inputs, weight = call.dims("input"), call.dims("weight")
    spatial = len(weight) - 2
    _need(spatial in (1, 2, 3))
    batch = _batched(inputs, spatial)
    stride, dilation, padding, extra = (
        _per_dimension(call.fact(n), spatial) for n in ("stride", "dilation", "padding", "output_padding")
    )
    sizes: list[Dim] = []
    for i in range(spatial):
        spread = call.compute("mul", call.compute("sub", inputs[i - spatial], 1), stride[i])
        reach = call.compute("mul", call.compute("sub", weight[i + 2], 1), dilation[i])
        total = call.compute("add", call.compute("add", spread, reach), extra[i] - 2 * padding[i] + 1)
        sizes.append(_as_dim(call, total))
    return [(*batch, call.compute("mul", weight[1], call.number("groups")), *sizes)]


def _convolution(call: ShapeCall) -> Sequence[Sizes]:
    return _conv_transpose(call) if call.flag("transposed") else _conv(call)


def _convolution_backward(call: ShapeCall) -> Sequence[Sizes]:
    bias = call.fact("bias_sizes")
    sizes = tuple(as_size(s, call.symbols) for s in bias) if is_listed(bias) else (call.dims("weight")[0],)
    return [call.dims("input"), call.dims("weight"), sizes]


# -- pools


def _pool(spatial: int) -> Rule:
    def rule(call: ShapeCall) -> Sequence[Sizes]:
        inputs = call.dims()
        before = _batched(inputs, spatial)
        kernel = _per_dimension(call.fact("kernel_size"), spatial)
        stride = kernel if call.fact("stride") in ((), None) else _per_dimension(call.fact("stride"), spatial)
        padding = _per_dimension(call.fact("padding"), spatial)
        dilation = _per_dimension(call.fact("dilation"), spatial) if call.has("dilation") else [1] * spatial
        rounds_up = call.fact("ceil_mode")
        _need(isinstance(rounds_up, bool))
        window = _window_rounded_up if rounds_up else _window
        sizes = (
            window(call, inputs[i - spatial], kernel[i], stride[i], padding[i], dilation[i]) for i in range(spatial)
        )
        return [(*before, inputs[-spatial - 1], *sizes)] * len(call.op.schema.returns)

    return rule


def _adaptive(spatial: int) -> Rule:
    def rule(call: ShapeCall) -> Sequence[Sizes]:
        inputs = call.dims()
        before = _batched(inputs, spatial)
        given = call.fact("output_size")
        wanted = list(given) if is_listed(given) else [given]
        if len(wanted) == 1:
            wanted *= spatial
        _need(len(wanted) == spatial)
        sizes = tuple(as_size(s, call.symbols) for s in wanted)
        return [(*before, inputs[-spatial - 1], *sizes)] * len(call.op.schema.returns)

    return rule


def _pad(call: ShapeCall) -> Sequence[Sizes]:
    dims = list(call.dims())
    name = "pad" if call.has("pad") else "padding"
    given = call.fact(name)
    amounts = list(given) if is_listed(given) else [given]
    if len(amounts) == 1 and not call.op.name.endswith("_nd"):
        raise Unclear  # one number for every side that is padded
    _need(len(amounts) % 2 == 0 and len(amounts) <= 2 * len(dims))
    for position in range(len(amounts) // 2):
        before, after = amounts[2 * position], amounts[2 * position + 1]
        at = len(dims) - 1 - position
        if type(before) is not int or type(after) is not int:
            dims[at] = call.symbols.fresh()
        else:
            dims[at] = _as_dim(call, call.compute("add", dims[at], before + after))
    return [tuple(dims)]


def _resized(call: ShapeCall) -> Sequence[Sizes]:
    """Images of another size."""
    dims, size = call.dims(), call.fact("size")
    wanted = [size] if type(size) is int else list(size) if is_listed(size) else [None]
    if len(wanted) == 1:
        wanted *= len(dims) - 2
    _need(len(wanted) == len(dims) - 2)
    return [(*dims[:2], *(as_size(s, call.symbols) for s in wanted))]


# -- losses


def _loss(call: ShapeCall) -> Sequence[Sizes]:
    reduction = call.number("reduction")
    if reduction in (1, 2):
        return [()]
    tensors = [call.fact(n) for n in ("self", "target")]
    _need(call.op.has(Trait.ELEMENTWISE_LOSS) and all(isinstance(t, TensorFact) for t in tensors))
    return [broadcast(call, [dims_of(t) for t in tensors])]


def _rules(names: str, rule: Rule) -> dict[str, Rule]:
    return {f"aten::{name}": rule for name in names.split()}


RULES: dict[str, Rule] = {
    **_rules("mm", _mm),
    **_rules("bmm", _bmm),
    **_rules("matmul", _matmul),
    **_rules("linear", _linear),
    **_rules("addmm", _addmm),
    **_rules("baddbmm", _baddbmm),
    **_rules("mv", _mv),
    **_rules("dot vdot", _dot),
    **_rules("outer ger", _outer),
    **_rules("scaled_dot_product_attention", _attention),
    **_rules("gru_cell rnn_tanh_cell rnn_relu_cell", _cell),
    **_rules("lstm_cell", _lstm_cell),
    **_rules("conv1d conv2d conv3d", _conv),
    **_rules("conv_transpose1d conv_transpose2d conv_transpose3d", _conv_transpose),
    **_rules("convolution _convolution", _convolution),
    **_rules("convolution_backward", _convolution_backward),
    **{f"aten::{kind}_pool{n}d{tail}": _pool(n) for n in (1, 2, 3) for kind in ("max", "avg")
       for tail in (("", "_with_indices") if kind == "max" else ("",))},
    **{f"aten::adaptive_{kind}_pool{n}d": _adaptive(n) for n in (1, 2, 3) for kind in ("max", "avg")},
    **_rules(
        "constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
        "replication_pad3d",
        _pad,
    ),
    **_rules("__interpolate __upsample __upsample_nearest __upsample_bilinear", _resized),
    **_rules(
        "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy nll_loss nll_loss_nd nll_loss2d "
        "cross_entropy_loss kl_div poisson_nll_loss binary_cross_entropy_with_logits",
        _loss,
    ),
}  # fmt: skip
"""By kind."""
