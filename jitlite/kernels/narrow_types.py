"""How operators compute with narrow types: bf16 and f16 in f32, ints of 8 and 16 bits in i32.

What they give is rounded once, or keeps its last bits. That is how torch's operators do it, so a rule need not know:
the operands that its call gives have been widened, and what the rule gives becomes narrow again. Where torch rounds in
between, a rule says so, or that it wants the operands as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from jitlite.ir.graph import Node
from jitlite.ir.graph import Value as GraphValue
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.elementwise import cast, filled, promoted, sample_of
from jitlite.kernels.loop_ir import BF16, BOOL, DTYPES, DType, Operand, Scalar
from jitlite.kernels.values import TensorValue, Value, is_one
from jitlite.kernels.vectors import rounded
from jitlite.native.code import NotNative


class Narrow(Enum):
    """What an operator does with elements of narrow types."""

    WIDE = "wide"
    """It computes in the wide type, and rounds once. All floats are of one type, or all ints where there are none."""
    PROMOTED = "promoted"
    """The same, but types are promoted first: numbers and other tensors become narrow, too."""
    SCALED = "scaled"
    """The same, but a single number that stands behind is not rounded, as in `x * 0.1`."""
    AS_THEY_ARE = "as they are"
    """The rule sees them: it moves elements, or rounds at each of its steps."""
    LEFT = "left to Python"
    """Where torch rounds in between is not known."""


class Widening:
    """The operands of an operator on narrow types, widened, and its results, narrow again.

    Attributes:
        narrow: the type that results have, None where that is not narrow.
    """

    def __init__(self, builder: KernelBuilder, node: Node, how: Narrow, tensors: Sequence[TensorValue]) -> None:
        self._builder, self._node, self._how = builder, node, how
        self._widened: dict[TensorValue, TensorValue] = {}
        if how is Narrow.WIDE:
            floats = {v.dtype for v in tensors if v.dtype.is_float}
            types = floats or {v.dtype for v in tensors if v.dtype is not BOOL}
            if len(types) > 1:
                raise NotNative(f"{node.kind} of several dtypes")
            [self._type] = types
        else:
            self._type = promoted(tensors)
        self.narrow: DType | None = self._type if self._type.wide is not None else None

    # -- operands
    def operand(self, value: GraphValue, found: Value) -> Value:
        """What a rule gets for a value of the graph."""
        if isinstance(found, list):
            return [self.operand(value, each) for each in found]
        if isinstance(found, TensorValue):
            return self._tensor(found, is_behind=value is not self._node.inputs[0])
        return found

    def _tensor(self, value: TensorValue, *, is_behind: bool) -> TensorValue:
        if value.dtype is BOOL or (self._how is Narrow.WIDE and value.dtype is not self._type):
            return value
        found = value
        if self.narrow is not None and value.dtype is not self.narrow and self._how is not Narrow.WIDE:
            is_single = all(map(is_one, value.sizes))
            if self._how is not Narrow.SCALED or not is_behind or not is_single:
                found = cast(self._builder, value, self.narrow)
        wide = found.dtype.wide or (None if self.narrow is None else self.narrow.wide) or found.dtype
        found = cast(self._builder, found, wide)
        self._widened[found] = value
        return found

    def number(self, value: Operand, *, is_behind: bool) -> TensorValue | Operand:
        """A number beside tensors, as the operator takes it."""
        if self.narrow is None or (isinstance(sample_of(value), float) and not self.narrow.is_float):
            return value
        if self._how is Narrow.SCALED and is_behind and self.narrow.is_float:
            return value
        if self._how is Narrow.WIDE:
            self.check(value)
            return value
        if not isinstance(value, Scalar):
            found = rounded(self.narrow, value)
            return value if found == value else found
        wide = self.narrow.wide
        assert wide is not None
        return cast(self._builder, filled(self._builder, self.narrow, (), value), wide)

    def check(self, value: Operand) -> None:
        """Leave to Python what torch has an exception for: a number that is too large for the type."""
        if self.narrow is None:
            return
        if not isinstance(value, Scalar):
            rounded(self.narrow, value)
        elif self.narrow is not BF16:
            raise NotNative(f"{self._node.kind} of {self.narrow} with a number that is not known")

    def dtype_code(self, code: Value) -> Value:
        """The dtype that results are asked to have, as a rule is to see it."""
        asked = _by_code(code)
        if asked is None:
            return code
        if asked.wide is None:
            self.narrow = None
            return code
        if asked is not self._type:
            raise NotNative(f"{self._node.kind} of {self._type} as {asked}")
        return asked.wide.code

    # -- results
    def rounded(self, value: TensorValue) -> TensorValue:
        """A wide value that the narrow type has."""
        if self.narrow is None or value.dtype is not self.narrow.wide:
            return value
        return cast(self._builder, cast(self._builder, value, self.narrow), value.dtype)

    def result(self, given: Value) -> Value:
        """What the rule gives, rounded; an operand that it gives is the operand as it was."""
        if isinstance(given, list):
            return [self.result(each) for each in given]
        if not isinstance(given, TensorValue):
            return given
        if given in self._widened:
            return self._widened[given]
        if self.narrow is None or given.dtype is not self.narrow.wide:
            return given
        return cast(self._builder, given, self.narrow)


def widening_for(builder: KernelBuilder, node: Node, how: Narrow, operands: Sequence[Value]) -> Widening | None:
    """How what is narrow among operands is widened; None where there are none, or the rule wants them as they are."""
    tensors = list(_tensors(operands))
    narrow = next((v.dtype for v in tensors if v.dtype.wide is not None), None)
    if how is Narrow.LEFT and narrow is not None:
        raise NotNative(f"{node.kind} of {narrow}")
    if how is Narrow.AS_THEY_ARE or narrow is None:
        return None
    return Widening(builder, node, how, tensors)


def refuse_narrow(node: Node, code: Value) -> None:
    """Leave to Python what makes others narrow before it computes."""
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
