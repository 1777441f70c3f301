"""Compute a sum of products of matrices over the iterations of a loop as one product behind it.

    %w : Tensor = aten::new_zeros(%g0, [M, N])        %all : Tensor = aten::new_zeros(%g0, [n, B, M])
    loop(n): %j ->                                    loop(n): %j ->
      %t = n - 1 - %j                                   %t = n - 1 - %j
      %g = ...                     # B x M              %g = ...
      %x = aten::select(%xs, 0, %t)    # B x N    =>    aten::copy_(aten::select(%all, 0, %t), %g)
      %p = aten::mm(aten::t(%g), %x)                  %w = aten::mm(aten::t(reshape %all), reshape %xs)
      aten::add_(%w, %p)

The rows of all iterations, one below the other, are one matrix; the product of two of those is the sum of the products.
The gradients of weights in loops have this form. One of the factors must be an iteration's part of a tensor from
outside, which says how many rows there are; nothing else may read or write the sum within the loop. The terms are added
in another order than before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.structure import Loop
from jitlite.passes.registry import inexact_pass


@inexact_pass
def sum_products_once(graph: Graph) -> bool:
    """Have products that a loop sums up computed behind the loop."""
    changed = False
    for node in [n for n in graph.all_nodes() if n.kind == "prim::Loop"]:
        loop = Loop(node)
        for inner in list(loop.body.nodes):
            if inner.kind == "aten::add_" and isinstance(inner.inputs[0].type, T.TensorType):
                changed = _Sum(loop, inner).move() or changed
    return changed


class _Sum:
    """A product that a node of a loop adds to a sum."""

    def __init__(self, loop: Loop, add: Node) -> None:
        self.loop, self.add = loop, add
        self.graph = loop.node.graph

    def move(self) -> bool:
        total, product = self.add.inputs[0], self.add.inputs[1].node
        if constant_of(self.add.inputs[2], None) != 1 or not self._is_sum(total) or not self._is_product(product):
            return False
        left, right = product.inputs
        turned = left.node.input if left.node.kind == "aten::t" else None
        wholes = [None if turned is None else self._whole_of(turned), self._whole_of(right)]
        known = [w for w in wholes if w is not None]
        index = self._index_before(product)
        if not known or index is None or not self._writes_sums_only(set(known)):
            return False
        rows = (self._turned(left, product) if turned is None else turned, right)
        pairs = enumerate(zip(rows, wholes, strict=True))
        factors = [whole or self._kept(value, known[0], i, product, index) for i, (value, whole) in pairs]
        self.add.destroy()
        product.destroy()
        self._add_up(total, factors)
        return True

    def _add_up(self, total: Value, factors: Sequence[Value]) -> None:
        """Compute the sum behind the loop."""
        following = self.loop.node._next
        assert following is not None
        with self.graph.inserting_before(following):
            first, second = (self._flat(f, total, i) for i, f in enumerate(factors))
            turned = self.graph.insert("aten::t", (first,), (T.TENSOR,)).output
            found = self.graph.insert("aten::mm", (turned, second), (total.type,)).output
        total.replace_uses_after(found.node, found)

    def _is_sum(self, total: Value) -> bool:
        """Is it zeros from outside the loop, that nothing else uses in front of it or in it?"""
        made, node = total.node, self.loop.node
        if made.kind != "aten::new_zeros" or made.block is not node.block or self.add.output.has_uses:
            return False
        return all(use.user is self.add or (use.user.is_after(node) and not use.user.is_inside(self.loop.body))
                   for use in total.uses)  # fmt: skip

    def _is_product(self, node: Node) -> bool:
        return node.kind == "aten::mm" and node.output.use_count == 1 and node.block is self.loop.body

    def _turned(self, value: Value, product: Node) -> Value:
        """A factor, as the matrix that has a row for each term of an element's sum."""
        with self.graph.inserting_before(product):
            return self.graph.insert("aten::t", (value,), (T.TENSOR,)).output

    def _whole_of(self, value: Value) -> Value | None:
        """The tensor from outside whose part in this iteration it is."""
        node = value.node
        if node.kind != "aten::select" or node.block is not self.loop.body or constant_of(node.inputs[1], None) != 0:
            return None
        if node.inputs[0].node.is_inside(self.loop.body) or not self._is_backward_index(node.inputs[2]):
            return None
        return node.inputs[0]

    def _is_backward_index(self, value: Value) -> bool:
        """Is it the number of iterations less 1, less the number of this one?"""
        node = value.node
        if node.kind != "aten::sub" or node.inputs[1] is not self.loop.index:
            return False
        last = node.inputs[0].node
        return (
            last.kind == "aten::sub"
            and last.inputs[0] is self.loop.max_iterations
            and constant_of(last.inputs[1], None) == 1
        )

    def _writes_sums_only(self, read: set[Value]) -> bool:
        """Does the loop write nothing but zeros from outside, and none of what is read behind it?"""
        for node in _nodes_in(self.loop.body):
            if node.op is not None and any(a.is_write for a in node.op.schema.arguments):
                written = node.inputs[0]
                while written.node.kind in ("aten::select", "aten::slice"):
                    written = written.node.inputs[0]
                made = written.node
                if made.kind != "aten::new_zeros" or made.block is not self.loop.node.block or written in read:
                    return False
        return True

    def _kept(self, value: Value, known: Value, position: int, product: Node, index: Value) -> Value:
        """All that a factor is in the iterations, put together."""
        graph, node, total = self.graph, self.loop.node, self.add.inputs[0]
        with graph.inserting_before(node):
            sizes = [self.loop.max_iterations, self._size(known, 1), self._size(total, position)]
            listed = graph.insert("prim::ListConstruct", sizes, (T.ListType.of(T.INT),)).output
            _, _, *options = total.node.inputs
            whole = graph.insert("aten::new_zeros", (total.node.inputs[0], listed, *options), (total.type,)).output
        with graph.inserting_before(product):  # it is now what the product reads
            zero, no = graph.insert_constant(0), graph.insert_constant(False)
            row = graph.insert("aten::select", (whole, zero, index), (T.TENSOR,)).output
            graph.insert("aten::copy_", (row, value, no), (T.TENSOR,))
        return whole

    def _index_before(self, product: Node) -> Value | None:
        """The number of the iteration, counted from the last one, where it is known."""
        found = (n.output for n in self.loop.body.nodes if n.kind == "aten::sub" and n.is_before(product))
        return next((v for v in found if self._is_backward_index(v)), None)

    def _size(self, of: Value, dim: int) -> Value:
        return self.graph.insert("aten::size", (of, self.graph.insert_constant(dim)), (T.INT,)).output

    def _flat(self, whole: Value, total: Value, position: int) -> Value:
        """The rows of all iterations, one below the other. The tensor may have more parts than there are iterations."""
        zero, one = self.graph.insert_constant(0), self.graph.insert_constant(1)
        parts = (whole, zero, zero, self.loop.max_iterations, one)
        whole = self.graph.insert("aten::slice", parts, (T.TENSOR,)).output
        rows = self.graph.insert_constant(-1)
        sizes: Sequence[Value] = (rows, self._size(total, position))
        listed = self.graph.insert("prim::ListConstruct", sizes, (T.ListType.of(T.INT),)).output
        return self.graph.insert("aten::reshape", (whole, listed), (T.TENSOR,)).output


def _nodes_in(block: Block) -> Iterator[Node]:
    for node in block.nodes:
        yield node
        for inner in node.blocks:
            yield from _nodes_in(inner)
