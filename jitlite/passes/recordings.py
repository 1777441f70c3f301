"""RecordingCache of what operators are made of, each made once for all sizes for which torch decides in the same way.

A recording holds symbols in place of sizes, with all that torch has asked about them on the way (`decisions`). It is
the recording for arguments of other sizes, too, where dtypes, ranks, constants and the sizes of 1 are the same, and
every question has the same answer for them. What the results look like follows from the sizes by the same symbols.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field

import sympy  # type: ignore[import-untyped]

from jitlite.base.records import Record, replace
from jitlite.ir.compare import constant_key
from jitlite.ir.types import TensorType, Type
from jitlite.passes.decomposing import Expression, Number, Overload, Recording, Table, Undecomposable, Wanted, record


class RecordingCache(Record, frozen=False):
    """The recordings that one run of a pass has made.

    Attributes:
        table: what operators are made of.
        wanted: which operators stay.
    """

    table: Table
    wanted: Wanted
    made: dict[Hashable, list[Recording]] = field(default_factory=dict)
    refused: dict[Hashable, str] = field(default_factory=dict)

    def find(self, overload: Overload, args: Sequence[object]) -> Recording:
        """What the operator is made of.

        Args:
            args: in the order of the schema; a tensor is given as its complete TensorType.

        Raises:
            Undecomposable: it cannot be recorded; the text says why.
        """
        sizes = dict(_sizes_in(args))
        key = overload, _key(args)
        for known in self.made.setdefault(key, []):
            fitted = _fitted(known, sizes)
            if fitted is not None:
                return fitted
        exact = *key, tuple(sizes.values())
        if exact in self.refused:
            raise Undecomposable(self.refused[exact])
        try:
            found = record(overload, args, self.table, self.wanted)
        except Undecomposable as why:
            self.refused[exact] = str(why)
            raise
        self.made[key].append(found)
        return found


def _leaves(args: Sequence[object]) -> Iterator[TensorType | Number]:
    """The tensors and numbers among the arguments, in the order of the inputs of a recording."""
    for arg in args:
        if isinstance(arg, TensorType | Number):
            yield arg
        elif isinstance(arg, list):
            yield from _leaves(arg)


def _sizes_in(args: Sequence[object]) -> Iterator[tuple[tuple[int, int | None], int]]:
    for i, arg in enumerate(_leaves(args)):
        if isinstance(arg, Number):
            yield (i, None), arg.example
        else:
            yield from (((i, d), n) for d, n in enumerate(arg.sizes or ()) if n is not None)


def _key(value: object) -> Hashable:
    """Equal for arguments that differ in sizes only, neither of which is 1."""
    if isinstance(value, TensorType):
        return "tensor", value.dtype, value.device, tuple(n if n == 1 else None for n in value.sizes or ())
    if isinstance(value, Number):
        return "number"
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_key, value))
    return constant_key(value)


def _fitted(known: Recording, sizes: Mapping[tuple[int, int | None], int]) -> Recording | None:
    """The recording with results for these sizes; None where torch would decide otherwise for them."""
    values = {symbol: sympy.Integer(sizes[place]) for place, symbol in known.symbols.items()}
    for expression, answer in known.decisions:
        if expression.xreplace(values) != answer:
            return None
    results: list[Type] = []
    for t, shape in zip(known.results, known.shapes, strict=True):
        numbers = None if shape is None else [_number(n, values) for n in shape]
        if isinstance(t, TensorType) and numbers is not None:
            t = TensorType.of(t.dtype, numbers, None, t.device)
        results.append(t)
    return replace(known, results=results)


def _number(size: Expression, values: Mapping[object, object]) -> int | None:
    found = size.xreplace(values) if isinstance(size, sympy.Basic) else size
    return int(found) if isinstance(found, int | sympy.Integer) else None
