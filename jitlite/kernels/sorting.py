"""Sorting as LLVM: where the lowest numbers of rows are, in order.

A *record* is a number and where it was. What torch's `topk` gives among equal elements is not said anywhere; it is what
the C++ library does with comparisons alone: a heap of the best ones where few are asked for, else a selection by
partitions and then a sort. These are written here so that they compare and move what that library compares and moves.
`torch_orders` tries whether it is so. Sorting of whole rows is stable, so it is what it is however it is done: runs
that are sorted by insertion are merged.
"""

from __future__ import annotations

from functools import cache

from jitlite.kernels.arena import Arena
from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Place, Sort
from jitlite.kernels.routines import Register, Routine
from jitlite.native.capi import pointer
from jitlite.native.code import LLVMBuilder
from jitlite.native.entry import address_of

RECORD = 16
"""Bytes of a number and its position."""
FEW = 64
"""Where a row has so many times as many elements as are asked for, they are kept in a heap."""
_SHORT = 16
"""Records that are sorted by insertion, as the C++ library does it."""
_RUN = 8
"""Records of a run that is sorted by insertion before runs are merged."""
_AT_ONCE = 8
"""Numbers that are compared at once with the worst one of the heap."""


def emit_sort(kc: KernelCode, sort: Sort, arena: Arena) -> None:
    """Write a sort: a call for each row.

    Args:
        kc: the kernel.
        sort: the statement.
        arena: where records are kept meanwhile.
    """
    code = kc.code
    rows, length = (kc.operand(size) for size in sort.keys.sizes)
    count = kc.operand(sort.positions.sizes[1])
    records = arena.alloc_elements((sort.keys.sizes[1], 2), RECORD)
    name, text = ("sort_row", sort_module()) if sort.op == "stable" else ("topk_row", topk_module())
    routine = pointer(address_of(name, text))
    with code.counting(rows) as row:
        keys, into = (_row(kc, place, row) for place in (sort.keys, sort.positions))
        is_sorted = int(sort.op != "topk unsorted")
        operands = f"ptr {keys}, ptr {into}, ptr {records}, i64 {length}, i64 {count}, i64 {is_sorted}"
        code.emit(f"call void {routine}({operands})")


def _row(kc: KernelCode, place: Place, row: str) -> str:
    """Where a row of a matrix starts."""
    return kc.element(place.buffer, kc.address(place), kc.multiply(row, kc.operand(place.strides[0])))


@cache
def topk_module() -> str:
    """The text of what finds the first elements of a row."""
    makers = (_sift, _make, _unmake, _choose, _insert, _partition, _nth, _sort, _topk_heap, _topk)
    declared = f"declare i1 @llvm.vector.reduce.or.v{_AT_ONCE}i1(<{_AT_ONCE} x i1>)"
    return "\n".join([declared, *(make() for make in makers)])


@cache
def sort_module() -> str:
    """The text of what puts a row in order."""
    return "\n".join(make() for make in (_insert, _merge, _stable))


class _Records:
    """The records behind a pointer."""

    def __init__(self, routine: Routine, pointer: str) -> None:
        self.routine = routine
        self.pointer = pointer

    def key(self, i: Register | int) -> Register:
        return self.routine.load(self.pointer, i * 2)

    def origin(self, i: Register | int) -> Register:
        return self.routine.load(self.pointer, i * 2 + 1)

    def put(self, i: Register | int, key: Register, origin: Register | int) -> None:
        self.routine.store(self.pointer, i * 2, key)
        self.routine.store(self.pointer, i * 2 + 1, origin)

    def copy(self, to: Register | int, source: _Records, i: Register | int) -> None:
        self.put(to, source.key(i), source.origin(i))

    def move(self, to: Register | int, i: Register | int) -> None:
        self.copy(to, self, i)

    def swap(self, i: Register | int, j: Register | int) -> None:
        key, origin = self.key(i), self.origin(i)
        self.move(i, j)
        self.put(j, key, origin)

    def behind(self, start: Register | int) -> str:
        """The pointer of those from a position on."""
        return self.routine.element(self.pointer, start * 2)


# -- heaps: the greatest record is the first one


