"""Loops whose iterations are shared by threads.

What a statement does is a function of its own then, which does the iterations from one number to another one:

    define internal void @part_7d1e...(i64 %begin, i64 %end, ptr %context)

The kernel calls it for all of them where there are few points, and else hands it to torch, which calls it in as many
threads as its own operators would have (`torch.set_num_threads`), or in one where it is at something like that already.
A process that was forked stays with one (`forks.py`). Threads compute and store, and do nothing else: they have no lock
of the interpreter, allocate nothing, and call nothing that does. Which iterations belong together changes no result.

The scalars and pointers that the function needs lie in `context`, in fields of eight bytes. The first one says whether
the kernel is to be given up, the second one which loop is shared, where several may be.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from functools import partial

from jitlite.base.records import Record
from jitlite.kernels import loop_orders
from jitlite.kernels.context import KernelCode
from jitlite.kernels.forks import lost_at
from jitlite.kernels.loop_ir import Buffer, Operand, Scalar
from jitlite.kernels.target import attributes
from jitlite.kernels.torch_abi import PARALLEL_FOR, symbol
from jitlite.native.capi import pointer
from jitlite.native.code import BAIL_OUT
from jitlite.native.layout import stored

ITERATIONS = 128
"""The outermost loop that has as many iterations is shared, or the longest one where none has."""

_FAILED, _WHICH, _FIRST = range(3)
"""Fields of the context, and the first one that is free."""


# -- the function


class LoopPart(KernelCode):
    """Writes the function that does a part of a statement.

    Attributes:
        fields: what its context has, beginning with `_FIRST`.
    """

    def __init__(self, outer: KernelCode, dims: Sequence[int]) -> None:
        super().__init__()
        self.code.declared, self.code.helpers, self.kept = outer.code.declared, outer.code.helpers, outer.kept
        self.fields: list[Scalar | Buffer] = []
        self._dims = list(dims)
        self._found: dict[Scalar | Buffer, str] = {}

    def operand(self, value: Operand) -> str:
        if isinstance(value, Scalar):
            return self._taken(value, stored(value.type))
        return super().operand(value)

    def pointer(self, buffer: Buffer) -> str:
        return self._taken(buffer, "ptr")

    def _taken(self, value: Scalar | Buffer, type: str) -> str:
        found = self._found.get(value)
        if found is None:
            self.fields.append(value)
            found = self._found[value] = self._field(_FIRST + len(self.fields) - 1, type)
        return found

    def _field(self, number: int, type: str) -> str:
        """What a field has, read before all else."""
        place, found = self.code.fresh("%c"), self.code.fresh("%c")
        self.code.slots.append(f"  {place} = getelementptr i64, ptr %context, i64 {number}")
        self.code.slots.append(f"  {found} = load {type}, ptr {place}")
        return found

    def bounds(self, dim: int, size: Operand) -> tuple[str, str]:
        if dim not in self._dims:
            return super().bounds(dim, size)
        if len(self._dims) == 1:
            return "%begin", "%end"
        which, shared, start, end = self._field(_WHICH, "i64"), *(self.code.fresh("%c") for _ in range(3))
        self.code.slots += [
            f"  {shared} = icmp eq i64 {which}, {self._dims.index(dim)}",
            f"  {start} = select i1 {shared}, i64 %begin, i64 0",
            f"  {end} = select i1 {shared}, i64 %end, i64 {self.operand(size)}",
        ]
        return start, end

    @property
    def may_fail(self) -> bool:
        return any(f"%{BAIL_OUT}" in line for line in self.code.lines)

    def finish(self, outer: KernelCode) -> str:
        """Write the function, unless there is one that does the same, and give its name, which is made of what it does.

        Registers are numbered anew in each function, and what it needs comes in the context, in the order of its use.
        So the parts of layers that are alike, which compute on other memory and other sizes, are one function.
        """
        code = self.code
        lines = [*code.slots, *code.lines, "  ret void"]
        if self.may_fail:
            lines += [f"{BAIL_OUT}:", "  store atomic i64 1, ptr %context monotonic, align 8", "  ret void"]
        body = "\n".join([*lines, "}"])
        name = f"part_{hashlib.blake2s(body.encode(), digest_size=16).hexdigest()}"
        head = f"define internal void @{name}(i64 %begin, i64 %end, ptr %context) nounwind {attributes()} {{"
        outer.code.helper(f"{head}\n{body}")
        return name


# -- the call


def emit_parts(
    kc: KernelCode, dims: Sequence[int], sizes: Sequence[Operand], points: str, write: Callable[[KernelCode], None]
) -> None:
    """Write a statement so that threads share it.

    Args:
        kc: the kernel.
        dims: those that may be shared, from the outermost one inwards.
        sizes: of all dimensions.
        points: their product.
        write: writes the statement.
    """
    if not dims or symbol(PARALLEL_FOR) is None:
        write(kc)
        return
    part = LoopPart(kc, dims)
    write(part)
    numbers = [kc.operand(sizes[d]) for d in dims]
    emit_call(kc, part, partial(_sharing, len(dims), loop_orders.GRAIN), [points, *numbers])


class Sharing(Record, eq=True):
    """A function that does the iterations of a part, in one thread or in several.

    It is given the part, its context and numbers, and gives an i32, which is 0 unless the kernel has to be given up.
    """

    name: str
    text: str


def emit_call(kc: KernelCode, part: LoopPart, sharing_of: Callable[[int], Sharing], numbers: Sequence[str]) -> None:
    """Write the call of what does a part.

    Args:
        kc: the kernel.
        part: what to do.
        sharing_of: gives what does it, for the address of torch's function for loops, 0 where there is none.
        numbers: what that is given.
    """
    code, name = kc.code, part.finish(kc)
    sharing = sharing_of(symbol(PARALLEL_FOR) or 0)
    code.helper(sharing.text)
    operands = ", ".join(f"i64 {number}" for number in numbers)
    failed = code.value(f"call i32 @{sharing.name}(ptr @{name}, ptr {_context(kc, part)}, {operands})")
    code.bail_out_if(code.value(f"icmp ne i32 {failed}, 0"))


@functools.cache
def _sharing(dims: int, grain: int, parallel_for: int) -> Sharing:
    """What has threads share one of some loops. All parts of a kernel with as many loops call it."""
    kc, sizes = KernelCode(), [f"%size{number}" for number in range(dims)]
    which, size = _chosen(kc, sizes)
    kc.code.store("i64", which, kc.code.field("%context", _WHICH))
    each = divided_up(kc, str(grain), kc.code.value(f"udiv i64 %points, {size}"))
    is_much = f"icmp sgt i64 %points, {grain}"
    return sharing(f"share_{dims}", ["%points", *sizes], is_much, kc, (size, each), sizes[0], parallel_for)


def sharing(
    name: str,
    numbers: Sequence[str],
    is_much: str,
    kc: KernelCode,
    shared: tuple[str, str],
    all: str,
    parallel_for: int,
) -> Sharing:
    """A function that has torch share iterations where there are many, and calls the part for all of them where not.

    Args:
        name: of the function.
        numbers: its parameters.
        is_much: an instruction that says whether several threads are to share them.
        kc: has what computes `shared`.
        shared: how many iterations there are to share, and the least for one thread.
        all: how many there are for one thread alone.
        parallel_for: where torch's function for that is.
    """
    operands = f"i64 0, i64 {shared[0]}, i64 {shared[1]}, ptr %part, ptr %context"
    lines = [
        f"  %which = getelementptr i64, ptr %context, i64 {_WHICH}",
        "  store i64 0, ptr %context",
        "  store i64 0, ptr %which",
        f"  %is_much = {is_much}",
        f"  %lost = load i64, ptr {pointer(lost_at())}",
        "  %are_there = icmp eq i64 %lost, 0",
        "  %are_shared = and i1 %is_much, %are_there",
        "  br i1 %are_shared, label %several, label %alone",
        "several:",
        *kc.code.lines,
        f"  %refused = call i32 {pointer(parallel_for)}({operands})",
        "  br label %end",
        "alone:",
        f"  call void %part(i64 0, i64 {all}, ptr %context)",
        "  br label %end",
        "end:",
        "  %result = phi i32 [ %refused, %several ], [ 0, %alone ]",
        "  %given_up = load i64, ptr %context",
        "  %number = trunc i64 %given_up to i32",
        "  %either = or i32 %result, %number",
        "  ret i32 %either",
        "}",
    ]
    parameters = ", ".join(f"i64 {number}" for number in numbers)
    head = f"define internal i32 @{name}(ptr %part, ptr %context, {parameters}) nounwind {{"
    return Sharing(name, "\n".join([head, *lines]))


def divided_up(kc: KernelCode, a: str, b: str) -> str:
    """A quotient, or the next whole number."""
    return kc.code.value(f"udiv i64 {kc.add(a, kc.add(b, '-1'))}, {b}")


def _context(kc: KernelCode, part: LoopPart) -> str:
    code = kc.code
    context = kc.memory_of(_FIRST + len(part.fields))
    for number, value in enumerate(part.fields, _FIRST):
        if isinstance(value, Buffer):
            code.store("ptr", kc.pointer(value), code.field(context, number))
        else:
            code.store(stored(value.type), kc.operand(value), code.field(context, number))
    return context


def _chosen(kc: KernelCode, sizes: Sequence[str]) -> tuple[str, str]:
    """Which of the loops is shared, and how long it is."""
    chosen, code = ("0", sizes[0]), kc.code
    if len(sizes) == 1:
        return chosen
    loops = [(str(number), size) for number, size in enumerate(sizes)]
    for loop in loops[1:]:
        chosen = _either(kc, code.value(f"icmp sgt i64 {loop[1]}, {chosen[1]}"), loop, chosen)
    for loop in reversed(loops):
        chosen = _either(kc, code.value(f"icmp sge i64 {loop[1]}, {ITERATIONS}"), loop, chosen)
    return chosen


def _either(kc: KernelCode, condition: str, then: tuple[str, str], other: tuple[str, str]) -> tuple[str, str]:
    which, size = (kc.code.value(f"select i1 {condition}, i64 {a}, i64 {b}") for a, b in zip(then, other, strict=True))
    return which, size
