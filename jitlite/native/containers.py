"""How operators on lists, dicts and tuples are emitted, and when they bail out.

Letters of operands: `l` a list that the region makes, `o` a list from outside, `d` a dict that the region makes, `t` a
tuple, `*` anything. A rule is given a `Site`; it gives the result, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Node, constant_of
from jitlite.ir.types import Type
from jitlite.native.boxes import COUNT, DATA, KEYS, find, find_or_insert, new_box, reserve
from jitlite.native.boxing import unboxed
from jitlite.native.code import LLVMBuilder
from jitlite.native.layout import OUTSIDE, stored, zero


class Site(Record, eq=True):
    """Where a rule is applied."""

    code: LLVMBuilder
    node: Node
    frame: str
    """The register that points to the frame, on which boxes are chained."""
    operands: list[str]
    letters: str
    """Those of the operands."""

    @property
    def element(self) -> Type:
        """The type of the elements of the list, or of the values of the dict, that is the first operand."""
        return element_of(self.node.inputs[0].type)


Rule = Callable[[Site], str | None]


def element_of(t: Type) -> Type:
    """The type of what a list holds, or of the values of a dict."""
    if isinstance(t, T.ListType):
        return t.element
    assert isinstance(t, T.DictType)
    return t.value


def size_of(code: LLVMBuilder, t: Type) -> str:
    """The size of a value, as LLVM computes it."""
    return f"ptrtoint (ptr getelementptr ({stored(t)}, ptr null, i64 1) to i64)"


def element_place(code: LLVMBuilder, box: str, index: str, t: Type) -> str:
    """Where element `index` is, which has to be there."""
    data = code.load("ptr", code.field(box, DATA))
    return code.value(f"getelementptr {stored(t)}, ptr {data}, i64 {index}")


def _position(code: LLVMBuilder, index: str, count: str) -> str:
    """A position from the front. Bails out: outside."""
    negative = code.value(f"icmp slt i64 {index}, 0")
    position = code.value(f"select i1 {negative}, i64 {code.value(f'add i64 {index}, {count}')}, i64 {index}")
    code.bail_out_if(code.value(f"icmp uge i64 {position}, {count}"))
    return position


def _count(code: LLVMBuilder, box: str) -> str:
    return code.load("i64", code.field(box, COUNT))


def holds_boxes(t: Type) -> bool:
    """Is a value of the type a list or a dict, or are there some in it?"""
    if isinstance(t, T.TupleType):
        return any(map(holds_boxes, t.elements))
    return isinstance(t, T.ListType | T.DictType)


def keeps_boxes(node: Node) -> bool:
    """Does the operation put a list or a dict into another one that there was before?"""
    return node.kind in ("aten::append", "aten::_set_item") and holds_boxes(node.inputs[-1].type)


# -- lists


def make_list(site: Site) -> str:
    """A new list of the operands."""
    code, t = site.code, element_of(site.node.output.type)
    box = new_box(code, site.frame)
    for operand in site.operands:
        _append(site, box, operand, t)
    return box


def _append(site: Site, box: str, value: str, t: Type) -> None:
    code = site.code
    count = _count(code, box)
    more = code.value(f"add i64 {count}, 1")
    reserve(code, site.frame, box, more, size_of(code, t))
    code.store(stored(t), value, element_place(code, box, count, t))
    code.store("i64", more, code.field(box, COUNT))


def append(site: Site) -> str:
    """Bails out: no memory."""
    box, value = site.operands
    _append(site, box, value, site.element)
    return box


def length(site: Site) -> str:
    return _count(site.code, site.operands[0])


def item(site: Site) -> str:
    """Bails out: a position outside."""
    code, (box, index) = site.code, site.operands
    place = element_place(code, box, _position(code, index, _count(code, box)), site.element)
    return code.load(stored(site.element), place)


def set_item(site: Site) -> str:
    """Bails out: a position outside."""
    code, (box, index, value) = site.code, site.operands
    place = element_place(code, box, _position(code, index, _count(code, box)), site.element)
    code.store(stored(site.element), value, place)
    return box


def pop(site: Site) -> str:
    """Bails out: a position outside."""
    code, (box, index) = site.code, site.operands
    count = _count(code, box)
    position, last = _position(code, index, count), code.value(f"sub i64 {count}, 1")
    place = element_place(code, box, position, site.element)
    result = code.load(stored(site.element), place)
    following = code.value(f"getelementptr {stored(site.element)}, ptr {place}, i64 1")
    behind = code.value(f"sub i64 {last}, {position}")
    size = code.value(f"mul i64 {behind}, {size_of(code, site.element)}")
    code.declared.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
    code.emit(f"call void @llvm.memmove.p0.p0.i64(ptr {place}, ptr {following}, i64 {size}, i1 false)")
    code.store("i64", last, code.field(box, COUNT))
    return result


def clear(site: Site) -> None:
    site.code.store("i64", "0", site.code.field(site.operands[0], COUNT))


def _filled(site: Site, box: str, count: str, t: Type) -> None:
    """Have room for so many elements, which the caller writes."""
    reserve(site.code, site.frame, box, count, size_of(site.code, t))
    site.code.store("i64", count, site.code.field(box, COUNT))


def repeat(site: Site) -> str:
    """`xs * n` and `n * xs`: a new list. Bails out: a length that is no int of 64 bits, no memory."""
    code = site.code
    which = 1 if site.letters[0] == "i" else 0
    given, times = _own(site, which), site.operands[1 - which]
    t = element_of(site.node.output.type)
    negative = code.value(f"icmp slt i64 {times}, 0")
    times = code.value(f"select i1 {negative}, i64 0, i64 {times}")
    count = _count(code, given)
    pair = code.intrinsic("{ i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)", count, times)
    total = code.value(f"extractvalue {{ i64, i1 }} {pair}, 0")
    code.bail_out_if(code.value(f"extractvalue {{ i64, i1 }} {pair}, 1"))
    box = new_box(code, site.frame)
    _filled(site, box, total, t)
    with code.counting(times) as turn:
        start = code.value(f"mul i64 {turn}, {count}")
        with code.counting(count) as index:
            value = code.load(stored(t), element_place(code, given, index, t))
            code.store(stored(t), value, element_place(code, box, code.value(f"add i64 {start}, {index}"), t))
    return box


def copy(site: Site) -> str:
    """A new list of the same elements. Bails out: no memory."""
    if site.letters == OUTSIDE:
        return _own(site, 0)
    code, (given,) = site.code, site.operands
    box, count = new_box(code, site.frame), _count(code, given)
    _filled(site, box, count, site.element)
    with code.counting(count) as index:
        value = code.load(stored(site.element), element_place(code, given, index, site.element))
        code.store(stored(site.element), value, element_place(code, box, index, site.element))
    return box


def range_list(site: Site) -> str:
    """Bails out: no memory."""
    code, (count,) = site.code, site.operands
    negative = code.value(f"icmp slt i64 {count}, 0")
    count = code.value(f"select i1 {negative}, i64 0, i64 {count}")
    box = new_box(code, site.frame)
    _filled(site, box, count, T.INT)
    with code.counting(count) as index:
        code.store("i64", index, element_place(code, box, index, T.INT))
    return box


def _own(site: Site, which: int) -> str:
    """An operand that is a list as one of the region's own: a copy if it is from outside.

    Bails out: an element that is not just of the type, no memory.
    """
    code, given, t = site.code, site.operands[which], element_of(site.node.inputs[which].type)
    if site.letters[which] != OUTSIDE:
        return given
    box, count = new_box(code, site.frame), code.call("i64", "PyList_Size", "ptr", given)
    _filled(site, box, count, t)
    with code.counting(count) as index:
        value = unboxed(code, code.call("ptr", "PyList_GetItem", "ptr, i64", given, index), t)
        code.store(stored(t), value, element_place(code, box, index, t))
    return box


def outside_length(site: Site) -> str:
    return site.code.call("i64", "PyList_Size", "ptr", site.operands[0])


def outside_item(site: Site) -> str:
    """An element of Python's list. Bails out: a position outside, an element that is not just of the type."""
    code, (items, index) = site.code, site.operands
    position = _position(code, index, code.call("i64", "PyList_Size", "ptr", items))
    found = code.call("ptr", "PyList_GetItem", "ptr, i64", items, position)
    return unboxed(code, found, site.element)


