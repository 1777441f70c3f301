"""The machine code that checks the arguments of calls from Python: see `checked_calls.py`, which says what it reads."""

from __future__ import annotations

import ctypes
from typing import Any

from jitlite.base.torch_internals import KeyQuestion
from jitlite.native.boxing import CLASS_OFFSET
from jitlite.native.capi import pointer
from jitlite.native.code import RAISED, LLVMBuilder
from jitlite.native.emit import ENTRY

CLASSES, LIST, TUPLE, DICT = range(4)
"""The kinds of tests."""
TEXT, WAY, OTHERWISE, NOTE, RECORDERS, OWNER = range(6)
"""The parts of the object that a call is made on."""
HEAD_WORDS, PARAMETER_WORDS = 3, 3
"""How many words the text begins with, and how many it has for each parameter."""

_WORD = 8
_SIZE_OFFSET, _ITEMS_OFFSET = object.__basicsize__, object.__basicsize__ + _WORD
"""Where lists and tuples say how many elements they have, and where lists say where these are."""
_TUPLE_OFFSET, _TEXT_OFFSET = tuple.__basicsize__, bytes.__basicsize__ - 1
"""Where the elements of tuples begin, and the contents of bytes."""
_YES, _NO, _SLOWLY = "yes", "no", "slowly"


def module_text(question: KeyQuestion) -> str:
    """The module in LLVM's language: its entry takes calls, as `METH_FASTCALL | METH_KEYWORDS` has it."""
    functions = {
        "define internal i1 @fits(ptr %text, ptr %test, ptr %held)": _fits(),
        f"define ptr @{ENTRY}(ptr %self, ptr %args, i64 %count, ptr %names)": _entry(question),
    }
    lines = [line for head, code in functions.items() for line in (f"{head} {{", *code.slots, *code.lines, "}", "")]
    return "\n".join(lines) + _UNROLLED


def check_layout() -> None:
    """See that objects are laid out as machine code takes them to be.

    Raises:
        OSError: they are not.
    """
    sample: list[object] = []
    for element in (3, "x", None, 2.5, ()):
        sample.append(element)  # one by one, so that there is room for more elements than there are
    room = (sample.__sizeof__() - list.__basicsize__) // _WORD
    rest = sum(object.__basicsize__ + i * _WORD for i in range(3)) - _SIZE_OFFSET - _ITEMS_OFFSET
    has_size = list.__basicsize__ == object.__basicsize__ + 3 * _WORD and _words(sample, _SIZE_OFFSET, 1) == [
        len(sample)
    ]
    # what is left of the three words where the other two are found is where the elements are
    if not has_size or room == len(sample) or _words(sample, rest, 1) != [room]:
        raise OSError("lists are laid out in another way here")
    if _words_at(_words(sample, _ITEMS_OFFSET, 1)[0], len(sample)) != list(map(id, sample)):
        raise OSError("lists are laid out in another way here")
    parts, text = (sample, "y", 7), b"some text"
    if _words(parts, _SIZE_OFFSET, 1) != [3] or _words(parts, _TUPLE_OFFSET, 3) != list(map(id, parts)):
        raise OSError("tuples are laid out in another way here")
    if ctypes.string_at(id(text) + _TEXT_OFFSET, len(text)) != text:
        raise OSError("bytes are laid out in another way here")


def _words(held: object, offset: int, count: int) -> list[int]:
    return _words_at(id(held) + offset, count)


def _words_at(address: int, count: int) -> list[int]:
    words: Any = ctypes.c_int64 * count
    return list(words.from_address(address))


# -- what both functions are made of


def _at(code: LLVMBuilder, place: str, offset: int | str) -> str:
    return code.value(f"getelementptr i8, ptr {place}, i64 {offset}")


def _element(code: LLVMBuilder, items: str, index: int | str) -> str:
    return code.load("ptr", code.value(f"getelementptr ptr, ptr {items}, i64 {index}"))


def _class_of(code: LLVMBuilder, held: str) -> str:
    return code.load("ptr", _at(code, held, CLASS_OFFSET))


def _size_of(code: LLVMBuilder, held: str) -> str:
    return code.load("i64", _at(code, held, _SIZE_OFFSET))


