"""The gradients of what moves, chooses and repeats elements. How to read them: see `gradients.py`."""

from __future__ import annotations

from jitlite.ir.graph import Node
from jitlite.passes.rules.formula import MISSING, Formula, Rule, Sym, arguments_of, call, constants, declare

# -- the largest along a dimension, and where it is


def _chosen(f: Formula) -> Sym:
    """The gradient goes to where the element came from."""
    grad, index = f.grad, f.output(1)
    if not f.constant("keepdim"):
        grad, index = grad.unsqueeze(f.dim), index.unsqueeze(f.dim)
    return grad.new_zeros(f.size(f.self)).scatter(f.dim, index, grad)


def _shared(f: Formula) -> Sym:
    """Elements that tie have equal parts, those that are NaN too."""
    is_extreme = f.self.eq(f.result).logical_or(f.self.isnan().logical_and(f.result.isnan()))
    return is_extreme.where(f.grad / is_extreme.sum(), 0)


for _name in ("max", "min"):
    declare(_name, Rule({"self": _shared}))
    declare(f"{_name}.dim", Rule({"self": _chosen}, when=constants("dim", "keepdim")))

# -- views


def _is_from_start(node: Node) -> bool:
    """Is the start of a part known, and not counted from the end?"""
    start = dict(arguments_of(node))["start"].node.attributes.get("value", MISSING)
    return isinstance(start, int) and start >= 0


declare("narrow", Rule({
    "self": lambda f: f.grad.slice_backward(
        f.size(f.self), f.dim, f.start, call(f.place, "aten::add", f.length, f.start), 1),
}, when=_is_from_start))  # fmt: skip
declare("movedim.int", Rule({"self": lambda f: f.grad.movedim(f.destination, f.source)}))
declare("movedim.intlist", Rule({"self": lambda f: f.grad.movedim(f.destination, f.source)}))
declare("swapaxes", Rule({"self": lambda f: f.grad.swapaxes(f.axis0, f.axis1)}))
declare("roll", Rule({
    "self": lambda f: call(f.place, "aten::roll", f.grad, [-n for n in f.constant("shifts")], f.dims),
}, when=constants("shifts", "dims")))  # fmt: skip

# -- elements that are written

declare("scatter_add", Rule({"self": lambda f: f.grad, "src": lambda f: f.grad.gather(f.dim, f.index)}))
declare("scatter.src", Rule({
    "self": lambda f: f.grad.scatter(f.dim, f.index, 0.0),
    "src": lambda f: f.grad.gather(f.dim, f.index),
}))  # fmt: skip
declare("scatter.value", Rule({"self": lambda f: f.grad.scatter(f.dim, f.index, 0.0)}))


def _is_plain(node: Node) -> bool:
    return bool(dict(arguments_of(node))["alpha"].node.attributes.get("value", MISSING) == 1)


declare("index_add", Rule({
    "self": lambda f: f.grad, "source": lambda f: f.grad.index_select(f.dim, f.index),
}, when=_is_plain))  # fmt: skip

# -- sums in logarithms

declare("logaddexp", Rule({
    "self": lambda f: f.summed(f.grad / ((f.other - f.self).exp() + 1), f.self),
    "other": lambda f: f.summed(f.grad / ((f.self - f.other).exp() + 1), f.other),
}))  # fmt: skip
