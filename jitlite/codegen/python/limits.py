"""How deeply Python lets blocks be nested."""

from __future__ import annotations

from jitlite.ir.graph import Block, Graph
from jitlite.ir.traits import Trait
from jitlite.operators.python_forms import CannotTranslate

_DEEPEST = 18
"""Blocks within one another. Python allows 20 loops and handlers, and 100 levels of indentation."""

_DEEPEST_IF = 90


def check_depth(graph: Graph) -> int:
    """How many blocks are within one another; refused where Python does not take so many."""
    deepest = 0
    depths: list[tuple[Block, int, int]] = [(graph.block, 0, 0)]
    while depths:
        block, all_blocks, static = depths.pop()
        if all_blocks > _DEEPEST_IF or static > _DEEPEST:
            raise CannotTranslate("blocks are nested too deeply for Python")
        deepest = max(deepest, all_blocks)
        for node in block.nodes:
            if node.blocks and not node.has(Trait.IS_STATEMENT):
                raise CannotTranslate(f"{node.kind} has blocks, but does not run them")
            inner = static + (node.kind != "prim::If")
            depths += [(b, all_blocks + 1, inner) for b in node.blocks]
    return deepest
