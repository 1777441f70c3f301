"""Operators on sets and frozensets: Python's, on Python's own sets.

TorchScript has no sets, so most of these are in a namespace of their own. The order of a set's elements
depends on how it was made and changed. That is why each operator is the method or operator of Python that the program
has, and a set is never copied for another reason.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TypeVar

from jitlite.ir.int_codes import with_key_in
from jitlite.ir.ops import op, op_family
from jitlite.ir.traits import Trait, known

KINDS = "Set FrozenSet"
"""The types that hold the elements of a set."""

_E = TypeVar("_E")

# -- made


@op("set::new.list(t[] inputs) -> Set(t)")
@op("set::new.Dict(Dict(t, tVal) inputs) -> Set(t)", total=True)
@op("set::new.str(str inputs) -> Set(str)", total=True)
@op_family("set::new.{}({}(t) inputs) -> Set(t)", KINDS, total=True)
def new_set(inputs: Iterable[_E]) -> set[_E]:
    """`set(inputs)`."""
    return set(inputs)


@op("set::frozen.list(t[] inputs) -> FrozenSet(t)")
@op("set::frozen.Dict(Dict(t, tVal) inputs) -> FrozenSet(t)", total=True)
@op("set::frozen.str(str inputs) -> FrozenSet(str)", total=True)
@op("set::frozen.Set(Set(t) inputs) -> FrozenSet(t)", total=True)
@op("set::frozen.FrozenSet(FrozenSet(t)(a) inputs) -> FrozenSet(t)(a)", total=True)
def new_frozenset(inputs: Iterable[_E]) -> frozenset[_E]:
    """`frozenset(inputs)`; of a frozenset, itself."""
    return frozenset(inputs)


# -- read


@op_family("set::elements.{}({}(t) self) -> t[]", KINDS, total=True)
def elements(self: Iterable[_E]) -> list[_E]:
    """The elements in the order that the set has, as a new list."""
    return list(self)


op_family("aten::len.{}({}(t) self) -> int", KINDS, total=True, doc="`len(self)`.")(len)
op_family("aten::__contains__.{}({}(t) self, tVal el) -> bool", KINDS, doc="`el in self`.")(operator.contains)
op("set::copy.Set(Set(t) self) -> Set(t)", total=True, doc="`self.copy()`: a new set.")(set.copy)
op("set::copy.FrozenSet(FrozenSet(t)(a) self) -> FrozenSet(t)(a)", total=True, doc="`self.copy()`, which is itself.")(
    frozenset.copy
)

_COMPARISONS = (
    ("eq", operator.eq, "=="), ("ne", operator.ne, "!="), ("le", operator.le, "<="), ("lt", operator.lt, "<"),
    ("ge", operator.ge, ">="), ("gt", operator.gt, ">"),
)  # fmt: skip
_COMBINATIONS = (
    ("union", operator.or_, "|"), ("intersection", operator.and_, "&"), ("difference", operator.sub, "-"),
    ("symmetric_difference", operator.xor, "^"),
)  # fmt: skip
_CHANGES = (
    ("update", "|="), ("intersection_update", "&="), ("difference_update", "-="),
    ("symmetric_difference_update", "^="),
)  # fmt: skip

for _left in KINDS.split():
    for _right in KINDS.split():
        for _name, _function, _sign in _COMPARISONS:
            op(f"set::{_name}.{_left}_{_right}({_left}(t) self, {_right}(tVal) other) -> bool", total=True,
               doc=f"`self {_sign} other`.")(_function)  # fmt: skip
        for _name, _function, _sign in _COMBINATIONS:
            op(f"set::{_name}.{_left}_{_right}({_left}(t) self, {_right}(t) other) -> {_left}(t)", total=True,
               doc=f"`self {_sign} other`.")(_function)  # fmt: skip
    op(f"set::isdisjoint.{_left}({_left}(t) self, tVal[] other) -> bool",
       doc="`self.isdisjoint(other)`.")(set.isdisjoint if _left == "Set" else frozenset.isdisjoint)  # fmt: skip
    for _name, _function, _sign in _COMBINATIONS:
        _owner = set if _left == "Set" else frozenset
        op(f"set::{_name}.{_left}_list({_left}(t) self, t[] other) -> {_left}(t)",
           doc=f"`self.{_name}(other)`.")(getattr(_owner, _name))  # fmt: skip

    # Python makes room for all keys of a dict first, and so they may get another order than those of a list
    op(f"set::union.{_left}_Dict({_left}(t) self, Dict(t, tVal) other) -> {_left}(t)", total=True,
       doc="`self.union(other)`.")(set.union if _left == "Set" else frozenset.union)  # fmt: skip

# -- written


op("set::update.Dict(Set(t)(a!) self, Dict(t, tVal) other) -> ()", total=True, doc="`self.update(other)`.")(set.update)


op("set::add(Set(t)(a!) self, t el) -> ()", total=True, doc="`self.add(el)`.", with_objects=with_key_in(set.add))(
    set.add
)
op("set::discard(Set(t)(a!) self, tVal el) -> ()", doc="`self.discard(el)`.",
   with_objects=with_key_in(set.discard))(set.discard)  # fmt: skip
op("set::remove(Set(t)(a!) self, tVal el) -> ()", doc="`self.remove(el)`. An element that is not there is a KeyError.",
   with_objects=with_key_in(set.remove))(set.remove)  # fmt: skip
op("set::pop(Set(t)(a!) self) -> t", doc="`self.pop()`. An empty set is a KeyError.")(set.pop)
op("set::clear(Set(t)(a!) self) -> ()", total=True, doc="`self.clear()`.")(set.clear)

for _name, _sign in _CHANGES:
    for _right in KINDS.split():
        op(f"set::{_name}.{_right}(Set(t)(a!) self, {_right}(t) other) -> ()", total=True,
           doc=f"`self {_sign} other`.")(getattr(set, _name))  # fmt: skip
    op(f"set::{_name}.list(Set(t)(a!) self, t[] other) -> ()",
       doc=f"`self.{_name}(other)`.")(getattr(set, _name))  # fmt: skip


_NAMES = (
    *(name for name, *_ in (*_COMPARISONS, *_COMBINATIONS, *_CHANGES)), "new", "frozen", "elements",
    "copy", "isdisjoint", "add", "discard", "remove", "pop", "clear",
)  # fmt: skip
for _name in _NAMES:
    known(f"set::{_name}", Trait.COMPARES_CODES, Trait.CORE_CONTAINER)
known("set::elements", Trait.DICT_VIEW, Trait.HANDS_ON_CODES)

for _name in ("aten::sum", "aten::any", "aten::all", "aten::join", "aten::sorted", "aten::extend"):
    known(_name, Trait.OVER_ELEMENTS)
for _name in ("prim::min", "prim::max"):
    known(_name, Trait.OVER_ELEMENTS)
