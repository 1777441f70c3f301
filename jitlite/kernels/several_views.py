"""Operators that give several views of a tensor, or views of several tensors."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.loop_ir import Operand
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.values import TensorValue, Value
from jitlite.kernels.views import expanded, piece, selected
from jitlite.native.code import NotNative


def _divisible(call: Call) -> TensorValue:
    value = call.first()
    if value.rank == 0:
        raise NotNative(f"{call.node.kind} of a tensor without dimensions")
    return value


@rule("aten::unbind", view=True)
def unbind(call: Call) -> Value:
    value = _divisible(call)
    dim = call.dim("dim", value.rank)
    count = value.sizes[dim]
    wanted = _unpacked(call)
    call.lowering.require_equal(count, wanted, "unbind gives another number of tensors")
    return [selected(call.lowering, value, dim, i) for i in range(wanted)]


def _unpacked(call: Call) -> int:
    """How many results are expected, where they are all named."""
    uses = [use.user for use in call.node.output.uses]
    if len(uses) != 1 or uses[0].kind != "prim::ListUnpack":
        raise NotNative(f"{call.node.kind} whose results are not unpacked")
    return len(uses[0].outputs)


@rule("aten::chunk", view=True)
def chunk(call: Call) -> Value:
    value, lowering = _divisible(call), call.lowering
    count, dim, wanted = call.constant("chunks"), call.dim("dim", value.rank), _unpacked(call)
    size = value.sizes[dim]
    if count != wanted or count < 1:
        raise NotNative("chunk into another number of pieces than are expected")
    each = lowering.index("floordiv", lowering.index("add", size, count - 1), count)
    enough = lowering.index("lt", lowering.index("mul", each, count - 1), size)
    lowering.check(enough, "chunk gives fewer pieces")
    pieces: list[Value] = []
    for i in range(count):
        start = lowering.index("mul", each, i)
        pieces.append(piece(lowering, value, dim, start, each if i < count - 1 else lowering.index("sub", size, start)))
    if count > 1:
        divides = lowering.index("eq", lowering.index("mul", each, count), size)
        lowering.check(divides, "pieces of different sizes")
        pieces[-1] = piece(lowering, value, dim, lowering.index("mul", each, count - 1), each)
    return pieces


@rule("aten::split", "aten::split_with_sizes", view=True)
def split(call: Call) -> Value:
    value, lowering = _divisible(call), call.lowering
    dim, wanted = call.dim("dim", value.rank), _unpacked(call)
    name = "split_sizes" if call.has("split_sizes") else "split_size"
    given = call.get(name)
    lengths = call.numbers(name) if isinstance(given, list) else [call.number(name)] * wanted
    if len(lengths) != wanted:
        raise NotNative("split into another number of pieces than are expected")
    start: Operand = 0
    pieces: list[Value] = []
    for length in lengths:
        lowering.check(lowering.index("le", 0, length), "a piece has a negative size")
        pieces.append(piece(lowering, value, dim, start, length))
        start = lowering.index("add", start, length)
    lowering.require_equal(start, value.sizes[dim], "pieces do not make up the dimension")
    return pieces


@rule("aten::broadcast_tensors", view=True)
def broadcast_tensors(call: Call) -> Value:
    found, lowering = call.get("tensors"), call.lowering
    if not isinstance(found, list):
        raise NotNative("tensors in a list that is not known are broadcast")
    tensors = [call.as_tensor(v) for v in found]
    sizes = lowering.broadcast(*(t.sizes for t in tensors))
    return [_broadcast(lowering, t, sizes) for t in tensors]


def _broadcast(lowering: KernelBuilder, value: TensorValue, sizes: Sequence[Operand]) -> TensorValue:
    if lowering.same_sizes(value.sizes, sizes) and value.position is None:
        return value  # an expression may stay one
    return expanded(lowering, value, sizes)


@rule("prim::ListUnpack", view=True)
def unpack(call: Call) -> Value:
    found = call.at(0)
    if not isinstance(found, list):
        raise NotNative("a list is unpacked whose elements are not known")
    return found if len(call.node.outputs) > 1 else found[0] if len(found) == 1 else _wrong(found)


def _wrong(found: Sequence[Value]) -> Value:
    raise NotNative(f"{len(found)} values are unpacked into one")
