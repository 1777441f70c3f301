"""In which order the loops of a nest are written, and which of them threads may share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jitlite.kernels.lane_trees import operands_first
from jitlite.kernels.loop_ir import Lane, Load, Nest, Operand, Place, Reduce, Scalar
from jitlite.kernels.values import is_one

GRAIN = 1 << 15
"""Points up to which one thread does all: torch's operators have the same number."""


def loads_of(roots: Sequence[Lane]) -> list[Place]:
    """What lanes load that are computed for some others."""
    return [lane.place for lane in operands_first(roots) if isinstance(lane, Load)]


def nest_order(nest: Nest) -> list[int]:
    """The dimensions that are not known to be 1. The innermost one is that along which most is next to each other."""
    dims = [d for d, size in enumerate(nest.sizes) if not is_one(size)]
    if not dims:
        return []
    fitness = _fitness_along(loads_of([s.lane for s in nest.stores]), [s.place for s in nest.stores])
    return _with_last(dims, max(dims, key=fitness))


def reduce_order(reduce: Reduce) -> list[int]:
    """The same for a reduction. Those that are kept come before those that are reduced, the innermost one aside."""
    dims = [d for d, size in enumerate(reduce.sizes) if not is_one(size)]
    if not dims:
        return []
    ordered = [d for d in dims if d not in reduce.dims] + [d for d in dims if d in reduce.dims]
    return _with_last(ordered, max(ordered, key=_fitness_along(loads_of([reduce.lane]), [])))


def _with_last(dims: Sequence[int], last: int) -> list[int]:
    return [d for d in dims if d != last] + [last]


def _fitness_along(loads: Sequence[Place], stored: Sequence[Place]) -> Callable[[int], tuple[int, int]]:
    """How well a loop over a dimension loads and stores: along which most is next to each other, or stays the same."""

    def fitness(dim: int) -> tuple[int, int]:
        return sum(_fitness(p, dim, 4) for p in stored) + sum(_fitness(p, dim, 2) for p in loads), dim

    return fitness


def _fitness(place: Place, dim: int, weight: int) -> int:
    if dim >= len(place.strides):
        return 0  # a kernel that the verifier refuses is printed, too
    stride = place.strides[dim]
    return weight if is_one(stride) else weight - 1 if stride == 0 and not isinstance(stride, Scalar) else 0


def _stays(place: Place, dim: int) -> bool:
    """Is the same element written in each iteration? A kernel that the verifier refuses may lack strides."""
    stride = place.strides[dim] if dim < len(place.strides) else 0
    return not isinstance(stride, Scalar) and stride == 0


def parallel_dims(statement: Nest | Reduce) -> list[int]:
    """The dimensions whose loops threads may share, from the outermost loop inwards; none where it never pays.

    What is reduced to one number is added up by one thread, in one order, so no result depends on how many there are.
    A short innermost loop whose length is known is left as it is.
    """
    if _are_few(statement.sizes):
        return []
    if isinstance(statement, Nest):
        order, kept, stored = (
            nest_order(statement),
            set(range(len(statement.sizes))),
            [s.place for s in statement.stores],
        )
    else:
        order, kept = reduce_order(statement), set(range(len(statement.sizes))) - statement.dims
        stored = [p for p in (statement.place, statement.positions) if p is not None]
    dims = [d for d in order if d in kept and not (d == order[-1] and _is_short(statement.sizes[d]))]
    return [d for d in dims if not any(_stays(p, d) for p in stored)]


def chunked_dim(reduce: Reduce) -> int | None:
    """The dimension of the outermost loop of a reduction to one number, which is done chunk by chunk; None for others.

    How long chunks are depends on sizes alone, and what they give is put together in their order.
    """
    order = reduce_order(reduce)
    if not order or _are_few(reduce.sizes) or not reduce.dims.issuperset(order):
        return None
    return order[0]


def _are_few(sizes: Sequence[Operand]) -> bool:
    """Are there certainly no more points than one thread does?"""
    return all(map(_is_short, sizes)) and math.prod(s for s in sizes if isinstance(s, int)) <= GRAIN


def _is_short(size: Operand) -> bool:
    return not isinstance(size, Scalar) and size <= GRAIN
