"""Other threads have the interpreter while a kernel computes much.

The lock of the interpreter is given up before a statement of many points, and taken again behind it. What that takes is
a function of the module: a kernel of a hundred statements would else be compiled for longer than for all it computes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jitlite.kernels.arena_functions import MULTIPLY, product_of
from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Operand
from jitlite.native.capi import address, pointer
from jitlite.native.code import LLVMBuilder

MANY = 1 << 16
"""Points of a nest from which on the interpreter's lock is given up: some ten microseconds, or more."""

TOO_MANY = 1 << 48
"""Points that no nest goes over: Python says that there is no memory for the tensor, which the nest does not make."""


def give_lock(kc: KernelCode, sizes: Sequence[Operand], thread: str) -> str:
    """Write code that gives up the lock if there are many points. The kernel is given up for too many.

    Args:
        kc: the kernel.
        sizes: whose product is the number of points. They are not negative.
        thread: the slot of the state of this thread, which is null while it has the lock.

    Returns:
        How many points there are.
    """
    code, numbers = kc.code, [kc.operand(size) for size in sizes]
    code.helper(_give(len(numbers)))
    code.declared.add(f"declare {MULTIPLY}")
    given = ", ".join(f"i64 {number}" for number in numbers)
    points = code.value(f"call i64 @give_lock_{len(numbers)}(ptr {thread}, {given})")
    code.bail_out_if(code.value(f"icmp slt i64 {points}, 0"))
    return points


def take_lock(kc: KernelCode, thread: str) -> None:
    """Write code that has the lock again, if it was given up."""
    kc.code.helper(_take())
    kc.code.emit(f"call void @take_lock(ptr {thread})")


@functools.cache
def _give(count: int) -> str:
    """A function that gives the product of some numbers, -1 where that is too much."""
    code, numbers = LLVMBuilder(), [f"%size{number}" for number in range(count)]
    points, overflows = product_of(code, numbers)
    parameters = "".join(f", i64 {number}" for number in numbers)
    lines = [
        f"define internal i64 @give_lock_{count}(ptr %thread{parameters}) nounwind {{",
        *code.lines,
        f"  %is_more = icmp ugt i64 {points}, {TOO_MANY}",
        f"  %is_too_much = or i1 %is_more, {overflows}",
        "  br i1 %is_too_much, label %refuse, label %look",
        "look:",
        f"  %is_much = icmp ugt i64 {points}, {MANY}",
        "  br i1 %is_much, label %give, label %done",
        "give:",
        f"  %state = call ptr {pointer(address('PyEval_SaveThread'))}()",
        "  store ptr %state, ptr %thread",
        "  br label %done",
        "done:",
        f"  ret i64 {points}",
        "refuse:",
        "  ret i64 -1",
        "}",
    ]
    return "\n".join(lines)


@functools.cache
def _take() -> str:
    return f"""
define internal void @take_lock(ptr %thread) nounwind {{
  %state = load ptr, ptr %thread
  %has_it = icmp eq ptr %state, null
  br i1 %has_it, label %done, label %take
take:
  call void {pointer(address("PyEval_RestoreThread"))}(ptr %state)
  store ptr null, ptr %thread
  br label %done
done:
  ret void
}}
""".strip()
