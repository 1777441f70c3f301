"""Nests with fewer dimensions: neighbouring ones that all places go over as over one become one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from jitlite.base.records import replace
from jitlite.kernels.loop_ir import Lane, LaneCast, LaneOperator, Load, Nest, Operand, Place, Scalar, Store


class NestSizes(Protocol):
    """What is known of sizes, and computes with them."""

    def index(self, op: str, *operands: Operand) -> Operand: ...
    def known_product(self, a: Operand, b: Operand) -> Operand | None: ...
    def are_equal(self, a: Operand, b: Operand) -> bool: ...


def coalesced(builder: NestSizes, nest: Nest) -> Nest:
    """The same with neighbouring dimensions made one, where all places go over them as over one."""
    sizes = list(nest.sizes)
    places = {p: list(p.strides) for p in _places(nest)}
    d = len(sizes) - 2
    while d >= 0:
        if all(_merges(builder, strides, sizes, d) for strides in places.values()):
            sizes[d : d + 2] = [builder.index("mul", sizes[d], sizes[d + 1])]
            for strides in places.values():
                del strides[d]
        d -= 1
    if len(sizes) == len(nest.sizes):
        return nest
    moved = {p: Place(p.buffer, p.offset, tuple(sizes), tuple(s)) for p, s in places.items()}
    memo: dict[Lane, Lane] = {}
    stores = tuple(Store(moved[s.place], _with_places(s.lane, moved, memo)) for s in nest.stores)
    return Nest(tuple(sizes), stores)


def _merges(builder: NestSizes, strides: Sequence[Operand], sizes: Sequence[Operand], d: int) -> bool:
    outer, inner = strides[d], strides[d + 1]
    if not isinstance(outer, Scalar) and not isinstance(inner, Scalar) and outer == inner == 0:
        return True
    product = builder.known_product(sizes[d + 1], inner)
    return product is not None and builder.are_equal(outer, product) and product != 0


def _places(nest: Nest) -> Iterator[Place]:
    seen: set[Lane] = set()
    pending = [s.lane for s in nest.stores]
    yield from (s.place for s in nest.stores)
    while pending:
        lane = pending.pop()
        if lane in seen:
            continue
        seen.add(lane)
        if isinstance(lane, Load):
            yield lane.place
        elif isinstance(lane, LaneCast):
            pending.append(lane.operand)
        elif isinstance(lane, LaneOperator):
            pending += lane.operands


def _with_places(lane: Lane, moved: dict[Place, Place], memo: dict[Lane, Lane]) -> Lane:
    found = memo.get(lane)
    if found is None:
        found = lane
        if isinstance(lane, Load):
            found = replace(lane, place=moved[lane.place])
        elif isinstance(lane, LaneCast):
            found = replace(lane, operand=_with_places(lane.operand, moved, memo))
        elif isinstance(lane, LaneOperator):
            found = replace(lane, operands=tuple(_with_places(o, moved, memo) for o in lane.operands))
        memo[lane] = found
    return found
