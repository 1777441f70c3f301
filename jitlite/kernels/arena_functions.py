"""The functions that give and take back the memory of arenas, as LLVM.

A chunk starts with the next one of its list and its size; pieces begin behind. A few chunks wait between calls for
whichever kernel is called next. An arena that needed several remembers how much that was, and begins the next time with
one chunk of that size: one that is made anew for each call would be filled with pages by the system, which takes longer
than to compute what is in it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

from jitlite.kernels.large_memory import advise_function
from jitlite.native.capi import address, pointer
from jitlite.native.code import LLVMBuilder
from jitlite.native.entry import address_of

ALIGNMENT = 64
"""Of pieces: a line of the cache, and the widest vector."""
_SMALLEST = 64 * 1024
"""Bytes of a first chunk. Each next one has twice as many as the one before, or as many as are asked for."""
_LARGEST_STEP = 1024 * 1024
"""Where doubling ends."""
_KEPT = 8 * 1024 * 1024
"""Bytes of the largest chunk that waits."""
_PLACES = 8
"""Chunks that may wait, of all kernels together."""
_SINGLE = 4096
"""Bytes of a piece from which on it is freed one by one. Smaller ones are not worth the search."""
_MOST = 1 << 46
"""More bytes than any machine has: what is asked for is no size then, but a product that did not fit."""

_waiting = (ctypes.c_void_p * _PLACES)()
"""The chunks that wait. A call takes one away, so a place has no chunk or one that nobody uses. Places are exchanged
atomically, for kernels run without the interpreter's lock where they compute much."""


def product_of(code: LLVMBuilder, numbers: Sequence[str]) -> tuple[str, str]:
    """The product of numbers that are not negative, and a bool: does it not fit in 64 bits?"""
    found, overflows = numbers[0] if numbers else "1", "false"
    for number in numbers[1:]:
        both = code.intrinsic(MULTIPLY, found, number)
        found = code.value(f"extractvalue {{ i64, i1 }} {both}, 0")
        flag = code.value(f"extractvalue {{ i64, i1 }} {both}, 1")
        overflows = flag if overflows == "false" else code.value(f"or i1 {overflows}, {flag}")
    return found, overflows


MULTIPLY = "{ i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)"


CURSOR, END, USED, SPARE, FREED = range(5)
_HEAD = ALIGNMENT


def shared(name: str, text: str) -> str:
    """The address of a function, compiled when it is first needed."""
    return pointer(address_of(name, _filled(text)))


@functools.cache
def _filled(text: str) -> str:
    """The text of a function, with numbers and addresses filled in."""
    advise = advise_function()
    names = {
        "HEAD": _HEAD, "MOST": _MOST, "SMALLEST": _SMALLEST, "STEP": _LARGEST_STEP, "KEPT": _KEPT,
        "ALIGN": ALIGNMENT, "LESS": ALIGNMENT - 1,
        "PLACES": _PLACES, "WAITING": pointer(ctypes.addressof(_waiting)),
        "FREE": pointer(address("free")), "ALLOC": pointer(address("aligned_alloc")),
        "ADVISE": f"  call void {advise}(ptr %made, i64 %whole)" if advise else "",
    }  # fmt: skip
    for name, value in names.items():
        text = text.replace(f"@{name}", str(value))
    return text.strip()


@functools.cache
def piece_function() -> str:
    """A function of each kernel that gives a piece, or null. It is not among those that all share, for it is called too
    often to be far away."""
    return _filled(_PIECE.replace("@GROW", shared("arena_grow", _GROW)))


@functools.cache
def elements(count: int) -> str:
    """A function that gives a piece of as many bytes as the product of some numbers, or null."""
    code, numbers = LLVMBuilder(), [f"%size{number}" for number in range(count)]
    bytes, overflows = product_of(code, numbers)
    parameters = "".join(f", i64 {number}" for number in numbers)
    lines = [
        f"define internal ptr @arena_elements_{count}(ptr %state, ptr %wanted{parameters}) nounwind {{",
        *code.lines,
        f"  %asked = select i1 {overflows}, i64 -1, i64 {bytes}",
        f"  %is_small = icmp ult i64 %asked, {_SINGLE}",
        "  br i1 %is_small, label %fresh, label %seek",
        "seek:",
        f"  %freed = call ptr {shared('arena_seek', _SEEK)}(ptr %state, i64 %asked)",
        "  %is_none = icmp eq ptr %freed, null",
        "  br i1 %is_none, label %fresh, label %found",
        "found:",
        "  ret ptr %freed",
        "fresh:",
        "  %piece = call ptr @arena_piece(ptr %state, ptr %wanted, i64 %asked)",
        "  ret ptr %piece",
        "}",
    ]
    return "\n".join(lines)