def _sift() -> str:
    """Put a record into a heap that has a hole: the hole goes down to the bottom, and the record up from there."""
    r = Routine("heap_sift", ("heap",), ("count", "start", "key", "origin"))
    heap = _Records(r, "%heap")
    count, start, key, origin = r.numbers
    hole, child = r.variable(start), r.variable(start)
    with r.while_(lambda: child.get() < (count - 1) // 2):
        right = child.get() * 2 + 2
        child.set(right.or_if(heap.key(right) < heap.key(right - 1), right - 1))
        heap.move(hole.get(), child.get())
        hole.set(child.get())
    with r.if_((count & 1).equals(0).both(child.get().equals((count - 2) // 2))):
        only = child.get() * 2 + 1
        heap.move(hole.get(), only)
        hole.set(only)
    with r.while_(lambda: start < hole.get(), lambda: heap.key((hole.get() - 1) // 2) < key):
        parent = (hole.get() - 1) // 2
        heap.move(hole.get(), parent)
        hole.set(parent)
    heap.put(hole.get(), key, origin)
    r.give()
    return r.text()


def _make() -> str:
    """Have a heap of records."""
    r = Routine("heap_make", ("heap",), ("count",))
    heap = _Records(r, "%heap")
    [count] = r.numbers
    parent = r.variable((count - 2) // 2)
    with r.while_(lambda: parent.get() > -1):
        at = parent.get()
        r.call("heap_sift", ("%heap",), count, at, heap.key(at), heap.origin(at))
        parent.set(at - 1)
    r.give()
    return r.text()


def _unmake() -> str:
    """Sort the records of a heap."""
    r = Routine("heap_sort", ("heap",), ("count",))
    heap = _Records(r, "%heap")
    left = r.variable(r.numbers[0])
    with r.while_(lambda: left.get() > 1):
        last = left.get() - 1
        left.set(last)
        key, origin = heap.key(last), heap.origin(last)
        heap.move(last, 0)
        r.call("heap_sift", ("%heap",), last, 0, key, origin)
    r.give()
    return r.text()


def _choose() -> str:
    """Have the lowest records, as many as are wanted, in a heap at the front."""
    r = Routine("heap_select", ("records",), ("wanted", "count"))
    records = _Records(r, "%records")
    wanted, count = r.numbers
    r.call("heap_make", ("%records",), wanted)
    at = r.variable(wanted)
    with r.while_(lambda: at.get() < count):
        here = at.get()
        with r.if_(records.key(here) < records.key(0)):
            key, origin = records.key(here), records.origin(here)
            records.move(here, 0)
            r.call("heap_sift", ("%records",), wanted, 0, key, origin)
        at.set(here + 1)
    r.give()
    return r.text()


# -- partitions


def _insert() -> str:
    """Sort by insertion."""
    r = Routine("insertion_sort", ("records",), ("count",))
    records = _Records(r, "%records")
    [count] = r.numbers
    at = r.variable(1)
    with r.while_(lambda: at.get() < count):
        key, origin, hole = records.key(at.get()), records.origin(at.get()), r.variable(at.get())
        with r.while_(lambda: hole.get() > 0, lambda: key < records.key(hole.get() - 1)):
            records.move(hole.get(), hole.get() - 1)
            hole.set(hole.get() - 1)
        records.put(hole.get(), key, origin)
        at.set(at.get() + 1)
    r.give()
    return r.text()


def _partition() -> str:
    """Have what is lower than a middling record before what is greater; gives where these begin."""
    r = Routine("partition", ("records",), ("count",), gives=True)
    records = _Records(r, "%records")
    [count] = r.numbers
    b, c = count // 2, count - 1
    x, y, z = records.key(1), records.key(b), records.key(c)
    is_b = (x < y).both(y < z).either((y <= x).both(z <= y))
    is_c = (x < y).both(z <= y).both(x < z).either((y <= x).both(z <= x).both(y < z))
    records.swap(0, (count - count + 1).or_if(is_b, b).or_if(is_c, c))
    pivot = records.key(0)
    low, high = r.variable(1), r.variable(count)

    def close_in() -> Register:
        with r.while_(lambda: records.key(low.get()) < pivot):
            low.set(low.get() + 1)
        high.set(high.get() - 1)
        with r.while_(lambda: pivot < records.key(high.get())):
            high.set(high.get() - 1)
        return low.get() < high.get()

    with r.while_(close_in):
        records.swap(low.get(), high.get())
        low.set(low.get() + 1)
    r.give(low.get())
    return r.text()


def _logarithm(r: Routine, count: Register) -> Register:
    """Twice the binary logarithm, rounded down first: how deep partitions go before heaps take over."""
    found = r.variable(0)
    left = r.variable(count)
    with r.while_(lambda: left.get() > 1):
        left.set(left.get() // 2)
        found.set(found.get() + 2)
    return found.get()


def _nth() -> str:
    """Have the lowest records before the one at a position, which is the one that sorting would put there."""
    r = Routine("select_nth", ("records",), ("nth", "count"))
    records = _Records(r, "%records")
    nth, count = r.numbers
    depth, first, end = r.variable(_logarithm(r, count)), r.variable(0), r.variable(count)
    with r.while_(lambda: end.get() - first.get() > 3):
        part = _Records(r, records.behind(first.get()))
        with r.if_(depth.get().equals(0)):
            r.call("heap_select", (part.pointer,), nth + 1 - first.get(), end.get() - first.get())
            part.swap(0, nth - first.get())
            r.give()
            r.code.label(r.code.fresh("never"))
        depth.set(depth.get() - 1)
        cut = first.get() + r.call("partition", (part.pointer,), end.get() - first.get(), gives=True)
        is_before = cut <= nth
        new = first.get().or_if(is_before, cut)
        end.set(cut.or_if(is_before, end.get()))
        first.set(new)
    r.call("insertion_sort", (records.behind(first.get()),), end.get() - first.get())
    r.give()
    return r.text()


def _sort() -> str:
    """Sort by partitions; what is left of them is short, and sorted by insertion afterwards."""
    r = Routine("partition_sort", ("records",), ("count", "depth"))
    records = _Records(r, "%records")
    end, depth = r.variable(r.numbers[0]), r.variable(r.numbers[1])
    with r.while_(lambda: end.get() > _SHORT):
        with r.if_(depth.get().equals(0)):
            r.call("heap_make", ("%records",), end.get())
            r.call("heap_sort", ("%records",), end.get())
            r.give()
            r.code.label(r.code.fresh("never"))
        depth.set(depth.get() - 1)
        cut = r.call("partition", ("%records",), end.get(), gives=True)
        r.call("partition_sort", (records.behind(cut),), end.get() - cut, depth.get())
        end.set(cut)
    r.give()
    return r.text()


# -- the first ones of a row


def _topk_heap() -> str:
    """Keep the lowest ones in a heap; several numbers are compared with the worst one at once, most in vain."""
    r = Routine("topk_heap", ("keys", "records"), ("start", "end", "wanted"))
    heap = _Records(r, "%records")
    start, end, wanted = r.numbers
    at = r.variable(start)
    with r.while_(lambda: at.get() < end):
        key = r.load("%keys", at.get())
        with r.if_(key < heap.key(0)):
            r.call("heap_sift", ("%records",), wanted, 0, key, at.get())
        at.set(at.get() + 1)
    r.give()
    return r.text()


def _topk() -> str:
    r = Routine("topk_row", ("keys", "positions", "records"), ("length", "wanted", "sorted"), is_entry=True)
    records = _Records(r, "%records")
    length, wanted, is_sorted = r.numbers
    has_few = wanted * FEW <= length
    i = r.variable(0)
    with r.if_(wanted > 0):
        held = length.or_if(has_few, wanted)
        with r.while_(lambda: i.get() < held):
            records.put(i.get(), r.load("%keys", i.get()), i.get())
            i.set(i.get() + 1)
        with r.if_(has_few):
            r.call("heap_make", ("%records",), wanted)
            _scan(r, records, wanted, length)
            r.call("heap_sort", ("%records",), wanted)
        with r.if_(wanted * FEW > length):
            r.call("select_nth", ("%records",), wanted - 1, length)
            with r.if_(is_sorted.equals(1)):
                r.call("partition_sort", ("%records",), wanted - 1, _logarithm(r, wanted - 1))
                r.call("insertion_sort", ("%records",), wanted - 1)
        _give_positions(r, records, wanted)
    r.give()
    return r.text()


def _scan(r: Routine, heap: _Records, wanted: Register, length: Register) -> None:
    """Go over the numbers that are not in the heap yet."""
    code: LLVMBuilder = r.code
    at, vector = r.variable(wanted), f"<{_AT_ONCE} x i64>"
    with r.while_(lambda: at.get() + _AT_ONCE <= length):
        here = at.get()
        numbers = code.value(f"load {vector}, ptr {r.element('%keys', here)}, align 8")
        first = code.value(f"insertelement {vector} poison, i64 {heap.key(0).text}, i64 0")
        worst = code.value(f"shufflevector {vector} {first}, {vector} poison, <{_AT_ONCE} x i32> zeroinitializer")
        better = code.value(f"icmp slt {vector} {numbers}, {worst}")
        found = code.value(f"call i1 @llvm.vector.reduce.or.v{_AT_ONCE}i1(<{_AT_ONCE} x i1> {better})")
        with r.if_(Register(code, found)):
            r.call("topk_heap", ("%keys", "%records"), here, here + _AT_ONCE, wanted)
        at.set(here + _AT_ONCE)
    r.call("topk_heap", ("%keys", "%records"), at.get(), length, wanted)


def _give_positions(r: Routine, records: _Records, count: Register) -> None:
    i = r.variable(0)
    with r.while_(lambda: i.get() < count):
        r.store("%positions", i.get(), records.origin(i.get()))
        i.set(i.get() + 1)


# -- whole rows


def _merge() -> str:
    """Merge two sorted runs that lie one behind the other; of equal records those of the first run come first."""
    r = Routine("merge_runs", ("records", "merged"), ("middle", "count"))
    records, merged = _Records(r, "%records"), _Records(r, "%merged")
    middle, count = r.numbers
    left, right, to = r.variable(0), r.variable(middle), r.variable(0)
    with r.while_(lambda: left.get() < middle, lambda: right.get() < count):
        is_right = records.key(right.get()) < records.key(left.get())
        merged.copy(to.get(), records, left.get().or_if(is_right, right.get()))
        left.set((left.get() + 1).or_if(is_right, left.get()))
        right.set(right.get().or_if(is_right, right.get() + 1))
        to.set(to.get() + 1)
    for rest, end in ((left, middle), (right, count)):
        with r.while_(lambda rest=rest, end=end: rest.get() < end):  # type: ignore[misc]
            merged.copy(to.get(), records, rest.get())
            rest.set(rest.get() + 1)
            to.set(to.get() + 1)
    r.give()
    return r.text()


def _stable() -> str:
    r = Routine("sort_row", ("keys", "positions", "records"), ("length", "wanted", "sorted"), is_entry=True)
    length, wanted, _ = r.numbers
    records = _Records(r, "%records")
    i, run, is_moved = r.variable(0), r.variable(_RUN), r.variable(0)
    with r.while_(lambda: i.get() < length):
        records.put(i.get(), r.load("%keys", i.get()), i.get())
        i.set(i.get() + 1)
    start = r.variable(0)
    with r.while_(lambda: start.get() < length):
        left = length - start.get()
        r.call("insertion_sort", (records.behind(start.get()),), left.or_if(left > _RUN, _RUN))
        start.set(start.get() + _RUN)
    with r.while_(lambda: run.get() < length):
        here = _Records(r, records.behind((is_moved.get() & 1) * length))
        there = _Records(r, records.behind((is_moved.get() + 1 & 1) * length))
        start.set(0)
        with r.while_(lambda: start.get() < length):
            left = length - start.get()
            middle, both = left.or_if(left > run.get(), run.get()), left.or_if(left > run.get() * 2, run.get() * 2)
            r.call("merge_runs", (here.behind(start.get()), there.behind(start.get())), middle, both)
            start.set(start.get() + run.get() * 2)
        run.set(run.get() * 2)
        is_moved.set(is_moved.get() + 1)
    _give_positions(r, _Records(r, records.behind((is_moved.get() & 1) * length)), wanted)
    r.give()
    return r.text()
