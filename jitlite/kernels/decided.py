"""What facts decide of a graph before it is differentiated: branches that are none, and numbers.

A gradient passes no branch. Facts decide some; and a kernel bails out where the program raises or warns, so behind that
there is no choice left either. A backward pass knows numbers only if they are constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Use, Value, constant_of
from jitlite.kernels.scalar_nodes import CLASSES
from jitlite.native.regions import raises
from jitlite.passes.dce import erase_branch_output


def settle_branches(graph: Graph, known: Mapping[Value, object]) -> None:
    """Put what certainly runs, or runs wherever a kernel goes on, in place of branches.

    Args:
        graph: changed in place; only kernels may run it from now on.
        known: what values are, where facts say so.
    """
    _settle(graph.block, known)


def _settle(block: Block, known: Mapping[Value, object]) -> None:
    for node in list(block.nodes):
        taken = _taken(node, known) if node.kind == "prim::If" else None
        for inner in node.blocks if taken is None else [taken]:
            _settle(inner, known)
        if taken is not None:
            _put_in_place(node, taken)


def _taken(node: Node, known: Mapping[Value, object]) -> Block | None:
    """The block that runs, if any is known to."""
    condition = constant_of(node.input, known.get(node.input))
    if isinstance(condition, bool):
        return node.blocks[0 if condition else 1]
    leaving = [raises(block) for block in node.blocks]
    return node.blocks[leaving.index(False)] if leaving.count(True) == 1 else None


def _put_in_place(node: Node, taken: Block) -> None:
    block = node.block
    assert block is not None
    following = node.next or block.return_node
    for output, value in zip(node.outputs, taken.outputs, strict=True):
        output.replace_all_uses_with(value)
    for inner in list(taken.nodes):
        inner.move_before(following)
    if not any(map(raises, node.blocks)):
        node.destroy()
        return
    while node.outputs:
        erase_branch_output(node, 0)


def name_numbers(graph: Graph, known: Mapping[Value, object]) -> None:
    """Read constants in place of numbers that facts say."""
    for node in [*graph.all_nodes()]:
        for output in node.outputs:
            number = known.get(output)
            if isinstance(number, list) and _is_ints(output.type) and all(type(n) is int for n in number):
                _read_constant(graph, node, output, number, [*output.uses])
            uses = [use for use in output.uses if use.user.kind != "prim::Loop"]  # the length of a range stays with it
            if node.kind == "prim::Constant" or type(number) is not CLASSES.get(output.type) or not uses:
                continue
            _read_constant(graph, node, output, number, uses)


def _is_ints(t: T.Type) -> bool:
    return isinstance(t, T.ListType) and t.element is T.INT


def _read_constant(graph: Graph, node: Node, output: Value, number: object, uses: Sequence[Use]) -> None:
    with graph.inserting_before(node):
        constant = graph.insert_constant(number, output.type)
    for use in uses:
        use.user.replace_input(use.offset, constant)
