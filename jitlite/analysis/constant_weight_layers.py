"""Convolutions and linear layers with constant weights, and what may be folded into them.

A layer can take in a later operation if its weight and bias are constants that nobody writes and that need no gradient,
and if the operation is the only one to see its result; others may ask for the result's shape before. Where the graph
switches autocast on, none can: the layer's result is rounded to fewer digits, and is of another dtype, before the later
operation sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jitlite.analysis.alias import AliasDb
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.ir.traits import Trait


class Layer(Record, eq=True):
    """A node with constant weight and bias, which gives one result for each output channel.

    Attributes:
        spatial: the number of dimensions behind the channels; None for a linear layer, whose channels come last.
        groups: the groups of a transposed convolution, whose weight has channels in dimension 1; 0 for others.
    """

    node: Node
    weight: torch.Tensor
    bias: torch.Tensor | None
    spatial: int | None
    groups: int

    @property
    def channels(self) -> int:
        """The number of output channels."""
        return self.weight.size(1) * self.groups if self.groups else self.weight.size(0)

    @property
    def rank(self) -> int:
        """The number of dimensions of a batch of inputs, and of outputs."""
        return 2 if self.spatial is None else self.spatial + 2

    def scaled_weight(self, scale: torch.Tensor) -> torch.Tensor:
        """The weight with that of each output channel multiplied by an element of `scale`."""
        weight, ones = self.weight.to(_exact(self.weight)), (1,) * (self.weight.dim() - 2)
        scale = scale.to(weight.dtype)
        if not self.groups:
            return (weight * scale.reshape(-1, 1, *ones)).to(self.weight.dtype)
        grouped = weight.reshape(self.groups, -1, *weight.shape[1:]) * scale.reshape(self.groups, 1, -1, *ones)
        return grouped.flatten(0, 1).to(self.weight.dtype)

    def change(self, graph: Graph, weight: torch.Tensor | None, bias: torch.Tensor | None, what: str) -> None:
        """Use another weight and bias; None keeps the old one."""
        for name, tensor in (("weight", weight), ("bias", bias)):
            if tensor is None:
                continue
            old = self.node.named_input(name)
            with graph.inserting_before(self.node):
                new = graph.insert_constant(tensor.contiguous(), range=self.node.range)
            if old.has_name:
                new.set_name(f"{old.name}_fused_{what}")
            position = self.node.op.schema.argument_index(name) if self.node.op else None
            assert position is not None
            self.node.replace_input(position, new)


def _exact(tensor: torch.Tensor) -> torch.dtype:
    """The dtype to compute in, so that rounding happens once."""
    return torch.complex128 if tensor.is_complex() else torch.float64


def exact(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, to compute with."""
    return tensor.to(_exact(tensor))


def _is_transposed(node: Node) -> object:
    """Is the convolution a transposed one? None where that is not known."""
    if node.has(Trait.MAY_BE_TRANSPOSED):
        transposed: object = constant_of(node.named_input("transposed"), None)
        return transposed
    return node.has(Trait.TRANSPOSED)


def layer_of(node: Node, db: AliasDb) -> Layer | None:
    """The node as a layer, None where it is none or its weight is not constant."""
    is_linear = node.kind == "aten::linear"
    if node.op is None or not (is_linear or node.has(Trait.CONVOLUTION)) or under_autocast(node):
        return None
    transposed = _is_transposed(node)
    groups = 1 if is_linear else constant_of(node.named_input("groups"), None)
    weight = constant_tensor(node.named_input("weight"), db)
    bias = constant_tensor(node.named_input("bias"), db)
    if weight is None or type(groups) is not int or transposed is None:
        return None
    if not _may_be_scaled(weight, bias, node.named_input("bias")):
        return None
    spatial = None if is_linear else weight.dim() - 2
    return Layer(node, weight, bias, spatial, groups if transposed else 0)


def under_autocast(node: Node) -> bool:
    """Is the node within a block of autocast that the graph has?"""
    place: Node | None = node
    while place is not None:
        left = 0  # blocks that have been left again before the node
        before = place.prev
        while before is not None:
            if before.kind in ("prim::Enter", "prim::Exit") and _is_autocast(before.input.type):
                if before.kind == "prim::Enter" and not left:
                    return True
                left += 1 if before.kind == "prim::Exit" else -1
            before = before.prev
        assert place.block is not None
        place = place.block.owner
    return False


def _is_autocast(t: T.Type) -> bool:
    return isinstance(t, T.ClassType) and t.qualified_name.rpartition(".")[2] == "autocast"


def _may_be_scaled(weight: torch.Tensor, bias: torch.Tensor | None, given: Value) -> bool:
    """Has the weight channels of numbers, and is the bias that is given None, or a constant of the same dtype?"""
    if not (weight.is_floating_point() or weight.is_complex()) or weight.dim() < 2:
        return False
    return constant_of(given, ...) is None if bias is None else bias.dtype == weight.dtype


