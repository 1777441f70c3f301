"""Memory of a kernel that is gone when it ends.

An arena gives pieces one behind the other, and takes them back all together: those since a mark at the end of an
iteration of a loop, or everything. So a piece costs an addition and a comparison. Memory comes from C's library in
chunks, some of which wait for the next call (`arena_functions`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from jitlite.base.records import Record
from jitlite.kernels.arena_functions import (
    CURSOR,
    END,
    FREE,
    FREED,
    MULTIPLY,
    REWIND,
    USED,
    elements,
    freed,
    piece_function,
    shared,
)
from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Operand
from jitlite.native.capi import pointer


class ArenaMark(Record, eq=True):
    """A moment in the life of an arena.

    Attributes:
        cursor, end, used: registers of how far it was.
        pieces: how many places that take a piece had been written.
    """

    cursor: str
    end: str
    used: str
    pieces: int


class Arena:
    """Writes code that takes and gives back memory. Loops whose memory lasts differently long need arenas of their own.

    Its state is five pointers: where the next piece starts, where the chunk ends, the list of chunks in use, that of
    chunks that were rewound and wait to be used again, and the list of pieces that were freed one by one.
    """

    def __init__(self, kc: KernelCode) -> None:
        self.kc = kc
        self._state = kc.code.slot("[5 x ptr]")
        kc.code.slots.append(f"  store [5 x ptr] zeroinitializer, ptr {self._state}")
        wanted = ctypes.c_int64()
        kc.kept.append(wanted)
        self._wanted = pointer(ctypes.addressof(wanted))
        self._pieces = 0
        """How many places of the code take a piece."""

    def alloc(self, bytes: str) -> str:
        """A piece of so many bytes, aligned, with any contents. The kernel is given up where there is no memory.

        Args:
            bytes: a register or number. What is negative counts as more than there is.
        """
        code = self.kc.code
        self._pieces += 1
        code.helper(piece_function())
        found = code.value(f"call ptr @arena_piece(ptr {self._state}, ptr {self._wanted}, i64 {bytes})")
        code.bail_out_if(code.value(f"icmp eq ptr {found}, null"))
        return found

    def alloc_elements(self, sizes: Sequence[Operand], each: int) -> str:
        """A piece for so many elements of so many bytes; the kernel is given up where the product does not fit."""
        code, numbers = self.kc.code, self._factors(sizes, each)
        if len(numbers) < 2:
            return self.alloc(numbers[0] if numbers else "1")
        self._pieces += 1
        code.helper(piece_function())
        code.helper(elements(len(numbers)))
        code.declared.add(f"declare {MULTIPLY}")
        given = "".join(f", i64 {number}" for number in numbers)
        found = code.value(f"call ptr @arena_elements_{len(numbers)}(ptr {self._state}, ptr {self._wanted}{given})")
        code.bail_out_if(code.value(f"icmp eq ptr {found}, null"))
        return found

    def free_elements(self, piece: str, sizes: Sequence[Operand], each: int) -> None:
        """Have a piece be given to others, which `alloc_elements` gave for these sizes."""
        code, numbers = self.kc.code, self._factors(sizes, each)
        if len(numbers) < 2:
            return
        code.helper(freed(len(numbers)))
        given = "".join(f", i64 {number}" for number in numbers)
        code.emit(f"call void @arena_freed_{len(numbers)}(ptr {self._state}, ptr {piece}{given})")

    def _factors(self, sizes: Sequence[Operand], each: int) -> list[str]:
        return [number for number in map(self.kc.operand, [*sizes, each]) if number != "1"]

    def give_back(self, piece: str) -> None:
        """Take back the latest piece."""
        self.kc.code.store("ptr", piece, self._state)

    def mark(self) -> ArenaMark:
        """Remember how far the arena is."""
        code = self.kc.code
        cursor, end, used = (code.load("ptr", code.field(self._state, i)) for i in (CURSOR, END, USED))
        return ArenaMark(cursor, end, used, self._pieces)

    def rewind(self, mark: ArenaMark) -> None:
        """Take back all pieces since a mark. They keep their contents until the next piece is given."""
        code = self.kc.code
        if mark.pieces == self._pieces:
            return  # nothing that was written since then takes one
        used = code.load("ptr", code.field(self._state, USED))
        code.store("ptr", "null", code.field(self._state, FREED))
        code.store("ptr", mark.cursor, code.field(self._state, CURSOR))
        move, onward = code.fresh("move"), code.fresh("on")
        code.branch(code.value(f"icmp ne ptr {used}, {mark.used}"), move, onward)
        code.label(move)
        rewind = shared("arena_rewind", REWIND)
        code.emit(f"call void {rewind}(ptr {self._state}, ptr {mark.end}, ptr {mark.used})")
        code.go(onward)
        code.label(onward)

    def free_all(self) -> None:
        """Take back everything; written wherever the kernel ends, behind all that takes a piece."""
        if self._pieces:
            free = shared("arena_free", FREE)
            self.kc.code.emit(f"call void {free}(ptr {self._state}, ptr {self._wanted})")
