"""Operators that write: into memory that the kernel has made."""

from __future__ import annotations

from collections.abc import Callable

from jitlite.kernels.activations import elu, hard, mish
from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.elementwise import Element
from jitlite.kernels.later_reads import reads
from jitlite.kernels.loop_ir import (
    Buffer,
    Place,
    Scalar,
)
from jitlite.kernels.pointwise import (
    OF_FLOATS,
    ROUNDING,
    clamp,
    keeping,
    leaky_relu,
    masked_fill,
    of_floats,
    products,
    quotients,
    relu6,
    rounding,
    silu,
    sums,
)
from jitlite.kernels.rules import NARROW, Call, aten, rule
from jitlite.kernels.values import MemorySource, TensorValue, Value, is_one
from jitlite.native.code import NotNative


def writable(lowering: KernelBuilder, place_of: TensorValue) -> Place:
    """The memory of a tensor that is about to be written; what has been read of it is in other memory from here on.

    Raises:
        NotNative: if somebody else may see it.
    """
    if place_of.source is not MemorySource.OWN:
        raise NotNative("a tensor that comes from outside is written")
    into = lowering.force(place_of)
    if any(
        not isinstance(s, Scalar) and s == 0 and not is_one(n) for s, n in zip(into.strides, into.sizes, strict=True)
    ):
        raise NotNative("an expanded tensor is written")
    lowering.before_write(into.buffer)
    return into


def store(lowering: KernelBuilder, place_of: TensorValue, value: Element) -> None:
    """Write elements into a tensor that is in memory, broadcast as `copy_` does."""
    into = writable(lowering, place_of)
    builder = NestBuilder(lowering, into.sizes, tuple(range(into.rank)))
    if isinstance(value, TensorValue):
        if value.rank > into.rank:
            raise NotNative("a tensor of more dimensions is written")
        lowering.broadcast(into.sizes, value.sizes)
        for size, own in zip(reversed(into.sizes), reversed(value.sizes), strict=False):
            if not is_one(own):
                lowering.require_equal(size, own, "a tensor of another shape is written")
        if _may_overlap(value, into.buffer):
            raise NotNative("a tensor is written with what it holds elsewhere")
    builder.write([(into, builder.operand(value, place_of.dtype))])


def _may_overlap(value: TensorValue, buffer: Buffer) -> bool:
    """Does the value read the memory that is written? `before_write` has stored expressions, so it is a view."""
    return value.place is not None and value.place.buffer is buffer


@rule("aten::copy_", "aten::fill_", writes=True)
def copy_(call: Call) -> Value:
    into = call.first()
    value = call.lowering.value(call.node.inputs[1])
    if call.name == "copy_" and call.has("non_blocking"):
        call.default("non_blocking", False)
    if not isinstance(value, TensorValue | Scalar | bool | int | float):
        raise NotNative(f"{call.node.kind} gets no tensor or number")
    store(call.lowering, into, value)
    return into


@rule("aten::zero_", writes=True)
def zero_(call: Call) -> Value:
    into = call.first()
    store(call.lowering, into, 0)
    return into


_IN_PLACE: dict[str, Callable[[Call], Value]] = {
    "add": sums, "sub": sums, "mul": products, "div": quotients, "clamp": clamp, "clamp_min": clamp, "clamp_max": clamp,
    "relu": keeping, "neg": keeping, "abs": keeping, "masked_fill": masked_fill,
    "elu": elu, "celu": elu, "selu": elu, "hardsigmoid": hard, "hardswish": hard, "hardtanh": clamp, "mish": mish,
    "leaky_relu": leaky_relu, "relu6": relu6, "silu": silu,
    **dict.fromkeys(OF_FLOATS, of_floats), **dict.fromkeys(ROUNDING, rounding),
}  # fmt: skip


class _WithoutUnderscore(Call):
    """The operator that an in-place one applies."""

    @property
    def name(self) -> str:
        return super().name.removesuffix("_")

    def element(self, name: str) -> Element:
        """What lies in memory in another order than the tensor that is written is copied first: the result does not."""
        found = super().element(name)
        if isinstance(found, TensorValue) and not found.in_order and self.first().in_order:
            copied = self.lowering.memory(found.dtype, found.sizes)
            self.lowering.copy(found, self.lowering.force(copied))
            return copied
        return found


@rule(*(f"{kind}_" for kind in aten(list(_IN_PLACE))), writes=True)
def in_place(call: Call) -> Value:
    into = call.first()
    if into.source is not MemorySource.OWN:
        raise NotNative("a tensor that comes from outside is written")
    plain = _WithoutUnderscore(call.lowering, call.node)
    value = plain.apply(_IN_PLACE[plain.name], NARROW[f"aten::{plain.name}"])
    assert isinstance(value, TensorValue)
    if value.dtype is not into.dtype:
        raise NotNative(f"{call.node.kind} would give another dtype")
    if not call.lowering.same_sizes(value.sizes, into.sizes):
        raise NotNative(f"{call.node.kind} broadcasts the tensor that it writes")
    if _reads_in_place(value, into):
        call.lowering.forget_lazy(value)
    else:
        call.lowering.force(value)  # all of it before the first element is written
    store(call.lowering, into, value)
    return into


def _reads_in_place(value: TensorValue, into: TensorValue) -> bool:
    """Is each element computed from the one that it replaces, and from other memory?"""
    if value.place is not None or into.place is None:
        return False
    others = [part for part in value.parts if part is not into]
    return not any(reads(part, into.place.buffer) for part in others)
