"""Elements that other tensors choose: rows of tables, gathered elements, `x[i]` with tensors."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir.graph import Value as GraphValue
from jitlite.ir.tensor_items import DOTS, NEW_DIMENSION, parse_index
from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.lists import chosen, stacked
from jitlite.kernels.loop_ir import BOOL, I32, I64, Lane, LaneCast, Operand, Place, Scalar
from jitlite.kernels.matrices import unrolled
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.values import TensorList, TensorValue, Value, identity
from jitlite.kernels.views import permuted, selected, sliced, unsqueezed
from jitlite.native.code import NotNative


def _index_lane(nest: NestBuilder, value: TensorValue) -> Lane:
    lane = nest.lane(value)
    return lane if lane.dtype is I64 else LaneCast(I64, lane)


def _of_indices(call: Call, value: TensorValue) -> TensorValue:
    if value.dtype not in (I64, I32):
        raise NotNative(f"{call.node.kind} with an index of {value.dtype}")
    return value


@rule("aten::gather", narrow=Narrow.AS_THEY_ARE)
def gather(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    index = _of_indices(call, call.tensor("index"))
    if value.rank != index.rank or value.rank == 0 or index.dtype is not I64:
        raise NotNative("gather of such shapes")
    dim = call.dim("dim", value.rank)
    for d in range(value.rank):
        if d != dim:
            fits = lowering.index("le", index.sizes[d], value.sizes[d])
            lowering.check(fits, "gather with an index that is larger")
    place = lowering.force(value)

    def build(nest: NestBuilder) -> Lane:
        at: list[int | Lane] = list(range(value.rank))
        at[dim] = _index_lane(nest, index)
        return nest.gather(place, at, wraps=False)

    if not index.in_order:
        raise NotNative("gather with an index that lies in another order")
    return lowering.lazy(
        TensorValue(value.dtype, index.sizes, identity(index.sizes), build=build, parts=(value, index))
    )


@rule("aten::embedding", narrow=Narrow.AS_THEY_ARE)
def embedding(call: Call) -> Value:
    weight, index = call.tensor("weight"), _of_indices(call, call.tensor("indices"))
    if weight.rank != 2:
        raise NotNative("embedding in a table that is none")
    return rows_of(call.lowering, weight, 0, [index], wraps=False)


@rule("aten::index_select", narrow=Narrow.AS_THEY_ARE)
def index_select(call: Call) -> Value:
    value, index = call.first(), _of_indices(call, call.tensor("index"))
    if value.rank == 0 or index.rank != 1:
        raise NotNative("index_select of such shapes")
    return rows_of(call.lowering, value, call.dim("dim", value.rank), [index], wraps=False)


def rows_of(
    builder: KernelBuilder, value: TensorValue, dim: int, indices: Sequence[TensorValue], *, wraps: bool
) -> TensorValue:
    """What indices choose along neighbouring dimensions; the dimensions of the indices take the place of these."""
    place = builder.force(value)
    builder.force_all(indices)
    shape = builder.broadcast(*[index.sizes for index in indices])
    sizes = (*value.sizes[:dim], *shape, *value.sizes[dim + len(indices) :])
    after = dim + len(shape)

    def build(nest: NestBuilder) -> Lane:
        at: list[int | Lane] = [*range(dim), *(_at(nest, index) for index in indices), *range(after, len(sizes))]
        return nest.gather(place, at, wraps=wraps)

    def _at(nest: NestBuilder, index: TensorValue) -> Lane:
        behind = len(sizes) - after
        assert index.place is not None
        own = index.place
        moved = Place(own.buffer, own.offset, own.sizes + (1,) * behind, own.strides + (0,) * behind)
        lane: Lane = nest.load(moved)
        return lane if lane.dtype is I64 else LaneCast(I64, lane)

    if not value.in_order or not all(index.in_order for index in indices):
        raise NotNative("rows of a tensor that lies in another order")
    return builder.lazy(TensorValue(value.dtype, sizes, identity(sizes), build=build, parts=(value, *indices)))


@rule("prim::TensorItem", narrow=Narrow.AS_THEY_ARE)
def tensor_item(call: Call) -> Value:
    _, *where = call.node.inputs
    value, tensors = indexed(call, where)
    if not tensors:
        return value
    dims, indices = [d for d, _ in tensors], [index for _, index in tensors]
    if indices[0].dtype is BOOL:
        return chosen(call.lowering, value, indices[0])
    return rows_of(call.lowering, value, dims[0], indices, wraps=True)


@rule("aten::index", narrow=Narrow.AS_THEY_ARE)
def index(call: Call) -> Value:
    tensors = listed_indices(call, call.first())
    return rows_of(call.lowering, call.first(), tensors[0][0], [each for _, each in tensors], wraps=True)


def listed_indices(call: Call, value: TensorValue) -> list[tuple[int, TensorValue]]:
    """The tensors of whole numbers in a list of indices, and for each the dimension where it stands."""
    listed = call.get("indices")
    if not isinstance(listed, list):
        raise NotNative("indices in a list that is not known")
    tensors = [(_there(value, d), call.as_tensor(each)) for d, each in enumerate(listed) if each is not None]
    if not tensors or any(each.dtype not in (I64, I32) for _, each in tensors):
        raise NotNative("indices that are no whole numbers")
    _check_tensors(tensors, len(listed))
    return tensors


def indexed(call: Call, operands: Sequence[GraphValue]) -> tuple[TensorValue, list[tuple[int, TensorValue]]]:
    """What an index says, but for the tensors in it: the view of all else, and for each tensor where it stands.

    These are one mask, or whole numbers for neighbouring dimensions.
    """
    value, lowering = call.first(), call.lowering
    left = iter([lowering.value(v) for v in operands])
    entries = parse_index(str(call.node.attributes["index"]))
    dim = 0
    tensors: list[tuple[int, TensorValue]] = []
    for entry in entries:
        if entry == NEW_DIMENSION:
            value = unsqueezed(lowering, value, dim)
            dim += 1
        elif entry == DOTS:
            taken = sum(1 for e in entries[entries.index(DOTS) + 1 :] if e not in (NEW_DIMENSION, DOTS))
            dim = value.rank - taken
        elif entry.kind == "slice":
            start, stop, step = (_bound(next(left)) if given else None for given in entry.given)
            if isinstance(step, Scalar) or (step is not None and step < 1):
                raise NotNative("a slice with such a step")
            value = sliced(lowering, value, _there(value, dim), start, stop, 1 if step is None else int(step))
            dim += 1
        else:
            value, dim = _item(call, value, dim, next(left), tensors)
    _check_tensors(tensors, len(entries))
    return value, tensors


def _check_tensors(tensors: Sequence[tuple[int, TensorValue]], entries: int) -> None:
    if any(index.dtype is BOOL for _, index in tensors) and entries > 1:
        raise NotNative("a mask beside other indices")
    if any(d != tensors[0][0] + i for i, (d, _) in enumerate(tensors)):
        raise NotNative("an index with tensors that do not stand side by side")


def _there(value: TensorValue, dim: int) -> int:
    if dim >= value.rank:
        raise NotNative("an index for more dimensions than there are")
    return dim


def _bound(value: Value) -> Operand | None:
    if value is None or (isinstance(value, Scalar | int) and not isinstance(value, bool)):
        return value
    raise NotNative("a slice with a bound that is no int")


def _item(
    call: Call, value: TensorValue, dim: int, operand: Value, tensors: list[tuple[int, TensorValue]]
) -> tuple[TensorValue, int]:
    if isinstance(operand, TensorValue):
        if operand.dtype not in (I64, I32, BOOL) or operand.rank == 0:
            raise NotNative("an index with a tensor without dimensions")
        tensors.append((_there(value, dim), operand))
        return value, dim + 1
    if isinstance(operand, bool) or not isinstance(operand, Scalar | int):
        raise NotNative("an index that is no int")
    return selected(call.lowering, value, _there(value, dim), operand), dim


@rule("aten::masked_select", narrow=Narrow.AS_THEY_ARE)
def masked_select(call: Call) -> Value:
    return chosen(call.lowering, call.first(), call.tensor("mask"))


# -- put together


@rule("aten::cat", "aten::concat", "aten::stack", narrow=Narrow.AS_THEY_ARE)
def cat(call: Call) -> Value:
    lowering = call.lowering
    found = call.get("tensors")
    if isinstance(found, TensorList):
        return _of_list(call, found)
    if not isinstance(found, list) or not found:
        raise NotNative(f"{call.node.kind} of a list that is not known")
    parts = [call.as_tensor(v) for v in found]
    first = parts[0]
    if any(p.dtype is not first.dtype or p.rank != first.rank or not p.in_order for p in parts):
        raise NotNative(f"{call.node.kind} of different dtypes or ranks")
    is_stack = call.name == "stack"
    if first.rank == 0 and not is_stack:
        raise NotNative("cat of tensors without dimensions")
    dim = call.dim("dim", first.rank + is_stack)
    if is_stack:
        parts = [unsqueezed(lowering, p, dim) for p in parts]
    return joined(lowering, parts, dim)


def _of_list(call: Call, found: TensorList) -> TensorValue:
    lowering = call.lowering
    whole = stacked(lowering, found)
    is_stack = call.name == "stack"
    if whole.rank == 1 and not is_stack:
        raise NotNative("cat of tensors without dimensions")
    dim = call.dim("dim", whole.rank if is_stack else whole.rank - 1)
    turned = permuted(lowering, whole, [*range(1, dim + 1), 0, *range(dim + 1, whole.rank)])
    made = lowering.memory(whole.dtype, turned.sizes)
    assert made.place is not None
    lowering.copy(turned, made.place)
    if is_stack:
        return made
    length = lowering.index("mul", turned.sizes[dim], turned.sizes[dim + 1])
    return unrolled(lowering, made, [*turned.sizes[:dim], length, *turned.sizes[dim + 2 :]])


def joined(builder: KernelBuilder, parts: Sequence[TensorValue], dim: int) -> TensorValue:
    """Tensors of one rank, one behind the other along a dimension."""
    first = parts[0]
    total: Operand = 0
    starts = []
    for part in parts:
        starts.append(total)
        total = builder.index("add", total, part.sizes[dim])
        for d in range(first.rank):
            if d != dim:
                builder.require_equal(part.sizes[d], first.sizes[d], "tensors of different sizes are put together")
    made = builder.memory(first.dtype, [*first.sizes[:dim], total, *first.sizes[dim + 1 :]])
    assert made.place is not None
    place = made.place
    for part, start in zip(parts, starts, strict=True):
        sizes = (*place.sizes[:dim], part.sizes[dim], *place.sizes[dim + 1 :])
        offset = builder.index("mul", start, place.strides[dim])
        builder.copy(part, Place(place.buffer, offset, sizes, place.strides))
    return made