def constant_tensor(value: Value, db: AliasDb) -> torch.Tensor | None:
    """The tensor of a constant that the graph does not write; None where there is none, or it needs gradients."""
    found = constant_of(value, None)
    if type(found) not in (torch.Tensor, torch.nn.Parameter) or db.writes_own(value):
        return None
    if found.requires_grad or found.layout is not torch.strided or found.is_quantized or found.is_meta:
        return None
    constant: torch.Tensor = found
    return constant


def seen_only_by(value: Value, user: Node) -> bool:
    """Is `user`, in the same block, the only one to see the numbers in the tensor, once?"""
    for use in value.uses:
        if use.user is user:
            continue
        if not use.user.has(Trait.ABOUT_FORM) or not use.user.is_before(user):
            return False
    return user.block is value.node.block and [*user.inputs].count(value) == 1


# -- how many dimensions


def rank_is(value: Value, rank: int, at: Node) -> bool:
    """Is it certain, when `at` runs, that the tensor has so many dimensions?

    Its type tells, or a check that raises where it has not.
    """
    t = value.type
    if isinstance(t, T.TensorType) and t.sizes is not None:
        return len(t.sizes) == rank
    for use in value.uses:
        if use.user.kind == "aten::dim":
            for compared in use.user.output.uses:
                if compared.user.kind in ("aten::ne", "aten::eq") and _raises_unless(compared.user, rank, at):
                    return True
    return False


def _may_have_rank(value: Value, rank: int) -> bool:
    sizes = value.type.sizes if isinstance(value.type, T.TensorType) else None
    return sizes is None or len(sizes) == rank


def _raises_unless(comparison: Node, rank: int, at: Node) -> bool:
    if all(constant_of(v, None) != rank for v in comparison.inputs):
        return False
    wrong = 0 if comparison.kind == "aten::ne" else 1
    return any(
        use.user.kind == "prim::If"
        and use.user.block is at.block
        and use.user.is_before(at)
        and any(node.kind == "prim::RaiseException" for node in use.user.blocks[wrong].nodes)
        for use in comparison.output.uses
    )


def branch_on_rank(graph: Graph, value: Value, rank: int) -> Node:
    """A `prim::If`, at the insertion point, whose first block is taken where the tensor has `rank` dimensions.

    Its blocks are still empty; it has one output, a tensor.
    """
    dims = graph.insert("aten::dim", (value,), (T.INT,)).output
    is_so = graph.insert("aten::eq", (dims, graph.insert_constant(rank)), (T.BOOL,)).output
    branch = graph.insert("prim::If", (is_so,), (T.TENSOR,))
    branch.add_block()
    branch.add_block()
    return branch


# -- batch norm


class Affine(Record, eq=True):
    """`x * scale + shift`, for each channel."""

    scale: torch.Tensor
    shift: torch.Tensor

    @property
    def is_uniform(self) -> bool:
        """Is it the same for all channels, so that it does not matter where these are?"""
        return all(bool((t == t[:1]).all()) for t in (self.scale, self.shift))


def _fits_channels(tensor: torch.Tensor, layer: Layer) -> bool:
    """Has the tensor an element for each channel, of a dtype that goes with the weight?"""
    is_float_for_half = tensor.dtype is torch.float32 and _is_half(layer.weight)
    return tensor.shape == (layer.channels,) and (tensor.dtype is layer.weight.dtype or is_float_for_half)


def _is_known(value: Value, tensor: torch.Tensor | None) -> bool:
    """Is it a constant tensor, or none?"""
    return tensor is not None or constant_of(value, ...) is None


def batch_norm_of(node: Node, layer: Layer, db: AliasDb) -> Affine | None:
    """What an `aten::batch_norm` of constants does to the result of `layer`, None where that is not known."""
    if constant_of(node.named_input("training"), None) is not False:
        return None
    eps = constant_of(node.named_input("eps"), None)
    given = [node.named_input(name) for name in ("running_mean", "running_var", "weight", "bias")]
    tensors = [constant_tensor(value, db) for value in given]
    mean, variance, weight, bias = tensors
    if type(eps) is not float or mean is None or variance is None or not all(map(_is_known, given, tensors)):
        return None
    if not layer.weight.is_floating_point() or not all(_fits_channels(t, layer) for t in tensors if t is not None):
        return None
    scale = torch.rsqrt(exact(variance) + eps)
    scale = scale if weight is None else scale * exact(weight)
    shift = -exact(mean) * scale
    return Affine(scale, shift if bias is None else shift + exact(bias))


def _is_half(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float16, torch.bfloat16)


def apply(layer: Layer, graph: Graph, affine: Affine, what: str) -> None:
    """Let the layer do the affine operation too."""
    bias = affine.shift if layer.bias is None else exact(layer.bias) * affine.scale + affine.shift
    layer.change(graph, layer.scaled_weight(affine.scale), bias.to(layer.weight.dtype), what)


