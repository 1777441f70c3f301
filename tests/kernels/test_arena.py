"""The memory of kernels: pieces, loops, several calls at once."""

from __future__ import annotations

import gc
import itertools
import random
import threading

import pytest
from kernel_entries import GAVE_UP, argument_at, entry_of, numbers, scalar
from test_border import resident

from jitlite.kernels import arena_functions, torch_abi
from jitlite.kernels.arena import Arena
from jitlite.kernels.border import take_scalar
from jitlite.kernels.loop_ir import ScalarInput
from jitlite.native.capi import pointer

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


def int_at(kc, i):
    s = scalar(f"a{i}")
    take_scalar(kc, argument_at(kc, i), ScalarInput(i, s))
    return kc.operand(s)


def fill(code, place, count, byte):
    """Write a byte to all of a piece."""
    with code.counting(count) as i:
        code.store("i8", byte, code.value(f"getelementptr i8, ptr {place}, i64 {i}"))


def differing(code, place, count, byte, total):
    """Add to a slot how many bytes of a piece are others."""
    with code.counting(count) as i:
        found = code.load("i8", code.value(f"getelementptr i8, ptr {place}, i64 {i}"))
        other = code.value(f"zext i1 {code.value(f'icmp ne i8 {found}, {byte}')} to i64")
        code.store("i64", code.value(f"add i64 {code.load('i64', total)}, {other}"), total)


def pieces(count):
    """Takes sizes; gives the addresses of pieces of these sizes, and how many bytes were overwritten by others."""
    used = []

    def write(kc):
        code, arena = kc.code, Arena(kc)
        used.append(arena)
        sizes = [int_at(kc, i) for i in range(count)]
        places = [arena.alloc(size) for size in sizes]
        total = code.slot("i64")
        code.store("i64", "0", total)
        for i, (place, size) in enumerate(zip(places, sizes, strict=True)):
            fill(code, place, size, str(i + 1))
        for i, (place, size) in enumerate(zip(places, sizes, strict=True)):
            differing(code, place, size, str(i + 1), total)
        return numbers(kc, [*(code.value(f"ptrtoint ptr {p} to i64") for p in places), code.load("i64", total)])

    return entry_of(write, lambda: used)


def test_pieces_lie_apart():
    entry, random_ = pieces(6), random.Random(1)
    for _ in range(200):
        sizes = [random_.choice((0, 1, 63, 64, 65, 4000, 60_000, 65_536, 300_000)) for _ in range(6)]
        *places, wrong = entry(*sizes)
        assert wrong == 0 and all(place % 64 == 0 for place in places)
        spans = sorted((p, p + n) for p, n in zip(places, sizes, strict=True) if n)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_the_next_call_has_all_of_it_in_one_chunk():
    entry, sizes = pieces(6), [60_000] * 6
    spread = []
    for _ in range(3):
        *places, wrong = entry(*sizes)
        assert wrong == 0
        spread.append(max(places) - min(places))
    assert spread[1] == spread[2] == 5 * 60_032


def test_chunks_wait_for_whichever_kernel_is_next():
    first, second = pieces(2), pieces(2)
    first(1000, 1000)
    place = first(1000, 1000)[0]
    assert second(100, 2000)[0] == place


def freeing():
    """Takes three sizes; a second piece is taken when the first one is free, a third one when both are.

    Gives where they are.
    """
    used = []

    def write(kc):
        arena = Arena(kc)
        used.append(arena)
        sizes = [(taken(kc, i), 4) for i in range(3)]
        places = [arena.alloc_elements(sizes[0], 4)]
        arena.free_elements(places[0], sizes[0], 4)
        places.append(arena.alloc_elements(sizes[1], 4))
        arena.free_elements(places[1], sizes[1], 4)
        places.append(arena.alloc_elements(sizes[2], 4))
        return numbers(kc, [kc.code.value(f"ptrtoint ptr {place} to i64") for place in places])

    return entry_of(write, lambda: used)


def test_pieces_that_were_freed_are_given_again():
    entry = freeing()
    for sizes, same in (
        ((1000, 1000, 1000), (True, True)),
        ((1000, 999, 600), (True, True)),
        ((1000, 499, 499), (False, True)),  # less than half of it
        ((1000, 1001, 1001), (False, True)),
        ((1000, 400, 1000), (False, False)),
        ((10, 10, 10), (False, False)),  # they are small
        ((0, 0, 0), (True, True)),  # they have no bytes, and are all at one place
    ):
        first, second, third = entry(*sizes)
        assert (second == first, third == second) == same, sizes
    assert entry(1000, 400, 1000)[0] == entry(1000, 400, 1000)[2]


@pytest.mark.parametrize("size", [-1, -64, -(2**63), 2**63 - 1, 2**46 + 1, 2**46])
def test_what_is_too_much(size):
    entry = pieces(2)
    assert entry(100, size) == GAVE_UP and entry(size, 100) == GAVE_UP
    assert entry(100, 100)[2] == 0


def test_products_that_do_not_fit():
    def write(kc):
        arena = Arena(kc)
        used.append(arena)
        place = arena.alloc_elements([taken(kc, i) for i in range(3)], 4)
        return numbers(kc, [kc.code.value(f"ptrtoint ptr {place} to i64")])

    used = []
    entry = entry_of(write, lambda: used)
    assert entry(3, 5, 7)[0] % 64 == 0
    assert entry(2**31, 2**31, 0)[0] % 64 == 0
    for sizes in ((2**31, 2**31, 2**31), (2**62, 1, 1), (2**63 - 1, 3, 1), (2**30, 2**30, 1), (-1, 1, 1)):
        assert entry(*sizes) == GAVE_UP


