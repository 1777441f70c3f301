"""What a kernel gives: numbers, arguments as they are, and tensors that it has made."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Value as GraphValue
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.loop_ir import (
    Alloc,
    Boxed,
    BoxedSizes,
    Branch,
    Buffer,
    Given,
    NewTensor,
    Operand,
    Output,
    Owner,
    Place,
    Scalar,
)
from jitlite.kernels.values import MemorySource, TensorValue, Value
from jitlite.native.code import NotNative

_NUMBERS: dict[type, T.Type] = {bool: T.BOOL, int: T.INT, float: T.FLOAT}


def _type_of(value: Operand | None, declared: T.Type) -> T.Type:
    """The type of a result, which the graph may know less of: `item()` gives a number of any kind there."""
    if isinstance(value, Scalar):
        return value.type
    return declared if value is None or declared in _NUMBERS.values() else _NUMBERS[type(value)]


class ResultBuilder(KernelBuilder):
    """Writes what a kernel gives.

    Attributes:
        swapped: the buffers that are exchanged with others.
    """

    swapped: set[Buffer]

    def results(self, values: Sequence[Value], given: Sequence[GraphValue]) -> list[Output]:
        tensors = [v for v in values if isinstance(v, TensorValue) and v.position is None]
        if len(set(tensors)) != len(tensors):
            raise NotNative("one tensor is given twice")
        self.force_all(tensors)
        owners = [v.place.buffer for v in tensors if v.place is not None]
        if len(set(owners)) != len(owners):
            raise NotNative("two results share memory")
        return [self._output(v, out) for v, out in zip(values, given, strict=True)]

    def _output(self, value: Value, out: GraphValue) -> Output:
        if isinstance(value, TensorValue):
            return Given(value.position) if value.position is not None else self._new_tensor(value)
        if value is None or isinstance(value, bool | int | float | Scalar):
            return Boxed(value, _type_of(value, out.type))
        if isinstance(value, list):
            sizes = [s for s in value if isinstance(s, int | Scalar)]
            if len(sizes) == len(value):
                return BoxedSizes(tuple(sizes))
        raise NotNative(f"%{out.name} : {out.type} leaves the kernel")

    def _new_tensor(self, value: TensorValue) -> NewTensor:
        if value.source is not MemorySource.OWN:
            raise NotNative("a result shares memory with an argument, or may")
        place = value.place
        assert place is not None
        made = self.allocated.get(place.buffer)
        is_fixed = made is not None and self._is_at_top(made) and place.buffer not in self.swapped
        if made is not None and is_fixed and self._is_whole(place, made):
            place.buffer.owner = Owner.RESULT
            return NewTensor(place.buffer)
        buffer = Buffer(self.fresh_name("b"), value.dtype, Owner.RESULT)
        if not self.is_contiguous(place):
            raise NotNative("a result is a view with gaps")
        self.write(Alloc(buffer, value.sizes, self.strides_of(value.sizes)))
        self.copy(value, Place(buffer, 0, value.sizes, self.strides_of(value.sizes)))
        return NewTensor(buffer)

    def _is_at_top(self, made: Alloc) -> bool:
        """Is memory made once, whatever happens?"""
        always = (s.then for s in self.statements if isinstance(s, Branch) and s.condition is True)
        return made in self.statements or any(made in statements for statements in always)

    def _is_whole(self, place: Place, made: Alloc) -> bool:
        return place.offset == 0 and self.same_sizes(place.sizes, made.sizes) and place.strides == made.strides
