"""Remove tuples that are made only to be taken apart.

    %t : (int, Tensor) = prim::TupleConstruct(%n, %x)
    %a : int, %b : Tensor = prim::TupleUnpack(%t)           =>    return (%n, %x)
    return (%a, %b)

`prim::TupleUnpack`, `prim::TupleIndex` with a constant index and `prim::TupleSlice` of a `prim::TupleConstruct` are
replaced by what was put in (a slice by a smaller tuple). Tuples cannot be written, so these are the same objects. An
index outside stays and raises. Then dead code is eliminated.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.passes.dce import eliminate_dead_code
from jitlite.passes.registry import graph_pass


@graph_pass
def lower_simple_tuples(graph: Graph) -> bool:
    """Replace reads of tuples made in the graph by their elements."""
    changed = False
    for node in list(graph.all_nodes()):
        elements = elements_read(graph, node)
        if elements is not None:
            for output, element in zip(node.outputs, elements, strict=True):
                output.replace_all_uses_with(element)
            node.destroy()
            changed = True
    if changed:
        eliminate_dead_code(graph)
    return changed


def elements_read(graph: Graph, node: Node) -> list[Value] | None:
    """The values that a read of a tuple, whose construction is known, gives; else None."""
    if not node.inputs or node.inputs[0].node.kind != "prim::TupleConstruct":
        return None
    elements = list(node.inputs[0].node.inputs)
    if node.kind == "prim::TupleUnpack":
        return elements
    if node.kind == "prim::TupleIndex":
        index = constant_of(node.inputs[1], None)
        if type(index) is int and -len(elements) <= index < len(elements):
            return [elements[index]]
        return None
    if node.kind == "prim::TupleSlice":
        part = elements[node.attributes["beg"] : node.attributes["end"]]
        with graph.inserting_before(node):
            return [graph.insert("prim::TupleConstruct", part, [node.output.type], range=node.range).output]
    return None