def taken(kc, i):
    s = scalar(f"a{i}")
    take_scalar(kc, argument_at(kc, i), ScalarInput(i, s))
    return s


def looping(has_outer=False):
    """Takes how many iterations, the size of the first piece and by how much it grows; each iteration has two pieces.

    Gives how many bytes were overwritten, and where the last piece was.
    """
    used = []

    def write(kc):
        code, inner, outer = kc.code, Arena(kc), Arena(kc)
        used.extend([inner, outer])
        trips, size, growth = (int_at(kc, i) for i in range(3))
        total, last, kept = code.slot("i64"), code.slot("ptr"), code.slot("ptr")
        code.store("i64", "0", total)
        code.store("ptr", "null", last)
        first = outer.alloc("256")
        code.store("ptr", first, kept)
        fill(code, first, "256", "0")
        with code.counting(trips) as trip:
            mark = inner.mark()
            now = code.value(f"add i64 {size}, {code.value(f'mul i64 {trip}, {growth}')}")
            byte = code.value(f"trunc i64 {trip} to i8")
            a, b = inner.alloc(now), inner.alloc(now)
            fill(code, a, now, byte)
            fill(code, b, now, "77")
            before = code.load("ptr", kept)
            after = outer.alloc("256")
            old = code.value(f"sub i8 {byte}, 1") if has_outer else "0"
            is_first = code.value(f"icmp eq i64 {trip}, 0")
            differing(code, before, "256", code.value(f"select i1 {is_first}, i8 0, i8 {old}"), total)
            fill(code, after, "256", byte if has_outer else "0")
            code.store("ptr", after, kept)
            differing(code, a, now, byte, total)
            differing(code, b, now, "77", total)
            code.store("ptr", b, last)
            inner.rewind(mark)
        place = code.value(f"ptrtoint ptr {code.load('ptr', last)} to i64")
        return numbers(kc, [code.load("i64", total), place])

    return entry_of(write, lambda: used)


@pytest.mark.parametrize("has_outer", [False, True])
def test_loops(has_outer):
    entry = looping(has_outer)
    for trips, size, growth in ((0, 100, 0), (1, 100, 0), (300, 100, 7), (40, 40_000, 3000), (20, 200_000, 0)):
        assert entry(trips, size, growth)[0] == 0


def test_iterations_take_no_more_memory_than_one():
    entry = looping()
    entry(3, 3_000_000, 0)
    before = resident()
    assert entry(30, 3_000_000, 0)[0] == 0  # 180 MB altogether
    assert entry(30, 10_000, 90_000)[0] == 0  # each needs a larger chunk
    assert resident() - before < 20e6


def test_calls_do_not_ask_for_memory_anew():
    """The chunk of a call waits for the next one, unless it is too large."""
    entry = pieces(1)
    places = {entry(50_000)[0] for _ in range(20)}
    assert len(places) == 1
    large = entry(200_000)[0]  # the small chunk is given back; where the large one lies is not known
    assert entry(50_000)[0] == entry(200_000)[0] == large


def test_memory_is_given_back_with_the_code():
    before = resident()
    for _ in range(6):
        entry = pieces(1)
        assert entry(arena_functions._KEPT)[1] == 0
        del entry
        gc.collect()
    assert resident() - before < 3 * arena_functions._KEPT


def calling(function):
    """Takes a size and a number; fills a piece, calls the function, says how much of the piece is different then."""
    used = []

    def write(kc):
        code, arena = kc.code, Arena(kc)
        used.append(arena)
        kc.kept.append(function)
        size, byte = int_at(kc, 0), code.value(f"trunc i64 {int_at(kc, 1)} to i8")
        place = arena.alloc(size)
        fill(code, place, size, byte)
        code.call("void", "Py_DecRef", "ptr", code.call("ptr", "PyObject_CallNoArgs", "ptr", pointer(id(function))))
        total = code.slot("i64")
        code.store("i64", "0", total)
        differing(code, place, size, byte, total)
        return numbers(kc, [code.load("i64", total)])

    return entry_of(write, lambda: used)


def test_a_call_within_a_call():
    depth = []

    def again():
        if len(depth) < 5:
            depth.append(entry(100 * 7 ** len(depth), len(depth) + 2) if not depth.append(None) else None)

    entry = calling(again)
    for _ in range(3):
        depth.clear()
        assert entry(1000, 1) == (0,)
        assert [d for d in depth if d is not None] == [(0,)] * (len(depth) // 2)


def test_calls_in_several_threads():
    entry, wrong = calling(lambda: threading.Event().wait(0.0001)), []

    def run(byte):
        for i in range(100):
            found = entry(1000 + 977 * i, byte)
            if found != (0,):
                wrong.append(found)

    threads = [threading.Thread(target=run, args=(byte,)) for byte in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("count", [20_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_memory_does_not_grow(count):
    entry, loop = pieces(3), looping()
    for _ in range(100):
        entry(10, 1000, 70_000), loop(3, 100, 100_000)
    before = resident()
    for _ in range(count // 10):
        entry(10, 1000, 7_000)
        entry(10, -1, 10)
    for _ in range(count // 100):
        loop(3, 100, 10_000)
    assert resident() - before < 2e6
