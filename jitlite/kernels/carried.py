"""What is carried around a loop: numbers in variables, tensors in two buffers."""

from __future__ import annotations

from collections.abc import Callable

from jitlite.ir import types as T
from jitlite.ir.analysis import ancestor_in
from jitlite.ir.graph import Node
from jitlite.ir.graph import Value as GraphValue
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.loop_ir import Bind, Branch, Get, Operand, Place, Scalar, Set, Swap
from jitlite.kernels.rules import VIEWS, WRITES
from jitlite.kernels.statement_walks import all_statements, defined_by
from jitlite.kernels.values import MemorySource, TensorValue, Value, identity
from jitlite.native.code import NotNative


class CarriedScalar:
    """A number, list or dict that is carried around a loop."""

    def __init__(self, builder: KernelBuilder, start: Operand, t: T.Type) -> None:
        self.variable = builder.variable(t)
        builder.write(Set(self.variable, start))

    def enter(self, builder: KernelBuilder) -> Scalar:
        inside = builder.scalar(self.variable.type)
        builder.write(Get(inside, self.variable))
        return inside

    def follow(self, builder: KernelBuilder, value: Value) -> None:
        if not isinstance(value, bool | int | float | Scalar):
            raise NotNative("a loop carries a number that becomes something else")
        builder.write(Set(self.variable, value))

    leave = enter


class CarriedTensor:
    """A tensor that is carried around a loop, in two buffers.

    Args:
        builder: of the kernel.
        start: what it is before the loop.
        varying: the dimensions whose sizes are not the same in all iterations.
        vary: called for a dimension that turns out to be such a one; the kernel is written anew then. None where the
            kernel gives up for one.
    """

    def __init__(
        self, builder: KernelBuilder, start: TensorValue, varying: set[int], vary: Callable[[int], None] | None
    ) -> None:
        place = builder.force(start)
        if not builder.is_contiguous(place):
            raise NotNative("a tensor that a loop carries is not contiguous at first")
        self.dtype = start.dtype
        self._varying, self._vary = varying, vary
        self._start = start.sizes
        self._sizes = {d: builder.variable(T.INT) for d in varying}
        for d, variable in self._sizes.items():
            builder.write(Set(variable, start.sizes[d]))
        now = builder.alloc(start.dtype, start.sizes)
        self.now, self.next = now.buffer, builder.alloc(start.dtype, start.sizes).buffer
        if varying:  # the memory may have to grow
            self.now, self.next = builder.alias(self.now), builder.alias(self.next)
        self._capacity = [builder.variable(T.INT) for _ in range(2)] if varying else []
        for variable in self._capacity:
            builder.write(Set(variable, builder.numel(start.sizes)))
        self.inside: TensorValue | None = None
        self.is_own = False
        self._level = builder.level
        self.sources = {place.buffer}
        """The buffers outside of the loop that it may be a copy of."""
        builder.copy(start, now)

    def enter(self, builder: KernelBuilder) -> TensorValue:
        self.inside = self._value(builder, MemorySource.MIXED)
        return self.inside

    def _value(self, builder: KernelBuilder, source: MemorySource) -> TensorValue:
        sizes = tuple(builder.get(self._sizes[d]) if d in self._sizes else size for d, size in enumerate(self._start))
        place = Place(self.now, 0, sizes, builder.strides_of(sizes))
        return TensorValue(self.dtype, sizes, identity(sizes), place, source=source)

    def checked(self, builder: KernelBuilder, value: Value) -> TensorValue:
        """What the next iteration gets, which has to be a tensor of the same kind."""
        if not isinstance(value, TensorValue) or value.dtype is not self.dtype or value.rank != len(self._start):
            raise NotNative("a tensor that a loop carries gets another dtype or rank")
        if not value.in_order or (value.place is not None and not builder.is_contiguous(value.place)):
            raise NotNative("a tensor that a loop carries is laid out in another way")
        for d, (a, b) in enumerate(zip(self._start, value.sizes, strict=True)):
            if self._vary is None:
                builder.require_equal(a, b, "a tensor that a loop carries gets another size")
            elif d not in self._varying and not builder.are_equal(a, b):
                self._vary(d)
        return value

    def room(self, builder: KernelBuilder, value: TensorValue) -> Place:
        """Where the tensor of the next iteration is stored."""
        if self._varying:
            capacity = builder.get(self._capacity[1])
            need = builder.numel(value.sizes)
            with builder.block() as grows:
                doubled = builder.index("mul", need, 2)
                fresh = builder.alloc(self.dtype, (doubled,), level=self._level)
                builder.write(Bind(self.next, fresh.buffer))
                builder.write(Set(self._capacity[1], doubled))
            builder.write(Branch(builder.index("lt", capacity, need), grows, []))
        return Place(self.next, 0, value.sizes, builder.strides_of(value.sizes))

    def take(self, builder: KernelBuilder, value: TensorValue) -> None:
        """Have in the buffer of the next iteration what it gets, unless that has been stored there."""
        assert value.place is not None
        made = builder.allocated.get(value.place.buffer)
        if made is None or made.level <= self._level:
            self.sources.add(value.place.buffer)
        if value is not self.inside and value.place.buffer is not self.next:
            builder.copy(value, self.room(builder, value))

    def follow(self, builder: KernelBuilder, value: Value) -> None:
        assert isinstance(value, TensorValue)
        for d, variable in self._sizes.items():
            builder.write(Set(variable, value.sizes[d]))
        if value is self.inside:
            return
        builder.write(Swap(self.now, self.next))
        if self._capacity:
            found = [builder.get(variable) for variable in self._capacity]
            for variable, other in zip(self._capacity, reversed(found), strict=True):
                builder.write(Set(variable, other))

    def leave(self, builder: KernelBuilder) -> TensorValue:
        return self._value(builder, MemorySource.OWN if self.is_own else MemorySource.MIXED)


class CarriedSizes:
    """Sizes that each iteration finds to be the same, None or an empty list at first. Iterations do not read them."""

    def __init__(self, start: Value) -> None:
        self._start = self._found = start

    def enter(self, builder: KernelBuilder) -> Value:
        return self._start

    def follow(self, builder: KernelBuilder, value: Value) -> None:
        if value is not None and not isinstance(value, list):
            raise NotNative("a loop carries None, and something else than sizes follows")
        inner = {r for s in all_statements(builder.statements) for r in defined_by(s)}
        if isinstance(value, list) and any(v in inner for v in value if isinstance(v, Scalar)):
            raise NotNative("sizes that each iteration computes leave a loop")
        self._found = value

    def leave(self, builder: KernelBuilder) -> Value:
        return self._found


Carried = CarriedScalar | CarriedTensor | CarriedSizes


def may_be_result(loop: Node, value: GraphValue, found: Value) -> bool:
    """May a loop give what it carries first as it gives it later? Where it does not run, its result is the very tensor
    that it carries first. A new one may stand for that if nobody else reads it, or what shares its memory, any more.

    Args:
        loop: of the graph.
        value: what it carries first.
        found: what that is.
    """
    if not isinstance(found, TensorValue):
        return True
    maker, block = value.node, loop.block
    if found.source is not MemorySource.OWN or block is None or maker.block is not block:
        return False
    outside = [use.user for use in value.uses if ancestor_in(use.user, block) is not loop]
    shares = any(node.kind in VIEWS or node.kind in WRITES for node in (maker, *outside))
    is_last = all(node.block is block and node.is_before(loop) for node in outside)
    return is_last and not shares and list(loop.inputs).count(value) == 1
