"""Nests as LLVM: loops that compute lanes and store them."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Load, Nest, Operand, Place
from jitlite.kernels.walk import Points, Walk, is_number, operands_first


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

    def fitness(dim: int) -> tuple[int, int]:
        return sum(_fitness(p, dim, 4) for p in stored) + sum(_fitness(p, dim, 2) for p in loads), dim

    inner = max(dims, key=fitness)
    return [d for d in dims if d != inner] + [inner]


def _fitness(place: Place, dim: int, weight: int) -> int:
    """How well a place is loaded or stored in a loop over a dimension."""
    stride = place.strides[dim]
    return weight if is_number(stride, 1) else weight - 1 if is_number(stride, 0) else 0