# -- dicts


def make_dict(site: Site) -> str:
    """A new dict of the operands. Bails out: no memory."""
    box, t = new_box(site.code, site.frame), element_of(site.node.output.type)
    for key, value in zip(site.operands[::2], site.operands[1::2], strict=True):
        _put(site, box, key, value, t)
    return box


def _put(site: Site, box: str, key: str, value: str, t: Type) -> None:
    code = site.code
    entry = find_or_insert(code, site.frame, box, key, size_of(code, t))
    code.store(stored(t), value, element_place(code, box, entry, t))


def put(site: Site) -> None:
    """Bails out: no memory."""
    box, key, value = site.operands
    _put(site, box, key, value, site.element)


def contains(site: Site) -> str:
    return site.code.value(f"icmp sge i64 {find(site.code, *site.operands)}, 0")


def value_of(site: Site) -> str:
    """Bails out: a key that is not there."""
    code, (box, key) = site.code, site.operands
    entry = find(code, box, key)
    code.bail_out_if(code.value(f"icmp slt i64 {entry}, 0"))
    return code.load(stored(site.element), element_place(code, box, entry, site.element))


def value_or(site: Site) -> str:
    """`d.get(key, default)`."""
    code, (box, key, default) = site.code, site.operands
    place, there, end = code.slot(stored(site.element)), code.fresh("there"), code.fresh("end")
    code.store(stored(site.element), default, place)
    entry = find(code, box, key)
    code.branch(code.value(f"icmp slt i64 {entry}, 0"), end, there)
    code.label(there)
    found = code.load(stored(site.element), element_place(code, box, entry, site.element))
    code.store(stored(site.element), found, place)
    code.go(end)
    code.label(end)
    return code.load(stored(site.element), place)


