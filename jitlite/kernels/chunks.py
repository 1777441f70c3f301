"""Reductions of many elements to one number, as LLVM: chunk by chunk.

Threads share the chunks, each of which gives a *state*, and one thread puts the states together in their order. How
long a chunk is depends on sizes alone, so the result does not depend on how many threads there are.
"""

from __future__ import annotations

import functools

from jitlite.ir import types as T
from jitlite.kernels import loop_orders
from jitlite.kernels.arena import Arena
from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import I64, Buffer, Operand, Owner, Reduce, Scalar
from jitlite.kernels.parallel import LoopPart, Sharing, divided_up, emit_call, sharing
from jitlite.kernels.reductions import Reduction, State, emit_empty
from jitlite.kernels.vectors import Vectors
from jitlite.kernels.walk import counting_by


class _ChunkPart(LoopPart):
    """Writes the function that does some chunks.

    Attributes:
        chunk: where the chunk that is written starts in the dimension, and where it ends.
    """

    chunk = ("0", "0")

    def __init__(self, outer: KernelCode, dim: int) -> None:
        super().__init__(outer, [])
        self._dim = dim

    def bounds(self, dim: int, size: Operand) -> tuple[str, str]:
        return self.chunk if dim == self._dim else super().bounds(dim, size)


def emit_chunked(kc: KernelCode, reduce: Reduce, dim: int, arena: Arena) -> None:
    """Write a reduction to one number.

    Args:
        kc: the kernel.
        reduce: the statement.
        dim: the one that is divided.
        arena: where the states of chunks are kept.

    Raises:
        NotNative: where there is no such reduction of the type.
    """
    code = kc.code
    emit_empty(kc, reduce)
    step, states = Scalar(code.fresh("step"), T.INT), Buffer(code.fresh("states"), I64, Owner.ARENA)
    others = kc.product([size for d, size in enumerate(reduce.sizes) if d != dim])
    each = code.intrinsic("i64 @llvm.smax.i64(i64, i64)", others, "1")
    length = kc.registers[step] = divided_up(kc, str(loop_orders.GRAIN), each)
    chunks = divided_up(kc, kc.operand(reduce.sizes[dim]), length)
    count = code.value(f"select i1 {code.value(f'icmp eq i64 {others}, 0')}, i64 0, i64 {chunks}")
    reduction = Reduction(kc, reduce)
    _give_room(kc, states, count, len(reduction.row_fold.parts), arena)
    part = _ChunkPart(kc, dim)
    _write_chunks(part, reduce, dim, step, states)
    emit_call(kc, part, _sharing, [count])
    nothing = code.fresh("nothing")
    code.leave_if(code.value(f"icmp eq i64 {count}, 0"), nothing)
    for place in reduction.places:
        reduction.walk.pointers[place] = kc.address(place)
    reduction.store_scalars(_together(kc, reduction, states, count))
    code.go(nothing)
    code.label(nothing)


@functools.cache
def _sharing(parallel_for: int) -> Sharing:
    """What has threads share chunks."""
    is_much = "icmp sgt i64 %count, 1" if parallel_for else "icmp ne i32 0, 0"
    return sharing("share_chunks", ["%count"], is_much, KernelCode(), ("%count", "1"), "%count", parallel_for)


def _give_room(kc: KernelCode, states: Buffer, count: str, fields: int, arena: Arena) -> None:
    """Memory for the states of all chunks; that of one is at hand."""
    code = kc.code
    many, onward = code.fresh("many"), code.fresh("on")
    kc.set_pointer(states, code.slot(f"[{fields} x i64]"))
    code.branch(code.value(f"icmp sgt i64 {count}, 1"), many, onward)
    code.label(many)
    kc.set_pointer(states, arena.alloc(kc.multiply(count, str(8 * fields))))
    code.go(onward)
    code.label(onward)


def _write_chunks(part: _ChunkPart, reduce: Reduce, dim: int, step: Scalar, states: Buffer) -> None:
    code, size = part.code, part.operand(reduce.sizes[dim])
    reduction = Reduction(part, reduce)
    with reduction.walk.unless_empty():
        reduction.walk.start()
        with counting_by(code, "%begin", "%end", 1) as chunk:
            start = part.multiply(chunk, part.operand(step))
            end = code.value(f"add i64 {start}, {part.operand(step)}")
            part.chunk = start, code.intrinsic("i64 @llvm.smin.i64(i64, i64)", end, size)
            state = reduction.row_state()
            fields = len(state)
            place = part.element(states, part.pointer(states), part.multiply(chunk, str(fields)))
            one = Vectors(code, 1)
            for number, (dtype, value) in enumerate(zip(reduction.row_fold.parts, state, strict=True)):
                code.store(one.type(dtype), value, code.field(place, number))


def _together(kc: KernelCode, reduction: Reduction, states: Buffer, count: str) -> State:
    """The state after all chunks."""
    code, fold, one = kc.code, reduction.row_fold, Vectors(kc.code, 1)
    types = [one.type(dtype) for dtype in fold.parts]
    first = kc.pointer(states)
    slots = [code.slot(t) for t in types]
    for number, (t, slot) in enumerate(zip(types, slots, strict=True)):
        code.store(t, code.load(t, code.field(first, number)), slot)
    with counting_by(code, "1", count, 1) as chunk:
        place = kc.element(states, first, kc.multiply(chunk, str(len(types))))
        new = [code.load(t, code.field(place, number)) for number, t in enumerate(types)]
        old = [code.load(t, slot) for t, slot in zip(types, slots, strict=True)]
        for t, slot, value in zip(types, slots, fold.merge(one, old, new), strict=True):
            code.store(t, value, slot)
    return [code.load(t, slot) for t, slot in zip(types, slots, strict=True)]
