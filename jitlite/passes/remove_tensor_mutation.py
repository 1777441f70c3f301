"""Let in-place operations on tensors of the graph's own make new tensors.

    %a : Tensor = aten::mul(%x, %y)              %a : Tensor = aten::mul(%x, %y)
    %b : Tensor = aten::add_(%a, %y, %1)   =>    %b : Tensor = aten::add(%a, %y, %1)
    %c : Tensor = aten::relu(%a)                 %c : Tensor = aten::relu(%b)

A write is replaced where its memory belongs to the tensor alone: a node of the same block, or the branches of a
`prim::If` there, made it. What is left:

- tensors from outside, views, and tensors that others see after the write: through a view, a container, a variable of
  the next iteration of a loop;
- tensors that were read between their making and the write, and results of operators that need them to differentiate:
  the write makes a backward pass fail;
- writes whose result might have another dtype or shape (`int_tensor.add_(0.5)` raises, `add` would not), or would be
  laid out otherwise;
- writes in another grad mode than the tensor was made in: the write keeps the tensor's history, a new tensor has none;
- tensors whose identity is asked for, or that are resized.

`inplace_to_functional_activation` is the same for activation functions alone; it checks dtype and shape at run time
where they are not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial

from jitlite.analysis import promotion
from jitlite.analysis.unaliased import Ownership, is_plain_read, is_used_after, place_in
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Use, Value
from jitlite.ir.ops import Op
from jitlite.operators import in_place
from jitlite.passes.registry import graph_pass


@graph_pass
def remove_tensor_mutation(graph: Graph) -> bool:
    """Replace every in-place operation whose memory belongs to its tensor alone."""
    return replace_writes(graph, lambda node: True)


def replace_writes(graph: Graph, chosen: Callable[[Node], bool], checked: bool = False) -> bool:
    """Replace the chosen in-place operations. `checked`: insert a check where dtype or shape are not known to stay."""
    candidates = [n for n in graph.all_nodes() if n.op is not None and in_place.is_plain_write(n.op) and chosen(n)]
    if not candidates:
        return False
    remover = _TensorMutationRemover(graph, Ownership(graph), checked)
    return bool([node for node in candidates if remover.replace(node)])


class _TensorMutationRemover(Record, frozen=False):
    graph: Graph
    owners: Ownership
    checked: bool
    made: set[Node] = field(default_factory=set)
    """The nodes that compute what was written before: nobody writes what they read any more."""

    def replace(self, node: Node) -> bool:
        tensor = node.inputs[0]
        if not self.belongs_alone(tensor, node):
            return False
        result = self.out_of_place(node, tensor)
        if result is None:
            return False
        self.made.add(result.node)
        self.owners.replaced(node, tensor, result)
        result.copy_metadata(node.output)
        node.output.replace_all_uses_with(result)
        tensor.replace_uses_after(node, result)
        node.destroy()
        return True

    def belongs_alone(self, tensor: Value, node: Node) -> bool:
        """May the users of the tensor, and they alone, see what `node` writes?"""
        block = tensor.node.block
        if tensor.node.kind == "prim::Param" or block is not node.block or not self.owners.is_private(tensor):
            return False
        if list(node.inputs).count(tensor) > 1 or not self.owners.same_modes(tensor.node, node):
            return False
        return all(self.sees_no_write(value, tensor, node) for value in self.owners.sharers(tensor))

    def sees_no_write(self, value: Value, tensor: Value, node: Node) -> bool:
        """Is the value made of the tensor after the write, or not used then, and not kept by anybody before?"""
        maker = value.node
        if maker is node or node.is_before(maker) or any(node.is_inside(block) for block in maker.blocks):
            return True
        if place_in(node.block, maker) is None or self.is_needed_by_backward(value, tensor):
            return False
        if value is not tensor and is_used_after(value, node):
            return False
        return not any(self.is_kept(use, tensor, node) for use in value.uses) and not (
            value is not tensor and value in node.inputs
        )

    def is_kept(self, use: Use, tensor: Value, node: Node) -> bool:
        """Is it a use before the write by a node that may hold on to the value?"""
        user = use.user
        if user is node or user.is_after(node) or user in self.made:
            return False
        return not is_plain_read(use) and not _is_result_of(user, tensor.node)

    def is_needed_by_backward(self, value: Value, tensor: Value) -> bool:
        if value.node.kind in ("prim::If", "prim::Param") or not self.owners.may_need_grad(tensor):
            return False
        return promotion.needs_result(value.node)

    def out_of_place(self, node: Node, tensor: Value) -> Value | None:
        """The new tensor, inserted before `node`; None where it could differ from what `node` writes."""
        resolved = node.op
        assert resolved is not None
        name = in_place.base_name(node.kind)
        if name == "copy":
            return self.copied(node, tensor)
        op = in_place.counterpart(resolved)
        if op is None or (name in in_place.UNDIFFERENTIABLE and self.owners.may_need_grad(tensor)):
            return None
        agrees = self.agrees(node, tensor)
        if not agrees and not self.checked:
            return None
        if name == "normal" and promotion.is_contiguous(tensor):
            return self.drawn(node, tensor)
        with self.graph.inserting_before(node):
            result = insert_call(self.graph, op, list(node.inputs), node).output
            if not agrees:
                self.made.add(result.node)
                result = self.graph.insert("prim::AsStored", (tensor, result), (T.TENSOR,), range=node.range).output
        return result

    def agrees(self, node: Node, tensor: Value) -> bool:
        """Does the counterpart certainly give dtype, shape and layout of the tensor, or raise as the write would?"""
        name = in_place.base_name(node.kind)
        if name in in_place.BROADCASTS and (
            self.owners.reshapes_tensors or not promotion.absorbs_shape(tensor, node.inputs[1])
        ):
            return False
        if name in in_place.PACKS:
            return promotion.is_contiguous(tensor)
        if name in in_place.KEEPS:
            return True
        if self.owners.reshapes_tensors:
            return False
        if name in in_place.FLOATS | in_place.TO_FLOAT and promotion.floor(tensor) < promotion.FLOATING:
            return False
        operands = () if name in in_place.FLOATS else promotion.operands(node)
        return all(promotion.absorbs(tensor, operand) for operand in operands)

    def drawn(self, node: Node, tensor: Value) -> Value:
        """`x.normal_(mean, std)` of a contiguous tensor: as many numbers drawn anew."""
        _, mean, std, generator = node.inputs
        ask = partial(self.graph.insert, inputs=(tensor,), range=node.range)
        with self.graph.inserting_before(node):
            none = self.graph.insert_constant(None)
            size, dtype = ask("aten::size", types=(T.ListType.of(T.INT),)), ask("prim::dtype", types=(T.INT,))
            layout, device = ask("prim::layout", types=(T.INT,)), ask("prim::device", types=(T.DEVICE,))
            options = (dtype.output, layout.output, device.output, none)
            inputs = (mean, std, size.output, generator, *options)
            return self.graph.insert("aten::normal", inputs, (T.TENSOR,), range=node.range).output

    def copied(self, node: Node, tensor: Value) -> Value | None:
        """`x.copy_(y)`: all of x, as a slice, replaced by y. The 0-dimensional have no slices."""
        if self.owners.reshapes_tensors or not promotion.sizes_of(tensor):
            return None
        with self.graph.inserting_before(node):
            source = insert_copied(self.graph, node).output
            none, one = self.graph.insert_constant(None), self.graph.insert_constant(1)
            inputs = (tensor, source, self.graph.insert_constant(0), none, none, one)
            return self.graph.insert("aten::slice_scatter", inputs, (T.TENSOR,), range=node.range).output


def _is_result_of(user: Node, maker: Node) -> bool:
    """Is the user the return node of a branch of `maker`, however deep?"""
    return user.kind == "prim::Return" and any(user.is_inside(block) for block in maker.blocks)


def insert_copied(graph: Graph, node: Node) -> Node:
    """Insert what `node` copies to all elements of its first input, in the shape of that."""
    target, source = node.inputs[:2]
    if not isinstance(source.type, T.TensorType):
        return graph.insert("aten::fill", (target, source), (T.TENSOR,), range=node.range)
    is_assignment = node.op is not None and node.op.schema.key in in_place.ASSIGNMENTS
    kind = "prim::AsElements" if is_assignment else "aten::expand_as"
    return graph.insert(kind, (source, target), (T.TENSOR,), range=node.range)


def insert_call(graph: Graph, op: Op, inputs: list[Value], like: Node) -> Node:
    """Insert a call of an operator with one result, at the place in the program of the node `like`."""
    call = graph.insert(op.name, inputs, (T.TENSOR,), range=like.range)
    call.scope, call.call_stack = like.scope, like.call_stack
    call.set_op(op)
    return call
