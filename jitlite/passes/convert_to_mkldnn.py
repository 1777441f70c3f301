"""Compute convolutions and what follows them in oneDNN's layout.

    %4 : Tensor = aten::conv2d(%x, %w, %b, ...)         %3 : Tensor = aten::to_mkldnn(%x, %none)
    %5 : Tensor = aten::relu(%4)                  =>    %4 : Tensor = prim::mkldnn_convolution(%3, %w2, %b2, ...)
    return (%5)                                         %5 : Tensor = aten::relu_(%4)
                                                        %6 : Tensor = aten::to_dense(%5, %none, %none)
                                                        return (%6)

oneDNN likes weights and tensors in blocks. Weights are brought into that form once, here; tensors where a group of
operations begins, and back where it ends. A group begins with a convolution of float32 weights on the CPU and takes in
the operations behind it in the same block that oneDNN has too. Within a group a result that nobody needs any more is
written over.

For inference: numbers differ by rounding, results are contiguous whatever the layout of the input, and gradients are
those that oneDNN's operators have. An operation stays as it is if its weights are no constants or are written, if a
tensor it reads is written later by somebody outside of the group, or if oneDNN knows it for some arguments only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

import torch

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.constant_weight_layers import Layer, constant_tensor, layer_of
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.traits import Link, Trait
from jitlite.passes.registry import inexact_pass

SMALLEST_WEIGHT = 2_304
"""Elements of a weight from which on a convolution is worth it. Measured on two cores with one thread (torch 2.13), in
oneDNN's layout against ATen: 8 to 8 channels 1x1 at 8x8 0.2x, 16 to 16 3x3 at 32x32 1.6x, 64 to 64 3x3 at 56x56 1.06x,
3 to 64 7x7 at 224x224 2.2x."""

SMALLEST_CHAIN = 2
"""Convolutions in a group that is worth it: one alone, with the way there and back, was 0.8x to 1.4x as fast."""


class _Group(Record, frozen=False):
    """Nodes that hand tensors in oneDNN's layout to each other."""

    nodes: list[Node] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)

    @property
    def is_worth_it(self) -> bool:
        """Is it faster than it was?"""
        return sum(size >= SMALLEST_WEIGHT for size in self.weights) >= SMALLEST_CHAIN


@inexact_pass
def convert_to_mkldnn(graph: Graph) -> bool:
    """Convert every group of operations that begins with a convolution."""
    return convert(graph, lambda group: True)


def convert_where_faster(graph: Graph) -> bool:
    """Convert the groups for which that has been measured to be faster."""
    return convert(graph, lambda group: group.is_worth_it)


