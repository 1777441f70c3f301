"""Tensor methods that are not simply the operator of their name."""

from __future__ import annotations

from contextlib import suppress

import torch

from jitlite.base.errors.calls import WRONG_ARGUMENTS
from jitlite.base.source import CompileError
from jitlite.frontend.emit.builtin_names import BINARY_METHODS, OPERATOR_METHODS, OTHER_MEANING, PYTHON_METHODS
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.values import SimpleValue, SpecialForm, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue


@form("__getitem__", 1, 1)
def emit_getitem(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    """`x.__getitem__(i)` is `x[i]`."""
    assert special.subject is not None
    subject = em.temporary("subject")
    em.assign(subject, special.subject, call.range)
    index = call.args[0]
    indices = index.elements if isinstance(index, tree.TupleLiteral) else (index,)
    variable = tree.Var(tree.Ident(subject, range=call.range), range=call.range)
    return em.emit_sugared(tree.Subscript(variable, tuple(indices), range=call.range), hint)


@form("new_tensor", 1, 1, ["dtype", "device", "requires_grad"])
def emit_new_tensor(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    """`x.new_tensor(data)` is `torch.tensor(data)` with the dtype and the device of `x`."""
    assert special.subject is not None
    subject = special.subject.as_value(em, call.range)
    data = em.emit(call.args[0])
    given = em.emit_keywords(call.keywords)
    if T.is_subtype(data.type, T.TENSOR):
        raise WRONG_ARGUMENTS.unsupported(
            "new_tensor of a tensor isn't supported", call.range, hint="use data.detach().clone(), and .to(...)"
        )
    named = {k.name for k in given}
    for name, kind in (("dtype", "prim::dtype"), ("device", "prim::device")):
        if name not in named:
            given.append(NamedValue(name, em.op(kind, [subject], range=call.range), range=call.range))
    return SimpleValue(em.op("aten::tensor", [data], given, call.range))


@form("type of tensor", 0, None, ["*"])
def emit_type(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    """`x.type(dtype)` is `x.to(dtype)`; without a dtype it is a text of Python's."""
    assert special.subject is not None
    if not call.args and not call.keywords:
        raise WRONG_ARGUMENTS.unsupported(
            "x.type() without a dtype isn't supported", call.range, hint="use x.dtype, and x.device for where it is"
        )
    this = NamedValue("self", special.subject.as_value(em, call.range), range=call.range)
    args, kwargs = em.emit_arguments(call.args), em.emit_keywords(call.keywords)
    return SimpleValue(em.op("aten::to", args, kwargs, call.range, this))


def emit_python_method(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    """A method that torch writes in Python: the operator where one fits, else the function that the method calls."""
    assert special.subject is not None
    name = special.form
    this = NamedValue("self", special.subject.as_value(em, call.range), range=call.range)
    args, kwargs = em.emit_arguments(call.args), em.emit_keywords(call.keywords)
    if name not in OTHER_MEANING and ops.lookup(f"aten::{name}"):
        with suppress(CompileError):
            return SimpleValue(em.op(f"aten::{name}", args, kwargs, call.range, this))
    function = sugared_from_python(em, getattr(torch, name), name, call.range)
    return function.call(em, call.range, [NamedValue(None, this.value, range=call.range), *args], kwargs)


def emit_operator_method(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    """`x.__add__(y)` is `x + y`, `x.__radd__(y)` is `y + x`."""
    assert special.subject is not None
    name = special.form
    is_plain = name in BINARY_METHODS.values()
    method = name if is_plain else f"__{name[3:]}"
    op = next(op for op, found in BINARY_METHODS.items() if found == method)
    left: tree.Expr = KnownValue(special.subject, range=call.range)
    right = call.args[0]
    return em.emit_sugared(tree.BinOp(op, *((left, right) if is_plain else (right, left)), range=call.range), hint)


for _name in OPERATOR_METHODS:
    form(_name, 1, 1)(emit_operator_method)
for _name in PYTHON_METHODS:
    form(_name, 0, None, ["*"])(emit_python_method)
