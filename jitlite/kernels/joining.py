"""What a branch gives: a value that one block has made, or the other.

A number is in a variable that both blocks set. A tensor is behind a name for memory that both blocks bind, contiguous
in either. Its memory is its own where both blocks have made what they give, and give it once: nobody else can know it.
What was made before the branch counts as made in the block that gives it, if nobody reads it behind the branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jitlite.ir import types as T
from jitlite.ir.analysis import ancestor_in
from jitlite.ir.graph import Node
from jitlite.ir.graph import Value as GraphValue
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.loop_ir import Bind, Buffer, Get, Operand, Owner, Place, Scalar, Set, Statement
from jitlite.kernels.values import MemorySource, TensorValue, Value, identity
from jitlite.native.code import NotNative
from jitlite.operators.aliasing_ops import only_makes

Joined = tuple[Value, Sequence[Statement]]
"""A value that is one or the other after a branch, and what reads it."""


class Joining:
    """The values that a branch gives.

    Attributes:
        blocks: the statements of each block.
    """

    def __init__(self, builder: KernelBuilder) -> None:
        self._builder = builder
        self.blocks: list[list[Statement]] = []
        self._given: list[Sequence[Value]] = []
        self._made: list[set[Buffer]] = []
        self._with_gaps: set[Place | None] = set()

    @contextmanager
    def block(self, statements: list[Statement]) -> Iterator[None]:
        """While one of the blocks is written."""
        builder = self._builder
        before = builder.allocated.keys() | builder.joined
        self.blocks.append(statements)
        self._made.append(set())
        yield
        self._made[-1] |= (builder.allocated.keys() | builder.joined) - before

    def give(self, values: Sequence[Value], handed_on: Sequence[bool]) -> None:
        """Note what the block gives, within it: which sizes are the same, it may know alone. Tensors are in memory.

        Args:
            handed_on: whether `is_handed_on` holds for each.
        """
        self._given.append(values)
        tensors = zip(values, handed_on, strict=True)
        self._made[-1] |= {v.place.buffer for v, on in tensors if on and isinstance(v, TensorValue) and v.place}
        places = [v.place for v in values if isinstance(v, TensorValue)]
        self._with_gaps.update(p for p in places if p is None or not self._builder.is_contiguous(p))

    def joined(self) -> list[Joined]:
        """What is known of each value behind the branch.

        Raises:
            NotNative: the blocks give something of different kinds.
        """
        return [self._join(a, b) for a, b in zip(*self._given, strict=True)]

    def _join(self, a: Value, b: Value) -> Joined:
        if a is b:
            return a, []
        if isinstance(a, TensorValue) and isinstance(b, TensorValue):
            return self._join_tensors(a, b)
        kinds = (bool, int, float, Scalar)
        if not isinstance(a, kinds) or not isinstance(b, kinds):
            raise NotNative("a branch gives a value that is held in another way")
        return self._join_scalars(a, b)

    def _join_scalars(self, a: Operand, b: Operand) -> tuple[Operand, list[Get]]:
        if not isinstance(a, Scalar) and type(a) is type(b) and a == b:
            return a, []
        t = _type_of(a)
        if t is not _type_of(b) and not (isinstance(a, Scalar) and isinstance(b, Scalar) and a.type == b.type):
            raise NotNative("a branch gives a number of another type")
        variable = self._builder.variable(t)
        for value, block in zip((a, b), self.blocks, strict=True):
            block.append(Set(variable, value))
        result = self._builder.scalar(t)
        return result, [Get(result, variable)]

    def _join_tensors(self, a: TensorValue, b: TensorValue) -> tuple[TensorValue, list[Statement]]:
        builder = self._builder
        if a.dtype is not b.dtype or a.rank != b.rank:
            raise NotNative("branches give tensors of different dtypes or ranks")
        assert a.place is not None and b.place is not None
        if a.place in self._with_gaps or b.place in self._with_gaps:
            raise NotNative("a branch gives a tensor that is not contiguous")
        sizes, reads = [], []
        for x, y in zip(a.sizes, b.sizes, strict=True):
            size, read = (x, []) if builder.are_equal(x, y) else self._join_scalars(x, y)
            sizes.append(size)
            reads += read
        buffer = Buffer(builder.fresh_name("b"), a.dtype, Owner.ALIAS)
        for value, block in zip((a, b), self.blocks, strict=True):
            assert value.place is not None
            block.append(Bind(buffer, value.place.buffer, value.place.offset))
        after = _Later(builder, reads)
        place = Place(buffer, 0, tuple(sizes), after.strides_of(sizes))
        source = MemorySource.MIXED
        if self._is_own(a, 0) and self._is_own(b, 1):
            source = MemorySource.OWN
            builder.joined.add(buffer)
        return TensorValue(a.dtype, tuple(sizes), identity(sizes), place, source=source), after.written

    def _is_own(self, value: TensorValue, position: int) -> bool:
        """Has the block made the memory of a tensor, and does it give it only once?"""
        assert value.place is not None
        buffer = value.place.buffer
        given = [v.place.buffer for v in self._given[position] if isinstance(v, TensorValue) and v.place is not None]
        return value.source is MemorySource.OWN and buffer in self._made[position] and given.count(buffer) == 1


def is_handed_on(branch: Node, value: GraphValue) -> bool:
    """Is a value made before a branch, and does nobody know it behind the branch but as what that gives?

    That holds where it is made in the same block, a block of the branch gives it only once, and all else that takes it
    runs before the branch or in it, and gives nothing that shares memory with it.
    """
    block = branch.block
    if block is None or value.node.block is not block or not _only_makes(value.node):
        return False
    for user in (use.user for use in value.uses):
        if any(user is inner.return_node and list(inner.outputs).count(value) == 1 for inner in branch.blocks):
            continue
        around = ancestor_in(user, block)
        if around is None or not (around is branch or around.is_before(branch)) or not _only_makes(user):
            return False
    return True


def _only_makes(node: Node) -> bool:
    return node.op is not None and only_makes(node.op)


class _Later:
    """Arithmetic on sizes that is written behind a branch."""

    def __init__(self, builder: KernelBuilder, reads: Sequence[Get]) -> None:
        self.written: list[Statement] = list(reads)
        self._builder = builder

    def strides_of(self, sizes: Sequence[Operand]) -> tuple[Operand, ...]:
        before, self._builder.statements = self._builder.statements, self.written
        try:
            return self._builder.strides_of(sizes)
        finally:
            self._builder.statements = before


def _type_of(value: Operand) -> T.Type:
    if isinstance(value, Scalar):
        return value.type
    return T.BOOL if isinstance(value, bool) else T.INT if isinstance(value, int) else T.FLOAT
