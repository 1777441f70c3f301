"""The peephole rules about tensors: facts that their types tell, and tensors that are others again.

A type tells a fact where a pass has put it there for certain: behind a guard that has looked at the tensor, or derived
from such types. What a front end finds in annotations and examples is no fact, and it writes none of it into types.
Sizes are those of the moment: a rule that reads a type asks whether anybody writes the tensor, who might resize it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.value_keys import value_key
from jitlite.passes.rules.context import RewriteContext, Rule, Table

# -- facts about tensors that their types tell


def _tensor_type(node: Node, context: RewriteContext) -> T.TensorType | None:
    """The type of the tensor the node asks about, unless the tensor may be resized or the like."""
    t = node.inputs[0].type if node.inputs else None
    if not isinstance(t, T.TensorType) or t is T.TENSOR or context.db.has_writers(node.inputs[0]):
        return None
    return t


def _fact(read: Callable[[T.TensorType], Any]) -> Rule:
    def rule(node: Node, context: RewriteContext) -> Sequence[Value] | None:
        t = _tensor_type(node, context)
        fact = None if t is None else read(t)
        return None if fact is None else [context.constant(fact)]

    return rule


def _known_size(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`x.size(d)`, `x.size()`"""
    t = _tensor_type(node, context)
    if t is None or t.sizes is None:
        return None
    if len(node.inputs) == 1:
        sizes = t.sizes
        known = [s for s in sizes if s is not None]
        if len(known) != len(sizes):
            return None
        return context.node("prim::ListConstruct", [context.constant(s) for s in known], node.output.type, node)
    dim = constant_of(node.inputs[1], None)
    if type(dim) is not int or not -len(t.sizes) <= dim < len(t.sizes) or t.sizes[dim] is None:
        return None
    return [context.constant(t.sizes[dim])]