@functools.cache
def freed(count: int) -> str:
    """A function that frees a piece, whose bytes are the product of some numbers."""
    code, numbers = LLVMBuilder(), [f"%size{number}" for number in range(count)]
    bytes = functools.reduce(lambda a, b: code.value(f"mul i64 {a}, {b}"), numbers)
    parameters = "".join(f", i64 {number}" for number in numbers)
    lines = [
        f"define internal void @arena_freed_{count}(ptr %state, ptr %piece{parameters}) nounwind {{",
        *code.lines,
        f"  %is_small = icmp ult i64 {bytes}, {_SINGLE}",
        "  br i1 %is_small, label %done, label %free",
        "free:",
        f"  %list = getelementptr ptr, ptr %state, i64 {FREED}",
        "  %next = load ptr, ptr %list",
        "  store ptr %next, ptr %piece",
        "  %size_at = getelementptr i64, ptr %piece, i64 1",
        f"  store i64 {bytes}, ptr %size_at",
        "  store ptr %piece, ptr %list",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


_SEEK = f"""
define ptr @arena_seek(ptr %state, i64 %bytes) nounwind {{
  %list = getelementptr ptr, ptr %state, i64 {FREED}
  br label %walk
walk:                                             ; is there one that is large enough, and not much too large?
  %link = phi ptr [ %list, %0 ], [ %found, %next ]
  %found = load ptr, ptr %link
  %is_last = icmp eq ptr %found, null
  br i1 %is_last, label %none, label %look
look:
  %size_at = getelementptr i64, ptr %found, i64 1
  %size = load i64, ptr %size_at
  %fits = icmp uge i64 %size, %bytes
  %half = lshr i64 %size, 1
  %is_near = icmp ule i64 %half, %bytes
  %is_taken = and i1 %fits, %is_near
  br i1 %is_taken, label %take, label %next
next:
  br label %walk
take:
  %behind = load ptr, ptr %found
  store ptr %behind, ptr %link
  ret ptr %found
none:
  ret ptr null
}}
"""

_PIECE = """
define internal ptr @arena_piece(ptr %state, ptr %wanted, i64 %bytes) nounwind {
  %cursor = load ptr, ptr %state
  %end_at = getelementptr ptr, ptr %state, i64 1
  %end = load ptr, ptr %end_at
  %from = ptrtoint ptr %cursor to i64
  %to = ptrtoint ptr %end to i64
  %left = sub i64 %to, %from
  %is_full = icmp uge i64 %bytes, %left             ; the first piece has a place, though it were empty
  br i1 %is_full, label %grow, label %give
grow:
  %fresh = call ptr @GROW(ptr %state, ptr %wanted, i64 %bytes)
  %is_none = icmp eq ptr %fresh, null
  br i1 %is_none, label %none, label %give
give:
  %piece = phi ptr [ %cursor, %0 ], [ %fresh, %grow ]
  %more = add i64 %bytes, @LESS
  %rounded = and i64 %more, -@ALIGN
  %after = getelementptr i8, ptr %piece, i64 %rounded
  store ptr %after, ptr %state
  ret ptr %piece
none:
  ret ptr null
}
"""

_GROW = """
declare i64 @llvm.umax.i64(i64, i64)
define ptr @arena_grow(ptr %state, ptr %wanted, i64 %bytes) {
  %used = getelementptr ptr, ptr %state, i64 2
  %spare = getelementptr ptr, ptr %state, i64 3
  %is_too_much = icmp ugt i64 %bytes, @MOST
  br i1 %is_too_much, label %none, label %walk
walk:                                             ; is there a chunk that was rewound, and is large enough?
  %link = phi ptr [ %spare, %0 ], [ %found, %too_small ]
  %found = load ptr, ptr %link
  %is_last = icmp eq ptr %found, null
  br i1 %is_last, label %drop, label %look
look:
  %found_size_at = getelementptr i64, ptr %found, i64 1
  %found_size = load i64, ptr %found_size_at
  %fits = icmp uge i64 %found_size, %bytes
  br i1 %fits, label %unlink, label %too_small
too_small:
  br label %walk
unlink:
  %behind = load ptr, ptr %found
  store ptr %behind, ptr %link
  br label %use
drop:                                             ; none is: they only take up memory
  %old = load ptr, ptr %spare
  %is_dropped = icmp eq ptr %old, null
  br i1 %is_dropped, label %wish, label %drop_one
drop_one:
  %rest = load ptr, ptr %old
  store ptr %rest, ptr %spare
  call void @FREE(ptr %old)
  br label %drop
wish:                                             ; the first chunk is to be as large as all of the last call
  %last = load ptr, ptr %used
  %is_first = icmp eq ptr %last, null
  %remembered = load atomic i64, ptr %wanted monotonic, align 8
  %wished = select i1 %is_first, i64 %remembered, i64 0
  %needed = call i64 @llvm.umax.i64(i64 %wished, i64 %bytes)
  br label %wait
wait:                                             ; is there one from another call?
  %place = phi i64 [ 0, %wish ], [ %next_place, %next ]
  %is_end = icmp eq i64 %place, @PLACES
  br i1 %is_end, label %make, label %seek
seek:
  %place_at = getelementptr ptr, ptr @WAITING, i64 %place
  %seen = load atomic ptr, ptr %place_at monotonic, align 8
  %is_empty = icmp eq ptr %seen, null
  br i1 %is_empty, label %next, label %try
try:
  %waited = atomicrmw xchg ptr %place_at, ptr null acq_rel
  %is_gone = icmp eq ptr %waited, null
  br i1 %is_gone, label %next, label %take
take:
  %waited_size_at = getelementptr i64, ptr %waited, i64 1
  %waited_size = load i64, ptr %waited_size_at
  %suits = icmp uge i64 %waited_size, %needed
  br i1 %suits, label %use, label %refuse
refuse:                                           ; so that a larger one can wait in its place
  call void @FREE(ptr %waited)
  br label %next
next:
  %next_place = add i64 %place, 1
  br label %wait
make:
  br i1 %is_first, label %choose, label %double
double:
  %last_size_at = getelementptr i64, ptr %last, i64 1
  %last_size = load i64, ptr %last_size_at
  %twice = shl i64 %last_size, 1
  %is_far = icmp ugt i64 %twice, @STEP
  %step = select i1 %is_far, i64 @STEP, i64 %twice
  br label %choose
choose:
  %least = phi i64 [ @SMALLEST, %make ], [ %step, %double ]
  %more = add i64 %needed, @LESS
  %rounded = and i64 %more, -@ALIGN
  %is_more = icmp ugt i64 %rounded, %least
  %size = select i1 %is_more, i64 %rounded, i64 %least
  %whole = add i64 %size, @HEAD
  %made = call ptr @ALLOC(i64 @ALIGN, i64 %whole)
  %has_failed = icmp eq ptr %made, null
  br i1 %has_failed, label %none, label %begin
begin:
@ADVISE
  %size_at = getelementptr i64, ptr %made, i64 1
  store i64 %size, ptr %size_at
  br label %use
use:
  %chunk = phi ptr [ %found, %unlink ], [ %waited, %take ], [ %made, %begin ]
  %before = load ptr, ptr %used
  store ptr %before, ptr %chunk
  store ptr %chunk, ptr %used
  %chunk_size_at = getelementptr i64, ptr %chunk, i64 1
  %chunk_size = load i64, ptr %chunk_size_at
  %start = getelementptr i8, ptr %chunk, i64 @HEAD
  %end = getelementptr i8, ptr %start, i64 %chunk_size
  %end_at = getelementptr ptr, ptr %state, i64 1
  store ptr %start, ptr %state
  store ptr %end, ptr %end_at
  ret ptr %start
none:
  ret ptr null
}
"""

REWIND = """
define void @arena_rewind(ptr %state, ptr %end, ptr %until) {
  %used = getelementptr ptr, ptr %state, i64 2
  %spare = getelementptr ptr, ptr %state, i64 3
  br label %walk
walk:
  %chunk = load ptr, ptr %used
  %is_done = icmp eq ptr %chunk, %until
  br i1 %is_done, label %done, label %move
move:
  %behind = load ptr, ptr %chunk
  store ptr %behind, ptr %used
  %others = load ptr, ptr %spare
  store ptr %others, ptr %chunk
  store ptr %chunk, ptr %spare
  br label %walk
done:
  %end_at = getelementptr ptr, ptr %state, i64 1
  store ptr %end, ptr %end_at
  ret void
}
"""

FREE = """
declare i64 @llvm.umin.i64(i64, i64)
define void @arena_free(ptr %state, ptr %wanted) {
  %used = getelementptr ptr, ptr %state, i64 2
  %spare = getelementptr ptr, ptr %state, i64 3
  %first_used = load ptr, ptr %used
  %first_spare = load ptr, ptr %spare
  br label %count
count:                                            ; how much memory do both lists have?
  %counted = phi ptr [ %first_used, %0 ], [ %after_counted, %add ], [ %first_spare, %other ]
  %so_far = phi i64 [ 0, %0 ], [ %sum, %add ], [ %so_far, %other ]
  %in_spare = phi i1 [ false, %0 ], [ %in_spare, %add ], [ true, %other ]
  %is_counted = icmp eq ptr %counted, null
  br i1 %is_counted, label %ended, label %add
add:
  %counted_size_at = getelementptr i64, ptr %counted, i64 1
  %counted_size = load i64, ptr %counted_size_at
  %sum = add i64 %so_far, %counted_size
  %after_counted = load ptr, ptr %counted
  br label %count
ended:
  br i1 %in_spare, label %remember, label %other
other:
  br label %count
remember:
  %total = call i64 @llvm.umin.i64(i64 %so_far, i64 @KEPT)
  %before = load atomic i64, ptr %wanted monotonic, align 8
  %is_more = icmp ugt i64 %total, %before
  br i1 %is_more, label %note, label %walk
note:
  store atomic i64 %total, ptr %wanted monotonic, align 8
  br label %walk
walk:
  %in_use = load ptr, ptr %used
  %is_used = icmp ne ptr %in_use, null
  br i1 %is_used, label %one, label %rest
rest:
  %left_over = load ptr, ptr %spare
  %is_left = icmp ne ptr %left_over, null
  br i1 %is_left, label %one, label %done
one:
  %list = phi ptr [ %used, %walk ], [ %spare, %rest ]
  %chunk = phi ptr [ %in_use, %walk ], [ %left_over, %rest ]
  %behind = load ptr, ptr %chunk
  store ptr %behind, ptr %list
  %size_at = getelementptr i64, ptr %chunk, i64 1
  %size = load i64, ptr %size_at
  %is_large = icmp ugt i64 %size, @KEPT
  %is_small = icmp ult i64 %size, %total
  %is_freed = or i1 %is_large, %is_small
  br i1 %is_freed, label %free, label %keep
keep:                                             ; it waits for another call, where there is a place
  %place = phi i64 [ 0, %one ], [ %next_place, %taken ]
  %is_end = icmp eq i64 %place, @PLACES
  br i1 %is_end, label %free, label %offer
offer:
  %place_at = getelementptr ptr, ptr @WAITING, i64 %place
  %exchanged = cmpxchg ptr %place_at, ptr null, ptr %chunk acq_rel monotonic
  %is_kept = extractvalue { ptr, i1 } %exchanged, 1
  br i1 %is_kept, label %walk, label %taken
taken:
  %next_place = add i64 %place, 1
  br label %keep
free:
  call void @FREE(ptr %chunk)
  br label %walk
done:
  store ptr null, ptr %state
  %end_at = getelementptr ptr, ptr %state, i64 1
  store ptr null, ptr %end_at
  ret void
}
"""
