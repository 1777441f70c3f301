"""Write equal operations in one way, so that others need to know one only.

    %a : Tensor = prim::NumToTensor(%n)
    %b : Float(2, 3) = aten::mul(%x, %a)          =>    %b : Float(2, 3) = aten::mul(%x, %n)

    %c : Tensor[] = aten::chunk(%x, %2, %1)
    %d : Tensor, %e : Tensor = prim::ListUnpack(%c)
                                           =>    %d : Tensor, %e : Tensor = prim::ConstantChunk[chunks=2, dim=1](%x)

A number made a tensor only to be an operand becomes the number itself, where the other operand certainly has dimensions
and a dtype of no lower category: then both give the same dtype. A `chunk` with constant arguments that is only unpacked
gives its parts directly, if the type of the tensor tells that there are so many: else unpacking has to raise.
"""

from __future__ import annotations

from jitlite.analysis import promotion
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.ir.traits import Trait
from jitlite.passes.registry import graph_pass


@graph_pass
def canonicalize_ops(graph: Graph) -> bool:
    """Let operands that are numbers be numbers, and chunks be unpacked."""
    changed = False
    for node in list(graph.all_nodes()):
        if node.has(Trait.TENSOR_OR_NUMBER):
            changed = _take_number(node) or changed
        elif node.kind == "aten::chunk":
            changed = _unpack_chunk(node) or changed
    return changed


def _take_number(node: Node) -> bool:
    if len(node.inputs) < 2 or not all(isinstance(v.type, T.TensorType) for v in node.inputs[:2]):
        return False
    tensor, operand = node.inputs[:2]
    number = _number_in(operand)
    if number is None or not promotion.sizes_of(tensor):
        return False
    if promotion.floor(tensor) < promotion.NUMBERS[number.type]:
        return False
    node.replace_input(1, number)
    if not operand.has_uses:
        operand.node.destroy()
    return True


def _number_in(tensor: Value) -> Value | None:
    """The number that was made this tensor."""
    node = tensor.node
    if node.kind != "prim::NumToTensor" or tensor.use_count != 1:
        return None
    return node.input if node.input.type in promotion.NUMBERS else None


def _unpack_chunk(node: Node) -> bool:
    tensor, *numbers = node.inputs
    chunks, dim = (constant_of(v, None) for v in numbers)
    users = [use.user for use in node.output.uses]
    if type(chunks) is not int or type(dim) is not int or chunks < 1 or [u.kind for u in users] != ["prim::ListUnpack"]:
        return False
    (unpack,) = users
    if len(unpack.outputs) != chunks or _number_of_chunks(promotion.sizes_of(tensor), chunks, dim) != chunks:
        return False
    graph = node.graph
    with graph.inserting_before(node):
        types = [v.type for v in unpack.outputs]
        made = graph.insert("prim::ConstantChunk", (tensor,), types, {"chunks": chunks, "dim": dim}, range=node.range)
    if unpack.block is not node.block:
        made.destroy()
        return False
    for old, new in zip(unpack.outputs, made.outputs, strict=True):
        new.copy_metadata(old)
        old.replace_all_uses_with(new)
    unpack.destroy()
    node.destroy()
    return True


def _number_of_chunks(sizes: list[int | None] | None, chunks: int, dim: int) -> int | None:
    """How many tensors `chunk` gives."""
    if sizes is None or not -len(sizes) <= dim < len(sizes):
        return None
    size = sizes[dim]
    if size is None:
        return None
    step = -(-size // chunks)
    return -(-size // step) if step else chunks
