"""How values cross the border between Python and machine code."""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.types import Type
from jitlite.native.boxes import COUNT, DATA, KEYS, OBJECT
from jitlite.native.capi import pointer
from jitlite.native.code import RAISED, LLVMBuilder
from jitlite.native.layout import SCALARS, stored

CLASS_OFFSET = 8
"""Where an object says of which class it is. A self-test at the first use makes sure (see `entry.py`)."""


def unboxed(code: LLVMBuilder, held: str, t: Type) -> str:
    """A number from outside. Bails out: an object that is not just of the class, an int of more than 64 bits."""
    if t is T.BOOL:
        is_true = code.value(f"icmp eq ptr {held}, {pointer(id(True))}")
        is_false = code.value(f"icmp eq ptr {held}, {pointer(id(False))}")
        code.bail_out_unless(code.value(f"or i1 {is_true}, {is_false}"))
        return is_true
    _check_class(code, held, SCALARS[t][2])
    if t is T.FLOAT:
        return code.call("double", "PyFloat_AsDouble", "ptr", held)
    overflow = code.slot("i32")
    code.store("i32", "0", overflow)
    number = code.call("i64", "PyLong_AsLongLongAndOverflow", "ptr, ptr", held, overflow)
    code.bail_out_if(code.value(f"icmp ne i32 {code.load('i32', overflow)}, 0"))
    return number


def check_list(code: LLVMBuilder, held: str) -> None:
    """Bails out: an object that is not just a list."""
    _check_class(code, held, list)


def _check_class(code: LLVMBuilder, held: str, wanted: type) -> None:
    place = code.value(f"getelementptr i8, ptr {held}, i64 {CLASS_OFFSET}")
    code.bail_out_if(code.value(f"icmp ne ptr {code.load('ptr', place)}, {pointer(id(wanted))}"))


def boxed(code: LLVMBuilder, value: str, t: Type) -> str:
    """A Python object, for which there has to be memory: else the exception leaves the function."""
    if t is T.INT:
        found = code.call("ptr", "PyLong_FromLongLong", "i64", value)
    elif t is T.FLOAT:
        found = code.call("ptr", "PyFloat_FromDouble", "double", value)
    elif t is T.BOOL:
        found = code.call("ptr", "PyBool_FromLong", "i64", code.value(f"zext i1 {value} to i64"))
    elif isinstance(t, T.TupleType):
        return boxed_tuple(code, [(code.value(f"extractvalue {stored(t)} {value}, {i}"), e)
                                  for i, e in enumerate(t.elements)])  # fmt: skip
    else:
        return _boxed_container(code, value, t)
    code.leave_if(code.value(f"icmp eq ptr {found}, null"), RAISED)
    return found


def boxed_tuple(code: LLVMBuilder, parts: list[tuple[str, Type]]) -> str:
    """A tuple of values, each with its type."""
    objects = [boxed(code, value, t) for value, t in parts]
    made = code.call("ptr", "PyTuple_New", "i64", str(len(parts)))
    code.leave_if(code.value(f"icmp eq ptr {made}, null"), RAISED)
    for i, held in enumerate(objects):
        code.call("i32", "PyTuple_SetItem", "ptr, i64, ptr", made, str(i), held)  # it takes the reference
    return made


def _boxed_container(code: LLVMBuilder, box: str, t: Type) -> str:
    """The Python object of a box, made the first time: one box is one object, however it is reached.

    There is no box where a variable has no value yet, the result of a function before `return` for instance. What
    stands for it is handed on, and nothing looks at it.
    """
    known, new, done = code.fresh("known"), code.fresh("new"), code.fresh("done")
    unset, there = code.fresh("unset"), code.fresh("there")
    result = code.slot("ptr")
    code.branch(code.value(f"icmp eq ptr {box}, null"), unset, there)
    code.label(unset)
    code.call("void", "Py_IncRef", "ptr", pointer(id(None)))
    code.store("ptr", pointer(id(None)), result)
    code.go(done)
    code.label(there)
    before = code.load("ptr", code.field(box, OBJECT))
    code.store("ptr", before, result)
    code.branch(code.value(f"icmp eq ptr {before}, null"), new, known)
    code.label(new)
    made = _boxed_list(code, box, t.element) if isinstance(t, T.ListType) else _boxed_dict(code, box, t)
    code.store("ptr", made, code.field(box, OBJECT))
    code.store("ptr", made, result)
    code.go(done)
    code.label(known)
    code.call("void", "Py_IncRef", "ptr", before)
    code.go(done)
    code.label(done)
    return code.load("ptr", result)


def _boxed_list(code: LLVMBuilder, box: str, element: Type) -> str:
    count, data = code.load("i64", code.field(box, COUNT)), code.load("ptr", code.field(box, DATA))
    made = code.call("ptr", "PyList_New", "i64", count)
    code.leave_if(code.value(f"icmp eq ptr {made}, null"), RAISED)
    with code.counting(count) as index:
        place = code.value(f"getelementptr {stored(element)}, ptr {data}, i64 {index}")
        held = boxed(code, code.load(stored(element), place), element)
        code.call("i32", "PyList_SetItem", "ptr, i64, ptr", made, index, held)  # it takes the reference
    return made


def _boxed_dict(code: LLVMBuilder, box: str, t: Type) -> str:
    assert isinstance(t, T.DictType)
    count, data = code.load("i64", code.field(box, COUNT)), code.load("ptr", code.field(box, DATA))
    keys = code.load("ptr", code.field(box, KEYS))
    made = code.call("ptr", "PyDict_New")
    code.leave_if(code.value(f"icmp eq ptr {made}, null"), RAISED)
    with code.counting(count) as index:
        key = boxed(code, code.load("i64", code.value(f"getelementptr i64, ptr {keys}, i64 {index}")), T.INT)
        place = code.value(f"getelementptr {stored(t.value)}, ptr {data}, i64 {index}")
        value = boxed(code, code.load(stored(t.value), place), t.value)
        failed = code.call("i32", "PyDict_SetItem", "ptr, ptr, ptr", made, key, value)
        code.call("void", "Py_DecRef", "ptr", key)
        code.call("void", "Py_DecRef", "ptr", value)
        code.leave_if(code.value(f"icmp ne i32 {failed}, 0"), RAISED)
    return made
