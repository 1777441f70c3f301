"""What values of a graph are while a kernel is written: a tensor is a place, or an expression that has none yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from jitlite.base.records import Record
from jitlite.ir.graph import Node
from jitlite.kernels.loop_ir import Buffer, DType, Lane, LoopVariable, Operand, Place, Scalar, Statement


class MemorySource(Enum):
    """Where the memory of a tensor comes from, which says who else may see it."""

    OWN = "own"
    """Nobody else knows it: it may be written, and leave the kernel as a new tensor."""
    GIVEN = "given"
    """It is that of an argument or a constant, or may be."""
    MIXED = "mixed"
    """It is a copy of what shares memory with something else where the program runs in Python."""


BuildLane = Callable[[Any], Lane]
"""Writes the lane of a tensor that is an expression; takes the `NestBuilder` of the space."""


class TensorValue(Record, frozen=False):
    """A tensor: memory, or an expression.

    Attributes:
        dtype: of its elements.
        sizes: of its dimensions; the number 1 where it is known to be that.
        order: its dimensions in the order in which they lie in memory (where an expression is stored as torch does).
        place: where it is in memory; None while it is an expression.
        build: the expression.
        parts: the tensors that the expression reads.
        source: whose memory it is.
        position: the argument that it is, if it is one as a whole.
        node: what computes it.
        functions: how many functions such as `exp` the expression calls.
        evaluations: in how many nests it is computed so far.
    """

    dtype: DType
    sizes: tuple[Operand, ...]
    order: tuple[int, ...]
    place: Place | None = None
    build: BuildLane | None = None
    parts: tuple[TensorValue, ...] = ()
    source: MemorySource = MemorySource.OWN
    position: int | None = None
    node: Node | None = None
    functions: int = 0
    evaluations: int = 0

    @property
    def is_costly_again(self) -> bool:
        """Has an expression been computed in another nest, and is to do so again dearer than to read it?"""
        return self.evaluations > 0 and self.functions > 0

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def is_lazy(self) -> bool:
        return self.place is None

    @property
    def in_order(self) -> bool:
        """Do its dimensions lie in memory from the first to the last?"""
        return list(self.order) == sorted(self.order)


class TensorList(Record, frozen=False):
    """A list of tensors that grows while the kernel runs: all of one dtype and shape, one behind the other in memory.

    Attributes:
        count: how many there are.
        level: the depth of the loop that it is made in.
        start: the statements that run where it is made.
        storage: the memory of the elements; None until an element is appended.
        sizes: of each element, as the first one has them.
        capacity: for how many elements there is memory.
        moment: when it was made, see `KernelBuilder.moment`.
        whole: the memory of all elements, where their number was known before the first one.
    """

    count: LoopVariable
    level: int
    start: list[Statement]
    storage: Buffer | None = None
    sizes: tuple[LoopVariable, ...] = ()
    capacity: LoopVariable | None = None
    moment: tuple[int, int] = (0, 0)
    whole: Place | None = None


Value = Operand | TensorValue | TensorList | str | None | list["Value"]
"""What stands for a value of the graph. A list is one whose elements are known; None is None."""


def is_one(size: Operand) -> bool:
    """Is a size known to be 1?"""
    return not isinstance(size, Scalar) and size == 1


def identity(sizes: Sequence[Operand]) -> tuple[int, ...]:
    """The order of dimensions of contiguous memory, those of size 1 left out."""
    return tuple(d for d, size in enumerate(sizes) if not is_one(size))
