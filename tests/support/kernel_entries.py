"""Small kernels for tests: a few instructions between arguments and a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitlite.ir import types as T
from jitlite.kernels.arena import Arena
from jitlite.kernels.border import release_results
from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import DTYPES, Buffer, Operand, Owner, Scalar, TensorInput
from jitlite.kernels.tensor_entry import MISS
from jitlite.native.boxing import boxed_tuple
from jitlite.native.capi import pointer
from jitlite.native.code import BAIL_OUT, RAISED
from jitlite.native.emit import ENTRY
from jitlite.native.entry import MachineCode

MISSED, GAVE_UP = "missed", "gave up"
"""What an entry gives where its kernel misses or gives up."""


def entry_of(write: Callable[[KernelCode], str], arenas: Sequence[Arena] | Callable[[], Sequence[Arena]] = ()) -> Any:
    """Compile a function.

    Args:
        write: writes instructions, and gives the register of the object that is given, a new reference.
        arenas: those that the instructions used, known once these are written.
    """
    kc = KernelCode()
    code = kc.code
    result = write(kc)
    used = arenas() if callable(arenas) else arenas
    for label, held in (
        (None, result),
        (BAIL_OUT, pointer(id(GAVE_UP))),
        (MISS, pointer(id(MISSED))),
        (RAISED, "null"),
    ):
        if label is not None:
            code.label(label)
            if label != RAISED:
                code.call("void", "Py_IncRef", "ptr", held)
        release_results(kc)
        for arena in used:
            arena.free_all()
        code.emit(f"ret ptr {held}")
    lines = [f"define ptr @{ENTRY}(ptr %self, ptr %args, i64 %count) {{", *code.slots, *code.lines, "}"]
    machine = MachineCode("kernel")
    machine.kept = kc.kept
    return machine.load("\n".join([*sorted(code.declared), *code.helpers.values(), "", *lines, ""]))


def argument_at(kc: KernelCode, i: int) -> str:
    """The register of an argument of the entry."""
    return kc.code.load("ptr", kc.code.value(f"getelementptr ptr, ptr %args, i64 {i}"))


def numbers(kc: KernelCode, registers: Sequence[str]) -> str:
    """A tuple of ints."""
    return boxed_tuple(kc.code, [(register, T.INT) for register in registers])


def scalar(name: str) -> Scalar:
    return Scalar(name, T.INT)


def argument(
    sizes: Sequence[Operand | None],
    dtype: Any,
    order: Sequence[int] | None = None,
    is_dense: bool = True,
    strides: Sequence[Operand | None] | None = None,
    position: int = 0,
) -> TensorInput:
    """A tensor; None stands for a size or stride that is not known."""
    rank = len(sizes)
    buffer = Buffer(f"b{position}", DTYPES[dtype], Owner.ARGUMENT)
    filled = [scalar(f"n{position}_{i}") if s is None else s for i, s in enumerate(sizes)]
    steps = [scalar(f"s{position}_{i}") if s is None else s for i, s in enumerate(strides or [None] * rank)]
    found = order if order is not None else [i for i in range(rank) if sizes[i] is None or sizes[i] != 1]
    return TensorInput(position, buffer, tuple(filled), tuple(steps), tuple(found), is_dense)
