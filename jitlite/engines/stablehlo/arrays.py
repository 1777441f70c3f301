"""What text of StableHLO is about: tensors with their sizes, what has to hold for these, parts of operations."""

from __future__ import annotations

from dataclasses import field

from jitlite.base.records import Record
from jitlite.engines.converters import Ref
from jitlite.engines.stablehlo.literals import tensor_type
from jitlite.engines.stablehlo.sizes import Dim


class Array(Ref, eq=True):
    """A tensor, or a number, of the text.

    Attributes:
        dims: its sizes.
        amount: of an int: what it is, as a formula. It has no name before it is used as a tensor.
    """

    dims: tuple[Dim, ...] = ()
    amount: Dim | None = None

    @property
    def type(self) -> str:
        """As text."""
        return tensor_type(self.dtype, self.dims)


class SizeCondition(Record, eq=True):
    """What two sizes have to be in a call.

    Attributes:
        left, right: the sizes.
        relation: `==` or `<=`.
    """

    left: Dim
    right: Dim
    relation: str


class RegionText(Record):
    """A part of an operation.

    Attributes:
        lines: of it.
        checks: what has to be true whenever it runs.
    """

    lines: list[str] = field(default_factory=list)
    checks: list[tuple[Array, str]] = field(default_factory=list)
