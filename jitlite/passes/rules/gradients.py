"""The gradient of every operator that is differentiated symbolically.

How to read: `f` is a `Formula`: `f.grad` the gradient of the result, `f.result` the result, `f.self` and so on the
arguments. The formulas are those of autograd, so that they keep the same values alive: whether a tensor may be written
before the backward pass must not depend on who differentiates.

Tables by subject: pointwise with one tensor, pointwise with several (whose gradients are summed and cast to fit),
reductions, views, lists, products, layers. Operators without gradients come last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, is_constant
from jitlite.ir.int_codes import int_coded
from jitlite.passes.rules.formula import (
    MISSING,
    Contribution,
    Formula,
    Rule,
    Sym,
    always,
    arguments_of,
    call,
    constants,
    declare,
    list_of,
    unpacked,
)

Unary = Callable[[Formula], Sym]


# -- pointwise, one tensor


def _scaled(x: Sym, f: Formula, factor: str) -> Sym:
    """`x` times an argument that is a number, usually 1."""
    return x if f.constant(factor) == 1 else x * getattr(f, factor)


def _same(f: Formula) -> Sym:
    return f.grad


def _zeros(f: Formula) -> Sym:
    return f.grad.zeros_like()  # type: ignore[no-any-return]


def _rounded(f: Formula) -> Sym:
    """A quotient, or one that is rounded."""
    return f.grad / f.other if f.is_none("rounding_mode") else _zeros(f)


def _clamp(f: Formula) -> Sym:
    bounds = [
        getattr(f.self, comparison)(getattr(f, bound))
        for bound, comparison in (("min", "ge"), ("max", "le"))
        if not f.is_none(bound)
    ]
    if not bounds:
        return f.grad
    return (bounds[0] if len(bounds) == 1 else bounds[0].logical_and(bounds[1])).where(f.grad, 0)  # type: ignore[no-any-return]


def _known_none(*names: str) -> Callable[[Node], bool]:
    """The condition that it is known whether these arguments are None."""

    def hold(node: Node) -> bool:
        found = dict(arguments_of(node))
        return not any(T.may_be_none(found[n].type) and found[n].type is not T.NONE for n in names)

    return hold


UNARY: dict[str, Unary] = {
    "abs": lambda f: f.grad * f.self.sgn(),
    "acos": lambda f: f.grad * -((-f.self * f.self + 1).rsqrt()),
    "acosh": lambda f: f.grad * (f.self * f.self - 1).rsqrt(),
    "asin": lambda f: f.grad * (-f.self * f.self + 1).rsqrt(),
    "asinh": lambda f: f.grad * (f.self.pow(2) + 1).rsqrt(),
    "atan": lambda f: f.grad / (f.self * f.self + 1),
    "atanh": lambda f: f.grad * 1 / (1 - f.self.pow(2)),
    "cos": lambda f: f.grad * -f.self.sin(),
    "cosh": lambda f: f.grad * f.self.sinh(),
    "erf": lambda f: 2.0 / math.sqrt(math.pi) * (-f.self.pow(2)).exp() * f.grad,
    "erfc": lambda f: -2.0 / math.sqrt(math.pi) * (-f.self.pow(2)).exp() * f.grad,
    "exp": lambda f: f.grad * f.result,
    "exp2": lambda f: f.grad * f.result * math.log(2),
    "expm1": lambda f: f.grad * (f.result + 1),
    "lgamma": lambda f: f.grad * f.self.digamma(),
    "log": lambda f: f.grad / f.self,
    "log10": lambda f: f.grad / (f.self * math.log(10)),
    "log1p": lambda f: f.grad / (f.self + 1),
    "log2": lambda f: f.grad / (f.self * math.log(2)),
    "neg": lambda f: -f.grad,
    "reciprocal": lambda f: -f.grad * (f.result * f.result),
    "relu": lambda f: f.grad.threshold_backward(f.result, 0),
    "relu6": lambda f: f.grad.hardtanh_backward(f.self, 0, 6),
    "rsqrt": lambda f: -0.5 * f.grad * f.result.pow(3),
    "sigmoid": lambda f: f.grad.sigmoid_backward(f.result),
    "silu": lambda f: f.grad.prim("AutogradSilu", f.self),
    "mish": lambda f: f.grad.prim("AutogradMish", f.self),
    "sin": lambda f: f.grad * f.self.cos(),
    "sinh": lambda f: f.grad * f.self.cosh(),
    "sqrt": lambda f: f.grad / (2 * f.result),
    "square": lambda f: f.grad * (2 * f.self),
    "tan": lambda f: f.grad * (f.result.pow(2) + 1),
    "tanh": lambda f: f.grad.tanh_backward(f.result),
    "hardsigmoid": lambda f: f.grad.hardsigmoid_backward(f.self),
    "hardswish": lambda f: f.grad.hardswish_backward(f.self),
    **dict.fromkeys(("ceil", "floor", "round", "trunc", "sign"), _zeros),
    **dict.fromkeys(("frac", "clone", "contiguous"), _same),
    # with numbers
    **dict.fromkeys(("add.Scalar", "sub.Scalar", "fmod.Scalar", "remainder.Scalar"), _same),
    "rsub.Scalar": lambda f: _scaled(-f.grad, f, "alpha"),
    "mul.Scalar": lambda f: f.grad * f.other,
    "div.Scalar": lambda f: f.grad / f.other,
    "pow.Tensor_Scalar": lambda f: f.grad.prim("AutogradPow", f.self, f.exponent),
    "elu": lambda f: f.grad.elu_backward(f.alpha, f.scale, f.input_scale, False, f.self),
    "gelu": lambda f: f.grad.gelu_backward(f.self, approximate=f.approximate),
    "hardshrink": lambda f: f.grad.hardshrink_backward(f.self, f.lambd),
    "softshrink": lambda f: f.grad.softshrink_backward(f.self, f.lambd),
    "hardtanh": lambda f: f.grad.hardtanh_backward(f.self, f.min_val, f.max_val),
    "leaky_relu": lambda f: f.grad.leaky_relu_backward(f.self, f.negative_slope, False),
    "softplus": lambda f: f.grad.softplus_backward(f.self, f.beta, f.threshold),
    "threshold": lambda f: f.grad.threshold_backward(f.self, f.threshold),
}
for _name, _unary in UNARY.items():
    declare(_name, Rule({"self": _unary}))
declare("div.Scalar_mode", Rule({"self": _rounded}, when=_known_none("rounding_mode")))
declare("clamp", Rule({"self": _clamp}, when=_known_none("min", "max")))
declare("pow.Scalar", Rule({"exponent": lambda f: f.grad.prim("AutogradPowScalarBase", f.self, f.exponent, f.result)}))


# -- pointwise, several tensors


def _pointwise(name: str, *, when: Callable[[Node], bool] = always, **formulas: Unary) -> None:
    """Declare formulas for arguments that are broadcast and promoted to the result."""

    def fitted(argument: str, formula: Unary) -> Contribution:
        return lambda f: f.fit(formula(f), getattr(f, argument))

    declare(name, Rule({argument: fitted(argument, formula) for argument, formula in formulas.items()}, when=when))


def _divisor(f: Formula) -> Sym:
    return _zeros(f) if "rounding_mode" in f.arguments and not f.is_none("rounding_mode") else (
        -f.grad * ((f.self / f.other) / f.other))  # fmt: skip


def _larger(beaten: str) -> Unary:
    """Where the operands tie, either gets half of the gradient."""

    def formula(f: Formula) -> Sym:
        shared = f.self.eq(f.other).where(f.grad / 2, f.grad)
        return shared.masked_fill(getattr(f.self, beaten)(f.other), 0)  # type: ignore[no-any-return]

    return formula


def _below(f: Formula) -> Sym:
    below = f.self.lt(f.min)
    if not f.is_none("max"):
        below = below.logical_and(f.min.lt(f.max))
    return below.where(f.grad, 0)  # type: ignore[no-any-return]


def _above(f: Formula) -> Sym:
    above = f.self.gt(f.max)
    if not f.is_none("min"):
        above = above.logical_or(f.max.lt(f.min))
    return above.where(f.grad, 0)  # type: ignore[no-any-return]


_pointwise("add.Tensor", self=_same, other=lambda f: _scaled(f.grad, f, "alpha"))
_pointwise("sub.Tensor", self=_same, other=lambda f: _scaled(-f.grad, f, "alpha"))
_pointwise("mul.Tensor", self=lambda f: f.grad * f.other, other=lambda f: f.grad * f.self)
_pointwise("div.Tensor", self=lambda f: f.grad / f.other, other=_divisor)
_pointwise("div.Tensor_mode", self=_rounded, other=_divisor, when=_known_none("rounding_mode"))
_pointwise(
    "pow.Tensor_Tensor",
    self=lambda f: f.grad.prim("AutogradPowBase", f.self, f.exponent),
    exponent=lambda f: f.grad.prim("AutogradPowExponent", f.self, f.exponent, f.result),
)
_pointwise(
    "addcmul",
    self=_same,
    tensor1=lambda f: f.grad * _scaled(f.tensor2, f, "value"),
    tensor2=lambda f: f.grad * _scaled(f.tensor1, f, "value"),
)
_pointwise(
    "lerp.Scalar",
    self=lambda f: f.grad * call(f.place, "aten::sub", 1, f.weight),
    end=lambda f: f.grad * f.weight,
)
_pointwise(
    "lerp.Tensor",
    self=lambda f: f.grad * (1 - f.weight),
    end=lambda f: f.grad * f.weight,
    weight=lambda f: f.grad * (f.end - f.self),
)
for _name, _beaten, _beating in (
    ("max.other", "lt", "gt"), ("maximum", "lt", "gt"), ("min.other", "gt", "lt"), ("minimum", "gt", "lt"),
):  # fmt: skip
    _pointwise(_name, self=_larger(_beaten), other=_larger(_beating))
_pointwise("masked_fill.Scalar", self=lambda f: f.grad.masked_fill(f.mask, 0))
_pointwise("clamp.Tensor", self=_clamp, min=_below, max=_above, when=_known_none("min", "max"))
_pointwise(
    "where.self",
    self=lambda f: f.condition.where(f.grad, 0),
    other=lambda f: call(f.place, "aten::where", f.condition, 0, f.grad),
)


# -- dtypes


def _cast(f: Formula) -> Sym:
    return f.cast(f.grad, f.self)


def is_real(node: Node) -> bool:
    """Is the result certainly of a dtype that has gradients, if the argument is? A cast to int would end them."""
    found = dict(arguments_of(node))
    if "other" in found:
        t = found["other"].type
        return isinstance(t, T.TensorType) and t.dtype is not None and t.dtype.is_floating_point
    dtype = found["dtype"].node.attributes.get("value") if is_constant(found["dtype"]) else MISSING
    dtype = int_coded(T.SCALAR_TYPE, dtype)
    return dtype is None or (isinstance(dtype, torch.dtype) and dtype.is_floating_point)


for _name in ("to.prim_Device", "to.dtype", "to.device", "to.dtype_layout", "to.other", "type_as"):
    declare(_name, Rule({"self": _cast}, when=is_real))
for _name in ("_autocast_to_full_precision", "_autocast_to_reduced_precision"):
    declare(_name, Rule({"self": _cast}))


# -- reductions


def _reduced(kind: str, dim: bool) -> Contribution:
    def formula(f: Formula) -> Sym:
        where = (f.dim, f.keepdim) if dim else (None, False)
        return f.cast(f.grad.prim(kind, f.size(f.self), *where), f.self)

    return formula


def _variance(kind: str, dim: bool, correction: Callable[[Formula], object]) -> Contribution:
    def formula(f: Formula) -> Sym:
        where = (f.dim if dim else None, correction(f), f.keepdim if dim else False)
        return f.grad.prim(kind, f.self, *((f.result,) if kind == "AutogradStd" else ()), *where)  # type: ignore[no-any-return]

    return formula


for _name, _overload, _kind in (("sum", "dim_IntList", "AutogradUnreduce"), ("mean", "dim", "AutogradMean")):
    declare(_name, Rule({"self": _reduced(_kind, False)}, when=is_real))
    declare(f"{_name}.{_overload}", Rule({"self": _reduced(_kind, True)}, when=is_real))
for _name, _kind in (("var", "AutogradVar"), ("std", "AutogradStd")):
    _flag = constants("unbiased")
    declare(_name, Rule({"self": _variance(_kind, False, lambda f: int(f.constant("unbiased")))}, when=_flag))
    declare(f"{_name}.dim", Rule({"self": _variance(_kind, True, lambda f: int(f.constant("unbiased")))}, when=_flag))
    declare(f"{_name}.correction", Rule({"self": _variance(_kind, True, lambda f: f.correction)}))
declare("logsumexp", Rule({
    "self": lambda f: f.grad.prim("AutogradLogsumexp", f.self, f.result, f.dim, f.keepdim),
}))  # fmt: skip


def _softmax(kind: str) -> Contribution:
    def formula(f: Formula) -> Sym:
        grad = getattr(f.grad, kind)(f.result, f.dim, call(f.grad.place, "prim::dtype", f.grad))
        return grad if f.is_none("dtype") else f.cast(grad, f.self)

    return formula


declare("softmax.int", Rule({"self": _softmax("_softmax_backward_data")}, when=is_real))
declare("log_softmax.int", Rule({"self": _softmax("_log_softmax_backward_data")}, when=is_real))


# -- views

_AS_BEFORE: Contribution = lambda f: f.grad.reshape(f.size(f.self))  # noqa: E731 - a formula, as those in the tables


def _given(f: Formula, name: str, missing: int) -> object:
    return missing if f.is_none(name) else getattr(f, name)


VIEWS: dict[str, Contribution] = {
    **dict.fromkeys(
        ("view", "reshape", "view_as", "reshape_as", "flatten.using_ints", "squeeze", "squeeze.dim", "squeeze.dims"),
        _AS_BEFORE,
    ),
    **dict.fromkeys(("expand", "expand_as"), lambda f: f.summed(f.grad, f.self)),
    "_grad_sum_to_size": lambda f: f.grad.expand(f.size(f.self)),
    "permute": lambda f: f.grad.prim("AutogradPermute", f.dims),
    "t": lambda f: f.grad.t(),
    "transpose.int": lambda f: f.grad.transpose(f.dim0, f.dim1),
    "unsqueeze": lambda f: f.grad.squeeze(f.dim),
    "select.int": lambda f: f.grad.select_backward(f.size(f.self), f.dim, f.index),
}  # fmt: skip
for _name, _view in VIEWS.items():
    declare(_name, Rule({"self": _view}))
declare("slice.Tensor", Rule({
    "self": lambda f: f.grad.slice_backward(
        f.size(f.self), f.dim, _given(f, "start", 0), _given(f, "end", 2**63 - 1), f.step),
}, when=_known_none("start", "end")))  # fmt: skip


# -- lists of tensors: displays, and what is unpacked at once


def is_display(node: Node) -> bool:
    """Is the list of tensors that the node takes a display that nothing else uses?"""
    lists = [v for v in node.inputs if isinstance(v.type, T.ListType) and _is_tensor(v.type.element)]
    return all(v.node.kind == "prim::ListConstruct" and v.use_count == 1 for v in lists)


def _is_tensor(t: T.Type) -> bool:
    """Is it the type of a tensor, or of one that may be missing?"""
    return isinstance(T.without_none(t), T.TensorType)


def is_unpacked(node: Node) -> bool:
    """Is the list of tensors that the node gives unpacked, and used for nothing else?"""
    return bool(unpacked(node.output))


def is_display_part(node: Node) -> bool:
    """Is a display of tensors used by one node only, which takes it apart at once?"""
    return node.output.use_count == 1 and node.output.uses[0].user.kind not in ("prim::Return", "prim::ListUnpack")


def is_unpacked_part(node: Node) -> bool:
    """Is a list that is unpacked used for nothing else?"""
    return node.input.use_count == 1 and node.input.node.kind not in ("prim::Param", "prim::ListConstruct")


def _sizes(f: Formula, of: Sequence[Sym]) -> Sym:
    return list_of(f.place, [f.size(x) for x in of], T.ListType.of(T.INT))


def _uncat(f: Formula) -> list[Sym | None]:
    elements = f.elements("tensors")
    parts = f.grad.prim("AutogradSplit", _sizes(f, elements), f.dim)
    return [f.cast(part, x) for part, x in zip(_unpack(parts, len(elements)), elements, strict=True)]


def _unstack(f: Formula) -> list[Sym | None]:
    elements = f.elements("tensors")
    parts = f.grad.unbind(f.dim)
    return [f.cast(part, x) for part, x in zip(_unpack(parts, len(elements)), elements, strict=True)]


def _unpack(parts: Sym, count: int) -> list[Sym]:
    node = parts.place.graph.insert("prim::ListUnpack", (parts.value,), (T.TENSOR,) * count)
    return [Sym(parts.place, output) for output in node.outputs]


def _grads(f: Formula) -> Sym:
    grads = [g if g is not None else call(f.place, "prim::AutogradZero") for g in f.grads]
    return list_of(f.place, grads, T.TENSOR)


def _rejoined(f: Formula, dim: object, parts: Sequence[Value]) -> Sym:
    sizes = _sizes(f, [Sym(f.place, part) for part in parts])
    return call(f.place, "prim::AutogradCat", _grads(f), sizes, dim)  # type: ignore[no-any-return]


def _joined(f: Formula) -> Sym:
    return _rejoined(f, f.dim, unpacked(f.node.output))


def _restacked(f: Formula) -> Sym:
    return call(f.place, "prim::AutogradStack", _grads(f), f.size(f.self), f.dim)  # type: ignore[no-any-return]


declare("cat", Rule({"tensors": _uncat}, when=is_display))
declare("stack", Rule({"tensors": _unstack}, when=is_display))
for _name in ("chunk", "split.Tensor", "split_with_sizes"):
    declare(_name, Rule({"self": _joined}, when=is_unpacked))
declare("unbind.int", Rule({"self": _restacked}, when=is_unpacked))
declare("prim::ConstantChunk", Rule({
    "self": lambda f: _rejoined(f, f.node.attributes["dim"], f.node.outputs),
}, outputs=None))  # fmt: skip


def _index(f: Formula) -> Sym:
    listed = list_of(f.place, f.elements("indices"), f.element_type("indices"))
    return f.grad.new_zeros(f.size(f.self)).index_put(listed, f.grad, True)  # type: ignore[no-any-return]


for _name in ("index.Tensor", "index.Tensor_hacked_twin"):
    declare(_name, Rule({"self": _index}, when=is_display))


# -- products


def _bias(f: Formula) -> Sym:
    return f.summed(f.grad, f.bias)


declare("mm", Rule({"self": lambda f: f.grad.mm(f.mat2.t()), "mat2": lambda f: f.self.t().mm(f.grad)}))
declare("bmm", Rule({
    "self": lambda f: f.grad.bmm(f.mat2.transpose(1, 2)),
    "mat2": lambda f: f.self.transpose(1, 2).bmm(f.grad),
}))  # fmt: skip
declare("mv", Rule({"self": lambda f: f.grad.ger(f.vec), "vec": lambda f: f.self.t().mv(f.grad)}))
declare("dot", Rule({"self": lambda f: f.grad * f.tensor, "tensor": lambda f: f.grad * f.self}))
declare("addmm", Rule({
    "self": lambda f: f.summed(_scaled(f.grad, f, "beta"), f.self),
    "mat1": lambda f: _scaled(f.grad.mm(f.mat2.t()), f, "alpha"),
    "mat2": lambda f: _scaled(f.mat1.t().mm(f.grad), f, "alpha"),
}))  # fmt: skip
declare("matmul", Rule({
    "self": lambda f: f.grad.prim("AutogradMatmulSelf", f.other, f.size(f.self)),
    "other": lambda f: f.grad.prim("AutogradMatmulOther", f.self, f.size(f.other)),
}))  # fmt: skip
declare("linear", Rule({
    "input": lambda f: f.grad.prim("AutogradLinearInput", f.weight),
    "weight": lambda f: f.grad.prim("AutogradLinearWeight", f.input, f.size(f.weight)),
    "bias": _bias,
}))  # fmt: skip


# -- layers


def _masked(names: Sequence[str], backward: Callable[[Formula, list[bool]], Sequence[Sym]]) -> Rule:
    """A rule of an operator that computes several gradients at once, told which."""

    def joint(f: Formula) -> Mapping[str, Sym | None]:
        mask = [name in f.wanted for name in names]
        return dict(zip(names, backward(f, mask), strict=True))

    return Rule(dict.fromkeys(names), joint)


def _convolution(f: Formula, mask: list[bool], *tail: object) -> Sequence[Sym]:
    bias_size = None if f.is_none("bias") else f.size(f.bias)
    geometry = (f.stride, f.padding, f.dilation, *tail, f.groups)
    return f.grad.prim("AutogradConvolution", f.input, f.weight, bias_size, *geometry, mask)  # type: ignore[no-any-return]


_CONVOLVED = ("input", "weight", "bias")
for _dims in (1, 2, 3):
    declare(f"conv{_dims}d", _masked(_CONVOLVED, lambda f, mask: _convolution(f, mask, False, [0])))
declare("convolution", _masked(_CONVOLVED, lambda f, mask: _convolution(f, mask, f.transposed, f.output_padding)))
declare("_slow_conv2d_forward", _masked(("self", "weight", "bias"), lambda f, mask: f.grad._slow_conv2d_backward(
    f.self, f.weight, f.kernel_size, f.stride, f.padding, mask)))  # fmt: skip
declare("native_layer_norm", _masked(("input", "weight", "bias"), lambda f, mask: f.grad.native_layer_norm_backward(
    f.input, f.normalized_shape, f.output(1), f.output(2), f.weight, f.bias, mask)))  # fmt: skip
declare("native_batch_norm", _masked(("input", "weight", "bias"), lambda f, mask: f.grad.native_batch_norm_backward(
    f.input, f.weight, f.running_mean, f.running_var, f.output(1), f.output(2), f.training, f.eps, mask)))  # fmt: skip


def _first(results: tuple[Sym, ...]) -> list[Sym]:
    return [results[0]]


declare("layer_norm", Rule(dict.fromkeys(("input", "weight", "bias")), lower=lambda f: _first(call(
    f.before, "aten::native_layer_norm", f.input, f.normalized_shape, f.weight, f.bias, f.eps))))  # fmt: skip
declare("batch_norm", Rule(dict.fromkeys(("input", "weight", "bias")), lower=lambda f: _first(call(
    f.before, "aten::native_batch_norm", f.input, f.weight, f.bias, f.running_mean, f.running_var, f.training,
    f.momentum, f.eps))))  # fmt: skip


def _drops(node: Node) -> bool:
    """Does a dropout certainly drop something? With a probability of 0, it gives its argument, with 1 zeros."""
    found = dict(arguments_of(node))
    f = {name: found[name].node.attributes.get("value", MISSING) for name in ("p", "train")}
    return f["train"] is True and isinstance(f["p"], float) and 0 < f["p"] < 1


def _dropped(f: Formula) -> list[Sym]:
    kept = 1 - f.constant("p")
    noise = call(f.before, "aten::div", call(f.before, "aten::bernoulli", f.input, kept), kept)
    return [call(f.before, "aten::mul", f.input, noise)]


declare("dropout", Rule({"input": None}, when=_drops, lower=_dropped))
declare("embedding", Rule({
    "weight": lambda f: f.grad.embedding_backward(
        f.indices, f.size_at(f.weight, 0), f.padding_idx, f.scale_grad_by_freq, False),
}, when=lambda node: node.named_input("sparse").node.attributes.get("value", MISSING) is False))  # fmt: skip
declare("nll_loss_forward", Rule({
    "self": lambda f: f.grad.nll_loss_backward(
        f.self, f.target, f.weight, f.reduction, f.ignore_index, f.output(1)),
}))  # fmt: skip
declare("nll_loss", Rule({"self": None}, lower=lambda f: _first(call(
    f.before, "aten::nll_loss_forward", f.self, f.target, f.weight, f.reduction, f.ignore_index))))  # fmt: skip


# -- pooling


def _pooled_to_one(f: Formula) -> bool:
    return set(f.constant("output_size")) == {1}


def _adaptive(dims: int) -> Contribution:
    """An average over all of the last dimensions keeps no tensor alive."""

    def formula(f: Formula) -> Sym:
        if _pooled_to_one(f):
            return f.grad.prim("AutogradMean", f.size(f.self), [-d - 1 for d in range(dims)], True)  # type: ignore[no-any-return]
        if dims == 1:
            return f.grad.unsqueeze(-2)._adaptive_avg_pool2d_backward(f.self.unsqueeze(-2)).squeeze(-2)  # type: ignore[no-any-return]
        return getattr(f.grad, f"_adaptive_avg_pool{dims}d_backward")(f.self)  # type: ignore[no-any-return]

    return formula


for _dims in (1, 2, 3):
    declare(f"adaptive_avg_pool{_dims}d", Rule({"self": _adaptive(_dims)}, when=constants("output_size")))
declare("avg_pool2d", Rule({
    "self": lambda f: f.grad.avg_pool2d_backward(
        f.self, f.kernel_size, f.stride, f.padding, f.ceil_mode, f.count_include_pad, f.divisor_override),
}))  # fmt: skip
declare("max_pool2d_with_indices", Rule({
    "self": lambda f: f.grad.max_pool2d_with_indices_backward(
        f.self, f.kernel_size, f.stride, f.padding, f.dilation, f.ceil_mode, f.output(1)),
}))  # fmt: skip
declare("max_pool2d", Rule({"self": None}, lower=lambda f: _first(call(
    f.before, "aten::max_pool2d_with_indices", f.self, f.kernel_size, f.stride, f.padding, f.dilation,
    f.ceil_mode))))  # fmt: skip


# -- sums of gradients, and operators whose results have no gradients

declare("prim::AutogradAdd", Rule({"a": _same, "b": _same}))
for _name in (
    *(f"{comparison}.{other}" for comparison in ("eq", "ne", "lt", "le", "gt", "ge") for other in ("Scalar", "Tensor")),
    "logical_not", "logical_and", "logical_or", "logical_xor", "isnan", "isfinite", "isinf", "nonzero", "_dim_arange",
    "argmax", "argmin", "prim::AutogradZero",
):  # fmt: skip
    declare(_name, Rule({}, outputs=()))
