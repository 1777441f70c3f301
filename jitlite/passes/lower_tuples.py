"""Remove all tuples: pass their elements one by one.

    graph(%p : (int, Tensor)):                         graph(%a : int,
      %a : int, %b : Tensor = prim::TupleUnpack(%p)          %b : Tensor):
      %q : (Tensor, int) = prim::TupleConstruct(%b, %a)  =>
      return (%q)                                        return (%b, %a)

Parameters and results of the graph, outputs of `prim::If` and values carried by `prim::Loop` become one value an
element. This changes the graph's signature; who calls it must know. Tuples cannot be written, so elements are the same
objects as before. Where a tuple is needed as one (in a list, an Optional, a call or a print, read at an index that is
not constant), the pass fails before it changes anything. Dead code is eliminated at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.inside import NO_REWRITE
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait
from jitlite.passes.dce import eliminate_dead_code
from jitlite.passes.registry import graph_pass


@graph_pass
def lower_tuples(graph: Graph) -> bool:
    """Flatten every tuple.

    Raises:
        CompileError: where one cannot be flattened.
    """
    for node in graph.all_nodes():
        _check(node)
    lowering = _TupleLowering(graph)
    lowering.parameters(graph.block)
    lowering.block(graph.block)
    lowering.returns(graph.block)
    for node in reversed(lowering.dead):
        node.destroy()
    for block, value in reversed(lowering.dead_parameters):
        block.erase_input(value.offset)
    changed = bool(lowering.dead or lowering.dead_parameters)
    return (changed and eliminate_dead_code(graph)) or changed


def _is_tuple(value: Value) -> bool:
    return isinstance(value.type, T.TupleType)


def _check(node: Node) -> None:
    if not any(map(_is_tuple, (*node.inputs, *node.outputs))) and not node.blocks:
        return
    if not node.has(Trait.FORWARDS_TUPLES):
        if any(map(_is_tuple, (*node.inputs, *node.outputs))):
            raise NO_REWRITE(f"a tuple cannot be removed: {node.kind} needs it as one value", node.range)
        return
    if node.kind == "prim::TupleIndex":
        index, length = constant_of(node.inputs[1], None), len(node.inputs[0].type.contained)
        if type(index) is not int or not -length <= index < length:
            raise NO_REWRITE("a tuple cannot be removed: its index is no constant position in it", node.range)
    if node.kind == "prim::Loop":
        loop = Loop(node)
        groups = [loop.followings, loop.starts, loop.parameters]
    else:
        groups = [block.outputs for block in node.blocks]
    for position, output in enumerate(node.outputs):
        for group in groups:
            if _shape(group[position].type) != _shape(output.type):
                raise NO_REWRITE("a tuple cannot be removed: it may be there or not", node.range)


def _shape(t: T.Type) -> object:
    return tuple(_shape(e) for e in t.elements) if isinstance(t, T.TupleType) else None


class _TupleLowering:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.elements: dict[Value, list[Value]] = {}
        """The elements of each tuple; an element may be a tuple itself."""
        self.dead: list[Node] = []
        self.dead_parameters: list[tuple[Block, Value]] = []

    def flat(self, values: Sequence[Value]) -> list[Value]:
        """The values with tuples replaced by their elements, however deep."""
        found: list[Value] = []
        for value in values:
            found += self.flat(self.elements[value]) if _is_tuple(value) else [value]
        return found

    def split(self, value: Value, node: Node, position: int) -> int:
        """Add outputs to `node` from `position` on for the elements of the tuple `value`; gives how many."""
        assert isinstance(value.type, T.TupleType)
        added, parts = 0, []
        for t in value.type.elements:
            part = node.insert_output(position + added, t)
            parts.append(part)
            added += 1
            if isinstance(t, T.TupleType):
                added += self.split(part, node, position + added)
        self.elements[value] = parts
        return added

    def parameters(self, block: Block) -> None:
        for value in list(block.inputs):
            if _is_tuple(value):
                self.split(value, block.param_node, value.offset + 1)
        self.dead_parameters += [(block, v) for v in block.inputs if _is_tuple(v)]

    def returns(self, block: Block) -> None:
        if any(map(_is_tuple, block.outputs)):
            values = self.flat(block.outputs)
            block.return_node.remove_all_inputs()
            for value in values:
                block.add_output(value)

    def block(self, block: Block) -> None:
        for node in list(block.nodes):
            if node.blocks and node.has(Trait.FORWARDS_TUPLES):
                self.control(node)
            elif node.blocks:
                for inner in node.blocks:
                    self.block(inner)
            elif node.has(Trait.FORWARDS_TUPLES) and any(map(_is_tuple, (*node.inputs, *node.outputs))):
                self.node(node)

    def control(self, node: Node) -> None:
        if node.kind == "prim::Loop" and any(map(_is_tuple, node.inputs)):
            values = self.flat(node.inputs)
            node.remove_all_inputs()
            for value in values:
                node.add_input(value)
        for block in node.blocks:
            if node.kind == "prim::Loop":
                self.parameters(block)
            self.block(block)
            self.returns(block)
        for output in list(node.outputs):
            if _is_tuple(output):
                self.split(output, node, output.offset + 1)
        self.erased_later(node)

    def erased_later(self, node: Node) -> None:
        """Move the tuple outputs of a control node, which everybody reads the elements of, to a node of their own."""
        for output in [o for o in node.outputs if _is_tuple(o)]:
            stand_in = self.graph.create("prim::Uninitialized", (), (output.type,)).insert_after(node)
            self.elements[stand_in.output] = self.elements[output]
            output.replace_all_uses_with(stand_in.output)
            node.erase_output(output.offset)
            self.dead.append(stand_in)

    def node(self, node: Node) -> None:
        self.dead.append(node)
        if node.kind == "prim::TupleConstruct":
            self.elements[node.output] = list(node.inputs)
        elif node.kind in ("prim::Constant", "prim::Uninitialized"):
            with self.graph.inserting_before(node):
                self.made(node)
        else:
            elements = self.elements[node.inputs[0]]
            if node.kind == "prim::TupleUnpack":
                for output, element in zip(node.outputs, elements, strict=True):
                    self.same(output, element)
            elif node.kind == "prim::TupleIndex":
                self.same(node.output, elements[constant_of(node.inputs[1])])
            else:
                self.elements[node.output] = elements[node.attributes["beg"] : node.attributes["end"]]

    def same(self, output: Value, element: Value) -> None:
        if _is_tuple(output):
            self.elements[output] = self.elements[element]
        output.replace_all_uses_with(element)

    def made(self, node: Node) -> None:
        """A constant or uninitialized tuple: make its elements."""
        assert isinstance(node.output.type, T.TupleType)
        parts = []
        for position, t in enumerate(node.output.type.elements):
            if node.kind == "prim::Constant":
                part = self.graph.insert_constant(constant_of(node.output)[position], t, node.range)
            else:
                part = self.graph.insert(node.kind, (), (t,), range=node.range).output
            parts.append(part)
            if isinstance(t, T.TupleType):
                self.node(part.node)
        self.elements[node.output] = parts
