"""Matrices that the products of a loop multiply by are packed before the loop.

A product reads the columns of its matrix b side by side. Where they lie otherwise, as those of `weight.t()` do, b is
packed for each product, which takes as long as some of its rows. In front of a loop it is packed once.

It is the same: only memory of the kernel is written, so that of an argument stays as it is while the kernel runs. And
it may be read: b has all elements of the argument, or those that are there, so the place does not depend on what is
checked in the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from jitlite.base.records import Record, replace
from jitlite.ir import types as T
from jitlite.kernels.loop_ir import (
    F32,
    F64,
    Branch,
    Buffer,
    Kernel,
    Operand,
    Pack,
    Place,
    Product,
    Repeat,
    Scalar,
    SizeArithmetic,
    Statement,
    TensorInput,
)

FEW = 3
"""Iterations up to which packing does not pay: products of one row take less time than packing."""

_Shape = frozenset[tuple[Operand, Operand]]
"""Sizes, and strides along them. Dimensions of size 1 are left out."""


def hoist_packing(kernel: Kernel) -> None:
    """Have the matrices of products in loops packed before."""
    arguments = {a.buffer: _shape(a.sizes, a.strides) for a in kernel.arguments if isinstance(a, TensorInput)}
    body: list[Statement] = []
    for statement in kernel.body:
        if isinstance(statement, Repeat) and statement.goes_on is None:
            hoisted = _Loop(arguments, statement.count, f"{statement.index.name}_many")
            made = replace(statement, body=hoisted.block(statement.body))
            body += hoisted.before
            statement = made
        body.append(statement)
    kernel.body = body


def _shape(sizes: Sequence[Operand], strides: Sequence[Operand]) -> _Shape:
    return frozenset(pair for pair in zip(sizes, strides, strict=True) if isinstance(pair[0], Scalar) or pair[0] != 1)


class _Loop(Record, frozen=False):
    """A loop that no loop is around.

    Attributes:
        arguments: the shapes of tensors that the kernel is given.
        count: how often it runs.
        name: of what says whether that is often.
        before: what is to be written in front of it.
    """

    arguments: dict[Buffer, _Shape]
    count: Operand
    name: str
    before: list[Statement] = field(default_factory=list)
    _packs: dict[tuple[object, ...], Pack] = field(default_factory=dict)

    def block(self, statements: Sequence[Statement]) -> list[Statement]:
        return [self._statement(statement) for statement in statements]

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Repeat):
            return replace(statement, body=self.block(statement.body))
        if isinstance(statement, Branch):
            return replace(statement, then=self.block(statement.then), otherwise=self.block(statement.otherwise))
        if isinstance(statement, Product) and self._may_be_packed(statement.b):
            return replace(statement, packed=self._pack(statement.b))
        return statement

    def _may_be_packed(self, b: Place) -> bool:
        if isinstance(self.count, int) and self.count <= FEW:
            return False
        is_good_as_it_is = b.strides[1] == 1 or b.sizes[1] == 1
        is_whole = b.offset == 0 and self.arguments.get(b.buffer) == _shape(b.sizes, b.strides)
        return is_whole and not is_good_as_it_is and b.dtype in (F32, F64)

    def _pack(self, b: Place) -> Pack:
        key = (b.buffer, b.sizes, b.strides)
        found = self._packs.get(key)
        if found is None:
            found = self._packs[key] = Pack(b, self._many())
            self.before.append(found)
        return found

    def _many(self) -> Operand:
        """Does the loop run often?"""
        if not isinstance(self.count, Scalar):
            return True
        if not self.before:
            self.before.append(SizeArithmetic(Scalar(self.name, T.BOOL), "lt", (FEW, self.count)))
        first = self.before[0]
        assert isinstance(first, SizeArithmetic)
        return first.result
