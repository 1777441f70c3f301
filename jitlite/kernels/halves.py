"""How operators compute with halves (bf16 and f16): in f32, with one rounding of what they give.

That is how torch's operators do it, so a rule need not know: what its call gives are operands that have been widened,
and what it gives is rounded to the type that the operator's result has. Where torch rounds in between, a rule says that
it wants the operands as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from jitlite.ir.graph import Node
from jitlite.ir.graph import Value as GraphValue
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.elementwise import cast, filled, promoted
from jitlite.kernels.loop_ir import BOOL, DTYPES, F16, DType, Operand, Scalar
from jitlite.kernels.values import TensorValue, Value, is_one
from jitlite.kernels.vectors import rounded
from jitlite.native.code import NotNative


class Halves(Enum):
    """What an operator does with halves."""

    WIDE = "wide"
    """It computes in f32, and rounds once. All floats are of one type."""
    PROMOTED = "promoted"
    """The same, but types are promoted first: numbers and other tensors become halves, too."""
    SCALED = "scaled"
    """The same, but a single number that stands behind is taken as f32, as `x * 0.1` does."""
    AS_THEY_ARE = "as they are"
    """The rule sees them: it moves elements, or rounds at each of its steps."""


class Widening:
    """The operands of an operator of halves, in f32, and its results, rounded.

    Attributes:
        half: the type that results have, None where that is not narrow.
    """

    def __init__(self, builder: KernelBuilder, node: Node, how: Halves, tensors: Sequence[TensorValue]) -> None:
        self._builder, self._node, self._how = builder, node, how
        self._widened: dict[TensorValue, TensorValue] = {}
        floats = {v.dtype for v in tensors if v.dtype.is_float}
        if how is Halves.WIDE:
            if len(floats) > 1:
                raise NotNative(f"{node.kind} of several dtypes")
            [self._type] = floats
        else:
            self._type = promoted(tensors)
        self.half: DType | None = self._type if self._type.wide is not None else None

    # -- operands
    def operand(self, value: GraphValue, found: Value) -> Value:
        """What a rule gets for a value of the graph."""
        if isinstance(found, list):
            return [self.operand(value, each) for each in found]
        if isinstance(found, TensorValue):
            return self._tensor(found, is_behind=value is not self._node.inputs[0])
        return found

    def _tensor(self, value: TensorValue, *, is_behind: bool) -> TensorValue:
        if value.dtype is BOOL or (self._how is Halves.WIDE and not value.dtype.is_float):
            return value
        found = value
        if self.half is not None and value.dtype is not self.half and self._how is not Halves.WIDE:
            is_single = all(map(is_one, value.sizes))
            if self._how is not Halves.SCALED or not is_behind or not is_single:
                found = cast(self._builder, value, self.half)
        wide = found.dtype.wide or (found.dtype if self.half is None else self.half.wide)
        assert wide is not None
        found = cast(self._builder, found, wide)
        self._widened[found] = value
        return found

    def number(self, value: Operand, *, is_behind: bool) -> TensorValue | Operand:
        """A number beside tensors, as the operator takes it."""
        if self.half is None:
            return value
        if self._how is Halves.SCALED and is_behind:
            return value
        if self._how is Halves.WIDE:
            self.check(value)
            return value
        if not isinstance(value, Scalar):
            found = rounded(self.half, value)
            return value if found == value else found
        wide = self.half.wide
        assert wide is not None
        return cast(self._builder, filled(self._builder, self.half, (), value), wide)

    def check(self, value: Operand) -> None:
        """Leave to Python what torch has an exception for: a number that is too large for the type."""
        if self.half is None:
            return
        if not isinstance(value, Scalar):
            rounded(self.half, value)
        elif self.half is F16:
            raise NotNative(f"{self._node.kind} of f16 with a number that is not known")

    def dtype_code(self, code: Value) -> Value:
        """The dtype that results are asked to have, as a rule is to see it."""
        asked = _by_code(code)
        if asked is None:
            return code
        if asked.wide is None:
            self.half = None
            return code
        if asked is not self._type:
            raise NotNative(f"{self._node.kind} of {self._type} as {asked}")
        return asked.wide.code

    # -- results
    def rounded(self, value: TensorValue) -> TensorValue:
        """A value in f32 that halves have."""
        if self.half is None or value.dtype is not self.half.wide:
            return value
        return cast(self._builder, cast(self._builder, value, self.half), value.dtype)

    def result(self, given: Value) -> Value:
        """What the rule gives, rounded; an operand that it gives is the operand as it was."""
        if isinstance(given, list):
            return [self.result(each) for each in given]
        if not isinstance(given, TensorValue):
            return given
        if given in self._widened:
            return self._widened[given]
        if self.half is None or given.dtype is not self.half.wide:
            return given
        return cast(self._builder, given, self.half)


def widening_for(builder: KernelBuilder, node: Node, how: Halves, operands: Sequence[Value]) -> Widening | None:
    """How the halves among operands are widened; None where there are none, or the rule wants them as they are."""
    tensors = list(_tensors(operands))
    if how is Halves.AS_THEY_ARE or not any(v.dtype.wide is not None for v in tensors):
        return None
    return Widening(builder, node, how, tensors)


def refuse_narrow(node: Node, code: Value) -> None:
    """Leave to Python what makes halves of others before it computes."""
    asked = _by_code(code)
    if asked is not None and asked.wide is not None:
        raise NotNative(f"{node.kind} of another type as {asked}")


def _tensors(values: Iterable[Value]) -> Iterator[TensorValue]:
    for value in values:
        if isinstance(value, TensorValue):
            yield value
        elif isinstance(value, list):
            yield from _tensors(value)


def _by_code(code: Value) -> DType | None:
    return next((d for d in DTYPES.values() if type(code) is int and d.code == code), None)
