"""Remove operators that give back their input.

    %y : Tensor = aten::dropout(%x, %p, %false)           %z : Tensor = aten::relu(%x)
    %d : int = prim::dtype(%y)                      =>    return (%z)
    %w : Tensor = aten::to(%y, %d, %false, %false, %none)
    %z : Tensor = aten::relu(%w)
    return (%z)

Two kinds:

- the result is the very tensor, so nobody can tell: dropout when not training or with probability 0 (which draws
  nothing then), `to` and `type_as` to what the tensor is already, `contiguous` of what is contiguous for certain;
- the result is a new tensor of the same memory or value: `detach` of what needs no gradient, `alias`, `clone` of a
  dense tensor. That goes only where nobody writes either tensor, gets hold of the new one, or asks how it came about.

What a tensor is, is known from where it comes (`x.to(x.dtype)`, the result of another `to`) or told by its type, which
is believed (see `peephole`) unless somebody writes the tensor.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.int_codes import int_coded
from jitlite.ir.traits import Trait
from jitlite.passes.registry import graph_pass
from jitlite.passes.rules.context import RewriteContext

_Test = Callable[[Node, RewriteContext], bool]


@graph_pass
def remove_noops(graph: Graph) -> bool:
    """Let users of what changes nothing use its input."""
    return remove_where(graph, {**SAME_OBJECT, **SAME_VALUE})


def remove_where(graph: Graph, tests: dict[str, _Test]) -> bool:
    """Remove the nodes whose test says that they give back their first input."""
    changed = False
    while _remove_in(graph.block, tests, RewriteContext(graph)):
        graph.forget_analyses()
        changed = True
    return changed


def _remove_in(block: Block, tests: dict[str, _Test], context: RewriteContext) -> bool:
    changed = False
    for node in block.nodes:
        for inner in node.blocks:
            changed = _remove_in(inner, tests, context) or changed
        test = tests.get(node.kind)
        if test is not None and node.op is not None and test(node, context):
            if node.kind in SAME_VALUE:
                context.now_input(node.output, node.inputs[0])
            node.output.replace_all_uses_with(node.inputs[0])
            node.destroy()
            changed = True
    return changed


# -- the very tensor


def drops_nothing(node: Node, context: RewriteContext) -> bool:
    """Is it dropout that is off?"""
    probability, training = (constant_of(v, None) for v in node.inputs[1:3])
    if type(probability) not in (int, float) or not 0 <= probability <= 1:
        return False  # it is to raise
    return training is False or (training is not None and probability == 0)


def _converts_nothing(node: Node, context: RewriteContext) -> bool:
    """`x.to(...)`, to what x is"""
    resolved, tensor = node.op, node.inputs[0]
    assert resolved is not None
    known = _Known(tensor, context)
    for argument, value in list(zip(resolved.schema.arguments, node.inputs, strict=True))[1:]:
        if argument.name not in _ARGUMENTS or not _ARGUMENTS[argument.name](known, value):
            return False
    return True


class _Known:
    """What is certain about a tensor."""

    def __init__(self, tensor: Value, context: RewriteContext) -> None:
        self.tensor = tensor
        t = tensor.type
        believed = isinstance(t, T.TensorType) and not context.db.has_writers(tensor)
        self.type = t if believed and isinstance(t, T.TensorType) else T.TENSOR
        self._source = tensor.node if tensor.node.kind == "aten::to" and tensor.node.op is not None else None

    def has_dtype(self, value: Value) -> bool:
        """Is `value` None, or the tensor's dtype?"""
        return self._has(value, "prim::dtype", "dtype", self.type.dtype)

    def has_device(self, value: Value) -> bool:
        """Is `value` None, or the tensor's device?"""
        return self._has(value, "prim::device", "device", self.type.device)

    def has_layout(self, value: Value) -> bool:
        """Is `value` None, or the tensor's layout?"""
        layout = torch.strided if self.type.strides is not None else None
        return self._has(value, "prim::layout", "layout", layout)

    def _has(self, value: Value, question: str, argument: str, fact: object) -> bool:
        if value.type is T.NONE:
            return True
        if value.node.kind == question and value.node.input is self.tensor:
            return True
        if self._source is not None and self._was_asked_for(argument, value):
            return True
        wanted = constant_of(value, None)
        if wanted is None or fact is None:
            return False
        declared = {"dtype": T.SCALAR_TYPE, "layout": T.LAYOUT}.get(argument)
        return (wanted if declared is None else int_coded(declared, wanted)) == fact

    def _was_asked_for(self, argument: str, value: Value) -> bool:
        """Is the tensor the result of a `to` with the same argument?"""
        assert self._source is not None
        made = _named(self._source).get(argument)
        if made is None or made.type is T.NONE:
            return False
        asked, wanted = constant_of(made, None), constant_of(value, None)
        if argument == "device" and not _is_one_device(asked):
            return False
        return made is value or (asked is not None and asked == wanted)

    def is_like(self, other: Value) -> bool:
        """Is `other` the tensor itself, or one of the same dtype, device and layout?"""
        if other is self.tensor:
            return True
        t, mine = other.type, self.type
        if not isinstance(t, T.TensorType) or mine.strides is None or t.strides is None:
            return False
        return mine.dtype is not None and mine.device is not None and (mine.dtype, mine.device) == (t.dtype, t.device)