def _test_at(code: LLVMBuilder, text: str, place: str) -> str:
    """The test whose place in the text is written at `place`."""
    return _at(code, text, code.load("i64", place))


def _commonest(code: LLVMBuilder, test: str) -> str:
    return code.load("ptr", code.field(test, 2))


def _leave_unless_fits(code: LLVMBuilder, text: str, test: str, held: str, label: str) -> None:
    fits = code.value(f"call i1 @fits(ptr {text}, ptr {test}, ptr {held})")
    code.leave_if(code.value(f"xor i1 {fits}, true"), label)


# -- one argument


def _fits() -> LLVMBuilder:
    """Does an object pass a test?"""
    code = LLVMBuilder()
    code.leave_if(code.value(f"icmp eq ptr %held, {code.load('ptr', code.field('%test', 1))}"), _YES)
    held_class, kind = _class_of(code, "%held"), code.load("i64", "%test")
    cases = " ".join(
        f"i64 {i}, label %{n}" for i, n in ((CLASSES, "one"), (LIST, "list"), (TUPLE, "tuple"), (DICT, "dict"))
    )
    code.emit(f"switch i64 {kind}, label %{_NO} [ {cases} ]")
    code.label("one")
    _test_class(code, held_class)
    for cls, write in ((list, _test_list), (tuple, _test_tuple), (dict, _test_dict)):
        code.label(cls.__name__)
        code.leave_if(code.value(f"icmp ne ptr {held_class}, {pointer(id(cls))}"), _NO)
        write(code)
    for name, answer in ((_YES, "true"), (_NO, "false")):
        code.label(name)
        code.emit(f"ret i1 {answer}")
    return code


def _test_class(code: LLVMBuilder, held_class: str) -> None:
    classes = code.field("%test", 4)
    with code.counting(code.load("i64", code.field("%test", 3))) as index:
        code.leave_if(code.value(f"icmp eq ptr {held_class}, {_element(code, classes, index)}"), _YES)
    code.go(_NO)


def _test_list(code: LLVMBuilder) -> None:
    """First whether all elements are of the commonest class, which takes no branch for each."""
    count, items = _size_of(code, "%held"), code.load("ptr", _at(code, "%held", _ITEMS_OFFSET))
    test = _test_at(code, "%text", code.field("%test", 3))
    commonest, others, index = _commonest(code, test), code.slot("i1"), code.slot("i64")
    code.store("i1", "0", others)
    code.store("i64", "0", index)
    code.go("glance")
    code.label("glance")
    at = code.load("i64", index)
    code.leave_if(code.value(f"icmp sge i64 {at}, {count}"), "glanced")
    differs = code.value(f"icmp ne ptr {_class_of(code, _element(code, items, at))}, {commonest}")
    code.store("i1", code.value(f"or i1 {code.load('i1', others)}, {differs}"), others)
    code.store("i64", code.value(f"add nuw nsw i64 {at}, 1"), index)
    code.emit("br label %glance, !llvm.loop !0")
    code.label("glanced")
    code.leave_if(code.value(f"xor i1 {code.load('i1', others)}, true"), _YES)
    with code.counting(count) as number:
        _leave_unless_fits(code, "%text", test, _element(code, items, number), _NO)
    code.go(_YES)


_UNROLLED = """
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.count", i32 8}
"""


def _test_tuple(code: LLVMBuilder) -> None:
    count = code.load("i64", code.field("%test", 3))
    code.leave_if(code.value(f"icmp ne i64 {_size_of(code, '%held')}, {count}"), _NO)
    items = _at(code, "%held", _TUPLE_OFFSET)
    with code.counting(count) as index:
        place = code.value(f"getelementptr i64, ptr {code.field('%test', 4)}, i64 {index}")
        _leave_unless_fits(code, "%text", _test_at(code, "%text", place), _element(code, items, index), _NO)
    code.go(_YES)


def _test_dict(code: LLVMBuilder) -> None:
    tests = [_test_at(code, "%text", code.field("%test", 3 + i)) for i in range(2)]
    position, found = code.slot("i64"), [code.slot("ptr"), code.slot("ptr")]
    code.store("i64", "0", position)
    code.go("following")
    code.label("following")
    more = code.call("i32", "PyDict_Next", "ptr, ptr, ptr, ptr", "%held", position, *found)
    code.leave_if(code.value(f"icmp eq i32 {more}, 0"), _YES)
    for test, place in zip(tests, found, strict=True):
        _leave_unless_fits(code, "%text", test, code.load("ptr", place), _NO)
    code.go("following")


