"""Operators that put elements in order: `topk`, `sort`, and what is made of them."""

from __future__ import annotations

from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.elementwise import elementwise
from jitlite.kernels.loop_ir import BOOL, I64, DType, Lane, Operand, Place, Sort
from jitlite.kernels.reading import read
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.torch_orders import sort_is_stable, topk_is_known
from jitlite.kernels.totals import reduced
from jitlite.kernels.values import BuildLane, TensorValue, Value, identity, is_one
from jitlite.kernels.views import permuted, piece, selected
from jitlite.native.code import NotNative


@rule("aten::topk")
def topk(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    dim, count = _dim(call, value), call.number("k")
    _leave_bools(call, value)
    if not topk_is_known():
        raise NotNative("topk of a torch that has equal elements in another order")
    size = value.sizes[dim]
    fits = lowering.index("and", lowering.index("le", 0, count), lowering.index("le", count, size))
    lowering.check(fits, "topk of more elements than there are")
    op = "topk" if call.constant("sorted") else "topk unsorted"
    rows = _Rows(lowering, value, dim, is_descending=bool(call.constant("largest")))
    positions = rows.sorted(op, count)
    return [rows.chosen(positions), positions]


@rule("aten::sort", "aten::argsort", "aten::msort")
def sort(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    dim = 0 if call.name == "msort" else _dim(call, value)
    if value.rank == 0 or not value.in_order:
        raise NotNative(f"{call.node.kind} of a tensor without dimensions, or that lies in another order")
    rows = _Rows(lowering, value, dim, is_descending=call.has("descending") and bool(call.constant("descending")))
    positions = rows.sorted("stable", value.sizes[dim])
    if not (call.has("stable") and call.constant("stable")) and not sort_is_stable(value.dtype):
        rows.check_distinct()
    if call.name == "argsort":
        return positions
    values = rows.chosen(positions)
    return values if call.name == "msort" else [values, positions]


@rule("aten::kthvalue", "aten::median")
def kth(call: Call) -> Value:
    """The k-th lowest element. Of equal ones nobody knows which one torch takes."""
    value, lowering = call.first(), call.lowering
    if not call.has("dim"):
        raise NotNative("the median of all elements")
    _leave_bools(call, value)
    dim = _dim(call, value)
    size = value.sizes[dim]
    lowering.check(lowering.index("lt", 0, size), "the median of no elements")
    if call.name == "median":
        at = lowering.index("floordiv", lowering.index("sub", size, 1), 2)
    else:
        at = lowering.index("sub", call.number("k"), 1)
        is_there = lowering.index("and", lowering.index("le", 0, at), lowering.index("lt", at, size))
        lowering.check(is_there, "there are not so many elements")
    rows = _Rows(lowering, value, dim, is_descending=False)
    positions = rows.sorted("stable", size)
    if call.name == "median" and value.dtype.is_float:
        greatest = rows.chosen(piece(lowering, positions, dim, lowering.index("sub", size, 1), 1))
        is_nan = reduced(
            lowering, "any", elementwise(lowering, "isnan", [greatest], value.dtype, BOOL), range(value.rank), False
        )
        lowering.check(lowering.index("not", read(lowering, is_nan)), "the median of what has NaN in it")
    rows.check_alone(at)
    chosen = piece(lowering, positions, dim, at, 1)
    found = lowering.memory(I64, chosen.sizes)
    assert found.place is not None
    lowering.copy(chosen, found.place)
    results = [rows.chosen(found), found]
    return [*results] if call.constant("keepdim") else [selected(lowering, v, dim, 0) for v in results]


def _leave_bools(call: Call, value: TensorValue) -> None:
    """Torch sorts bools, but refuses to choose among them."""
    if value.dtype is BOOL:
        raise NotNative(f"{call.node.kind} of bools")


def _dim(call: Call, value: TensorValue) -> int:
    dim = call.dim("dim", value.rank)
    if value.rank == 0:
        raise NotNative(f"{call.node.kind} of a tensor without dimensions")
    return dim


class _Rows:
    """The rows of a tensor along a dimension, and numbers that are in the order of their elements.

    Args:
        builder: of the kernel.
        value: the tensor.
        dim: along which its rows are.
        is_descending: do the largest elements come first?
    """

    def __init__(self, builder: KernelBuilder, value: TensorValue, dim: int, *, is_descending: bool) -> None:
        self._builder = builder
        self._value = value
        self._place = builder.force(value)
        self._dim = dim
        self._order = [*range(dim), *range(dim + 1, value.rank), dim]
        turned = permuted(builder, value, self._order)
        keys = elementwise(builder, "order_key", [turned], value.dtype, I64)
        if is_descending:
            keys = elementwise(builder, "bitwise_not", [keys], I64)
        self._keys = builder.memory(I64, turned.sizes)
        assert self._keys.place is not None
        builder.copy(keys, self._keys.place)

    def sorted(self, op: str, count: Operand) -> TensorValue:
        """Where the first elements of the rows are, along the dimension."""
        builder = self._builder
        found = builder.memory(I64, [*self._keys.sizes[:-1], count])
        assert found.place is not None and self._keys.place is not None
        builder.write(Sort(self._as_matrix(self._keys.place), self._as_matrix(found.place), op))
        self._found = found
        back = [self._order.index(d) for d in range(self._value.rank)]
        if back == sorted(back):
            return found
        made = builder.memory(I64, [found.sizes[d] for d in back])
        assert made.place is not None
        builder.copy(permuted(builder, found, back), made.place)
        return made

    def _as_matrix(self, place: Place) -> Place:
        rows = self._builder.numel(place.sizes[:-1])
        return Place(place.buffer, 0, (rows, place.sizes[-1]), (place.sizes[-1], 1))

    def chosen(self, positions: TensorValue) -> TensorValue:
        """The elements at these positions."""
        source, dim, dtype = self._place, self._dim, self._value.dtype

        def build(nest: NestBuilder) -> Lane:
            at: list[int | Lane] = list(range(source.rank))
            at[dim] = nest.lane(positions)
            return nest.gather(source, at, wraps=False)

        return self._like(positions, dtype, build, self._value)

    def _like(self, positions: TensorValue, dtype: DType, build: BuildLane, source: TensorValue) -> TensorValue:
        sizes = positions.sizes
        return self._builder.lazy(TensorValue(dtype, sizes, identity(sizes), build=build, parts=(source, positions)))

    def check_distinct(self) -> None:
        """Go on only where no two elements of a row are equal."""
        builder, last = self._builder, self._keys.rank - 1
        size = self._keys.sizes[last]
        if is_one(size):
            return
        length = builder.index("max", 0, builder.index("sub", size, 1))
        is_equal = self._has_equal(0, 1, length)
        builder.check(builder.index("not", is_equal), "equal elements are sorted, in an order that nobody knows")

    def check_alone(self, at: Operand) -> None:
        """Go on only where the element at a place of the order, which is there, has no equal one beside it."""
        builder = self._builder
        before, after = builder.index("sub", at, 1), builder.index("add", at, 1)
        last = builder.index("sub", self._keys.sizes[-1], 1)
        for beside in (builder.index("max", before, 0), builder.index("min", after, last)):
            is_other = builder.index("ne", beside, at)
            is_equal = builder.index("and", is_other, self._has_equal(at, beside, 1))
            builder.check(builder.index("not", is_equal), "of equal elements one is asked for, and nobody knows which")

    def _has_equal(self, a: Operand, b: Operand, length: Operand) -> Operand:
        """Are there equal elements at two places of the order, or so many places behind?"""
        builder, last = self._builder, self._keys.rank - 1
        keys = [self._key_at(piece(builder, self._found, last, start, length)) for start in (a, b)]
        is_equal = elementwise(builder, "eq", keys, I64, BOOL)
        return read(builder, reduced(builder, "any", is_equal, range(last + 1), False))

    def _key_at(self, positions: TensorValue) -> TensorValue:
        source = self._keys.place
        assert source is not None

        def build(nest: NestBuilder) -> Lane:
            return nest.gather(source, [*range(source.rank - 1), nest.lane(positions)], wraps=False)

        return self._like(positions, I64, build, self._keys)
