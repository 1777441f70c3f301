"""Compute again in the backward pass what is cheap, instead of keeping it.

    f:  %d = x - mean          kept           df:  takes %d
        %s = %d * %d           kept      =>        %s = %d * %d
        %r = rsqrt(%s + eps)   kept                %r = rsqrt(%s + eps)

That pays where both passes are kernels: an elementwise operator that is fused with others costs next to nothing there,
and a value that is kept costs a tensor, or memory to be written and read.

Only from what is kept anyhow may something be computed again. An argument that no formula uses is not kept for this:
to write it before the backward pass is no error.
"""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, is_constant
from jitlite.ir.traits import Trait
from jitlite.passes.autodiff_captured import is_read_at
from jitlite.passes.autodiff_scopes import Backward


def compute_again(backward: Backward, f_values: list[Value]) -> None:
    """Have `df` compute what it captures at the top, where that is cheap.

    Args:
        backward: a graph of gradients, complete but for the order of its inputs.
        f_values: the values of the graph under differentiation, in order.
    """
    work = _Again(backward)
    for value in f_values:
        if value in backward.top.captured and not work.is_argument(value) and work.may_compute(value):
            work.compute_instead(value)


class _Again:
    def __init__(self, backward: Backward) -> None:
        self.backward = backward
        self.f, self.df, self.captured = backward.top.block, backward.graph, backward.top.captured
        self.made: dict[Value, Value] = {}
        """What is computed again, in `df`."""
        self.first = next(self.df.block.computations, self.df.block.return_node)

    def is_argument(self, value: Value) -> bool:
        return value.node is self.f.param_node

    def is_there(self, value: Value) -> bool:
        """Is a value known in `df`, or can it be?"""
        if is_constant(value) or value in self.made or self.is_read(value):
            return True
        if not _holds_tensors(value.type):
            return True  # numbers and sizes cost nothing to keep
        return not self.is_argument(value) and self.may_compute(value)

    def is_read(self, value: Value) -> bool:
        """Is a value captured, and read whatever blocks of branches are taken?"""
        return value in self.captured and (not _holds_tensors(value.type) or is_read_at(self.captured[value], ()))

    def may_compute(self, value: Value) -> bool:
        node = value.node
        if node.has(Trait.PLAIN_VIEW) and value in self.captured:
            _, *where = node.inputs
            return all(map(self.is_there, where))  # to keep a view is to keep what it is a view of
        return _is_cheap(node) and all(map(self.is_there, node.inputs))

    def compute_instead(self, value: Value) -> None:
        """Compute what has been captured."""
        local = self.captured.pop(value)
        local.replace_all_uses_with(self.computed(value))
        self.df.block.erase_input(local.offset)

    def computed(self, value: Value) -> Value:
        if value not in self.made:
            values = {v: self.local(v) for v in value.node.inputs}
            clone = self.df.clone_node(value.node, values).insert_before(self.first)
            self.made.update(zip(value.node.outputs, clone.outputs, strict=True))
        return self.made[value]

    def local(self, value: Value) -> Value:
        is_kept = is_constant(value) or value in self.captured or self.is_argument(value)
        if not is_kept and (value in self.made or self.may_compute(value)):
            return self.computed(value)
        return self.backward.local(value)


def _is_cheap(node: Node) -> bool:
    op = node.op
    if node.blocks or op is None:
        return False
    return op.is_pointwise or node.has(Trait.PLAIN_VIEW) or is_of_sizes(node)


def is_of_sizes(node: Node) -> bool:
    """Does a node give sizes of tensors, or compute with such?"""
    return node.kind in ("aten::size", "aten::_size_if_not_equal", "prim::ListConstruct", "prim::BroadcastSizes")


def _holds_tensors(t: T.Type) -> bool:
    t = T.without_none(t)
    return isinstance(t, T.TensorType) or (isinstance(t, T.ListType) and _holds_tensors(t.element))
