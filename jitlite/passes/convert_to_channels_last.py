"""Compute convolutions and what follows them with the channels of each pixel side by side.

    %4 : Tensor = aten::conv2d(%x, %w, %b, ...)         %4 : Tensor = aten::conv2d(%x, %w2, %b, ...)
    %5 : Tensor = aten::relu(%4)                  =>    %5 : Tensor = aten::relu(%4)
    return (%5)                                         %6 : Tensor = aten::clone(%5, %contiguous)
                                                        return (%6)

A convolution with a weight in torch's format `channels_last` gives a result in it, and operators that go element by
element, or over windows, keep it. So weights are laid out that way once, here, and who is outside of such a group of
operations is given a contiguous copy.

For tensors that lie in the usual order: results are contiguous, as they are then without the pass; where arguments of
the graph lie otherwise, strides of its results may differ. Numbers differ by rounding. A convolution stays as it is if
its weight is no constant, is written or lies in another order, if its input may lie in another order although the
arguments do not, or if a tensor it gives is written later by somebody outside of the group.
"""

from __future__ import annotations

import torch

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.constant_weight_layers import Layer, constant_tensor, layer_of
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.traits import Trait
from jitlite.passes.layout_groups import Grouping, LayoutGroup, blocks_of, functional
from jitlite.passes.registry import inexact_pass

_FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}
"""By the number of dimensions behind the channels."""


def _aten(*names: str) -> list[str]:
    return [f"aten::{name}" for name in names]


_ELEMENTWISE = frozenset(_aten(
    "abs", "add", "clamp", "clamp_max", "clamp_min", "div", "elu", "exp", "gelu", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "mish", "mul", "neg", "relu", "relu6", "rsub", "selu", "sigmoid", "silu", "softplus",
    "sqrt", "square", "sub", "tanh",
))  # fmt: skip
"""Give new tensors that lie in the order of the operands."""

_OVER_WINDOWS = frozenset(_aten(
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "batch_norm", "max_pool2d", "max_pool3d",
    "upsample_bilinear2d", "upsample_nearest2d",
))  # fmt: skip
"""Give new tensors that lie in the order of the first operand."""

_CONTIGUOUS = frozenset(_aten("contiguous", "flatten", "layer_norm", "linear", "reshape", "view"))
"""Give contiguous tensors, perhaps the operand's memory, if all operands are contiguous; so do those above."""


@inexact_pass
def convert_to_channels_last(graph: Graph) -> bool:
    """Convert every group of operations that begins with a convolution."""
    if not any(node.has(Trait.CONVOLUTION) for node in graph.all_nodes()):
        return False
    db = AliasDb(graph)
    writers = [node for node in graph.all_nodes() if db.writes(node)]
    known = {value for value in graph.inputs if isinstance(value.type, T.TensorType)}
    changed = False
    for block in list(blocks_of(graph)):
        for group in _ChannelsLastGrouping(block, db, writers, known).groups():
            _rewrite(graph, group, db)
            changed = True
    return changed


class _ChannelsLastGrouping(Grouping):
    def __init__(self, block: Block, db: AliasDb, writers: list[Node], known: set[Value]) -> None:
        super().__init__(block, db, writers)
        self._known = known
        """Tensors of which it is certain that they are contiguous."""

    def groups(self) -> list[LayoutGroup]:
        for node in self.block.nodes:
            self._note(node)
        return super().groups()

    def _note(self, node: Node) -> None:
        """Know the result to be contiguous where it is, in the graph as it was."""
        kind = functional(node)
        keeps = kind in _ELEMENTWISE or kind in _OVER_WINDOWS or kind in _CONTIGUOUS or node.has(Trait.CONVOLUTION)
        if node.op is not None and keeps and all(map(self._is_contiguous, _tensors(node))):
            self._known.update(node.outputs)

    def _is_contiguous(self, value: Value) -> bool:
        """Does the tensor, if it is one, lie in the usual order in the graph as it was?"""
        if value in self._known or value.type is T.NONE:
            return True
        constant = constant_tensor(value, self.db)
        return constant is not None and lies_in_order(constant)

    def _convolution(self, node: Node) -> Layer | None:
        layer = layer_of(node, self.db) if node.has(Trait.CONVOLUTION) else None
        if layer is None or layer.spatial not in _FORMATS or node.output not in self._known:
            return None
        return layer if layer.weight.device.type == "cpu" and layer.weight.is_floating_point() else None

    def _may_follow(self, node: Node) -> bool:
        if node.kind == "prim::ListConstruct":
            return self._is_for_cat(node)
        if node.kind == "aten::cat":
            return self._inside(node.inputs[0])
        kind, tensors = functional(node), _tensors(node)
        if node.op is None or kind not in _ELEMENTWISE | _OVER_WINDOWS or node.output not in self._known:
            return False
        first_only = kind != node.kind or kind in _OVER_WINDOWS
        return any(map(self._inside, tensors[:1] if first_only else tensors))

    def _is_for_cat(self, node: Node) -> bool:
        """Is it the list of tensors in the layout that are put one behind the other, and nothing else?"""
        uses = node.output.uses
        return (
            bool(node.inputs) and all(map(self._inside, node.inputs))
            and len(uses) == 1 and uses[0].user.kind == "aten::cat" and uses[0].user.block is node.block
        )  # fmt: skip


def _tensors(node: Node) -> list[Value]:
    return [v for v in node.inputs if isinstance(T.without_none(v.type), T.TensorType)]


def lies_in_order(tensor: torch.Tensor) -> bool:
    """Has the tensor the strides that a new contiguous tensor of its sizes has?

    With a size of 1, others are contiguous too, and yet are taken for another order.
    """
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if stride != expected:
            return False
        expected *= max(size, 1)
    return True


def _rewrite(graph: Graph, group: LayoutGroup, db: AliasDb) -> None:
    contiguous: Value | None = None
    for node in group.nodes:
        layer = layer_of(node, db) if node.has(Trait.CONVOLUTION) else None
        if layer is not None and layer.spatial is not None:
            with graph.inserting_before(node):
                weight = layer.weight.contiguous(memory_format=_FORMATS[layer.spatial])
                made = graph.insert_constant(weight, range=node.range)
            position = node.op.schema.argument_index("weight") if node.op else None
            assert position is not None
            node.replace_input(position, made)
        outside = group.uses_outside(node)
        if outside:
            with graph.inserting_before(group.nodes[0]):
                contiguous = contiguous or graph.insert_constant(torch.contiguous_format)
            inputs = (node.output, contiguous)
            copied = graph.create("aten::clone", inputs, (T.TENSOR,), None, node.range)
            copied.insert_after(node)
            for use in outside:
                use.user.replace_input(use.offset, copied.output)
