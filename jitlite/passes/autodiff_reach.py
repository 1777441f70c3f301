"""What a graph finds out when it runs: on which of its inputs a value depends.

    %h = prim::If(%c)                          %h, %reach = prim::If(%c)
      block0():                                  block0():
        %a = aten::mul(%x, %w)                     %a = aten::mul(%x, %w)
        -> (%a)                          =>        -> (%a, 3)        # a bit for %x, another for %w
      block1():                                  block1():
        %b = aten::sin(%x)                         %b = aten::sin(%x)
        -> (%b)                                    -> (%b, 1)

Autograd gives None for an argument that a result does not depend on, and a result that depends on none that requires a
gradient requires none. Where branches decide that, the graph computes it along with its results: an int, with a bit for
each input that has a gradient. A branch hands on the one of its block, a loop carries one, and operators join those of
what they take. Values that depend on the same inputs in any case have a constant.
"""

from __future__ import annotations

from collections.abc import Iterable

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.structure import If, Loop
from jitlite.passes.autodiff_loops import append_to, joined_list
from jitlite.passes.autodiff_sources import GradientSources

_MOST = 62
"""Inputs that have a bit of an int."""


class Reach:
    """Has a graph compute on which inputs its values depend.

    Args:
        f: changed in place: values are added, and none is taken away.
        sources: what is known without running it.
    """

    def __init__(self, f: Graph, sources: GradientSources) -> None:
        self.f, self._sources = f, sources
        inputs = sorted(set().union(*(sources.found.get(v, ()) for v in f.inputs)))
        self._bits = {index: 1 << number for number, index in enumerate(inputs)}
        self._made: dict[Value, Value] = {}
        self.inputs = inputs
        """The inputs that have bits, the lowest one first."""
        if len(inputs) > _MOST:
            raise ValueError("branches decide which of more than 62 arguments have a gradient")

    def of(self, value: Value, reader: Node) -> Value:
        """The int of a value.

        Args:
            value: of the graph.
            reader: what is going to read the int.
        """
        if value.node.kind == "aten::contiguous" and value not in self._sources.given:
            value = value.node.inputs[0]  # as a branch keeps it for the other pass
        if value not in self._sources.inexact:
            with self.f.inserting_before(reader):
                return self.f.insert_constant(sum(self._bits[i] for i in self._sources.found.get(value, ())))
        if value not in self._made:
            node = value.node
            if node.kind == "prim::If":
                self._branch(If(node), value)
            elif node.kind == "prim::Loop":
                self._loop(Loop(node), value.offset)
            elif node.kind == "prim::Param":
                self._parameter(value)
            elif (grown := joined_list(node)) is not None:
                self._grown(grown, value)
            else:
                self._made[value] = self._joined(node, self._sources.given[value])
        return self._made[value]

    def _joined(self, node: Node, given: Iterable[Value]) -> Value:
        """The bits of all values that have sources, behind a node."""
        following = node.next or _return_of(node)
        found = [self.of(v, following) for v in given if self._sources.found.get(v)]
        with self.f.inserting_before(following):
            total = found[0]
            for each in found[1:]:
                total = self.f.insert("aten::__or__", (total, each), (T.INT,)).output
        return total

    def _branch(self, branch: If, value: Value) -> None:
        made = branch.node.add_output(T.INT)
        self._made[value] = made
        for block in branch.node.blocks:
            block.add_output(self.of(block.outputs[value.offset], block.return_node))

    def _parameter(self, value: Value) -> None:
        block = value.node.block
        owner = None if block is None else block.owner
        assert owner is not None and owner.kind == "prim::Loop", "an input of the graph is exact"
        self._loop(Loop(owner), value.offset - 1)

    def _loop(self, loop: Loop, position: int) -> None:
        each = loop.carried[position]
        parameter, index, made = _carry(loop, self.of(each.start, loop.node))
        self._made[each.parameter], self._made[each.result] = parameter, made
        loop.body.replace_output(index, self.of(each.following, loop.body.return_node))

    def _grown(self, grown: Value, value: Value) -> None:
        """The bits of all elements of a list that a loop makes grow."""
        append = append_to(grown)
        assert append is not None
        loop = Loop(_loop_of(append))
        with self.f.inserting_before(loop.node):
            none = self.f.insert_constant(0)
        parameter, index, self._made[value] = _carry(loop, none)
        found = self.of(append.inputs[1], loop.body.return_node)
        with self.f.inserting_at_end(loop.body):
            following = self.f.insert("aten::__or__", (parameter, found), (T.INT,)).output
        loop.body.replace_output(index, following)


def _carry(loop: Loop, start: Value) -> tuple[Value, int, Value]:
    """Have a loop carry one more int: gives it in the body, where the body returns the next one, and the last one."""
    loop.node.add_input(start)
    parameter = loop.body.add_input(T.INT)
    return parameter, loop.body.add_output(parameter), loop.node.add_output(T.INT)


def _return_of(node: Node) -> Node:
    block = node.block
    assert block is not None
    return block.return_node


def _loop_of(node: Node) -> Node:
    owner = None if node.block is None else node.block.owner
    assert owner is not None
    return owner