def convert(graph: Graph, wanted: Callable[[_Group], bool]) -> bool:
    """Convert the groups that are wanted."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if not any(node.has(Trait.MKLDNN_CONVOLUTION) for node in graph.all_nodes()):
        return False
    db = AliasDb(graph)
    writers = [node for node in graph.all_nodes() if db.writes(node)]
    blocks = [graph.block, *(block for node in graph.all_nodes() for block in node.blocks)]
    changed = False
    for block in blocks:
        for group in _Grouping(block, db, writers).groups():
            if wanted(group):
                _Rewriting(graph, group, db).run()
                changed = True
    return changed


# -- what belongs together


class _Grouping:
    def __init__(self, block: Block, db: AliasDb, writers: list[Node]) -> None:
        self.block = block
        self.db = db
        self.writers = writers
        self._group_of: dict[Value, _Group] = {}

    def groups(self) -> list[_Group]:
        """The groups of the block, without those in nested blocks."""
        for node in self.block.nodes:
            layer = self._convolution(node)
            if layer is not None:
                self._join(node, [node.inputs[0]], layer.weight.numel())
            elif self._may_follow(node):
                self._join(node, list(node.inputs), None)
        return list({id(group): group for group in self._group_of.values()}.values())

    def _convolution(self, node: Node) -> Layer | None:
        layer = layer_of(node, self.db) if node.has(Trait.MKLDNN_CONVOLUTION) else None
        if layer is None or not _is_suitable(layer.weight) or layer.groups or layer.spatial not in (2, 3):
            return None
        settings = [constant_of(node.named_input(name), None) for name in ("stride", "padding", "dilation")]
        whole = all(isinstance(s, list) and len(s) == layer.spatial for s in settings)
        return layer if whole and type(constant_of(node.named_input("groups"), None)) is int else None

    def _join(self, node: Node, values: list[Value], weight: int | None) -> None:
        found = {id(g): g for v in values if (g := self._group_of.get(v)) is not None and self._is_settled(v)}
        groups = list(found.values()) or [_Group()]
        group = groups[0]
        for other in groups[1:]:
            group.nodes += other.nodes
            group.weights += other.weights
            self._group_of.update((v, group) for v, g in list(self._group_of.items()) if g is other)
        group.nodes.append(node)
        if weight is not None:
            group.weights.append(weight)
        self._group_of[node.output] = group

    def _is_settled(self, value: Value) -> bool:
        """Is the tensor not written from now on, or used once only, perhaps by who writes it?

        Uses of its shape do not count.
        """
        if not self.db.is_written(value):
            return True
        memory, maker = self.db.locations(value), value.node
        later = [w for w in self.writers if w is not maker and not w.is_before(maker) and self.db.writes(w) & memory]
        return not later or sum(not use.user.has(Trait.ABOUT_SHAPE) for use in value.uses) == 1

    def _inside(self, value: Value) -> bool:
        return value in self._group_of and self._is_settled(value)

    def _may_follow(self, node: Node) -> bool:
        if not node.inputs or not self._inside(node.inputs[0]) or node.op is None:
            return self._is_arithmetic(node)
        kind = _functional(node)
        if kind in Link.MKLDNN.by_kind:
            return len(node.inputs) == 1
        test = _POOLS.get(kind)
        return self._is_arithmetic(node) if test is None else kind == node.kind and test(node)

    def _is_arithmetic(self, node: Node) -> bool:
        kind = _functional(node)
        if kind not in Trait.MKLDNN_ARITHMETIC.kinds or len(node.inputs) < 2 or node.op is None:
            return False
        if kind == "aten::add" and (len(node.inputs) != 3 or constant_of(node.inputs[2], None) != 1):
            return False
        first, second = node.inputs[:2]
        if kind == "aten::mul" and second.type in (T.INT, T.FLOAT):
            return self._inside(first)
        if node.kind != kind and not self._inside(first):
            return False
        return any(map(self._inside, (first, second))) and all(map(self._is_tensor, (first, second)))

    def _is_tensor(self, value: Value) -> bool:
        if self._inside(value):
            return True
        constant = constant_tensor(value, self.db)
        return constant is not None and _is_suitable(constant)


def _is_suitable(tensor: torch.Tensor) -> bool:
    """Can oneDNN have the tensor in its layout?"""
    return tensor.dtype is torch.float32 and tensor.device.type == "cpu" and tensor.dim() > 0 and tensor.numel() > 0


def _functional(node: Node) -> str:
    """The kind of the node, without the mark of a variant that writes its first argument."""
    return node.kind.removesuffix("_") if node.kind.startswith("aten::") else node.kind


def _max_pool(node: Node) -> bool:
    return set(constant_of(node.named_input("dilation"), None) or (0,)) == {1}


def _average_pool(node: Node) -> bool:
    return constant_of(node.named_input("divisor_override"), ...) is None and not constant_of(
        node.named_input("ceil_mode"), True
    )


_POOLS: dict[str, Callable[[Node], bool]] = {
    "aten::max_pool2d": _max_pool,
    "aten::max_pool3d": _max_pool,
    "aten::avg_pool2d": _average_pool,
    "aten::avg_pool3d": _average_pool,
    "aten::adaptive_avg_pool2d": lambda node: constant_of(node.named_input("output_size"), None) == [1, 1],
}
"""Pooling operators, and whether oneDNN knows them with the arguments of a node."""


# -- the other nodes


class _Rewriting:
    def __init__(self, graph: Graph, group: _Group, db: AliasDb) -> None:
        self.graph = graph
        self.db = db
        self.members = {node.output for node in group.nodes}
        self.nodes = sorted(group.nodes, key=lambda node: node._position)
        with graph.inserting_before(self.nodes[0]):
            self.none = graph.insert_constant(None)
        self._made: set[Value] = set()
        self._converted: dict[Value, Value] = {}

    def run(self) -> None:
        for node in self.nodes:
            self._leave(node)
        made = [self._replace(node) for node in self.nodes]
        for node in made:
            _write_over(node, self._made)

    def _leave(self, node: Node) -> None:
        """Let those outside of the group have the result in the usual layout."""
        inside = {member.node for member in self.members}
        outside = [use for use in node.output.uses if use.user not in inside and not use.user.has(Trait.ABOUT_SHAPE)]
        if not outside:
            return
        dense = self.graph.create("aten::to_dense", (node.output, self.none, self.none), (T.TENSOR,), None, node.range)
        dense.insert_after(node)
        for use in outside:
            use.user.replace_input(use.offset, dense.output)

    def _replace(self, node: Node) -> Node:
        kind = _functional(node)
        with self.graph.inserting_before(node):
            if kind in Trait.MKLDNN_CONVOLUTION.kinds:
                made = self._convolution(node)
            elif kind in Trait.MKLDNN_ARITHMETIC.kinds:
                made = self._arithmetic(node, kind)
            else:
                made = self._insert(node, Link.MKLDNN.of(kind) or kind, node.inputs)
        made.output.copy_metadata(node.output)
        node.output.replace_all_uses_with(made.output)
        node.destroy()
        self._made.add(made.output)
        return made

    def _insert(self, node: Node, kind: str, inputs: Iterable[Value]) -> Node:
        return self.graph.insert(kind, inputs, (T.TENSOR,), None, node.range)

    def _convolution(self, node: Node) -> Node:
        given = self._inward(node.inputs[0])
        bias, *settings = (node.named_input(name) for name in ("bias", "stride", "padding", "dilation", "groups"))
        stride, padding, dilation, groups = (constant_of(v) for v in settings)
        tensor = constant_of(node.named_input("weight")).detach()
        reorder = getattr(torch.ops.aten, f"mkldnn_reorder_conv{tensor.dim() - 2}d_weight")
        packed = self.graph.insert_constant(reorder(tensor.to_mkldnn(), padding, stride, dilation, groups))
        if constant_of(bias) is not None:
            bias = self.graph.insert_constant(constant_of(bias).detach().to_mkldnn())
        return self._insert(node, "prim::mkldnn_convolution", (given, packed, bias, *settings))

    def _inward(self, value: Value) -> Value:
        """The value in oneDNN's layout."""
        if value in self._made:
            return value
        known = self._converted.get(value)
        if known is None or self.db.has_writers(value):
            known = self.graph.insert("aten::to_mkldnn", (value, self.none), (T.TENSOR,)).output
            self._converted[value] = known
        return known

    def _arithmetic(self, node: Node, kind: str) -> Node:
        first, second = node.inputs[:2]
        if not isinstance(second.type, T.TensorType):
            return self._insert(node, "prim::MKLDNNScalarMul", (first, second))
        operands = [self._operand(v) for v in (first, second)]
        both = self.graph.insert("prim::BroadcastMKLDNNTensors", operands, (T.TENSOR, T.TENSOR), None, node.range)
        return self._insert(node, kind, (*both.outputs, *node.inputs[2:]))

    def _operand(self, value: Value) -> Value:
        constant = constant_of(value, None)
        return value if constant is None else self.graph.insert_constant(constant.detach().to_mkldnn())


# -- writing over what nobody needs


def _write_over(node: Node, members: set[Value]) -> None:
    if not node.has(Trait.MKLDNN_IN_PLACE):
        return
    positions = (0, 1) if node.has(Trait.MKLDNN_ARITHMETIC) else (0,)
    position = next((i for i in positions if _is_last_use(node, i, members)), None)
    if position is None:
        return
    if position == 1:
        first, second = node.inputs[:2]
        node.replace_input(0, second)
        node.replace_input(1, first)
    node.change_kind(f"{node.kind}_")


def _is_last_use(node: Node, position: int, members: set[Value]) -> bool:
    """Is the input a result of the group that nobody reads after the node, nor outside of the group?"""
    value, user = node.inputs[position], node
    if value.node.kind == "prim::BroadcastMKLDNNTensors":
        if value.use_count != 1:
            return False
        user = value.node
        value = user.inputs[value.offset]
    if value not in members or [*user.inputs].count(value) != 1:
        return False
    if any(use.user.kind == "aten::to_dense" for use in value.uses):
        return False
    return all(use.user is user or use.user.is_before(user) for use in value.uses)
