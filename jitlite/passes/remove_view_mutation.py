"""Let writes to slices of tensors of the graph's own make new tensors.

    %z : Tensor = aten::zeros_like(%x, ...)            %z : Tensor = aten::zeros_like(%x, ...)
    %s : Tensor = aten::select(%z, %0, %1)             %s : Tensor = aten::select(%z, %0, %1)
    %w : Tensor = aten::mul_(%s, %two)           =>    %n : Tensor = aten::mul(%s, %two)
    return (%z)                                        %y : Tensor = aten::select_scatter(%z, %n, %0, %1)
                                                       return (%y)

The write must go to selections and slices, one of the other, of a tensor that a node of the same block made and whose
memory belongs to it and its views alone. Views that are used after the write are taken anew from the new tensor, so
what shares memory afterwards is what shared memory before. A copy to a slice (`z[1:] = y`) expands `y` to its shape.

What is left, besides what `remove_tensor_mutation` leaves: results of another dtype than the tensor's; random numbers;
tensors of which something else is made that may share their memory, or that a backward pass may need; copies that
would let a tensor of integers take part in a backward pass.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import field

from jitlite.analysis import promotion
from jitlite.analysis.effects import effect_of
from jitlite.analysis.unaliased import Ownership, is_plain_read, is_used_after, place_in
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Use, Value
from jitlite.ir.ops import Effect
from jitlite.ir.traits import Link, Trait
from jitlite.operators import in_place
from jitlite.passes.registry import graph_pass
from jitlite.passes.remove_tensor_mutation import insert_call, insert_copied


@graph_pass
def remove_view_mutation(graph: Graph) -> bool:
    """Replace in-place operations on slices whose memory belongs to one tensor of the graph."""
    candidates = [n for n in graph.all_nodes() if _writes_slice(n)]
    if not candidates:
        return False
    remover = _ViewMutationRemover(graph, Ownership(graph))
    return bool([node for node in candidates if remover.replace(node)])


def _writes_slice(node: Node) -> bool:
    return (
        node.op is not None and in_place.is_plain_write(node.op) and _is_view(node.inputs[0].node, Link.SCATTER.by_kind)
    )


def _is_view(node: Node, kinds: Container[str] = Trait.PLAIN_VIEW.kinds) -> bool:
    if node.kind not in kinds or node.op is None or not isinstance(node.inputs[0].type, T.TensorType):
        return False
    alias = node.op.schema.returns[0].alias
    return alias is not None and not alias.is_write and len(node.outputs) == 1


class _ViewMutationRemover(Record, frozen=False):
    graph: Graph
    owners: Ownership
    made: set[Node] = field(default_factory=set)
    """The nodes that compute what was written before: nobody writes what they read any more."""

    def replace(self, node: Node) -> bool:
        slices = self.slices(node)
        tensor = slices[-1].inputs[0]
        if not self.belongs_alone(tensor, node) or not self.agrees(node, tensor):
            return False
        views = self.views_needed(tensor, node)
        if views is None:
            return False
        with self.graph.inserting_before(node):
            new = self.written(node)
            if new is None:
                return False
            for view in slices:
                new = self.put_back(view, new)
            self.owners.replaced(node, tensor, new)
            renewed = self.renew(views, tensor, new, node)
        node.output.replace_all_uses_with(renewed.get(node.inputs[0], node.inputs[0]))
        for old, value in renewed.items():
            old.replace_uses_after(node, value)
        node.destroy()
        return True

    def slices(self, node: Node) -> list[Node]:
        """The selections and slices that lead to what the node writes, from the last to the first."""
        found = [node.inputs[0].node]
        while _is_view(found[-1].inputs[0].node, Link.SCATTER.by_kind):
            found.append(found[-1].inputs[0].node)
        return found

    # -- what may be replaced

    def belongs_alone(self, tensor: Value, node: Node) -> bool:
        """Is the tensor made in the block of `node`, and known to its users and those of its views alone?"""
        maker = tensor.node
        if maker.kind == "prim::Param" or maker.block is not node.block or not self.owners.is_private(tensor):
            return False
        return self.owners.same_modes(maker, node)

    def agrees(self, node: Node, tensor: Value) -> bool:
        """Does the counterpart certainly give the tensor's dtype, or raise as the write would?

        A wrong shape is noticed when the result is put back.
        """
        name = in_place.base_name(node.kind)
        if effect_of(node) is Effect.RANDOM or self.owners.reshapes_tensors:
            return False
        if name == "copy":
            source = node.inputs[1]
            if not isinstance(source.type, T.TensorType):
                return True
            return promotion.floor(tensor) >= promotion.FLOATING or not self.owners.may_need_grad(source)
        if name in in_place.KEEPS:
            return True
        if name in in_place.FLOATS | in_place.TO_FLOAT and promotion.floor(tensor) < promotion.FLOATING:
            return False
        operands = () if name in in_place.FLOATS else promotion.operands(node)
        return all(promotion.absorbs_dtype(tensor, operand) for operand in operands)

    def views_needed(self, tensor: Value, node: Node) -> list[Node] | None:
        """The views of the tensor that are used after the write, and those they are made of, in order.

        None where somebody else may see the write, or keep what it changes.
        """
        needed: set[Node] = set()
        for value in self.owners.sharers(tensor):
            maker = value.node
            if maker is node or node.is_before(maker) or any(node.is_inside(block) for block in maker.blocks):
                continue
            if not self.may_be_renewed(value, tensor, node):
                return None
            if is_used_after(value, node) or (value is node.inputs[0] and node.output.has_uses):
                path = self.path(value, tensor)
                if path is None:
                    return None
                needed.update(path)
        return sorted(needed, key=lambda n: sum(1 for other in needed if other.is_before(n)))

    def may_be_renewed(self, value: Value, tensor: Value, node: Node) -> bool:
        """Does nobody keep a value that shares the tensor's memory, so that it may be computed anew after the write?"""
        maker = value.node
        if place_in(node.block, maker) is None or any(self.is_kept(use, tensor, node) for use in value.uses):
            return False
        return value not in node.inputs[1:] and not self.is_needed_by_backward(maker, tensor)

    def is_needed_by_backward(self, maker: Node, tensor: Value) -> bool:
        if _is_view(maker) or maker.kind in ("prim::If", "prim::Param"):
            return False
        return promotion.needs_result(maker) and self.owners.may_need_grad(tensor)

    def path(self, value: Value, tensor: Value) -> list[Node] | None:
        """The nodes by which the value is a view of the tensor; None if it is not certain that it is."""
        found = []
        while value is not tensor:
            view = value.node
            if not _is_view(view) or view.block is not tensor.node.block or self.has_written_arguments(view):
                return None
            found.append(view)
            value = view.inputs[0]
        return found

    def has_written_arguments(self, view: Node) -> bool:
        return self.owners.db.has_writers([v for v in view.inputs[1:] if v.type is not T.INT])

    def is_kept(self, use: Use, tensor: Value, node: Node) -> bool:
        """Is it a use before the write by a node that may hold on to the value?"""
        user = use.user
        if user is node or user.is_after(node) or user in self.made or _is_view(user) or is_plain_read(use):
            return False
        if user.kind == "prim::Return":
            return not any(user.is_inside(block) for block in tensor.node.blocks)
        return not _reads_only(user) or any(map(self.owners.may_need_grad, user.outputs))

    # -- replacing

    def written(self, node: Node) -> Value | None:
        """What the slice holds after the write."""
        if in_place.base_name(node.kind) == "copy":
            made = insert_copied(self.graph, node)
        else:
            op = None if node.op is None else in_place.counterpart(node.op)
            if op is None:
                return None
            made = insert_call(self.graph, op, list(node.inputs), node)
        self.made.add(made)
        return made.output

    def put_back(self, view: Node, part: Value) -> Value:
        inputs = (view.inputs[0], part, *view.inputs[1:])
        made = self.graph.insert(Link.SCATTER.by_kind[view.kind], inputs, (T.TENSOR,), range=view.range)
        self.made.add(made)
        return made.output

    def renew(self, views: list[Node], tensor: Value, new: Value, node: Node) -> dict[Value, Value]:
        """Take the views anew from the new tensor, if anybody uses them after the write."""
        values = {tensor: new}
        for view in views:
            inputs = [values.get(v, v) for v in view.inputs]
            values[view.output] = self.graph.insert(view.kind, inputs, (view.output.type,), range=view.range).output
            self.owners.replaced(node, tensor, values[view.output])
        return values


def _reads_only(user: Node) -> bool:
    """Does the node, if no gradients are needed, keep nothing of its inputs?"""
    return effect_of(user) in (Effect.PURE, Effect.RANDOM) and not user.blocks