# -- a call


def _entry(question: KeyQuestion) -> LLVMBuilder:
    code = LLVMBuilder()
    parts = _at(code, "%self", _TUPLE_OFFSET)
    text = _at(code, _element(code, parts, TEXT), _TEXT_OFFSET)
    count, is_owned = code.load("i64", text), code.load("i64", code.field(text, 2))
    code.leave_if(code.value(f"icmp ne i64 {_size_of(code, _element(code, parts, RECORDERS))}, 0"), _SLOWLY)
    is_recorded = code.value(f"call zeroext i1 {pointer(question.address)}(i16 zeroext {question.key})")
    code.leave_if(is_recorded, _SLOWLY)
    given, result = code.slot("ptr"), code.slot("ptr")
    code.store("ptr", "%args", given)
    is_short = code.value(f"icmp ne i64 %count, {count}")
    is_named = code.value("icmp ne ptr %names, null")
    is_long = code.value(f"icmp sgt i64 %count, {code.load('i64', code.field(text, 1))}")
    is_other = code.value(f"or i1 {code.value(f'or i1 {is_short}, {is_named}')}, {is_long}")
    code.branch(is_other, "gather", "check")
    code.label("gather")
    _gather(code, text, count, given)
    code.label("check")
    _check(code, text, count, given)
    _run(code, parts, is_owned, count, given, result)
    code.leave_if(code.value(f"icmp eq ptr {code.load('ptr', result)}, null"), RAISED)
    code.emit(f"ret ptr {code.load('ptr', result)}")
    code.label(_SLOWLY)
    otherwise = _element(code, parts, OTHERWISE)
    code.emit(f"ret ptr {_called(code, otherwise, '%args', '%count', '%names')}")
    code.label(RAISED)
    _note(code, parts)
    return code


def _parameter(code: LLVMBuilder, text: str, index: str, field: int) -> str:
    """The place of what the text says of a parameter: where its test is, its default value, its name."""
    word = code.value(f"add i64 {code.value(f'mul i64 {index}, {PARAMETER_WORDS}')}, {HEAD_WORDS + field}")
    return code.value(f"getelementptr i64, ptr {text}, i64 {word}")


def _gather(code: LLVMBuilder, text: str, count: str, given: str) -> None:
    """Put arguments in order: those given by position, those given by name, null for those that are not given."""
    code.leave_if(code.value(f"icmp sgt i64 %count, {code.load('i64', code.field(text, 1))}"), _SLOWLY)
    made = code.value(f"alloca ptr, i64 {count}")
    code.store("ptr", made, given)
    with code.counting(count) as index:
        named, positional, end = code.fresh("named"), code.fresh("positional"), code.fresh("end")
        place = code.value(f"getelementptr ptr, ptr {made}, i64 {index}")
        code.store("ptr", "null", place)
        code.branch(code.value(f"icmp slt i64 {index}, %count"), positional, named)
        code.label(positional)
        code.store("ptr", _element(code, "%args", index), place)
        code.go(end)
        code.label(named)
        code.go(end)
        code.label(end)
    code.leave_if(code.value("icmp eq ptr %names, null"), "check")
    names, all_found = _at(code, "%names", _TUPLE_OFFSET), code.slot("i1")
    with code.counting(_size_of(code, "%names")) as number:
        name = _element(code, names, number)
        code.store("i1", "false", all_found)
        with code.counting(count) as index:
            found, following = code.fresh("found"), code.fresh("following")
            is_it = code.value(f"icmp eq ptr {code.load('ptr', _parameter(code, text, index, 2))}, {name}")
            place = code.value(f"getelementptr ptr, ptr {made}, i64 {index}")
            is_free = code.value(f"icmp eq ptr {code.load('ptr', place)}, null")
            code.branch(code.value(f"and i1 {is_it}, {is_free}"), found, following)
            code.label(found)
            code.store("ptr", _element(code, "%args", code.value(f"add i64 %count, {number}")), place)
            code.store("i1", "true", all_found)
            code.go(following)
            code.label(following)
        code.leave_if(code.value(f"xor i1 {code.load('i1', all_found)}, true"), _SLOWLY)
    code.go("check")


