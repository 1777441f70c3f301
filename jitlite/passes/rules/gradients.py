"""The gradients of the operators that are differentiated symbolically.

How to read: `f` is a `Formula`: `f.grad` the gradient of the result, `f.result` the result, `f.self` and so on the
arguments. The formulas are those of autograd, so that they keep the same values alive: whether a tensor may be written
before the backward pass must not depend on who differentiates.

Tables by subject: pointwise with one tensor, pointwise with several (whose gradients are summed and cast to fit),
reductions, views, lists. Operators without gradients come last. `gradients_nn.py` has products and layers,
`gradients_losses.py` losses and what chooses elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
    scaled,
    shape_of,
    unpacked,
)

Unary = Callable[[Formula], Sym]


# -- pointwise, one tensor


def _same(f: Formula) -> Sym:
    return f.grad


def _zeros(f: Formula) -> Sym:
    return f.grad.zeros_like()


def _rounded(f: Formula) -> Sym:
    """A quotient, or one that is rounded."""
    return f.grad / f.other if f.is_none("rounding_mode") else _zeros(f)


def _clamp(f: Formula) -> Sym:
    bounds = [
        call(f.place, f"aten::{comparison}", f.self, getattr(f, bound))
        for bound, comparison in (("min", "ge"), ("max", "le"))
        if not f.is_none(bound)
    ]
    if not bounds:
        return f.grad
    return (bounds[0] if len(bounds) == 1 else bounds[0].logical_and(bounds[1])).where(f.grad, 0)


def _is_number(node: Node, name: str) -> bool:
    """Is an argument a constant other than 0?"""
    found = dict(arguments_of(node))[name].node.attributes.get("value")
    return isinstance(found, int | float) and found != 0


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
    "rsub.Scalar": lambda f: scaled(-f.grad, f, "alpha"),
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
declare("clamp_min", Rule({"self": lambda f: f.self.ge(f.min).where(f.grad, 0)}))
declare("clamp_max", Rule({"self": lambda f: f.self.le(f.max).where(f.grad, 0)}))
declare("selu", Rule({"self": None}, lower=lambda f: [f.self.elu(1.6732632423543772, 1.0507009873554805, 1.0)]))
declare("celu", Rule({"self": None}, when=lambda node: _is_number(node, "alpha"), lower=lambda f: [
    f.self.elu(f.alpha, 1.0, 1.0 / f.constant("alpha"))]))  # fmt: skip
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
        return shared.masked_fill(getattr(f.self, beaten)(f.other), 0)

    return formula


def _below(f: Formula) -> Sym:
    below = f.self.lt(f.min)
    if not f.is_none("max"):
        below = below.logical_and(f.min.lt(f.max))
    return below.where(f.grad, 0)


def _above(f: Formula) -> Sym:
    above = f.self.gt(f.max)
    if not f.is_none("min"):
        above = above.logical_or(f.max.lt(f.min))
    return above.where(f.grad, 0)


_pointwise("add.Tensor", self=_same, other=lambda f: scaled(f.grad, f, "alpha"))
_pointwise("sub.Tensor", self=_same, other=lambda f: scaled(-f.grad, f, "alpha"))
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
    tensor1=lambda f: f.grad * scaled(f.tensor2, f, "value"),
    tensor2=lambda f: f.grad * scaled(f.tensor1, f, "value"),
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
_pointwise(
    "xlogy.Tensor",
    self=lambda f: f.grad.xlogy(f.other).masked_fill(f.self.eq(0).logical_and(f.other.le(0)), 0),
    other=lambda f: f.grad * f.self / f.other,
)
_pointwise("masked_fill.Scalar", self=lambda f: f.grad.masked_fill(f.mask, 0))
_pointwise("clamp.Tensor", self=_clamp, min=_below, max=_above, when=_known_none("min", "max"))
_pointwise(
    "where.self",
    self=lambda f: f.condition.where(f.grad, 0),
    other=lambda f: call(f.place, "aten::where", f.condition, 0, f.grad),
)

_pointwise("where.ScalarSelf", other=lambda f: call(f.place, "aten::where", f.condition, 0, f.grad))
_pointwise("where.ScalarOther", self=lambda f: f.condition.where(f.grad, 0))


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
        return f.grad.prim(kind, f.self, *((f.result,) if kind == "AutogradStd" else ()), *where)

    return formula


for _name, _overload, _kind in (("sum", "dim_IntList", "AutogradUnreduce"), ("mean", "dim", "AutogradMean")):
    declare(_name, Rule({"self": _reduced(_kind, False)}, when=is_real))
    declare(f"{_name}.{_overload}", Rule({"self": _reduced(_kind, True)}, when=is_real))
for _name, _kind in (("var", "AutogradVar"), ("std", "AutogradStd")):
    _flag = constants("unbiased")
    declare(_name, Rule({"self": _variance(_kind, False, lambda f: int(f.constant("unbiased")))}, when=_flag))
    declare(f"{_name}.dim", Rule({"self": _variance(_kind, True, lambda f: int(f.constant("unbiased")))}, when=_flag))
    declare(f"{_name}.correction", Rule({"self": _variance(_kind, True, lambda f: f.correction)}))


def _length(f: Formula, order: str, where: bool = True) -> Sym:
    """The gradient of a norm; 0 where that is 0."""
    grad, result = f.grad, f.result
    if where:
        grad, result = (x.prim("AutogradUnreduce", f.size(f.self), f.dim, f.keepdim) for x in (grad, result))
    if f.constant(order) == 1:
        return grad * f.self.sgn()
    return grad * (f.self / result).masked_fill(result.eq(0), 0)


def _is_plain_norm(order: str) -> Callable[[Node], bool]:
    """Is it a sum of sizes or the root of a sum of squares, of the same dtype?"""

    def hold(node: Node) -> bool:
        found = dict(arguments_of(node))
        of = found[order].node.attributes.get("value", MISSING)
        order_is_known = is_constant(found[order]) and (of is MISSING or of in (1, 2))
        return order_is_known and ("dtype" not in found or found["dtype"].type is T.NONE)

    return hold


declare("norm.Scalar", Rule({"self": lambda f: _length(f, "p", False)}, when=_is_plain_norm("p")))
declare("norm.ScalarOpt_dim", Rule({"self": lambda f: _length(f, "p")}, when=_is_plain_norm("p")))
declare("linalg_vector_norm", Rule({"self": lambda f: _length(f, "ord")}, when=_is_plain_norm("ord")))
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
    if f.is_certain and None not in f.grads:
        return call(f.place, "aten::cat", _grads(f), dim)
    sizes = _sizes(f, [Sym(f.place, part) for part in parts])
    return call(f.place, "prim::AutogradCat", _grads(f), sizes, dim)


def _joined(f: Formula) -> Sym:
    return _rejoined(f, f.dim, unpacked(f.node.output))


def _restacked(f: Formula) -> Sym:
    if f.is_certain and None not in f.grads:
        return call(f.place, "aten::stack", _grads(f), f.dim)
    return call(f.place, "prim::AutogradStack", _grads(f), f.size(f.self), f.dim)


def _broadcast(f: Formula) -> list[Sym]:
    """Each tensor, expanded to the shape of all."""
    elements = f.elements("tensors")
    shapes = {shape_of(x.value.type) for x in elements}
    if len(shapes) > 1 or None in shapes:
        size = call(f.before, "prim::BroadcastSizes", *(f.size(x) for x in elements))
        elements = [call(f.before, "aten::expand", x, size) for x in elements]
    return [list_of(f.before, elements, T.TENSOR)]


def _is_broadcast(node: Node) -> bool:
    return is_display(node) and is_unpacked(node)


declare("broadcast_tensors", Rule({"tensors": None}, when=_is_broadcast, lower=_broadcast))
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
    return f.grad.new_zeros(f.size(f.self)).index_put(listed, f.grad, True)


for _name in ("index.Tensor", "index.Tensor_hacked_twin"):
    declare(_name, Rule({"self": _index}, when=is_display))


# -- sums of gradients, and operators whose results have no gradients

declare("prim::AutogradAdd", Rule({"a": _same, "b": _same}))
for _name in (
    *(f"{comparison}.{other}" for comparison in ("eq", "ne", "lt", "le", "gt", "ge") for other in ("Scalar", "Tensor")),
    "logical_not", "logical_and", "logical_or", "logical_xor", "isnan", "isfinite", "isinf", "nonzero", "_dim_arange",
    "argmax", "argmin", "detach", "bernoulli", "bernoulli.p", "prim::AutogradZero",
    *(f"{kind}_like" for kind in ("zeros", "ones", "full", "empty")),
    *(f"new_{kind}" for kind in ("zeros", "ones", "full")),
):  # fmt: skip
    declare(_name, Rule({}, outputs=()))
