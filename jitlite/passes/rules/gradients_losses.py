"""The gradients of losses, and of what chooses or moves elements. How to read them: see `gradients.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.ir.tensor_items import ITEM, WHOLE, parse_index
from jitlite.passes.rules.formula import (
    MISSING,
    Contribution,
    Formula,
    Rule,
    Sym,
    arguments_of,
    call,
    constants,
    declare,
    list_of,
)

NONE, MEAN, SUM = range(3)
"""What is done with the losses of elements."""


def reduces(node: Node) -> bool:
    """Is it known what is done with the losses of elements?"""
    found = dict(arguments_of(node))["reduction"].node.attributes.get("value", MISSING)
    return found in (NONE, MEAN, SUM)


def _given(f: Formula, grad: Sym, of: Sym) -> Sym:
    """The gradient of a loss for one of its operands, which may have been broadcast and promoted."""
    return f.cast(grad._grad_sum_to_size(f.size(of)), of)


# -- of two tensors


def _between(backward: str, *more: str) -> Rule:
    """A rule of a loss of the distance between two tensors, whose gradient for either is the same function."""

    def of(own: str, other: str) -> Contribution:
        def formula(f: Formula) -> Sym:
            value = getattr(f, own)
            numbers = [getattr(f, name) for name in more]
            return _given(f, getattr(f.grad, backward)(value, getattr(f, other), *numbers), value)

        return formula

    return Rule({"self": of("self", "target"), "target": of("target", "self")})


declare("mse_loss", _between("mse_loss_backward", "reduction"))
declare("smooth_l1_loss", _between("smooth_l1_loss_backward", "reduction", "beta"))
declare("huber_loss", _between("huber_loss_backward", "reduction", "delta"))


def _absolute(f: Formula) -> Sequence[Sym]:
    return [reduced(f, (f.self - f.target).abs())]


declare("l1_loss", Rule({"self": None, "target": None}, when=reduces, lower=_absolute))


def _of_logits(slope: Callable[[Formula], Sym], of: str) -> Contribution:
    def formula(f: Formula) -> Sym:
        grad = slope(f) * f.grad
        if not f.is_none("weight"):
            grad = grad * f.weight
        value = getattr(f, of)
        if f.constant("reduction") == MEAN:
            grad = grad / Sym(f.place, call(f.before, "aten::numel", value).value)
        return _given(f, grad, value)

    return formula


def _slope_of_logits(f: Formula) -> Sym:
    if f.is_none("pos_weight"):
        return f.self.sigmoid() - f.target
    positive = f.pos_weight * f.target
    return (positive + 1 - f.target) * f.self.sigmoid() - positive


def _slope_of_target(f: Formula) -> Sym:
    if f.is_none("pos_weight"):
        return -f.self
    return (-f.self).log_sigmoid() - f.pos_weight * f.self.log_sigmoid()


def _has_plain_weights(node: Node) -> bool:
    """Is it known which weights there are?"""
    found = dict(arguments_of(node))
    weights = [found[name].type for name in ("weight", "pos_weight")]
    return reduces(node) and all(t is T.NONE or isinstance(t, T.TensorType) for t in weights)


declare("binary_cross_entropy_with_logits", Rule({
    "self": _of_logits(_slope_of_logits, "self"), "target": _of_logits(_slope_of_target, "target"),
}, when=_has_plain_weights))  # fmt: skip


def _of_probability(f: Formula) -> Sym:
    grad = f.grad.binary_cross_entropy_backward(f.self, f.target, None if f.is_none("weight") else f.weight,
                                                f.reduction)  # fmt: skip
    return f.cast(grad, f.self)


def _of_truth(f: Formula) -> Sym:
    grad = f.grad * ((1 - f.self).log() - f.self.log())
    if not f.is_none("weight"):
        grad = grad * f.weight
    return _given(f, _mean_of(f, grad, "self"), f.target)


def _mean_of(f: Formula, grad: Sym, of: str) -> Sym:
    """The gradient for each element, where the loss may be the mean."""
    if f.constant("reduction") != MEAN:
        return grad
    return grad / Sym(f.place, call(f.before, "aten::numel", getattr(f, of)).value)


def _has_plain_weight(node: Node) -> bool:
    weight = dict(arguments_of(node))["weight"].type
    return reduces(node) and (weight is T.NONE or isinstance(weight, T.TensorType))


declare("binary_cross_entropy", Rule({
    "self": _of_probability, "target": _of_truth,
}, when=_has_plain_weight, fixed=("weight",)))  # fmt: skip


def _divergence(f: Formula) -> list[Sym]:
    if f.constant("log_target"):
        found = f.target.exp() * (f.target - f.self)
    else:
        found = f.target.xlogy(f.target) - f.target * f.self
    return [reduced(f, found)]


def reduced(f: Formula, losses: Sym) -> Sym:
    """The losses of elements, summed up as the operator says."""
    how = f.constant("reduction")
    return losses if how == NONE else losses.mean() if how == MEAN else losses.sum()


declare("kl_div", Rule({"self": None, "target": None}, lower=_divergence, when=lambda node: reduces(node)
    and constants("log_target")(node)))  # fmt: skip


# -- elements that are chosen, and where they go

declare("gather", Rule({
    "self": lambda f: f.grad.new_zeros(f.size(f.self)).scatter_add(f.dim, f.index, f.grad),
}, when=lambda node: node.named_input("sparse_grad").node.attributes.get("value", MISSING) is False))  # fmt: skip
declare("index_select", Rule({
    "self": lambda f: f.grad.new_zeros(f.size(f.self)).index_add(f.dim, f.index, f.grad),
}))  # fmt: skip


def _takes_rows(node: Node) -> bool:
    """Is an index certainly made of tensors with dimensions, of whole numbers, and of whole slices?"""
    if any(entry not in (ITEM, WHOLE) for entry in parse_index(str(node.attributes["index"]))):
        return False
    _, *operands = node.inputs
    types = [operand.type for operand in operands]
    return all(isinstance(t, T.TensorType) and t.dtype in (torch.int64, torch.int32) and t.sizes for t in types)


def _rows(f: Formula) -> list[Sym]:
    """As an operator that takes a list, which has a formula."""
    _, *operands = f.node.inputs
    left = iter(operands)
    entries = parse_index(str(f.node.attributes["index"]))
    values = [Sym(f.before, next(left)) if entry == ITEM else None for entry in entries]
    return [call(f.before, "aten::index", f.self, list_of(f.before, values, T.OptionalType.of(T.TENSOR)))]


declare("prim::TensorItem", Rule({"self": None}, when=_takes_rows, lower=_rows))
declare("flip", Rule({"self": lambda f: f.grad.flip(f.dims)}))
for _name in ("tril", "triu"):
    declare(_name, Rule({"self": lambda f, _name=_name: getattr(f.grad, _name)(f.diagonal)}))  # type: ignore[misc]


def _extreme(f: Formula) -> Sym:
    """Elements that tie have equal parts of the gradient."""
    size = f.size(f.self)
    grad, result = (x.prim("AutogradUnreduce", size, f.dim, f.keepdim) for x in (f.grad, f.result))
    is_extreme = result.eq(f.self)
    return grad * is_extreme / is_extreme.sum(f.dim, True)


for _name in ("amax", "amin"):
    declare(_name, Rule({"self": _extreme}))


def _from_end(f: Formula) -> Sym:
    return f.cast(call(f.place, "aten::flip", f.grad, [f.constant("dim")]).cumsum(f.dim).flip([f.constant("dim")]),
                  f.self)  # fmt: skip


def _stays_real(node: Node) -> bool:
    dtype = dict(arguments_of(node))["dtype"]
    return dtype.type is T.NONE and constants("dim")(node)


declare("cumsum", Rule({"self": _from_end}, when=_stays_real))


# -- activations that put two halves together, or end in a logarithm

declare("glu", Rule({"self": lambda f: f.grad.glu_backward(f.self, f.dim)}))
declare("log_sigmoid", Rule({"self": lambda f: f.grad * (-f.self).sigmoid()}))
declare("rsub.Tensor", Rule({
    "self": lambda f: f.fit(-f.grad if f.constant("alpha") == 1 else -f.grad * f.alpha, f.self),
    "other": lambda f: f.fit(f.grad, f.other),
}))  # fmt: skip
declare("outer", Rule({"self": None, "vec2": None}, lower=lambda f: [
    call(f.before, "aten::mul", call(f.before, "aten::unsqueeze", f.self, 1), f.vec2)]))  # fmt: skip