def _check(code: LLVMBuilder, text: str, count: str, given: str) -> None:
    """Ask of what classes arguments are. Those that were not given have their default value, as it is."""
    arguments = code.load("ptr", given)
    with code.counting(count) as index:
        place = code.value(f"getelementptr ptr, ptr {arguments}, i64 {index}")
        held, test = code.load("ptr", place), _test_at(code, text, _parameter(code, text, index, 0))
        lacking, there = code.fresh("lacking"), code.fresh("there")
        known, checked = code.fresh("known"), code.fresh("checked")
        code.branch(code.value(f"icmp eq ptr {held}, null"), lacking, there)
        code.label(lacking)
        default = code.load("ptr", _parameter(code, text, index, 1))
        code.leave_if(code.value(f"icmp eq ptr {default}, null"), _SLOWLY)
        code.store("ptr", default, place)
        code.go(checked)
        code.label(there)
        code.branch(code.value(f"icmp eq ptr {_class_of(code, held)}, {_commonest(code, test)}"), checked, known)
        code.label(known)
        _leave_unless_fits(code, text, test, held, _SLOWLY)
        code.go(checked)
        code.label(checked)


def _run(code: LLVMBuilder, parts: str, is_owned: str, count: str, given: str, result: str) -> None:
    """Call what runs the graph, which may be exchanged meanwhile."""
    run = _element(code, code.load("ptr", _at(code, _element(code, parts, WAY), _ITEMS_OFFSET)), 0)
    code.call("void", "Py_IncRef", "ptr", run)
    arguments = code.load("ptr", given)
    code.branch(code.value(f"icmp ne i64 {is_owned}, 0"), "owned", "free")
    code.label("free")
    code.store("ptr", _called(code, run, arguments, count), result)
    code.go("back")
    code.label("owned")
    more = code.value(f"add i64 {count}, 1")
    made = code.value(f"alloca ptr, i64 {more}")
    code.store("ptr", _element(code, parts, OWNER), made)
    with code.counting(count) as index:
        place = code.value(f"getelementptr ptr, ptr {code.field(made, 1)}, i64 {index}")
        code.store("ptr", _element(code, arguments, index), place)
    code.store("ptr", _called(code, run, made, more), result)
    code.go("back")
    code.label("back")
    code.call("void", "Py_DecRef", "ptr", run)


def _called(code: LLVMBuilder, function: str, args: str, count: str, names: str = "null") -> str:
    return code.call("ptr", "PyObject_Vectorcall", "ptr, ptr, i64, ptr", function, args, count, names)


def _note(code: LLVMBuilder, parts: str) -> None:
    """Hand the exception that is set to `note`, and set it again; what that raises takes its place."""
    fetched = [code.slot("ptr") for _ in range(3)]
    code.call("void", "PyErr_Fetch", "ptr, ptr, ptr", *fetched)
    code.call("void", "PyErr_NormalizeException", "ptr, ptr, ptr", *fetched)
    kind, error, traceback = (code.load("ptr", place) for place in fetched)
    code.branch(code.value(f"icmp eq ptr {traceback}, null"), "complete", "lacking")
    code.label("lacking")
    code.call("i32", "PyException_SetTraceback", "ptr, ptr", error, traceback)
    code.go("complete")
    code.label("complete")
    said = _called(code, _element(code, parts, NOTE), fetched[1], "1")
    code.branch(code.value(f"icmp eq ptr {said}, null"), "instead", "again")
    code.label("again")
    code.call("void", "Py_DecRef", "ptr", said)
    noted = code.call("ptr", "PyException_GetTraceback", "ptr", error)  # `note` may have made another one
    code.call("void", "Py_DecRef", "ptr", traceback)
    code.call("void", "PyErr_Restore", "ptr, ptr, ptr", kind, error, noted)
    code.emit("ret ptr null")
    code.label("instead")
    for held in (kind, error, traceback):
        code.call("void", "Py_DecRef", "ptr", held)
    code.emit("ret ptr null")
