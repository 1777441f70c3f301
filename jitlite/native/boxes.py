"""Lists and dicts in machine code: boxes, and the functions that make them grow.

A box is nine fields of eight bytes. All boxes of a call are a chain that its frame begins. They are freed when it ends,
and those made in an iteration of a loop at the end of the iteration, where nothing can have kept them.

    frame    0 first box     1 bytes that boxes have asked for
    box      0 next box      1 the Python object made of it, or null     2 elements of a list, values of a dict
             3 how many      4 room for how many
             5 keys of a dict, in order of insertion     6 its table     7 size of the table - 1
             8 bytes asked for

The table of a dict has, for each hash, the number of the entry + 1, or 0; a place that is taken sends on to the next.
"""

from __future__ import annotations

from jitlite.native.capi import address, pointer
from jitlite.native.code import LLVMBuilder

NEXT, OBJECT, DATA, COUNT, ROOM, KEYS, TABLE, MASK, ASKED = range(9)
_BOX = 8 * (ASKED + 1)

MEMORY = 1 << 30
"""Bytes that the boxes of a call may ask for: it bails out when they want more."""

_SPREAD = -7046029254386353131
"""2**64 divided by the golden ratio: multiplied by it, keys that are close together are far apart."""


def new_box(code: LLVMBuilder, frame: str) -> str:
    """An empty list or dict. Bails out: no memory."""
    code.helper(_make())
    box = code.value(f"call ptr @make(ptr {frame})")
    code.bail_out_if(code.value(f"icmp eq ptr {box}, null"))
    return box


def reserve(code: LLVMBuilder, frame: str, box: str, count: str, size: str) -> None:
    """Have room for so many elements of a size. Bails out: no memory."""
    code.helper(_grow())
    room = code.load("i64", code.field(box, ROOM))
    enough, more = code.fresh("enough"), code.fresh("more")
    code.branch(code.value(f"icmp sle i64 {count}, {room}"), enough, more)
    code.label(more)
    code.bail_out_if(code.value(f"call i1 @grow(ptr {frame}, ptr {box}, i32 {DATA}, i64 {count}, i64 {size})"))
    code.go(enough)
    code.label(enough)


def find(code: LLVMBuilder, box: str, key: str) -> str:
    """The number of a key's entry in a dict, -1 where there is none."""
    code.helper(_find())
    return code.value(f"call i64 @find(ptr {box}, i64 {key})")


def find_or_insert(code: LLVMBuilder, frame: str, box: str, key: str, size: str) -> str:
    """The number of a key's entry in a dict, a new one if need be. Bails out: no memory."""
    for text in (_grow(), _find(), _rehash(), _insert()):
        code.helper(text)
    entry = code.value(f"call i64 @insert(ptr {frame}, ptr {box}, i64 {key}, i64 {size})")
    code.bail_out_if(code.value(f"icmp slt i64 {entry}, 0"))
    return entry


def free(code: LLVMBuilder, frame: str, until: str = "null") -> None:
    """Free the boxes of a call, the last one first, until that one. Written behind what makes boxes."""
    if _make() not in code.helpers:
        return  # there are none
    code.helper(_free())
    code.emit(f"call void @free(ptr {frame}, ptr {until})")


def _function(name: str) -> str:
    return pointer(address(name))


def _ask(box: str, size: str) -> str:
    """Count bytes, in the frame and in a box; goes to `get` or to `no`."""
    lines = [
        "%asked.p = getelementptr i64, ptr %frame, i64 1",
        "%before = load i64, ptr %asked.p",
        f"%asked = add i64 %before, {size}",
        "store i64 %asked, ptr %asked.p",
        f"%much = icmp sgt i64 %asked, {MEMORY}",
        "br i1 %much, label %no, label %get",
    ]
    if box != "null":
        lines[:0] = [
            f"%own.p = getelementptr i64, ptr {box}, i64 {ASKED}",
            "%own.before = load i64, ptr %own.p",
            f"%own = add i64 %own.before, {size}",
            "store i64 %own, ptr %own.p",
        ]
    return "\n".join(f"  {line}" for line in lines)


def _make() -> str:
    return f"""
define internal ptr @make(ptr %frame) noinline cold {{
{_ask("null", str(_BOX))}
get:
  %box = call ptr {_function("PyMem_RawCalloc")}(i64 1, i64 {_BOX})
  %none = icmp eq ptr %box, null
  br i1 %none, label %no, label %chain
chain:
  %first = load ptr, ptr %frame
  store ptr %first, ptr %box
  store ptr %box, ptr %frame
  ret ptr %box
no:
  ret ptr null
}}"""


