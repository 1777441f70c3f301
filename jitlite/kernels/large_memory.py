"""Large pieces of memory, which the system gives in large pages where it is asked to.

A piece of `LARGE` bytes or more is a mapping of its own to C's library, which the system takes back when the piece is
freed. It is filled with pages when it is first written: ten thousand small ones for 40 MB, each of which takes longer
than to compute what is in it.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence

from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Operand
from jitlite.native.capi import address, pointer
from jitlite.native.entry import address_of

_HELD = 31 * 1024 * 1024
"""Bytes of a piece that glibc learns from when it is freed. It takes nothing from larger ones than 32 MB."""

LARGE = 32 * 1024 * 1024
"""Bytes from which on C's library (glibc) never takes a piece from what it keeps for others."""

_PAGE = 4096
_IN_LARGE_PAGES = 14
"""`MADV_HUGEPAGE`. A system that has none says no, and nothing changes."""


@functools.cache
def hold_freed_memory() -> None:
    """Have C's library keep memory that is freed for what is allocated next, some 60 MB at the most.

    glibc gives memory back to the system where more than a limit is free, and the limit is twice as much as the largest
    piece of memory was that the program has freed. It begins with 256 kB: the tensors of a network that are freed in
    each call are given back in each call, and filled with pages anew in the next one, which takes up to a third of the
    time of small convolutional networks. A piece that is freed once, and never written, teaches it otherwise, unless
    the user has set the limit (`MALLOC_TRIM_THRESHOLD_`). Other libraries of C learn nothing from it.
    """
    allocate, free = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t), ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    free(address("free"))(allocate(address("malloc"))(_HELD))


def advise(kc: KernelCode, start: str, sizes: Sequence[Operand], each: int) -> None:
    """Have memory in large pages, if it is large.

    Args:
        kc: the kernel.
        start: the pointer.
        sizes: the number of elements is their product, which is known to fit.
        each: bytes of an element.
    """
    function, known = advise_function(), [size for size in sizes if isinstance(size, int)]
    if function and (len(known) < len(sizes) or math.prod(known) * each >= LARGE):
        bytes = kc.multiply(kc.product(sizes), str(each))
        kc.code.emit(f"call void {function}(ptr {start}, i64 {bytes})")


def advise_function() -> str:
    """The address of a function that asks for large pages; "" where the system has nothing to ask."""
    text = _text()
    return text and pointer(address_of("advise", text))


@functools.cache
def _text() -> str:
    try:
        madvise = pointer(address("madvise"))
    except OSError:
        return ""
    return f"""
define void @advise(ptr %start, i64 %bytes) {{
  %is_large = icmp uge i64 %bytes, {LARGE}
  br i1 %is_large, label %ask, label %done
ask:
  %number = ptrtoint ptr %start to i64
  %behind = add i64 %number, {_PAGE - 1}
  %first = and i64 %behind, -{_PAGE}
  %end = add i64 %number, %bytes
  %last = and i64 %end, -{_PAGE}
  %length = sub i64 %last, %first
  %from = inttoptr i64 %first to ptr
  %ignored = call i32 {madvise}(ptr %from, i64 %length, i32 {_IN_LARGE_PAGES})
  br label %done
done:
  ret void
}}
""".strip()
