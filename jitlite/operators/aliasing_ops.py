"""What operators do to memory that their schemas do not say."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of
from jitlite.ir.ops import Op
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type

_VIEWS = ("unsafe_", "sparse", "native_dropout", "lift", "dequantize", "nested")
"""Parts of the names of operators with kernels whose results may share memory with their inputs, unmarked."""


@cache
def results_may_be_inputs(op: Op) -> bool:
    """May an unmarked result be, or be a view of, an input?

    Torch marks this for operators with kernels. Those made up of others (`type_as`, `einsum`, `dropout`) give what the
    last of these gives, which may be the input.
    """
    schema = op.schema
    if op.has(Trait.FRESH) or op.is_pointwise:
        return False
    takes_tensors = any(_holds_tensor(a.type) for a in schema.arguments)
    if not takes_tensors or not any(_holds_tensor(r.type) and r.alias is None for r in schema.returns):
        return False
    return op.overload is None or _may_give_input(op.overload.name(), schema.name)


def _may_give_input(overload: str, name: str) -> bool:
    if any(part in name for part in _VIEWS):
        return True
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload, "CompositeImplicitAutograd"))


def _holds_tensor(t: Type) -> bool:
    return isinstance(t, T.TensorType) or any(_holds_tensor(p) for p in t.contained)


@cache
def has_variables(op: Op) -> bool:
    """Does the schema use type variables or Any, so that one value may go through it unmarked?"""
    schema = op.schema
    return any(T.has_variables(a.type) or a.type is T.ANY for a in (*schema.arguments, *schema.returns))


@cache
def only_makes(op: Op) -> bool:
    """Are all results new objects, and inputs neither written nor kept? So it is with most operators."""
    schema = op.schema
    if schema.is_mutable or has_variables(op) or results_may_be_inputs(op) or op.has(Trait.SAME_VALUE):
        return False
    if any(a.alias or a.element_alias for a in (*schema.arguments, *schema.returns)):
        return False
    return schema.argument_index("running_mean") is None


def is_open(t: Type) -> bool:
    """Is it a type variable or Any, or an Optional of one?"""
    bare = T.without_none(t)
    return isinstance(bare, T.VarType) or bare is T.ANY


def observes_identity(node: Node) -> bool:
    """Does the node tell apart objects of equal value? Comparing with None does not; tensors as keys do."""
    if node.kind in ("aten::__is__", "aten::__isnot__"):
        return all(v.type is not T.NONE for v in node.inputs)
    if node.has(Trait.OBSERVES_IDENTITY):
        return True
    first = node.inputs[0].type if node.inputs else None
    if node.has(Trait.COMPARES_ELEMENTS) and first is not None and not isinstance(first, T.TensorType):
        return _holds_tensor(first)
    return isinstance(first, T.DictType) and isinstance(first.key, T.TensorType)


def unmarked_writes(node: Node, op: Op) -> Iterator[Value]:
    """Inputs that the operator writes although its schema does not say so: statistics of normalization layers."""
    schema = op.schema
    position = schema.argument_index("running_mean")
    if position is None or schema.arguments[position].alias is not None:
        return
    for flag in ("training", "train", "use_input_stats"):
        index = schema.argument_index(flag)
        if index is not None and constant_of(node.inputs[index], None) is False:
            return
    for name in ("running_mean", "running_var"):
        index = schema.argument_index(name)
        if index is not None:
            yield node.inputs[index]
