"""Passes that users put into plans, before or after one that is there.

with jitlite.passes.insert(merge_relus, after="peephole"):
    fast = jitlite.script(f)
    fast(x)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch.utils.hooks import RemovableHandle

from jitlite.base.records import Record
from jitlite.passes.registry import Pass, find, name_of


class InsertedPass(Record, eq=True):
    """A pass that users have put into plans.

    Attributes:
        function: the pass.
        beside: the name of the pass that it runs beside.
        is_after: does it run after that? Else before.
    """

    function: Pass
    beside: str
    is_after: bool


_inserted: OrderedDict[int, InsertedPass] = OrderedDict()
"""By the numbers of the handles, in the order in which they were inserted."""


def enter(inserted: InsertedPass) -> RemovableHandle:
    """Have a pass run in the plans that are made from now on, until the handle is removed."""
    handle = RemovableHandle(_inserted)
    _inserted[handle.id] = inserted
    return handle


def is_used() -> bool:
    """Are there passes that users have put into plans?"""
    return bool(_inserted)


def with_inserted(names: Sequence[str]) -> list[str | Pass]:
    """The passes of a pipeline, with those that users have put beside them."""
    if not _inserted:
        return list(names)
    found: list[str | Pass] = []
    chosen = list(_inserted.values())
    for name in names:
        found += [one.function for one in chosen if one.beside == name and not one.is_after]
        found.append(name)
        found += [one.function for one in chosen if one.beside == name and one.is_after]
    return found


def inserted_pass(chosen: str | Pass, before: str | None, after: str | None, places: Sequence[str]) -> InsertedPass:
    """The pass that is to run before or after one of `places`.

    Raises:
        ValueError: not one of `before` and `after` is given, or it is no place; there is no such pass.
        TypeError: it is no function.
    """
    beside = before if after is None else after
    if beside is None or (before is not None and after is not None):
        raise ValueError("give one of before= and after=: the name of a pass")
    find(beside)
    if beside not in places:
        raise ValueError(f"{beside!r} does not run in plans; those that do are {', '.join(sorted(set(places)))}")
    function = find(chosen) if isinstance(chosen, str) else chosen
    if not callable(function):
        raise TypeError(f"a pass is a function from a graph to True or False, got {name_of(function)}")
    return InsertedPass(function, beside, after is not None)