def keys(site: Site) -> str:
    return _entries(site, T.INT, _key)


def values(site: Site) -> str:
    return _entries(site, site.element, _value)


def items(site: Site) -> str:
    pair = element_of(site.node.output.type)

    def entry(site: Site, index: str) -> str:
        whole = f"{stored(pair)} {zero(pair)}"
        for i, (t, part) in enumerate(((T.INT, _key), (site.element, _value))):
            whole = f"{stored(pair)} {site.code.value(f'insertvalue {whole}, {stored(t)} {part(site, index)}, {i}')}"
        return whole.removeprefix(f"{stored(pair)} ")

    return _entries(site, pair, entry)


def _key(site: Site, index: str) -> str:
    code = site.code
    held = code.load("ptr", code.field(site.operands[0], KEYS))
    return code.load("i64", code.value(f"getelementptr i64, ptr {held}, i64 {index}"))


def _value(site: Site, index: str) -> str:
    return site.code.load(stored(site.element), element_place(site.code, site.operands[0], index, site.element))


def _entries(site: Site, t: Type, entry: Callable[[Site, str], str]) -> str:
    """A new list of something of each entry, in order of insertion. Bails out: no memory."""
    code = site.code
    box, count = new_box(code, site.frame), _count(code, site.operands[0])
    _filled(site, box, count, t)
    with code.counting(count) as index:
        code.store(stored(t), entry(site, index), element_place(code, box, index, t))
    return box


# -- tuples


def make_tuple(site: Site) -> str:
    made = site.node.output.type
    whole = zero(made)
    for i, (operand, value) in enumerate(zip(site.operands, site.node.inputs, strict=True)):
        whole = site.code.value(f"insertvalue {stored(made)} {whole}, {stored(value.type)} {operand}, {i}")
    return whole


def part(site: Site) -> str:
    """`t[i]`. The position is a constant, or a part of one type is not to be had."""
    made, index = site.node.inputs[0].type, constant_of(site.node.inputs[1], None)
    assert isinstance(made, T.TupleType) and type(index) is int
    return site.code.value(f"extractvalue {stored(made)} {site.operands[0]}, {index % len(made.elements)}")


CONTAINER_RULES: dict[str, dict[str, Rule]] = {
    "aten::append": {"l*": append},
    "aten::len": {"l": length, "d": length, "o": outside_length},
    "aten::__getitem__": {"li": item, "oi": outside_item, "di": value_of},
    "aten::_set_item": {"li*": set_item, "di*": put},
    "aten::pop": {"li": pop},
    "aten::clear": {"l": clear},
    "aten::mul": {"li": repeat, "il": repeat, "oi": repeat, "io": repeat},
    "aten::list": {"l": copy, "o": copy},
    "aten::copy": {"l": copy, "o": copy},
    "prim::rangelist": {"i": range_list},
    "aten::__contains__": {"di": contains},
    "aten::get": {"di*": value_or},
    "aten::keys": {"d": keys},
    "aten::values": {"d": values},
    "aten::items": {"d": items},
    "prim::TupleIndex": {"ti": part},
}

DISPLAYS: dict[str, Rule] = {
    "prim::ListConstruct": make_list,
    "prim::DictConstruct": make_dict,
    "prim::TupleConstruct": make_tuple,
}
"""Kinds that make a container of any number of operands."""
