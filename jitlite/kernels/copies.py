"""Copies of what may be a view in Python: `contiguous` and `reshape` copy only where the memory is laid out so."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.elementwise import require_elements
from jitlite.kernels.loop_ir import Operand, Place
from jitlite.kernels.values import TensorValue, is_one


def contiguous_copy(builder: KernelBuilder, value: TensorValue) -> TensorValue:
    """A contiguous copy of a tensor that is not known to be contiguous; where it is after all, the kernel gives up."""
    if builder.shows_copies:
        builder.check(_has_gaps(builder, builder.force(value)), "a tensor is contiguous after all, and not copied")
    elif not value.in_order:
        require_elements(builder, value.sizes)
    return _copied(builder, value)


def reshaped_copy(builder: KernelBuilder, value: TensorValue, sizes: Sequence[Operand]) -> TensorValue:
    """The same, for a tensor that gets other sizes; where Python may give a view, the kernel gives up."""
    if builder.shows_copies:
        copies = _has_no_view(builder, builder.force(value), sizes)
        builder.check(copies, "a tensor of another shape may be a view")
    return _copied(builder, value)


def _copied(builder: KernelBuilder, value: TensorValue) -> TensorValue:
    made = builder.memory(value.dtype, value.sizes)
    assert made.place is not None
    builder.copy(value, made.place)
    return made


def _has_gaps(builder: KernelBuilder, place: Place) -> Operand:
    """Is there a dimension whose elements are not where contiguous memory has them?"""
    found: Operand = False
    expected: Operand = 1
    for size, stride in zip(reversed(place.sizes), reversed(place.strides), strict=True):
        if not is_one(size):
            found = builder.index(
                "or", found, builder.index("and", _wide(builder, size), _ne(builder, stride, expected))
            )
            expected = builder.index("mul", size, expected)
    return builder.index("and", found, builder.index("lt", 0, expected))


def _has_no_view(builder: KernelBuilder, place: Place, sizes: Sequence[Operand]) -> Operand:
    """Are there neighbouring dimensions with a gap between them that the new sizes take for one?

    Gaps beside a dimension that turns out to have the size 1 are not looked for: this may say no where it is yes.
    """
    dims = [d for d in range(place.rank) if not is_one(place.sizes[d])]
    borders = [builder.numel(sizes[: d + 1]) for d in range(len(sizes))]
    found: Operand = False
    for outer, inner in itertools.pairwise(dims):
        within = builder.index("mul", place.strides[inner], place.sizes[inner])
        gap = _ne(builder, place.strides[outer], within)
        for size in (place.sizes[outer], place.sizes[inner]):
            gap = builder.index("and", gap, _wide(builder, size))
        own = builder.numel(place.sizes[: outer + 1])
        for border in borders:
            gap = builder.index("and", gap, _ne(builder, border, own))
        found = builder.index("or", found, gap)
    return builder.index("and", found, builder.index("lt", 0, builder.numel(place.sizes)))


def _wide(builder: KernelBuilder, size: Operand) -> Operand:
    return builder.index("lt", 1, size)


def _ne(builder: KernelBuilder, a: Operand, b: Operand) -> Operand:
    return False if builder.are_equal(a, b) else builder.index("ne", a, b)
