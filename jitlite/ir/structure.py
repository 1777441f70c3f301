"""Loops and branches, with a name for each of their parts.

    loop = Loop(node)                                    branch = If(node)
    for start, parameter, following, result in loop.carried: ...
    for first, second, result in branch.joined: ...

A `prim::Loop` runs its body while its condition holds and it has not run `max_iterations` times:

    %results = prim::Loop(%max_iterations, %start_condition, %starts)
      block0(%index, %parameters):
        ...
        -> (%condition, %followings)

A `prim::If` runs one of two blocks; each returns a value for each result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jitlite.ir.constants import INT64_MAX
from jitlite.ir.graph import Block, Node, Value, constant_of

UNBOUNDED = INT64_MAX
"""What stands for the number of iterations of a loop that only its condition ends: the largest int of 64 bits."""


class Carried(NamedTuple):
    """A value that a loop carries from one iteration to the next."""

    start: Value
    """What it is in the first iteration."""
    parameter: Value
    """The name for it in the body."""
    following: Value
    """What the body makes of it, for the next iteration."""
    result: Value
    """What it is when the loop ends."""


class Loop:
    """The parts of a `prim::Loop`. They are read from the node, so they are always those of the moment."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def body(self) -> Block:
        return self.node.blocks[0]

    @property
    def max_iterations(self) -> Value:
        return self.node.inputs[0]

    @property
    def start_condition(self) -> Value:
        return self.node.inputs[1]

    @property
    def condition(self) -> Value:
        """What the body returns first: does the loop go on?"""
        return self.body.outputs[0]

    @property
    def index(self) -> Value:
        """The number of the iteration, from 0 on, in the body."""
        return self.body.inputs[0]

    @property
    def starts(self) -> Sequence[Value]:
        return self.node.inputs[2:]

    @property
    def parameters(self) -> Sequence[Value]:
        return self.body.inputs[1:]

    @property
    def followings(self) -> Sequence[Value]:
        return self.body.outputs[1:]

    @property
    def results(self) -> Sequence[Value]:
        return self.node.outputs

    @property
    def carried(self) -> list[Carried]:
        return list(map(Carried, self.starts, self.parameters, self.followings, self.results))

    def sources(self, position: int) -> tuple[Value, Value]:
        """What the carried value at this position is at first, and what it becomes."""
        return self.node.inputs[position + 2], self.body.outputs[position + 1]

    @property
    def most_iterations(self) -> int | None:
        """The number of iterations that ends the loop, if it is a constant."""
        count: int | None = constant_of(self.max_iterations, None)
        return count

    @property
    def is_bounded(self) -> bool:
        """Is there a number of iterations that ends the loop, as in `for`?"""
        return self.most_iterations != UNBOUNDED

    @property
    def has_condition(self) -> bool:
        """May the condition end the loop, as in `while`, or in a `for` with a `break`?"""
        return not (constant_of(self.start_condition, None) is True and constant_of(self.condition, None) is True)


class Joined(NamedTuple):
    """A result of a branch, and the value that each block returns for it."""

    then: Value
    orelse: Value
    result: Value


class If:
    """The parts of a `prim::If`."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def condition(self) -> Value:
        return self.node.inputs[0]

    @property
    def then(self) -> Block:
        return self.node.blocks[0]

    @property
    def orelse(self) -> Block:
        return self.node.blocks[1]

    @property
    def joined(self) -> list[Joined]:
        return list(map(Joined, self.then.outputs, self.orelse.outputs, self.node.outputs))


class Try:
    """The parts of a `prim::Try`: a block, and another that runs if the first one raises."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def body(self) -> Block:
        return self.node.blocks[0]

    @property
    def handler(self) -> Block:
        return self.node.blocks[1]

    @property
    def error(self) -> Value:
        """The exception, in the handler."""
        return self.handler.inputs[0]
