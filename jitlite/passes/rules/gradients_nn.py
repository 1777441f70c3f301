"""The gradients of products, layers and pooling. How to read them: see `gradients.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jitlite.ir.graph import Node
from jitlite.passes.rules.formula import (
    MISSING,
    Contribution,
    Formula,
    Rule,
    Sym,
    arguments_of,
    call,
    calls,
    constants,
    declare,
    scaled,
)

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
    "self": lambda f: f.summed(scaled(f.grad, f, "beta"), f.self),
    "mat1": lambda f: scaled(f.grad.mm(f.mat2.t()), f, "alpha"),
    "mat2": lambda f: scaled(f.mat1.t().mm(f.grad), f, "alpha"),
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
    return f.grad.all_of("prim::AutogradConvolution", f.input, f.weight, bias_size, *geometry, mask)


_CONVOLVED = ("input", "weight", "bias")
for _dims in (1, 2, 3):
    declare(f"conv{_dims}d", _masked(_CONVOLVED, lambda f, mask: _convolution(f, mask, False, [0])))
declare("convolution", _masked(_CONVOLVED, lambda f, mask: _convolution(f, mask, f.transposed, f.output_padding)))
declare("_slow_conv2d_forward", _masked(("self", "weight", "bias"), lambda f, mask: f.grad.all_of(
    "aten::_slow_conv2d_backward", f.self, f.weight, f.kernel_size, f.stride, f.padding, mask)))  # fmt: skip
declare("native_layer_norm", _masked(("input", "weight", "bias"), lambda f, mask: f.grad.all_of(
    "aten::native_layer_norm_backward",
    f.input, f.normalized_shape, f.output(1), f.output(2), f.weight, f.bias, mask)))  # fmt: skip
declare("native_batch_norm", _masked(("input", "weight", "bias"), lambda f, mask: f.grad.all_of(
    "aten::native_batch_norm_backward",
    f.input, f.weight, f.running_mean, f.running_var, f.output(1), f.output(2), f.training, f.eps, mask)))  # fmt: skip


def _first(results: tuple[Sym, ...]) -> list[Sym]:
    return [results[0]]


declare("layer_norm", Rule(dict.fromkeys(("input", "weight", "bias")), lower=lambda f: _first(calls(
    f.before, "aten::native_layer_norm", f.input, f.normalized_shape, f.weight, f.bias, f.eps))))  # fmt: skip
declare("batch_norm", Rule(dict.fromkeys(("input", "weight", "bias")), lower=lambda f: _first(calls(
    f.before, "aten::native_batch_norm", f.input, f.weight, f.bias, f.running_mean, f.running_var, f.training,
    f.momentum, f.eps))))  # fmt: skip


def _drops(node: Node) -> bool:
    """Does a dropout certainly drop something, or nothing? With a probability of 0 it gives what it is given."""
    found = dict(arguments_of(node))
    f = {name: found[name].node.attributes.get("value", MISSING) for name in ("p", "train")}
    return f["train"] is False or (f["train"] is True and isinstance(f["p"], float) and 0 < f["p"] < 1)


def _is_off(node: Node) -> bool:
    return dict(arguments_of(node))["train"].node.attributes.get("value", MISSING) is False


def _dropped(f: Formula) -> list[Sym]:
    if not f.constant("train"):
        return [f.input]
    kept = 1 - f.constant("p")
    noise = call(f.before, "aten::div", call(f.before, "aten::bernoulli", f.input, kept), kept)
    return [call(f.before, "aten::mul", f.input, noise)]


declare("dropout", Rule({"input": None}, when=_drops, lower=_dropped))
for _name in ("alpha_dropout", "feature_dropout", "feature_alpha_dropout"):
    declare(_name, Rule({"input": None}, when=_is_off, lower=lambda f: [f.input]))
declare("embedding", Rule({
    "weight": lambda f: f.grad.embedding_backward(
        f.indices, f.size_at(f.weight, 0), f.padding_idx, f.scale_grad_by_freq, False),
}, when=lambda node: node.named_input("sparse").node.attributes.get("value", MISSING) is False))  # fmt: skip


# -- pooling


def _pooled_to_one(f: Formula) -> bool:
    return set(f.constant("output_size")) == {1}


def _adaptive(dims: int) -> Contribution:
    """An average over all of the last dimensions keeps no tensor alive."""

    def formula(f: Formula) -> Sym:
        if _pooled_to_one(f):
            return f.grad.prim("AutogradMean", f.size(f.self), [-d - 1 for d in range(dims)], True)
        if dims == 1:
            return f.grad.unsqueeze(-2)._adaptive_avg_pool2d_backward(f.self.unsqueeze(-2)).squeeze(-2)
        return call(f.place, f"aten::_adaptive_avg_pool{dims}d_backward", f.grad, f.self)

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
declare("max_pool2d", Rule({"self": None}, lower=lambda f: _first(calls(
    f.before, "aten::max_pool2d_with_indices", f.self, f.kernel_size, f.stride, f.padding, f.dilation,
    f.ceil_mode))))  # fmt: skip


# -- what is put around


def _is_constant_pad(node: Node) -> bool:
    """Is a constant put around the elements, in known widths none of which is negative?"""
    found = dict(arguments_of(node))
    widths = found["pad"].node.attributes.get("value", MISSING)
    mode = found["mode"].node.attributes.get("value", MISSING) if "mode" in found else "constant"
    return isinstance(widths, list) and all(type(w) is int and w >= 0 for w in widths) and mode == "constant"


def _inside(f: Formula) -> Sym:
    grad, widths, name = f.grad, f.constant("pad"), "input" if "input" in f.arguments else "self"
    for i in range(0, len(widths), 2):
        dim = -1 - i // 2
        if widths[i] or widths[i + 1]:
            grad = call(f.place, "aten::narrow", grad, dim, widths[i], f.size_at(getattr(f, name), dim))
    return grad


for _name in ("pad", "constant_pad_nd"):
    declare(_name, Rule({"self": _inside}, when=_is_constant_pad))
