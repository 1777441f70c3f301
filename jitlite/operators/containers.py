"""Operators on lists, dicts and tuples: Python's, on Python's own containers.

Lists and dicts are the caller's: what is written here is seen outside. Positions and keys that do not exist raise
IndexError, KeyError and ValueError as in Python. Operators that give a list of keys, values or items give a new one.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitlite.ir import int_codes
from jitlite.ir.int_codes import with_key_in
from jitlite.ir.ops import op, op_family
from jitlite.ir.traits import Link, Spelling, Trait, known
from jitlite.ir.values import class_type_of, special_method

KEYS = "str int float bool complex Tensor tKey"
"""The types for which torch has operators on dicts with such keys, and those of all other keys."""

_COMPARED = "int float bool str Tensor"
"""The element types of lists for which torch has comparing operators."""
_SAFE = "int float bool str"
"""Of these, the ones whose comparison cannot raise."""

_List = list[Any]
_Dict = dict[Any, Any]


def _method(name: str) -> Callable[..., Any]:
    """A call of the object's own method: an OrderedDict breaks under dict's."""

    def call(self: object, *args: object) -> Any:
        return getattr(self, name)(*args)

    return call


_dict_pop, _dict_setdefault, _dict_update = map(_method, ("pop", "setdefault", "update"))

# -- lists, read


@op(
    "aten::__getitem__.t(t[](a) list, int idx) -> t(*)",
    traits=(Trait.COMPARES_CODES, Trait.CORE_CONTAINER, Trait.KEEPS_OBJECTS_INSIDE, Spelling.VARIABLE("item")),
)
@op(
    "aten::select.t(t[](a) list, int idx) -> t(*)",
    traits=(Trait.PLAIN_VIEW, Link.SCATTER("aten::select_scatter"), Spelling.VARIABLE("row")),
)
def list_item(list: _List, idx: int) -> Any:
    """`list[idx]`. A position outside is an IndexError."""
    return list[idx]


@op(
    "aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]",
    traits=(Trait.PLAIN_VIEW, Link.SCATTER("aten::slice_scatter"), Spelling.VARIABLE("part")),
)
def list_slice(l: _List, start: int | None, end: int | None, step: int) -> _List:  # noqa: E741
    """`l[start:end:step]`: a new list. A step of 0 is a ValueError."""
    return l[start:end:step]


op(
    "aten::len.t(t[] a) -> int",
    total=True,
    doc="`len(a)`.",
    traits=(
        Trait.PLAIN_INT,
        Trait.ABOUT_FORM,
        Trait.CORE_QUESTION,
        Trait.KEEPS_OBJECTS_INSIDE,
        Spelling.VARIABLE("length"),
    ),
)(len)
op("aten::len.any(Any[] a) -> int", total=True, doc="`len(a)`.")(len)
op(
    "aten::list.t(t[] l) -> t[]",
    total=True,
    doc="`list(l)`: a new list of the same elements.",
    traits=(Trait.CORE_CONTAINER,),
)(list)
op(
    "aten::copy.t(t[](a) self) -> t[]",
    total=True,
    doc="`self.copy()`: a new list of the same elements.",
    traits=(Trait.COMPARES_CODES, Trait.CORE_CONTAINER),
)(list)
op("aten::Size(int[] sizes) -> int[]", total=True, doc="`torch.Size(sizes)`, as a list.")(list)
op("aten::add.t(t[] a, t[] b) -> t[]", total=True, doc="`a + b`: a new list.")(operator.add)
op("aten::mul.left_t(t[] l, int n) -> t[]", doc="`l * n`: a new list.")(operator.mul)
op("aten::mul.right_(int n, t[] l) -> t[]", doc="`n * l`: a new list.")(operator.mul)
op_family("aten::__contains__.{}_list({}[] l, {} item) -> bool", "float int str", total=True,
          doc="`item in l`.")(operator.contains)  # fmt: skip
op_family("aten::count.{}({}[] self, {} el) -> int", _COMPARED, total=_SAFE, doc="`self.count(el)`.")(list.count)
op_family("aten::index.list_{}({}[] self, {} el) -> int", _COMPARED,
          doc="`self.index(el)`: the first position; a ValueError where there is none.")(list.index)  # fmt: skip
op_family("aten::eq.{}_list({}[] a, {}[] b) -> bool", _COMPARED, total=_SAFE, doc="`a == b`.")(operator.eq)
op_family("aten::ne.{}_list({}[] a, {}[] b) -> bool", _COMPARED, total=_SAFE, doc="`a != b`.")(operator.ne)
op_family("aten::all.{}({}[] self) -> bool", "bool float int", total=True, doc="`all(self)`.")(all)
op_family("aten::any.{}({}[] self) -> bool", "bool float int str", total=True, doc="`any(self)`.")(any)
op_family("aten::sum.{}({}[] self) -> {}", "complex float int", total=True, doc="`sum(self)`.")(sum)
op("aten::sum.bool(bool[] self) -> int", total=True, doc="`sum(self)`: how many are True.")(sum)
op_family("prim::min.self_{}({}[] self) -> {}", "bool float int", doc="`min(self)`; a ValueError if empty.")(min)
op_family("prim::max.self_{}({}[] self) -> {}", "bool float int", doc="`max(self)`; a ValueError if empty.")(max)


@op_family("prim::min.{}_list({}[] l, {}[] r) -> {}[]", "bool float int", total=True)
def smaller_list(l: _List, r: _List) -> _List:  # noqa: E741
    """`min(l, r)`, element by element: a new list."""
    return list(min(l, r))


@op_family("prim::max.{}_list({}[] l, {}[] r) -> {}[]", "bool float int", total=True)
def larger_list(l: _List, r: _List) -> _List:  # noqa: E741
    """`max(l, r)`, element by element: a new list."""
    return list(max(l, r))


def _sort_key(values: _List) -> Any:
    """Objects of script classes are compared by their compiled `__lt__`, dtypes and their like by their numbers."""
    if any(isinstance(v, int_codes.INT_OBJECTS) for v in values):
        return int_codes.number_of
    if not values or class_type_of(values[0]) is None:
        return None

    def compare(left: object, right: object) -> int:
        if special_method(left, "__lt__")(right):
            return -1
        return 1 if special_method(right, "__lt__")(left) else 0

    return functools.cmp_to_key(compare)


@op_family("aten::sorted.{}({}[](a) input) -> {}[]", _COMPARED, with_objects="itself")
@op("aten::sorted.any(t[](a) self) -> t[]", with_objects="itself",
    traits=(Trait.RUNS_METHODS, Trait.HANDS_ON_CODES, Trait.COMPARES_CODES))  # fmt: skip
def sorted_list(input: _List) -> _List:
    """`sorted(input)`: a new list. Elements are compared with `<`."""
    return sorted(input, key=_sort_key(input))


@op("prim::rangelist(int n) -> int[]", traits=(Trait.GROWING,))
def range_list(n: int) -> list[int]:
    """`list(range(n))`."""
    return list(range(n))


def broadcast(*shapes: Sequence[int]) -> list[int]:
    """The shape that tensors of these shapes broadcast to, else a RuntimeError."""
    return list(torch.broadcast_shapes(*map(tuple, shapes)))  # type: ignore[no-untyped-call]


@op("aten::broadcast_shapes(int[] a, int[] b) -> int[]")
@op("aten::_infer_size(int[] a, int[] b) -> int[]")
def broadcast_shapes(a: list[int], b: list[int]) -> list[int]:
    """The shape that tensors of two shapes broadcast to, else a RuntimeError."""
    return broadcast(a, b)


@op("aten::_size_if_not_equal(int[] self_size, int[] other_size) -> int[]?", total=True)
def size_if_not_equal(self_size: list[int], other_size: list[int]) -> list[int] | None:
    """The first shape where the two differ, else None."""
    return None if self_size == other_size else list(self_size)


# -- lists, written


@op(
    "aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)",
    total=True,
    traits=(Trait.CORE_CONTAINER, Spelling.VARIABLE("items")),
)
def list_append(self: _List, el: object) -> _List:
    """Add an element at the end of the list itself."""
    self.append(el)
    return self


@op(
    "aten::_set_item.t(t[](a!) l, int idx, t(b -> *) el) -> t[](a!)",
    traits=(Trait.KEEPS_LENGTH, Trait.COMPARES_CODES, Trait.CORE_CONTAINER),
)
def list_set_item(l: _List, idx: int, el: object) -> _List:  # noqa: E741
    """`l[idx] = el`. A position outside is an IndexError."""
    l[idx] = el
    return l


@op("aten::Delete.t(t[](a!) self, int idx) -> ()", traits=(Trait.COMPARES_CODES, Trait.CORE_CONTAINER))
def list_delete(self: _List, idx: int) -> None:
    """`del self[idx]`. A position outside is an IndexError."""
    del self[idx]


@op("aten::add_.t(t[](a!) self, t[] b) -> t[]", total=True, traits=(Spelling.AUGMENTED("+"),))
def list_extend_in_place(self: _List, b: _List) -> _List:
    """`self += b`: the list itself grows."""
    self += b
    return self


@op("aten::mul_.t(t[](a!) l, int n) -> t[](a!)", traits=(Spelling.AUGMENTED("*"),))
def list_repeat_in_place(l: _List, n: int) -> _List:  # noqa: E741
    """`l *= n`: the list itself grows."""
    l *= n  # noqa: E741
    return l


op(
    "aten::extend.t(t[](a!) self, t[] other) -> ()",
    total=True,
    doc="`self.extend(other)`.",
    traits=(Trait.CORE_CONTAINER,),
)(list.extend)
op(
    "aten::insert.t(t[](a!) self, int idx, t(b -> *) el) -> ()",
    doc="`self.insert(idx, el)`.",
    traits=(Trait.CORE_CONTAINER,),
)(list.insert)
op(
    "aten::pop.t(t[](a!) self, int idx=-1) -> t(*)",
    doc="`self.pop(idx)`; an IndexError if outside.",
    traits=(Trait.COMPARES_CODES, Trait.CORE_CONTAINER),
)(list.pop)
op("aten::clear.t(t[](a!) self) -> ()", total=True, doc="`self.clear()`.", traits=(Trait.CORE_CONTAINER,))(list.clear)
op(
    "aten::reverse.t(t[](a!) self) -> ()",
    total=True,
    doc="`self.reverse()`: in place.",
    traits=(Trait.KEEPS_LENGTH, Trait.CORE_CONTAINER),
)(list.reverse)
op_family("aten::remove.{}({}[](a!) self, {} el) -> ()", _COMPARED,
          doc="`self.remove(el)`: the first one; a ValueError where there is none.")(list.remove)  # fmt: skip


@op_family("aten::sort.{}({}[](a!) self, bool reverse=False) -> ()", _COMPARED, with_objects="itself")
@op(
    "aten::sort.any(t[](a!) self, bool reverse=False) -> ()",
    traits=(Trait.KEEPS_LENGTH, Trait.RUNS_METHODS, Trait.COMPARES_CODES),
    with_objects="itself",
)
def list_sort(self: _List, reverse: bool) -> None:
    """`self.sort(reverse=reverse)`: in place. Elements are compared with `<`."""
    self.sort(reverse=reverse, key=_sort_key(self))


# -- dicts, read

op_family("aten::__getitem__.Dict_{}(Dict({}, t) self, {} key) -> t(*)", KEYS,
          doc="`self[key]`. A key that is not there is a KeyError.")(operator.getitem)  # fmt: skip
op_family("aten::__contains__.{}(Dict({}, t) dict, {} key) -> bool", KEYS, total=True,
          doc="`key in dict`.")(operator.contains)  # fmt: skip
op_family("aten::len.Dict_{}(Dict({}, t) self) -> int", KEYS, total=True, doc="`len(self)`.")(len)
op_family("aten::get.{}(Dict({}, t) self, {} key) -> t(*)?", KEYS, total=True, doc="`self.get(key)`.")(dict.get)
op_family("aten::get.default_{}(Dict({}, t) self, {} key, t default_value) -> t(*)", KEYS, total=True,
          doc="`self.get(key, default_value)`.")(dict.get)  # fmt: skip
op_family("aten::copy.Dict_{}(Dict({}, t)(a) self) -> Dict({}, t)", KEYS, total=True,
          doc="`self.copy()`: a new dict of the same values.")(_method("copy"))  # fmt: skip


@op_family("aten::keys.{}(Dict({}, t) self) -> {}[](*)", KEYS, total=True)
def dict_keys(self: _Dict) -> _List:
    """The keys in order of insertion, as a new list."""
    return list(self)


@op_family("aten::values.{}(Dict({}, t) self) -> t[](*)", KEYS, total=True)
def dict_values(self: _Dict) -> _List:
    """The values in order of insertion, as a new list."""
    return list(self.values())


@op_family("aten::items.{}(Dict({}, t) self) -> (({}, t)[])", KEYS, total=True)
def dict_items(self: _Dict) -> list[tuple[Any, Any]]:
    """The pairs of key and value in order of insertion, as a new list."""
    return list(self.items())


@op_family("aten::dict.{}(({}, tVal)[] inputs) -> Dict({}, tVal)", KEYS, total=True, with_objects=int_codes.new_dict)
@op_family("aten::dict.Dict_{}(Dict({}, t)(a) self) -> Dict({}, t)", KEYS, total=True, with_objects=int_codes.new_dict)
@op("aten::dict() -> Dict(str, Tensor)", total=True, traits=(Trait.COMPARES_CODES, Trait.CORE_CONTAINER),
    with_objects=int_codes.new_dict)  # fmt: skip
def new_dict(inputs: Any = ()) -> _Dict:
    """`dict(inputs)`: a new dict, empty, of pairs or of another dict."""
    return dict(inputs)


# -- dicts, written


@op_family("aten::_set_item.{}(Dict({}, t)(a!) l, {}(b -> *) idx, t(c -> *) v) -> ()", KEYS, total=True,
           with_objects=with_key_in(operator.setitem))  # fmt: skip
def dict_set_item(l: _Dict, idx: object, v: object) -> None:  # noqa: E741
    """`l[idx] = v`."""
    l[idx] = v


op_family("aten::Delete.Dict_{}(Dict({}, t)(a!) self, {} key) -> ()", KEYS,
          doc="`del self[key]`. A key that is not there is a KeyError.")(operator.delitem)  # fmt: skip
op_family("aten::pop.Dict_{}(Dict({}, t)(a!) self, {} key) -> t(*)", KEYS,
          doc="`self.pop(key)`. A key that is not there is a KeyError.",
          with_objects=with_key_in(_dict_pop))(_dict_pop)  # fmt: skip
op_family("aten::pop.Dict_default_{}(Dict({}, t)(a!) self, {} key, t default_value) -> t(*)", KEYS, total=True,
          doc="`self.pop(key, default_value)`.", with_objects=with_key_in(_dict_pop))(_dict_pop)  # fmt: skip
op_family("aten::popitem.{}(Dict({}, t)(a!) self) -> (({}, t))", KEYS,
          doc="`self.popitem()`: the pair put in last. An empty dict is a KeyError.")(_method("popitem"))  # fmt: skip
op_family("aten::setdefault.{}(Dict({}, t)(a!) self, {}(b -> *) key, t(c -> *) default_value) -> t(*)", KEYS,
          total=True, doc="`self.setdefault(key, default_value)`.",
          with_objects=with_key_in(_dict_setdefault))(_dict_setdefault)  # fmt: skip
op_family("aten::update.{}(Dict({}, t)(a!) self, Dict({}, t)(a!) to_add) -> ()", KEYS, total=True,
          doc="`self.update(to_add)`.", with_objects=int_codes.update)(_dict_update)  # fmt: skip
op_family("aten::clear.{}(Dict({}, t)(a!) self) -> ()", KEYS, total=True, doc="`self.clear()`.")(_method("clear"))


# -- tuples and module containers


@op(
    "prim::TupleIndex(Any tup, int i) -> Any",
    traits=(Trait.DISPLAY, Trait.FORWARDS_TUPLES, Trait.KEEPS_OBJECTS_INSIDE, Spelling.OPCODE("TUPLE_INDEX")),
)
def tuple_index(tup: tuple[Any, ...], i: int) -> Any:
    """`tup[i]`. A position outside is an IndexError."""
    return tup[i]


op("prim::ModuleContainerIndex.list(Any self, int ind) -> Any", doc="Submodule `self[ind]` of a list.")(
    operator.getitem
)
op("prim::ModuleContainerIndex.dict(Any self, str ind) -> Any", doc="Submodule `self[ind]` of a dict.")(
    operator.getitem
)


# -- what is known of operators that are declared in families

known(
    "aten::index",
    Trait.FRESH,
    Trait.COMPARES_ELEMENTS,
    Trait.COMPARES_CODES,
    Trait.DTYPE_OF_FIRST,
    Trait.SHAPE_DEPENDS_ON_VALUES,
)
known("aten::__contains__", Trait.COMPARES_ELEMENTS, Trait.COMPARES_CODES, Trait.CORE_CONTAINER, Spelling.BINARY("in"))
known("aten::count", Trait.COMPARES_ELEMENTS, Trait.COMPARES_CODES)
known("aten::remove", Trait.COMPARES_ELEMENTS, Trait.COMPARES_CODES)
known("aten::items", Trait.DICT_VIEW, Trait.HANDS_ON_CODES, Trait.COMPARES_CODES, Trait.CORE_CONTAINER)
known("aten::keys", Trait.DICT_VIEW, Trait.HANDS_ON_CODES, Trait.COMPARES_CODES, Trait.CORE_CONTAINER)
known("aten::values", Trait.DICT_VIEW, Trait.CORE_CONTAINER)
known("aten::get", Trait.COMPARES_CODES)
known("aten::popitem", Trait.COMPARES_CODES)
known("aten::setdefault", Trait.COMPARES_CODES)
known("aten::update", Trait.COMPARES_CODES)
