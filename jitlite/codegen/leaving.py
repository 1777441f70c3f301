"""Loops that are left from within a `prim::If`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jitlite.codegen.last_uses import is_last_of_block
from jitlite.ir.graph import Block, Node, Value


class Leaving(NamedTuple):
    """How a loop is left from within a `prim::If`."""

    position: int
    """Of the output that says whether the loop goes on."""
    on_the_way: tuple[Callable[[], None], ...]
    """What hands on outputs, from the innermost block to the loop."""


def last_if(block: Block, goes_on: Value, whole: set[Node]) -> Node | None:
    """The `prim::If` at the end of a block that alone decides whether a loop goes on; False in one branch or more.

    Args:
        whole: nodes that no loop may be left from within.
    """
    node = goes_on.node
    if node.kind != "prim::If" or node.block is not block or goes_on.use_count > 1 or node in whole:
        return None
    return node if is_last_of_block(node) else None


def position_in(inner: Node, block: Block, leaving: Leaving) -> int:
    return inner.outputs.index(block.outputs[leaving.position])
