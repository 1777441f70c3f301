"""Machine code of statements of loop IR alone: no kernel around them, and tensors of the test for operands."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from jitlite.ir import types as T
from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Buffer, DType, Operand, Owner, Place, Scalar
from jitlite.native.capi import pointer
from jitlite.native.code import BAIL_OUT
from jitlite.native.entry import MachineCode


@functools.cache
def symbol(name: str) -> int | None:
    """Where a function of torch's libraries, or of C's, is."""
    for library in (Path(torch.__file__).parent / "lib" / "libtorch_cpu.so", None):
        found = getattr(ctypes.CDLL(library and str(library)), name, None)
        if found is not None:
            return ctypes.cast(found, ctypes.c_void_p).value
    return None


class Heap:
    """Memory of C's heap, which is given back by `free`."""

    def __init__(self, kc: KernelCode) -> None:
        self.kc = kc
        self.pointers: list[str] = []

    def alloc(self, bytes: str) -> str:
        self.pointers.append(self.kc.code.value(f"call ptr {pointer(symbol('malloc') or 0)}(i64 {bytes})"))
        return self.pointers[-1]

    def give_back(self, piece: str) -> None:
        """All is given back in the end."""

    def free(self) -> None:
        for place in self.pointers:
            self.kc.code.emit(f"call void {pointer(symbol('free') or 0)}(ptr {place})")


class Operands:
    """A place whose memory, sizes and strides are those of a tensor that it is given before each run.

    Args:
        kc: the kernel.
        dtype: of the elements.
        sizes: None for those that are not known when code is written.
        strides: the same for strides.
    """

    def __init__(
        self, kc: KernelCode, dtype: DType, sizes: Sequence[int | None], strides: Sequence[int | None]
    ) -> None:
        self._table = (ctypes.c_int64 * (1 + 2 * len(sizes)))()
        self._held: torch.Tensor | None = None
        self._known = [None, *sizes, *strides]
        start = ctypes.addressof(self._table)
        buffer = Buffer("t", dtype, Owner.ARGUMENT)
        kc.set_pointer(buffer, kc.code.load("ptr", pointer(start)))
        numbers: list[Operand] = []
        for i, known in enumerate(self._known[1:], 1):
            scalar = Scalar(f"n{i}", T.INT)
            kc.registers[scalar] = kc.code.load("i64", pointer(start + 8 * i))
            numbers.append(scalar if known is None else known)
        self.place = Place(buffer, 0, tuple(numbers[: len(sizes)]), tuple(numbers[len(sizes) :]))

    def hold(self, tensor: torch.Tensor) -> None:
        self._held = tensor
        numbers = [tensor.data_ptr(), *tensor.shape, *tensor.stride()]
        for i, (number, known) in enumerate(zip(numbers, self._known, strict=True)):
            assert known in (None, number), f"{number} was said to be {known}"
            self._table[i] = number


def compiled(kc: KernelCode) -> Callable[[], bool]:
    """A function that runs what has been written; gives false where it gave up."""
    code = kc.code
    code.emit(f"ret ptr {pointer(id(True))}")
    code.label(BAIL_OUT)
    code.emit(f"ret ptr {pointer(id(False))}")
    head = "define ptr @entry(ptr %self, ptr %args, i64 %count) {"
    text = "\n".join([*sorted(code.declared), *code.helpers, head, *code.slots, *code.lines, "}", ""])
    entry = MachineCode("test").load(text)

    def run() -> bool:
        found = entry()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))
        return bool(found)

    return run
