"""The gradients of losses of classes. How to read them: see `gradients.py`."""

from __future__ import annotations

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.passes.rules.formula import Contribution, Formula, Rule, Sym, arguments_of, call, calls, constants, declare
from jitlite.passes.rules.gradients_losses import MEAN, NONE, reduced, reduces

_MOST = 4
"""The dimensions up to which torch has an operator for the losses of rows."""


def _has_one_class_each(node: Node) -> bool:
    """Is it known that the target says the class of each row, or of the only one?"""
    found = dict(arguments_of(node))
    value, target = found["self"].type, found["target"].type
    if not isinstance(value, T.TensorType) or not isinstance(target, T.TensorType):
        return False
    if value.sizes is None or target.sizes is None or target.dtype is not torch.int64:
        return False
    return 1 <= len(value.sizes) <= _MOST and len(target.sizes) == len(value.sizes) - 1


def _has_probabilities(node: Node) -> bool:
    """Is it known that the target says the probability of each class?"""
    found = dict(arguments_of(node))
    value, target = found["self"].type, found["target"].type
    if not isinstance(value, T.TensorType) or not isinstance(target, T.TensorType):
        return False
    if not value.sizes or target.sizes is None or len(target.sizes) != len(value.sizes):
        return False
    return value.dtype is not None and value.dtype is target.dtype and value.dtype.is_floating_point


def _is_known(node: Node) -> bool:
    if not reduces(node) or not constants("label_smoothing", "ignore_index")(node):
        return False
    return _has_probabilities(node) or _has_one_class_each(node)


def _rank(f: Formula) -> int:
    t = f.self.value.type
    assert isinstance(t, T.TensorType) and t.sizes is not None
    return len(t.sizes)


def _by_class(f: Formula, value: Sym) -> tuple[Sym, Sym]:
    """The loss, and the weight of all rows that count."""
    rank, target = _rank(f), f.target
    is_line = rank == 3
    if is_line:  # a line is an image of one row
        value, target = value.unsqueeze(2), target.unsqueeze(1)
    kind = "aten::nll_loss2d_forward" if rank > 2 else "aten::nll_loss_forward"
    loss, total = calls(f.before, kind, value, target, f.weight, f.reduction, f.ignore_index)
    return loss.squeeze(1) if is_line and f.constant("reduction") == NONE else loss, total


def _backward(kind: str) -> Contribution:
    return lambda f: call(f.place, f"aten::{kind}_backward", f.grad, f.self, f.target, f.weight, f.reduction,
                          f.ignore_index, f.output(1))  # fmt: skip


for _kind in ("nll_loss", "nll_loss2d"):
    declare(f"{_kind}_forward", Rule({"self": _backward(_kind)}, fixed=("weight",)))


def _first(f: Formula) -> list[Sym]:
    return [_by_class(f, f.self)[0]]


declare("nll_loss", Rule({"self": None}, lower=lambda f: [
    calls(f.before, "aten::nll_loss_forward", f.self, f.target, f.weight, f.reduction, f.ignore_index)[0]
]))  # fmt: skip
declare(
    "nll_loss_nd", Rule({"self": None}, when=lambda node: reduces(node) and _has_one_class_each(node), lower=_first)
)


# -- cross entropy


def _cross_entropy(f: Formula) -> list[Sym]:
    dim = 0 if _rank(f) == 1 else 1
    logs = f.self.log_softmax(dim, None)
    smoothing = f.constant("label_smoothing")
    if _has_probabilities(f.node):
        return [_of_probabilities(f, logs, dim, smoothing)]
    loss, total = _by_class(f, logs)
    if smoothing == 0:
        return [loss]
    even = _of_all_classes(f, logs, dim, total)
    return [loss * (1 - smoothing) + even * smoothing / f.size_at(f.self, dim)]


def _weighed(f: Formula, logs: Sym, dim: int) -> Sym:
    if f.is_none("weight"):
        return logs
    shape = [1] * dim + [-1] + [1] * (_rank(f) - dim - 1)
    return logs * f.weight.view(shape)


def _of_all_classes(f: Formula, logs: Sym, dim: int, total: Sym) -> Sym:
    """What is less than 0 of all logarithms of a row, for rows that count."""
    losses = -_weighed(f, logs, dim).sum([dim])
    losses = f.target.eq(f.ignore_index).where(0, losses)
    how = f.constant("reduction")
    if how == NONE:
        return losses
    return losses.sum() / total if how == MEAN else losses.sum()


def _of_probabilities(f: Formula, logs: Sym, dim: int, smoothing: float) -> Sym:
    target = f.target
    if smoothing:
        target = target * (1 - smoothing) + call(f.before, "aten::div", smoothing, f.size_at(f.self, dim))
    losses = -_weighed(f, logs * target, dim).sum([dim])
    return reduced(f, losses)


declare("cross_entropy_loss", Rule({"self": None, "target": None}, when=_is_known, lower=_cross_entropy))
