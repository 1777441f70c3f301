"""Products of matrices and vectors, one by one or in batches, with what is added to them."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.elementwise import floating
from jitlite.kernels.loop_ir import Operand, Place, Product, Repeat
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.values import MemorySource, TensorValue, Value, identity, is_one
from jitlite.kernels.views import expanded, permuted, view
from jitlite.native.code import NotNative


def product(builder: KernelBuilder, a: TensorValue, b: TensorValue, bias: TensorValue | None = None) -> TensorValue:
    """`a @ b` of two matrices, plus a bias that broadcasts."""
    if a.dtype is not b.dtype or (bias is not None and bias.dtype is not a.dtype):
        raise NotNative("a product of several dtypes")
    floating(a.dtype)
    builder.require_equal(a.sizes[1], b.sizes[0], "matrices do not fit")
    builder.force_all([v for v in (a, b, bias) if v is not None])
    made = builder.memory(a.dtype, (a.sizes[0], b.sizes[1]))
    assert made.place is not None
    added = None if bias is None else _place(expanded(builder, bias, made.sizes))
    builder.write(Product(_rows(made.place), _place(a), packed(builder, b), added))
    return made


def _place(value: TensorValue) -> Place:
    assert value.place is not None
    return value.place


def _rows(place: Place) -> Place:
    """A place of two dimensions with the strides that memory without gaps has, also where a size is 1."""
    return Place(place.buffer, place.offset, place.sizes, (place.strides[0], 1))


def packed(builder: KernelBuilder, b: TensorValue) -> Place:
    """The second matrix, as the kernel of products is to read it."""
    return _place(b)


def _matrix(call: Call, value: TensorValue) -> TensorValue:
    if value.rank != 2:
        raise NotNative(f"{call.node.kind} of a tensor of {value.rank} dimensions")
    return value


@rule("aten::mm")
def mm(call: Call) -> Value:
    return product(call.lowering, _matrix(call, call.first()), _matrix(call, call.tensor("mat2")))


@rule("aten::addmm")
def addmm(call: Call) -> Value:
    for name in ("beta", "alpha"):
        if call.constant(name) != 1:
            raise NotNative(f"addmm with {name}")
    a, b = _matrix(call, call.tensor("mat1")), _matrix(call, call.tensor("mat2"))
    return product(call.lowering, a, b, call.first())


@rule("aten::linear")
def linear(call: Call) -> Value:
    lowering = call.lowering
    value, weight = call.first(), _matrix(call, call.tensor("weight"))
    bias = None if call.get("bias") is None else call.tensor("bias")
    if value.rank < 1 or (bias is not None and bias.rank != 1):
        raise NotNative("linear of such shapes")
    lowering.require_equal(value.sizes[-1], weight.sizes[1], "linear of other sizes than the weight's")
    turned = permuted(lowering, weight, [1, 0])
    found = product(lowering, as_rows(lowering, value), turned, bias)
    return unrolled(lowering, found, [*value.sizes[:-1], weight.sizes[0]])


def as_rows(builder: KernelBuilder, value: TensorValue) -> TensorValue:
    """The same as a matrix of its last dimension; a copy where it has to be."""
    if value.rank == 2:
        return value
    sizes = [builder.numel(value.sizes[:-1]), value.sizes[-1]]
    place = builder.force(value)
    if not builder.is_contiguous(place):
        made = builder.memory(value.dtype, value.sizes)
        assert made.place is not None
        builder.copy(value, made.place)
        place = made.place
    found = Place(place.buffer, place.offset, tuple(sizes), builder.strides_of(sizes))
    return TensorValue(value.dtype, tuple(sizes), identity(sizes), found)


def unrolled(builder: KernelBuilder, value: TensorValue, sizes: Sequence[Operand]) -> TensorValue:
    """Contiguous memory in another shape with as many elements, which nobody needs to check."""
    place = builder.force(value)
    found = Place(place.buffer, place.offset, tuple(sizes), builder.strides_of(sizes))
    return TensorValue(value.dtype, tuple(sizes), identity(sizes), found, source=MemorySource.OWN)


@rule("aten::bmm")
def bmm(call: Call) -> Value:
    a, b = call.first(), call.tensor("mat2")
    if a.rank != 3 or b.rank != 3:
        raise NotNative("bmm of such shapes")
    call.lowering.require_equal(a.sizes[0], b.sizes[0], "batches of different sizes")
    return batched(call.lowering, a, b)


@rule("aten::matmul")
def matmul(call: Call) -> Value:
    lowering = call.lowering
    a, b = call.first(), call.tensor("other")
    if a.rank == 0 or b.rank == 0:
        raise NotNative("matmul of a tensor without dimensions")
    left, right = a.rank == 1, b.rank == 1
    a = _with_row(lowering, a) if left else a
    b = _with_column(lowering, b) if right else b
    if b.rank == 2:
        lowering.require_equal(a.sizes[-1], b.sizes[0], "matrices do not fit")
        found = product(lowering, as_rows(lowering, a), b)
        found = unrolled(lowering, found, [*a.sizes[:-1], b.sizes[1]])
    else:
        found = batched(lowering, a, b)
    sizes = [
        s for d, s in enumerate(found.sizes) if not ((left and d == found.rank - 2) or (right and d == found.rank - 1))
    ]
    return unrolled(lowering, found, sizes)


@rule("aten::mv", "aten::dot")
def vectors(call: Call) -> Value:
    lowering = call.lowering
    a = call.first()
    b = call.tensor("vec" if call.name == "mv" else "tensor")
    if a.rank != (2 if call.name == "mv" else 1) or b.rank != 1:
        raise NotNative(f"{call.node.kind} of such shapes")
    rows = a if call.name == "mv" else _with_row(lowering, a)
    found = product(lowering, rows, _with_column(lowering, b))
    return unrolled(lowering, found, [a.sizes[0]] if call.name == "mv" else [])


def _with_row(builder: KernelBuilder, value: TensorValue) -> TensorValue:
    place = builder.force(value)
    made = Place(place.buffer, place.offset, (1, *place.sizes), (0, *place.strides))
    return view(value, made, [None, 0])


def _with_column(builder: KernelBuilder, value: TensorValue) -> TensorValue:
    place = builder.force(value)
    made = Place(place.buffer, place.offset, (*place.sizes, 1), (*place.strides, 0))
    return view(value, made, [0, None])


def batched(builder: KernelBuilder, a: TensorValue, b: TensorValue) -> TensorValue:
    """The products of matrices in batches that broadcast."""
    if a.dtype is not b.dtype:
        raise NotNative("a product of several dtypes")
    floating(a.dtype)
    builder.require_equal(a.sizes[-1], b.sizes[-2], "matrices do not fit")
    batch = builder.broadcast(a.sizes[:-2], b.sizes[:-2])
    a = expanded(builder, a, [*batch, *a.sizes[-2:]])
    b = expanded(builder, b, [*batch, *b.sizes[-2:]])
    made = builder.memory(a.dtype, [*batch, a.sizes[-2], b.sizes[-1]])
    _each(builder, batch, [_place(v) for v in (made, a, b)])
    return made


def _each(builder: KernelBuilder, batch: Sequence[Operand], places: Sequence[Place]) -> None:
    """The product of each element of the batch, in loops around it."""
    if not batch:
        out, a, b = places
        columns = out.sizes[1]
        builder.write(Product(Place(out.buffer, out.offset, out.sizes, (columns, 1)), a, b))
        return
    if is_one(batch[0]):
        _each(builder, batch[1:], [_inner(p, p.offset) for p in places])
        return
    index = builder.scalar(T.INT, "i")
    with builder.block(is_loop=True) as body:
        offsets = [builder.index("add", p.offset, builder.index("mul", index, p.strides[0])) for p in places]
        _each(builder, batch[1:], [_inner(p, o) for p, o in zip(places, offsets, strict=True)])
        level = builder.level
    builder.write(Repeat(index, batch[0], None, body, level, polls=False))


def _inner(place: Place, offset: Operand) -> Place:
    return Place(place.buffer, offset, place.sizes[1:], place.strides[1:])
