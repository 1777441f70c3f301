"""Nests as LLVM: loops that compute lanes and store them."""

from __future__ import annotations

from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Nest
from jitlite.kernels.loop_orders import nest_order
from jitlite.kernels.walk import Points, Walk


def emit_nest(kc: KernelCode, nest: Nest) -> None:
    """Write the loops of a nest.

    Raises:
        NotNative: for an operator that there is none of.
    """
    roots = [store.lane for store in nest.stores]
    stored = [store.place for store in nest.stores]

    def body(points: Points) -> None:
        for store, value in [(s, points.value(s.lane)) for s in nest.stores]:
            points.store(store.place, value)

    Walk(kc, nest.sizes, nest_order(nest), roots, stored).run(body)
