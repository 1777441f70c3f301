"""Views: other windows into the same memory, which cost nothing. And what may be one or a copy."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.copies import contiguous_copy, reshaped_copy
from jitlite.kernels.loop_ir import Operand, Place, Scalar
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, normalized, rule
from jitlite.kernels.values import MemorySource, TensorValue, Value, identity, is_one
from jitlite.native.code import NotNative


def view(value: TensorValue, place: Place, dims: Sequence[int | None]) -> TensorValue:
    """A window into the memory of a tensor.

    Args:
        dims: for each dimension of the window, which one of the tensor it is; None for a new one.
    """
    there = {d: i for i, d in enumerate(dims) if d is not None}
    order = tuple(there[d] for d in value.order if d in there and not is_one(place.sizes[there[d]]))
    return TensorValue(value.dtype, place.sizes, order, place, source=value.source)


def wrapped(builder: KernelBuilder, index: Operand, size: Operand) -> Operand:
    """An index that may count from the end, as one from the start; outside of the dimension the kernel gives up."""
    negative = builder.index("lt", index, 0)
    found = builder.index("select", negative, builder.index("add", index, size), index)
    inside = builder.index("and", builder.index("le", 0, found), builder.index("lt", found, size))
    builder.check(inside, "an index is out of range")
    return found


def moved(builder: KernelBuilder, place: Place, dim: int, by: Operand) -> Operand:
    """The offset of a place, so many elements of a dimension further on."""
    return builder.index("add", place.offset, builder.index("mul", by, place.strides[dim]))


@rule("aten::select", view=True)
def select(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    dim = call.dim("dim", value.rank)
    return selected(lowering, value, dim, call.number("index"))


def selected(lowering: KernelBuilder, value: TensorValue, dim: int, index: Operand) -> TensorValue:
    """`value.select(dim, index)`."""
    if value.rank == 0:
        raise NotNative("a tensor without dimensions is indexed")
    place = lowering.force(value)
    at = wrapped(lowering, index, place.sizes[dim])
    kept = [d for d in range(value.rank) if d != dim]
    return view(value, _kept(place, kept, moved(lowering, place, dim, at)), kept)


def _kept(place: Place, dims: Sequence[int], offset: Operand) -> Place:
    return Place(place.buffer, offset, tuple(place.sizes[d] for d in dims), tuple(place.strides[d] for d in dims))


@rule("aten::slice", view=True, of_sizes=True)
def slice_(call: Call) -> Value:
    if isinstance(call.at(0), list):
        return call.as_numbers(call.at(0))[call.constant("start") : call.constant("end") : call.constant("step")]  # type: ignore[return-value]
    value = call.first()
    step = call.constant("step")
    if type(step) is not int or step < 1:
        raise NotNative("a slice with such a step")
    start, end = call.optional_number("start"), call.optional_number("end")
    return sliced(call.lowering, value, call.dim("dim", value.rank), start, end, step)


def sliced(
    lowering: KernelBuilder, value: TensorValue, dim: int, start: Operand | None, end: Operand | None, step: int = 1
) -> TensorValue:
    """`value[..., start:end:step, ...]`."""
    if value.rank == 0:
        raise NotNative("a tensor without dimensions is sliced")
    place = lowering.force(value)
    size = place.sizes[dim]
    first = 0 if start is None else _bound(lowering, start, size)
    last = size if end is None or _is_end(end) else _bound(lowering, end, size)
    if first == 0 and last is size and step == 1:
        return view(value, place, range(value.rank))
    length = lowering.index("max", 0, lowering.index("sub", last, first))
    if step != 1:
        length = lowering.index("floordiv", lowering.index("add", length, step - 1), step)
    sizes, strides = list(place.sizes), list(place.strides)
    sizes[dim] = length
    strides[dim] = 0 if is_one(size) else lowering.index("mul", strides[dim], step)
    made = Place(place.buffer, moved(lowering, place, dim, first), tuple(sizes), tuple(strides))
    return view(value, made, range(value.rank))


def _is_end(end: Operand) -> bool:
    return not isinstance(end, Scalar) and end == (1 << 63) - 1


def _bound(lowering: KernelBuilder, bound: Operand, size: Operand) -> Operand:
    """A bound of a slice, counted from the start and within the dimension."""
    if not isinstance(bound, Scalar) and bound >= 0:
        return lowering.index("min", bound, size)
    negative = lowering.index("lt", bound, 0)
    found = lowering.index("select", negative, lowering.index("add", bound, size), bound)
    return lowering.index("min", lowering.index("max", found, 0), size)


@rule("aten::narrow", view=True)
def narrow(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    dim = call.dim("dim", value.rank)
    start, length = call.number("start"), call.number("length")
    place = lowering.force(value)
    if value.rank == 0:
        raise NotNative("a tensor without dimensions is narrowed")
    size = place.sizes[dim]
    first = lowering.index("select", lowering.index("lt", start, 0), lowering.index("add", start, size), start)
    fits = lowering.index("and", lowering.index("le", 0, first), lowering.index("le", 0, length))
    fits = lowering.index("and", fits, lowering.index("le", first, size))
    fits = lowering.index("and", fits, lowering.index("le", length, lowering.index("sub", size, first)))
    lowering.check(fits, "a tensor is narrowed to what it does not have")
    sizes = list(place.sizes)
    sizes[dim] = length
    made = Place(place.buffer, moved(lowering, place, dim, first), tuple(sizes), place.strides)
    return view(value, made, range(value.rank))


def permuted(lowering: KernelBuilder, value: TensorValue, dims: Sequence[int]) -> TensorValue:
    """`value.permute(dims)`."""
    if sorted(dims) != list(range(value.rank)):
        raise NotNative("permute to other dimensions than there are")
    place = lowering.force(value)
    return view(value, _kept(place, dims, place.offset), list(dims))


@rule("aten::transpose", "aten::swapaxes", view=True)
def transpose(call: Call) -> Value:
    value = call.first()
    if value.rank == 0:
        raise NotNative("transpose of a tensor without dimensions")
    names = ("axis0", "axis1") if call.has("axis0") else ("dim0", "dim1")
    a, b = (call.dim(name, value.rank) for name in names)
    dims = list(range(value.rank))
    dims[a], dims[b] = dims[b], dims[a]
    return permuted(call.lowering, value, dims)


@rule("aten::t", "aten::numpy_T", view=True)
def t(call: Call) -> Value:
    value = call.first()
    if value.rank > 2:
        raise NotNative("t of more than two dimensions")
    return permuted(call.lowering, value, list(range(value.rank))[::-1])


@rule("aten::permute", view=True)
def permute(call: Call) -> Value:
    value = call.first()
    return permuted(call.lowering, value, [normalized(d, value.rank) for d in call.constant("dims")])


@rule("aten::movedim", view=True)
def movedim(call: Call) -> Value:
    value = call.first()
    source, target = ([v] if isinstance(v, int) else v for v in (call.constant("source"), call.constant("destination")))
    source, target = ([normalized(d, value.rank) for d in dims] for dims in (source, target))
    if len(set(source)) != len(source) or len(set(target)) != len(target) or len(source) != len(target):
        raise NotNative("movedim of such dimensions")
    left = iter(d for d in range(value.rank) if d not in source)
    at = dict(zip(target, source, strict=True))
    return permuted(call.lowering, value, [at[d] if d in at else next(left) for d in range(value.rank)])


@rule("aten::unsqueeze", view=True)
def unsqueeze(call: Call) -> Value:
    value = call.first()
    return unsqueezed(call.lowering, value, normalized(call.constant("dim"), value.rank + 1))


def unsqueezed(lowering: KernelBuilder, value: TensorValue, dim: int) -> TensorValue:
    """`value.unsqueeze(dim)`."""
    place = lowering.force(value)
    sizes, strides = list(place.sizes), list(place.strides)
    sizes.insert(dim, 1)
    strides.insert(dim, 0)
    dims: list[int | None] = list(range(value.rank))
    dims.insert(dim, None)
    return view(value, Place(place.buffer, place.offset, tuple(sizes), tuple(strides)), dims)


@rule("aten::squeeze", view=True)
def squeeze(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    asked = call.constant("dim") if call.has("dim") else list(range(value.rank))
    dims = {normalized(d, value.rank) for d in (asked if isinstance(asked, list) else [asked])}
    for d in dims & set(range(value.rank)):
        if not is_one(value.sizes[d]):  # as far as is known; facts say where the size of an argument is 1
            lowering.check(lowering.index("ne", value.sizes[d], 1), "a size that is squeezed is 1 this time")
    place = lowering.force(value)
    kept = [d for d in range(value.rank) if d not in dims or not is_one(value.sizes[d])]
    return view(value, _kept(place, kept, place.offset), kept)


@rule("aten::expand", "aten::expand_as", "aten::broadcast_to", view=True)
def expand(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    asked = list(call.tensor("other").sizes) if call.name == "expand_as" else call.numbers("size")
    return expanded(lowering, value, asked)


def expanded(lowering: KernelBuilder, value: TensorValue, asked: Sequence[Operand]) -> TensorValue:
    """`value.expand(asked)`."""
    shift = len(asked) - value.rank
    if shift < 0:
        raise NotNative("expand to fewer dimensions")
    place = lowering.force(value)
    sizes, strides, dims = [], [], []
    for d, size in enumerate(asked):
        own = d - shift
        has = own >= 0
        if not isinstance(size, Scalar) and size == -1:
            if not has:
                raise NotNative("expand of a new dimension by -1")
            size = place.sizes[own]
        if has and not is_one(place.sizes[own]):
            lowering.require_equal(place.sizes[own], size, "a dimension is expanded that has a size")
            strides.append(place.strides[own])
        else:
            lowering.check(lowering.index("le", 0, size), "expand to a negative size")
            strides.append(0)
        sizes.append(size)
        dims.append(own if has and not is_one(place.sizes[own]) else None)
    return view(value, Place(place.buffer, place.offset, tuple(sizes), tuple(strides)), dims)


@rule("aten::view", "aten::reshape", "aten::_unsafe_view", view=True, may_copy=True)
def reshape(call: Call) -> Value:
    value = call.first()
    if call.has("dtype"):
        raise NotNative("a view of another dtype")
    asked = call.numbers("shape" if call.has("shape") else "size")
    return reshaped(call.lowering, value, asked, copies=call.name == "reshape")


def reshaped(lowering: KernelBuilder, value: TensorValue, asked: Sequence[Operand], *, copies: bool) -> TensorValue:
    """`value.view(asked)`, or `reshape` where it may be a copy.

    Only of contiguous memory, where the result is a view without question, and of what is none for sure.
    """
    sizes = _shape(lowering, value, list(asked))
    place = lowering.force(value)
    if not lowering.is_contiguous(place):
        if not copies or value.source is not MemorySource.OWN:
            raise NotNative("a tensor that is not contiguous gets another shape")
        place = lowering.force(reshaped_copy(lowering, value, sizes))
    found = Place(place.buffer, place.offset, sizes, lowering.strides_of(sizes))
    return TensorValue(value.dtype, sizes, identity(sizes), found, source=value.source)


def _shape(lowering: KernelBuilder, value: TensorValue, asked: list[Operand]) -> tuple[Operand, ...]:
    unknown = [d for d, size in enumerate(asked) if not isinstance(size, Scalar) and size == -1]
    if len(unknown) > 1:
        raise NotNative("two sizes are to be found")
    for size in asked:
        if isinstance(size, Scalar):
            lowering.check(lowering.index("le", 0, size), "a size is negative, to be found")
    have = lowering.numel(value.sizes)
    if not unknown:
        lowering.require_equal(lowering.numel(asked), have, "a shape has another number of elements")
        return tuple(asked)
    rest = lowering.numel([s for d, s in enumerate(asked) if d != unknown[0]])
    if isinstance(rest, Scalar) or rest == 0:
        lowering.check(lowering.index("lt", 0, rest), "a size cannot be found")
    found = _quotient(lowering, have, rest, value.sizes, [s for d, s in enumerate(asked) if d != unknown[0]])
    if found is None:
        found = lowering.index("floordiv", have, rest)
        lowering.require_equal(lowering.index("mul", found, rest), have, "a shape has another number of elements")
    asked[unknown[0]] = found
    return tuple(asked)


def _quotient(
    lowering: KernelBuilder, have: Operand, rest: Operand, own: Sequence[Operand], others: Sequence[Operand]
) -> Operand | None:
    """The size to be found, where the other ones are among those that the tensor has."""
    left = list(own)
    for size in others:
        found = next((i for i, s in enumerate(left) if lowering.are_equal(s, size)), None)
        if is_one(size):
            continue
        if found is None:
            return None
        del left[found]
    return lowering.numel(left)


@rule("aten::view_as", view=True)
def view_as(call: Call) -> Value:
    return reshaped(call.lowering, call.first(), call.tensor("other").sizes, copies=False)


@rule("aten::reshape_as", view=True, may_copy=True)
def reshape_as(call: Call) -> Value:
    return reshaped(call.lowering, call.first(), call.tensor("other").sizes, copies=True)


@rule("aten::unflatten", view=True)
def unflatten(call: Call) -> Value:
    value = call.first()
    dim, sizes = call.dim("dim", value.rank), call.numbers("sizes")
    if value.rank == 0:
        raise NotNative("unflatten of a tensor without dimensions")
    return reshaped(call.lowering, value, [*value.sizes[:dim], *sizes, *value.sizes[dim + 1 :]], copies=False)


@rule("aten::diagonal", view=True)
def diagonal(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    offset, first, second = call.constant("offset"), call.dim("dim1", value.rank), call.dim("dim2", value.rank)
    if value.rank < 2 or first == second or type(offset) is not int:
        raise NotNative("such a diagonal")
    place = lowering.force(value)
    start = place.offset
    lengths = [place.sizes[first], place.sizes[second]]
    moving = first if offset < 0 else second
    if offset:
        left = lowering.index("sub", place.sizes[moving], abs(offset))
        lowering.check(lowering.index("le", 0, left), "a diagonal outside")
        lengths[moving == second] = left
        start = moved(lowering, place, moving, abs(offset))
    length = lowering.index("min", *lengths)
    stride = lowering.index("add", place.strides[first], place.strides[second])
    kept = [d for d in range(value.rank) if d not in (first, second)]
    base = _kept(place, kept, start)
    made = Place(place.buffer, start, (*base.sizes, length), (*base.strides, stride))
    return TensorValue(value.dtype, made.sizes, identity(made.sizes), made, source=value.source)


@rule("aten::flatten", view=True, may_copy=True)
def flatten(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    first, last = call.dim("start_dim", value.rank), call.dim("end_dim", value.rank)
    if value.rank == 0:
        return reshaped(lowering, value, [1], copies=True)
    if first > last:
        raise NotNative("flatten from behind")
    if first == last:
        return value
    middle = lowering.numel(value.sizes[first : last + 1])
    return reshaped(lowering, value, [*value.sizes[:first], middle, *value.sizes[last + 1 :]], copies=True)


@rule("aten::contiguous", view=True, may_copy=True)
def contiguous(call: Call) -> Value:
    call.default("memory_format", 0)
    value, lowering = call.first(), call.lowering
    place = lowering.force(value)
    return value if lowering.is_contiguous(place) else contiguous_copy(lowering, value)


@rule("aten::detach", "aten::alias", view=True)
def alias(call: Call) -> Value:
    value = call.first()
    place = call.lowering.force(value)
    return view(value, place, range(value.rank))


@rule("prim::BroadcastSizes", "aten::broadcast_shapes", of_sizes=True)
def broadcast_sizes(call: Call) -> Value:
    return list(call.lowering.broadcast(*(call.as_numbers(call.at(i)) for i in range(len(call.node.inputs)))))


def piece(lowering: KernelBuilder, value: TensorValue, dim: int, start: Operand, length: Operand) -> TensorValue:
    """A part of a dimension, which is there."""
    place = lowering.force(value)
    sizes = list(place.sizes)
    sizes[dim] = length
    made = Place(place.buffer, moved(lowering, place, dim, start), tuple(sizes), place.strides)
    return view(value, made, range(value.rank))


# -- questions


@rule("aten::size", narrow=Narrow.AS_THEY_ARE)
def size(call: Call) -> Value:
    value = call.first()
    if len(call.node.inputs) < 2:
        return list(value.sizes)
    if value.rank == 0:
        raise NotNative("the size of a dimension of none")
    return value.sizes[call.dim("dim", value.rank)]


@rule("aten::dim", "aten::ndimension", narrow=Narrow.AS_THEY_ARE)
def dim(call: Call) -> Value:
    return call.first().rank


@rule("aten::numel", narrow=Narrow.AS_THEY_ARE)
def numel(call: Call) -> Value:
    return call.lowering.numel(call.first().sizes)


@rule("prim::dtype", view=True)
def dtype(call: Call) -> Value:
    return call.first().dtype.code


@rule("aten::is_floating_point", narrow=Narrow.AS_THEY_ARE)
def is_floating_point(call: Call) -> Value:
    return call.first().dtype.is_float


@rule("aten::__is__", "aten::__isnot__", narrow=Narrow.AS_THEY_ARE)
def is_none(call: Call) -> Value:
    found = [call.at(0), call.at(1)]
    if None not in found:
        raise NotNative("`is` of two objects")
    return (found[0] is found[1]) == (call.name == "__is__")