def _grow() -> str:
    """True where there is no memory. A list and the two arrays of a dict have room for as many as field 4 says."""
    return f"""
define internal i1 @grow(ptr %frame, ptr %box, i32 %field, i64 %count, i64 %size) noinline cold {{
  %room.p = getelementptr i64, ptr %box, i64 {ROOM}
  %room = load i64, ptr %room.p
  %half = lshr i64 %room, 1
  %longer = add i64 %room, %half
  %long = add i64 %longer, 8
  %less = icmp slt i64 %long, %count
  %new = select i1 %less, i64 %count, i64 %long
  %huge = icmp ugt i64 %new, {MEMORY}
  br i1 %huge, label %no, label %ask
ask:
  %bytes = mul i64 %new, %size
{_ask("%box", "%bytes")}
get:
  %data.p = getelementptr i64, ptr %box, i32 %field
  %old = load ptr, ptr %data.p
  %data = call ptr {_function("PyMem_RawRealloc")}(ptr %old, i64 %bytes)
  %none = icmp eq ptr %data, null
  br i1 %none, label %no, label %keep
keep:
  store ptr %data, ptr %data.p
  %is.data = icmp eq i32 %field, {DATA}
  br i1 %is.data, label %note, label %yes
note:
  store i64 %new, ptr %room.p
  br label %yes
yes:
  ret i1 false
no:
  ret i1 true
}}"""


def _find() -> str:
    return f"""
define internal i64 @find(ptr %box, i64 %key) {{
  %table.p = getelementptr i64, ptr %box, i64 {TABLE}
  %table = load ptr, ptr %table.p
  %empty = icmp eq ptr %table, null
  br i1 %empty, label %none, label %start
start:
  %mask.p = getelementptr i64, ptr %box, i64 {MASK}
  %mask = load i64, ptr %mask.p
  %keys.p = getelementptr i64, ptr %box, i64 {KEYS}
  %keys = load ptr, ptr %keys.p
  %spread = mul i64 %key, {_SPREAD}
  %first = lshr i64 %spread, 20
  br label %look
look:
  %hash = phi i64 [ %first, %start ], [ %next, %on ]
  %place = and i64 %hash, %mask
  %entry.p = getelementptr i64, ptr %table, i64 %place
  %number = load i64, ptr %entry.p
  %free = icmp eq i64 %number, 0
  br i1 %free, label %none, label %compare
compare:
  %entry = sub i64 %number, 1
  %found.p = getelementptr i64, ptr %keys, i64 %entry
  %found = load i64, ptr %found.p
  %same = icmp eq i64 %found, %key
  br i1 %same, label %yes, label %on
on:
  %next = add i64 %hash, 1
  br label %look
yes:
  ret i64 %entry
none:
  ret i64 -1
}}"""


def _rehash() -> str:
    """A new table, twice the size of the room for entries or more. True where there is no memory."""
    return f"""
define internal i1 @rehash(ptr %frame, ptr %box) noinline cold {{
  %mask.p = getelementptr i64, ptr %box, i64 {MASK}
  %old.mask = load i64, ptr %mask.p
  %twice = shl i64 %old.mask, 1
  %wider = or i64 %twice, 15
  %size = add i64 %wider, 1
  %bytes = shl i64 %size, 3
{_ask("%box", "%bytes")}
get:
  %table = call ptr {_function("PyMem_RawCalloc")}(i64 %size, i64 8)
  %none = icmp eq ptr %table, null
  br i1 %none, label %no, label %have
have:
  %table.p = getelementptr i64, ptr %box, i64 {TABLE}
  %old = load ptr, ptr %table.p
  call void {_function("PyMem_RawFree")}(ptr %old)
  store ptr %table, ptr %table.p
  store i64 %wider, ptr %mask.p
  %keys.p = getelementptr i64, ptr %box, i64 {KEYS}
  %keys = load ptr, ptr %keys.p
  %count.p = getelementptr i64, ptr %box, i64 {COUNT}
  %count = load i64, ptr %count.p
  br label %each
each:
  %entry = phi i64 [ 0, %have ], [ %number, %put ]
  %done = icmp eq i64 %entry, %count
  br i1 %done, label %yes, label %place
place:
  %key.p = getelementptr i64, ptr %keys, i64 %entry
  %key = load i64, ptr %key.p
  %spread = mul i64 %key, {_SPREAD}
  %first = lshr i64 %spread, 20
  br label %look
look:
  %hash = phi i64 [ %first, %place ], [ %next, %on ]
  %where = and i64 %hash, %wider
  %entry.p = getelementptr i64, ptr %table, i64 %where
  %taken = load i64, ptr %entry.p
  %free = icmp eq i64 %taken, 0
  br i1 %free, label %put, label %on
on:
  %next = add i64 %hash, 1
  br label %look
put:
  %number = add i64 %entry, 1
  store i64 %number, ptr %entry.p
  br label %each
yes:
  ret i1 false
no:
  ret i1 true
}}"""


