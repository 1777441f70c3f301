"""Nests as LLVM: loops that compute lanes and store them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.kernels.context import KernelCode
from jitlite.kernels.lane_trees import operands_first
from jitlite.kernels.loop_ir import Load, Nest, Operand, Place
from jitlite.kernels.walk import Points, Walk, is_number


def emit_nest(kc: KernelCode, nest: Nest) -> None:
    """Write the loops of a nest.

    Raises:
        NotNative: for an operator that there is none of.
    """
    roots = [store.lane for store in nest.stores]
    stored = [store.place for store in nest.stores]
    loads = [lane.place for lane in operands_first(roots) if isinstance(lane, Load)]

    def body(points: Points) -> None:
        for store, value in [(s, points.value(s.lane)) for s in nest.stores]:
            points.store(store.place, value)

    Walk(kc, nest.sizes, loop_order(nest.sizes, stored, loads), roots, stored).run(body)


def loop_order(sizes: Sequence[Operand], stored: Sequence[Place], loads: Sequence[Place]) -> list[int]:
    """The dimensions that are not known to be 1. The innermost one is that along which most is next to each other."""
    dims = [d for d, size in enumerate(sizes) if not is_number(size, 1)]
    if not dims:
        return []
    inner = max(dims, key=fitness_along(loads, stored))
    return [d for d in dims if d != inner] + [inner]


def fitness_along(loads: Sequence[Place], stored: Sequence[Place]) -> Callable[[int], tuple[int, int]]:
    """How well a loop over a dimension loads and stores: along which most is next to each other, or stays the same."""

    def fitness(dim: int) -> tuple[int, int]:
        return sum(_fitness(p, dim, 4) for p in stored) + sum(_fitness(p, dim, 2) for p in loads), dim

    return fitness


def _fitness(place: Place, dim: int, weight: int) -> int:
    stride = place.strides[dim]
    return weight if is_number(stride, 1) else weight - 1 if is_number(stride, 0) else 0