def fold_batch_norms(graph: Graph, *, linear: bool) -> bool:
    """Fold each batch norm into the convolution, or linear layer, whose result it normalizes."""
    db: AliasDb | None = None
    changed = False
    for node in list(graph.all_nodes()):
        if node.kind != "aten::batch_norm" or node.op is None:
            continue
        db = db or AliasDb(graph)
        layer = layer_of(node.inputs[0].node, db)
        if layer is not None and (layer.spatial is None) is linear and seen_only_by(node.inputs[0], node):
            changed |= _try_to_fold(graph, node, layer, db)
    return changed


def _try_to_fold(graph: Graph, node: Node, layer: Layer, db: AliasDb) -> bool:
    affine = batch_norm_of(node, layer, db)
    if affine is None or not (affine.is_uniform or _may_have_rank(layer.node.inputs[0], layer.rank)):
        return False
    _fold_batch_norm(graph, node, layer, affine)
    return True


def _fold_batch_norm(graph: Graph, node: Node, layer: Layer, affine: Affine) -> None:
    output = layer.node.output
    if affine.is_uniform or rank_is(output, layer.rank, node) or rank_is(layer.node.inputs[0], layer.rank, layer.node):
        apply(layer, graph, affine, "bn")
        node.output.replace_all_uses_with(output)
        node.destroy()
        return
    with graph.inserting_before(layer.node):
        branch = branch_on_rank(graph, layer.node.inputs[0], layer.rank)
    first, second = branch.blocks
    output.replace_all_uses_with(branch.output)
    folded = first.append(graph.clone_node(layer.node, {}))
    apply(Layer(folded, layer.weight, layer.bias, layer.spatial, layer.groups), graph, affine, "bn")
    first.add_output(folded.output)
    layer.node.move_before(second.return_node)
    second.add_output(output)
    with graph.inserting_before(node):
        chosen = graph.insert("prim::If", (branch.input,), (T.TENSOR,), range=node.range)
    chosen.add_block().add_output(branch.output)
    otherwise = chosen.add_block()
    node.output.replace_all_uses_with(chosen.output)
    node.move_before(otherwise.return_node)
    otherwise.add_output(node.output)


# -- arithmetic


def operand(value: Value, layer: Layer, db: AliasDb) -> torch.Tensor | None:
    """The constant that is combined with a convolution's result, with one element or one for each channel.

    None where it is none, would be broadcast otherwise, or would give a result of another dtype.
    """
    found: Any = constant_of(value, None)
    if type(found) in (int, float):
        is_floating = layer.weight.is_floating_point()
        return torch.tensor([found], dtype=torch.float64, device=layer.weight.device) if is_floating else None
    return _operand_of_channels(value, layer, db)


def _operand_of_channels(value: Value, layer: Layer, db: AliasDb) -> torch.Tensor | None:
    tensor = constant_tensor(value, db)
    if tensor is None or layer.spatial is None or tensor.device != layer.weight.device:
        return None
    if tensor.dim() > layer.rank or torch.result_type(layer.weight, tensor) != layer.weight.dtype:
        return None
    shape: Sequence[int] = (1,) * (layer.rank - tensor.dim()) + tuple(tensor.shape)
    if any(n != 1 for d, n in enumerate(shape) if d != 1) or shape[1] not in (1, layer.channels):
        return None
    return tensor.reshape(-1).to(_exact(layer.weight))


def with_batch_dimension(graph: Graph, node: Node, layer: Layer) -> Value:
    """The result of the layer, in place of that of `node`, which gave a batch of one where it was given none."""
    output, other = layer.node.output, node.inputs[1]
    found = constant_of(other, None)
    certain = rank_is(output, layer.rank, node) or rank_is(layer.node.inputs[0], layer.rank, layer.node)
    if not isinstance(found, torch.Tensor) or found.dim() < layer.rank or certain:
        return output
    with graph.inserting_before(node):
        branch = branch_on_rank(graph, output, layer.rank)
    first, second = branch.blocks
    first.add_output(output)
    with graph.inserting_at_end(second):
        zero = graph.insert_constant(0)
        second.add_output(graph.insert("aten::unsqueeze", (output, zero), (T.TENSOR,), range=node.range).output)
    return branch.output


def foldable_operand(node: Node, db: AliasDb) -> tuple[Layer, torch.Tensor] | None:
    """The convolution and the constant that a node combines, None where it does not."""
    layer = layer_of(node.inputs[0].node, db) if node.inputs else None
    if layer is None or layer.spatial is None or len(node.inputs) < 2 or not seen_only_by(node.inputs[0], node):
        return None
    found = operand(node.inputs[1], layer, db)
    return None if found is None else (layer, found)