def _insert() -> str:
    return f"""
define internal i64 @insert(ptr %frame, ptr %box, i64 %key, i64 %size) {{
  %known = call i64 @find(ptr %box, i64 %key)
  %is.known = icmp sge i64 %known, 0
  br i1 %is.known, label %yes, label %new
yes:
  ret i64 %known
new:
  %count.p = getelementptr i64, ptr %box, i64 {COUNT}
  %count = load i64, ptr %count.p
  %more = add i64 %count, 1
  %room.p = getelementptr i64, ptr %box, i64 {ROOM}
  %room = load i64, ptr %room.p
  %has.room = icmp sle i64 %more, %room
  br i1 %has.room, label %table, label %grow
grow:
  %no.keys = call i1 @grow(ptr %frame, ptr %box, i32 {KEYS}, i64 %more, i64 8)
  br i1 %no.keys, label %no, label %values
values:
  %no.values = call i1 @grow(ptr %frame, ptr %box, i32 {DATA}, i64 %more, i64 %size)
  br i1 %no.values, label %no, label %table
table:
  %mask.p = getelementptr i64, ptr %box, i64 {MASK}
  %mask = load i64, ptr %mask.p
  %double = shl i64 %more, 1
  %fits = icmp ule i64 %double, %mask
  br i1 %fits, label %put, label %wider
wider:
  %no.table = call i1 @rehash(ptr %frame, ptr %box)
  br i1 %no.table, label %no, label %put
put:
  %keys.p = getelementptr i64, ptr %box, i64 {KEYS}
  %keys = load ptr, ptr %keys.p
  %key.p = getelementptr i64, ptr %keys, i64 %count
  store i64 %key, ptr %key.p
  store i64 %more, ptr %count.p
  %table.p = getelementptr i64, ptr %box, i64 {TABLE}
  %entries = load ptr, ptr %table.p
  %now.mask = load i64, ptr %mask.p
  %spread = mul i64 %key, {_SPREAD}
  %first = lshr i64 %spread, 20
  br label %look
look:
  %hash = phi i64 [ %first, %put ], [ %next, %on ]
  %where = and i64 %hash, %now.mask
  %entry.p = getelementptr i64, ptr %entries, i64 %where
  %taken = load i64, ptr %entry.p
  %free = icmp eq i64 %taken, 0
  br i1 %free, label %done, label %on
on:
  %next = add i64 %hash, 1
  br label %look
done:
  store i64 %more, ptr %entry.p
  ret i64 %count
no:
  ret i64 -1
}}"""


def _free() -> str:
    release = _function("PyMem_RawFree")
    fields = "\n".join(
        f"  %p{i} = getelementptr i64, ptr %box, i64 {i}\n  %f{i} = load ptr, ptr %p{i}\n"
        f"  call void {release}(ptr %f{i})"
        for i in (DATA, KEYS, TABLE)
    )
    return f"""
define internal void @free(ptr %frame, ptr %until) noinline {{
entry:
  %first = load ptr, ptr %frame
  %asked.p = getelementptr i64, ptr %frame, i64 1
  br label %each
each:
  %box = phi ptr [ %first, %entry ], [ %next, %one ]
  %done = icmp eq ptr %box, %until
  br i1 %done, label %end, label %one
one:
  %next = load ptr, ptr %box
{fields}
  %own.p = getelementptr i64, ptr %box, i64 {ASKED}
  %own = load i64, ptr %own.p
  %all = add i64 %own, {_BOX}
  %asked = load i64, ptr %asked.p
  %left = sub i64 %asked, %all
  store i64 %left, ptr %asked.p
  call void {release}(ptr %box)
  br label %each
end:
  store ptr %until, ptr %frame
  ret void
}}"""