def _first_size(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`len(x)`"""
    t = _tensor_type(node, context)
    return None if t is None or not t.sizes or t.sizes[0] is None else [context.constant(t.sizes[0])]


def _elements(t: T.TensorType) -> int | None:
    if t.sizes is None or any(size is None for size in t.sizes):
        return None
    return math.prod(size for size in t.sizes if size is not None)


def _of_device(kind: str) -> Rule:
    return _fact(lambda t: None if t.device is None else t.device.type == kind)


_DEVICES = ("cpu", "cuda", "xpu", "mps", "meta", "xla", "vulkan", "ipu", "maia", "mtia")

FACTS: Table = {
    "aten::dim": (_fact(lambda t: None if t.sizes is None else len(t.sizes)),),
    "aten::size": (_known_size,),
    "aten::numel": (_fact(_elements),),
    "aten::len": (_first_size,),
    "prim::dtype": (_fact(lambda t: t.dtype),),
    "prim::device": (_fact(lambda t: t.device),),
    "aten::is_floating_point": (_fact(lambda t: None if t.dtype is None else t.dtype.is_floating_point),),
    "aten::is_complex": (_fact(lambda t: None if t.dtype is None else t.dtype.is_complex),),
    **{f"prim::is_{kind}": (_of_device(kind),) for kind in _DEVICES},
}


def _same_type(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`x.type_as(y)` of the same dtype on the same device: x itself"""
    tensor, other = node.inputs
    t, wanted = tensor.type, other.type
    if not isinstance(t, T.TensorType) or not isinstance(wanted, T.TensorType) or context.db.has_writers(node.inputs):
        return None
    if t.dtype is None or t.device is None or t.strides is None or wanted.strides is None:  # it might be sparse
        return None
    return [tensor] if (t.dtype, t.device) == (wanted.dtype, wanted.device) else None


# -- numbers in tensors and back


def _number_again(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`int(NumToTensor(n))`: the number, or its conversion"""
    inner = node.input.node if len(node.inputs) == 1 else None
    if inner is None or inner.kind != "prim::NumToTensor":
        return None
    number, wanted = inner.input, node.output.type
    if wanted is T.NUMBER or (number.type is wanted and wanted is T.INT):
        return [number]
    if number.type is T.BOOL and node.kind == "aten::Int":
        return context.node(node.kind, (number,), wanted, node)
    if number.type is T.FLOAT and node.kind == "aten::Int":
        return context.node(node.kind, (number,), wanted, node)
    return None


def _summed_to_nothing(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`_grad_sum_to_size(x, None)`: x itself"""
    return [node.inputs[0]] if node.inputs[1].type is T.NONE else None


SAME: Table = {
    "aten::_grad_sum_to_size": (_summed_to_nothing,),
    **dict.fromkeys(("aten::Int", "prim::AsInt", "aten::IntImplicit", "aten::ScalarImplicit"), (_number_again,)),
}


# -- tensors that are others again


def _transposed_twice(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`x.t().t()`"""
    inner = node.input.node
    if inner.kind != "aten::t" or not context.may_be_input(node.output, inner.input):
        return None
    return context.now_input(node.output, inner.input)


def _unchanged(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`x * 1`, `x / 1`, `x - 0`; `x + 0` of ints only, for it turns -0.0 into 0.0"""
    if len(node.inputs) < 2 or not isinstance(node.inputs[0].type, T.TensorType):
        return None
    t, tensor = node.inputs[0].type, node.inputs[0]
    scalars = [constant_of(v, None) for v in node.inputs[1:]]
    if t.dtype is None or any(type(s) not in (int, float) for s in scalars) or not _is_dense(t):
        return None
    if not _keeps_dtype(node.kind, t.dtype, scalars):
        return None
    neutral = [1] if node.kind in ("aten::mul", "aten::div") else [0, 1]
    if scalars != neutral or value_key(scalars[0]) == value_key(-0.0):
        return None
    return context.now_input(node.output, tensor) if context.may_be_input(node.output, tensor) else None


def _keeps_dtype(kind: str, dtype: torch.dtype, scalars: Sequence[object]) -> bool:
    """Does the operator with neutral scalars give each element of this dtype back, as the same dtype?"""
    if dtype in (torch.bool, torch.float16, torch.bfloat16) or dtype.is_complex:
        return False
    if dtype.is_floating_point:
        return kind != "aten::add"
    return kind != "aten::div" and not any(type(s) is float for s in scalars)  # it would be promoted to float


def _expanded(node: Node, context: RewriteContext) -> Sequence[Value] | None:
    """`x.expand(sizes)` to the sizes it has"""
    t, sizes = node.inputs[0].type, node.inputs[1]
    if not isinstance(t, T.TensorType) or t.sizes is None:
        return None
    if is_constant(sizes):
        wanted = constant_of(sizes)
    elif sizes.node.kind == "prim::ListConstruct" and not context.db.is_written(sizes):
        wanted = [constant_of(v, None) for v in sizes.node.inputs]
    else:
        return None
    if len(wanted) != len(t.sizes) or not all(w in (-1, s) for w, s in zip(wanted, t.sizes, strict=True)):
        return None
    if None in wanted or not context.may_be_input(node.output, node.inputs[0]):
        return None
    return context.now_input(node.output, node.inputs[0])


def _is_dense(t: T.TensorType) -> bool:
    """Is the tensor known to be laid out without gaps or overlaps, so that a result has the same strides?"""
    if t.sizes is None or t.strides is None or len(t.sizes) != len(t.strides):
        return False
    expected = 1
    for stride, size in sorted(zip(t.strides, t.sizes, strict=True), key=lambda p: -1 if p[0] is None else p[0]):
        if stride is None or size is None or size < 2 or stride != expected:
            return False
        expected *= size
    return True


VIEWS: Table = {"aten::t": (_transposed_twice,)}

BY_TYPE: Table = {
    "aten::expand": (_expanded,),
    "aten::type_as": (_same_type,),
    **dict.fromkeys(("aten::mul", "aten::div", "aten::add", "aten::sub"), (_unchanged,)),
}
"""Tensors that are others again, which their types tell."""
