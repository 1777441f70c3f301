"""Variables that may be read once on each way through a function: what is known of them, and of the ways."""

from __future__ import annotations

from dataclasses import dataclass, field

from jitlite.base.source import SourceRange
from jitlite.ir.graph import Block


@dataclass
class KeptIterator:
    """A variable that holds an iterator.

    Attributes:
        home: the block in which it was assigned.
        reads: the blocks in which it has been read, and where.
    """

    home: Block
    reads: list[tuple[Block, SourceRange]] = field(default_factory=list)


def are_exclusive(one: Block, other: Block) -> bool:
    """Are two blocks in different branches of one `if`, so that a call goes through one of them at most?"""
    branches = {id(b.owner): b for b in _around(one) if b.owner is not None and b.owner.kind == "prim::If"}
    return any(branches.get(id(b.owner), b) is not b for b in _around(other))


def is_repeated(block: Block, home: Block) -> bool:
    """Is there a loop around a block that is not around the one in which the iterator was made?"""
    known = {id(b) for b in _around(home)}
    loops = [b for b in _around(block) if b.owner is not None and b.owner.kind == "prim::Loop"]
    return any(id(b) not in known for b in loops)


def _around(block: Block) -> list[Block]:
    """A block and those that it is in."""
    found = [block]
    while found[-1].owner is not None and found[-1].owner.block is not None:
        found.append(found[-1].owner.block)
    return found
