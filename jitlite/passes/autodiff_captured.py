"""What a graph of gradients reads of what is captured: with which gradients, in which blocks of branches.

To write a tensor before the backward pass is an error where that reads it, as it is in eager, and none where it does
not. A branch of the backward pass reads what its block captures only where that block is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.passes.autodiff_scopes import Backward

Context = tuple[tuple[Value, bool], ...]
"""The blocks of branches around a place, from the outermost one inwards: conditions, and what they are there."""


def context_of(block: Block | None) -> Context:
    """The blocks of branches that a block is in."""
    owner = None if block is None else block.owner
    if block is None or owner is None:
        return ()
    around = context_of(owner.block)
    return (*around, (owner.input, block is owner.blocks[0])) if owner.kind == "prim::If" else around


def reads_of(value: Value) -> set[Context]:
    """Where the elements of a tensor are read, and not its size only."""
    return {context_of(use.user.block) for use in value.uses if use.user.kind != "aten::size"}


def is_read_at(value: Value, place: Context) -> bool:
    """Are the elements of a tensor read wherever this place is reached, or at it?"""
    return any(place[: len(each)] == each for each in reads_of(value))


def recompute_sizes(backward: Backward, f: Graph) -> None:
    """Take the size of a kept tensor from that, wherever it is read anyhow."""
    df, captured = backward.graph, backward.top.captured
    for value, local in list(captured.items()):
        node = value.node
        if node.kind != "aten::size" or len(node.inputs) != 1 or value in f.outputs or node.input not in captured:
            continue
        tensor = captured[node.input]
        for use in local.uses:  # in the same block: a kept tensor is there only where it is used
            if is_read_at(tensor, context_of(use.user.block)):
                with df.inserting_before(use.user):
                    size = df.insert("aten::size", (tensor,), (value.type,))
                use.user.replace_input(use.offset, size.output)
        if local.has_uses:
            continue
        df.block.erase_input(local.offset)
        del captured[value]
        if not value.has_uses:
            node.destroy()


def blocks_of_captured(df: Graph, vjps: int) -> list[tuple[tuple[tuple[int, bool], ...], ...]]:
    """For each input of `df` behind the gradients, the ways to reach what reads it.

    A way is made of inputs that are conditions, by their positions behind the gradients, and what they have to be.
    """
    positions = {value: i for i, value in enumerate(df.inputs[vjps:])}
    found = []
    for value in df.inputs[vjps:]:
        places = {context_of(use.user.block) for use in value.uses}
        ways = {tuple((positions[c], wanted) for c, wanted in place if c in positions) for place in places}
        found.append(tuple(sorted(ways)))
    return found


def users_of_captured(df: Graph, vjps: int) -> list[tuple[int, ...]]:
    """For each input of `df` behind the gradients, the gradients it is used with."""
    reached: dict[Value, set[int]] = {v: {i} for i, v in enumerate(df.inputs[:vjps])}
    blocks: dict[Block, set[int]] = {}
    for node in df.nodes:
        inner = list(_nodes_within(node))
        joined = set().union(*(reached.get(v, ()) for each in (node, *inner) for v in each.inputs))
        reached.update(dict.fromkeys(node.outputs, joined))
        blocks.update((block, joined) for each in (node, *inner) for block in each.blocks)
    users = [[use.user.block for use in value.uses] for value in df.inputs[vjps:]]
    return [tuple(sorted(set().union(*(blocks.get(b, set()) for b in used if b)))) for used in users]


def _nodes_within(node: Node) -> Iterator[Node]:
    for block in node.blocks:
        for inner in (*block.nodes, block.return_node):
            yield inner
            yield from _nodes_within(inner)
