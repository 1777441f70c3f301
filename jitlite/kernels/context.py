"""What those who write the machine code of statements share: registers of scalars, pointers of buffers."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.kernels.loop_ir import Buffer, Operand, Place, Scalar
from jitlite.native.code import LLVMBuilder
from jitlite.native.layout import literal


class KernelCode:
    """The text of a kernel, while it is written.

    Attributes:
        code: writes instructions; `code.bail_out_if(condition)` gives the kernel up.
        registers: LLVM's value of each scalar that has been computed.
        handles: for each buffer that is a new tensor, the slot with its handle, which is null until it is made.
        kept: objects whose addresses the code knows; whoever has the machine code keeps them.
    """

    def __init__(self) -> None:
        self.code = LLVMBuilder()
        self.registers: dict[Scalar, str] = {}
        self.handles: dict[Buffer, str] = {}
        self.kept: list[object] = []
        self._pointers: dict[Buffer, str] = {}
        self._memory: dict[int, str] = {}

    # -- scalars
    def operand(self, value: Operand) -> str:
        """A scalar as LLVM writes it: an i64, a double or an i1."""
        if isinstance(value, Scalar):
            return self.registers[value]
        text = literal(value, _TYPE_OF[type(value)])
        assert text is not None, f"{value!r} does not fit in 64 bits"
        return text

    def add(self, a: str, b: str) -> str:
        """The sum of two i64."""
        if "0" in (a, b):
            return b if a == "0" else a
        return self.code.value(f"add i64 {a}, {b}")

    def multiply(self, a: str, b: str) -> str:
        """The product of two i64."""
        if "0" in (a, b):
            return "0"
        if "1" in (a, b):
            return b if a == "1" else a
        return self.code.value(f"mul i64 {a}, {b}")

    def bounds(self, dim: int, size: Operand) -> tuple[str, str]:
        """Where the loop over a dimension of a nest starts, and where it ends."""
        return "0", self.operand(size)

    def product(self, sizes: Sequence[Operand]) -> str:
        """The number of points of a space."""
        found = "1"
        for size in sizes:
            found = self.multiply(found, self.operand(size))
        return found

    # -- memory
    def memory_of(self, fields: int) -> str:
        """A place for so many fields of eight bytes, which all may use who need it no longer than for one call."""
        found = self._memory.get(fields)
        if found is None:
            found = self._memory[fields] = self.code.slot(f"[{fields} x i64]")
        return found

    def set_pointer(self, buffer: Buffer, pointer: str) -> None:
        """Have the buffer stand for the memory at a pointer, from here on, wherever control flow comes from."""
        self.code.store("ptr", pointer, self._slot_of(buffer))

    def pointer(self, buffer: Buffer) -> str:
        """Where the memory of a buffer starts."""
        return self.code.load("ptr", self._slot_of(buffer))

    def _slot_of(self, buffer: Buffer) -> str:
        slot = self._pointers.get(buffer)
        if slot is None:
            slot = self._pointers[buffer] = self.code.slot("ptr")
        return slot

    def element(self, buffer: Buffer, pointer: str, offset: str) -> str:
        """The address so many elements behind a pointer."""
        if offset == "0":
            return pointer
        return self.code.value(f"getelementptr {buffer.dtype.stored}, ptr {pointer}, i64 {offset}")

    def address(self, place: Place) -> str:
        """Where the first element of a place is."""
        return self.element(place.buffer, self.pointer(place.buffer), self.operand(place.offset))


_TYPE_OF: dict[type, T.Type] = {int: T.INT, float: T.FLOAT, bool: T.BOOL}