def _is_one_device(device: object) -> bool:
    """Does it always name the same device? `cuda` is the current one, which may be another one the next time."""
    return isinstance(device, torch.device) and (device.type == "cpu" or device.index is not None)


def _named(node: Node) -> dict[str, Value]:
    assert node.op is not None
    return {a.name: v for a, v in zip(node.op.schema.arguments, node.inputs, strict=True)}


def _is_false(known: _Known, value: Value) -> bool:
    return constant_of(value, None) is False


def _is_none(known: _Known, value: Value) -> bool:
    return value.type is T.NONE


_ARGUMENTS: dict[str, Callable[[_Known, Value], bool]] = {
    "dtype": _Known.has_dtype,
    "device": _Known.has_device,
    "layout": _Known.has_layout,
    "other": _Known.is_like,
    "copy": _is_false,
    "memory_format": _is_none,
    "pin_memory": _is_none,
    "non_blocking": lambda known, value: True,
}
"""For each argument of `to`, whether it asks for nothing new."""


def _is_of_type(node: Node, context: RewriteContext) -> bool:
    """`x.type_as(y)`"""
    return not context.db.has_writers(node.inputs) and _Known(node.inputs[0], context).is_like(node.inputs[1])


def _is_contiguous(node: Node, context: RewriteContext) -> bool:
    """`x.contiguous()`"""
    tensor, wanted = node.inputs[0], int_coded(T.MEMORY_FORMAT, constant_of(node.inputs[1], None))
    maker = tensor.node
    if maker.kind == "aten::contiguous" and not context.db.has_writers(tensor):
        return int_coded(T.MEMORY_FORMAT, constant_of(maker.inputs[1], None)) == wanted is not None
    t = tensor.type
    if wanted != torch.contiguous_format or not isinstance(t, T.TensorType) or context.db.has_writers(tensor):
        return False
    return is_row_major(t)


def is_row_major(t: T.TensorType) -> bool:
    """Is a tensor of the type laid out row by row, without gaps?"""
    if t.sizes is None or t.strides is None or len(t.sizes) != len(t.strides):
        return False
    expected = 1
    for stride, size in zip(reversed(t.strides), reversed(t.sizes), strict=True):
        if size is None or size < 1 or (size > 1 and stride != expected):
            return False
        expected *= size
    return True


DROPOUTS: dict[str, _Test] = dict.fromkeys(Trait.DROPOUT.kinds, drops_nothing)

SAME_OBJECT: dict[str, _Test] = {
    **DROPOUTS,
    "aten::to": _converts_nothing,
    "aten::type_as": _is_of_type,
    "aten::contiguous": _is_contiguous,
}


# -- a new tensor of the same value


def _is_free(node: Node, context: RewriteContext) -> bool:
    return context.may_be_input(node.output, node.inputs[0])


def _needs_no_gradient(node: Node, context: RewriteContext) -> bool:
    """`x.detach()`"""
    t = node.inputs[0].type
    return isinstance(t, T.TensorType) and t.requires_grad is False and _is_free(node, context)


def _copies_a_dense_one(node: Node, context: RewriteContext) -> bool:
    """`x.clone()`, whose strides are those of x"""
    t, wanted = node.inputs[0].type, node.inputs[1]
    if not isinstance(t, T.TensorType) or not is_row_major(t) or wanted.type is not T.NONE:
        return False
    return _is_free(node, context)


SAME_VALUE: dict[str, _Test] = {
    "aten::alias": _is_free,
    "aten::detach": _needs_no_gradient,
    "aten::clone": _copies_a_dense_one,
}
