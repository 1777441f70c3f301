"""Let activation functions write their result over an argument that nobody needs any more.

    %y : Tensor = aten::add(%x, %1, %1)            %y : Tensor = aten::add(%x, %1, %1)
    %z : Tensor = aten::relu(%y)             =>    %z : Tensor = aten::relu_(%y)
    return (%z)                                    return (%z)

The argument is a tensor that a node of the same block made, whose memory belongs to it alone, and that is used for
nothing else but to read numbers off it before. Of a chain of such functions every other one is replaced at a time. A
function that may change dtype or layout is left alone, and so are functions whose argument a backward pass may need:
results of operators that need them to differentiate.
"""

from __future__ import annotations

from jitlite.analysis import promotion
from jitlite.analysis.unaliased import Ownership, is_plain_read
from jitlite.ir import ops
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.ops import Op
from jitlite.operators import in_place
from jitlite.passes.registry import graph_pass


@graph_pass
def functional_to_inplace_activation(graph: Graph) -> bool:
    """Replace activation functions by their in-place variants."""
    names = in_place.ACTIVATIONS & in_place.KEEPS
    found = [n for n in graph.all_nodes() if n.kind.startswith("aten::") and n.kind.removeprefix("aten::") in names]
    if not found:
        return False
    owners = Ownership(graph, interesting=[n.inputs[0] for n in found])
    written: set[Value] = set()
    """Results that are the arguments now."""
    for node in found:
        if node.inputs[0] not in written and _write(node, owners):
            written.add(node.output)
    return bool(written)


def _write(node: Node, owners: Ownership) -> bool:
    variant, tensor = _variant(node), node.inputs[0]
    if variant is None or not _is_free(tensor, node, owners):
        return False
    if in_place.base_name(node.kind) in in_place.PACKS and not promotion.is_contiguous(tensor):
        return False
    node.change_kind(variant.name)
    node.set_op(variant)
    return True


def _variant(node: Node) -> Op | None:
    """The operator that writes the result over the first argument."""
    for candidate in ops.lookup(node.kind + "_"):
        if in_place.is_plain_write(candidate) and in_place.counterpart(candidate) is node.op:
            return candidate
    return None


def _is_free(tensor: Value, node: Node, owners: Ownership) -> bool:
    """Is the tensor there to be this node's argument?"""
    maker = tensor.node
    if maker.kind == "prim::Param" or maker.block is not node.block or not owners.is_private(tensor):
        return False
    if maker.blocks or not owners.same_modes(maker, node) or owners.sharers(tensor) != [tensor]:
        return False
    if any(use.user is not node and not (use.user.is_before(node) and is_plain_read(use)) for use in tensor.uses):
        return False
    return not promotion.needs_result(maker) or not owners.may_need_grad(tensor)
