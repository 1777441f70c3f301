"""Put the nodes of regions back where they came from.

    %b : Tensor = prim::Region[kind="tensors"](%x, %n)
      block0(%5 : Tensor, %6 : int):
        %a : Tensor = aten::mul(%5, %6)                     %a : Tensor = aten::mul(%x, %n)
        %7 : int = prim::Constant[value=1]()                %b : Tensor = aten::add(%a, %x, %1)
        %4 : Tensor = aten::add(%a, %5, %7)           =>    return (%b)
        -> (%4)
    return (%b)

The inverse of `form_regions`: nodes and values are those that were put into the region. Constants of the region become
constants around it that have the same object, where there are any.
"""

from __future__ import annotations

from jitlite.ir.graph import Block, Graph, Node
from jitlite.ir.regions import REGION, Constants, Region, constant_key, inline_region
from jitlite.passes.registry import graph_pass


@graph_pass
def inline_regions(graph: Graph) -> bool:
    """Replace every region by its nodes."""
    return bool(_inline_in(graph.block, {}))


def _inline_in(block: Block, around: Constants) -> int:
    """Inline the regions of a block and of those nested in it; how many there were."""
    constants = dict(around)
    return sum(_inline_from(node, constants) for node in list(block.nodes))


def _inline_from(node: Node, constants: Constants) -> int:
    if node.kind == "prim::Constant":
        constants.setdefault(constant_key(node), node.output)
    if node.kind == REGION:
        return 1 + sum(_inline_from(inner, constants) for inner in inline_region(Region(node), constants))
    return sum(_inline_in(inner, constants) for inner in node.blocks)
