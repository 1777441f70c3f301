"""What conditions say of attributes and tuple elements, and for how long."""

from __future__ import annotations

import copy
from typing import NamedTuple, Optional, Union

import pytest
import torch
from torch import Tensor, nn

import jitlite


class Item:
    def __init__(self, size: int):
        self.size: Optional[int] = size
        self.other: Optional[int] = None
        self.either: Union[int, str] = size

    def forget(self):
        self.size = None

    def forget_other(self):
        self.other = None

    def indirectly(self):
        self.forget()

    def peek(self) -> int:
        size = self.size
        return 0 if size is None else size


class Holder:
    def __init__(self, item: Item):
        self.item: Optional[Item] = item


class Entry(NamedTuple):
    position: Optional[int]
    pair: tuple[Optional[str], int]


def agree(fn, *arguments):
    expected = fn(*copy.deepcopy(arguments))
    assert jitlite.script(fn)(*copy.deepcopy(arguments)) == expected
    return expected


def refused(fn):
    with pytest.raises(jitlite.CompileError, match="Optional|may be None"):
        jitlite.script(fn)


# -- conditions
def test_is_none():
    def branch(h: Holder):
        if h.item is not None and h.item.size is not None:
            return h.item.size + 1
        return 0

    def early_exit(h: Holder):
        if h.item is None or h.item.size is None:
            return 0
        return h.item.size + 2

    def ternary(h: Holder):
        return -1 if h.item is None else h.item.peek()

    def negation(h: Holder):
        if not h.item is None:  # noqa: E714
            return h.item.peek()
        return 1

    def asserted(h: Holder):
        assert h.item is not None
        assert h.item.size is not None
        return h.item.size + 3

    for f in (branch, early_exit, ternary, negation, asserted):
        agree(f, Holder(Item(4)))


def test_a_failing_assertion_raises():
    def f(i: Item):
        assert i.other is not None
        return i.other + 1

    with pytest.raises(AssertionError):
        jitlite.script(f)(Item(1))


def test_isinstance():
    def f(i: Item):
        if isinstance(i.either, int):
            return i.either + 1
        else:
            return len(i.either)

    agree(f, Item(2))


def test_elements_of_tuples():
    def f(e: Entry):
        if e.position is not None and e.pair[0] is not None:
            return e.position + len(e.pair[0]) + e.pair[1]
        return 0

    def g(e: Entry, i: Item):
        assert e.position is not None
        i.forget()
        return e.position + 1

    def field(e: Entry):
        return e[0] + 1 if e.position is not None else 0

    agree(g, Entry(1, ("ab", 5)), Item(1))
    agree(field, Entry(1, ("ab", 5)))


# -- what ends it
def test_an_assignment_to_an_attribute_of_the_name():
    def f(a: Item, b: Item):
        assert a.size is not None
        b.size = None
        return a.size + 1

    refused(f)


def test_calls_that_assign_it():
    def direct(a: Item):
        assert a.size is not None
        a.forget()
        return a.size + 1

    def through_another(a: Item):
        assert a.size is not None
        a.indirectly()
        return a.size + 1

    def in_the_condition(a: Item):
        if a.size is not None and forgets(a):
            return a.size + 1
        return 0

    def of_a_nested_function(a: Item):
        def inner():
            a.size = None

        assert a.size is not None
        inner()
        return a.size + 1

    for f in (direct, through_another, in_the_condition, of_a_nested_function):
        refused(f)


def forgets(a: Item) -> bool:
    a.forget()
    return True


@jitlite.ignore
def python_function(x: int) -> int:
    return x


def test_a_call_of_python():
    def f(a: Item):
        assert a.size is not None
        k = python_function(1)
        return a.size + k

    refused(f)


def test_a_fork():
    def f(a: Item):
        assert a.size is not None
        later = jitlite.fork(a.peek)
        return a.size + jitlite.wait(later)

    refused(f)


def test_calls_that_do_not_assign_it():
    def f(a: Item):
        assert a.size is not None
        k = a.peek()
        a.forget_other()
        t = torch.ones(a.size)
        t.add_(1)
        return a.size + k + t.numel()

    agree(f, Item(3))


def test_an_assignment_to_the_variable():
    def f(a: Item):
        assert a.size is not None
        a = Item(3)
        return a.size + 1

    refused(f)


def test_branches():
    def one_forgets(a: Item, n: int):
        assert a.size is not None
        if n > 1:
            a.forget()
        return a.size + 1

    def the_other_branch(a: Item, n: int):
        assert a.size is not None
        if n > 1:
            a.forget()
            return 0
        else:
            n += a.size
        return a.size + n

    refused(one_forgets)
    agree(the_other_branch, Item(1), 1)
    agree(the_other_branch, Item(1), 2)


def test_loops():
    def kept(a: Item, n: int):
        assert a.size is not None
        total = [a.size + i for i in range(n)]
        while n > 0:
            n -= 1
            total.append(a.size)
        return total

    def forgotten_in_a_round_before(a: Item, n: int):
        assert a.size is not None
        for _ in range(n):
            n += a.size
            a.forget()
        return n

    def forgotten_before_a_break(a: Item, n: int):
        assert a.size is not None
        for i in range(n):
            if i == 2:
                a.size = None
                break
            a.size = 3
        return a.size + 1

    def by_the_condition(a: Item):
        assert a.size is not None
        n = 0
        while forgets(a) and n < 2:
            n += a.size
        return n

    agree(kept, Item(2), 3)
    for f in (forgotten_in_a_round_before, forgotten_before_a_break, by_the_condition):
        refused(f)


def test_a_loop_on_trial_leaves_no_trace():
    def f(a: Item, n: int):
        assert a.size is not None
        for i in range(n):
            xs: list[int] = []
            for j in range(i):
                if j > 3:
                    break
                xs.append(j + a.size)
            else:
                xs.append(-1)
            y = xs[-1]
            if y > 5:
                return y
        return a.size

    for n in (0, 2, 9):
        agree(f, Item(2), n)


def test_handlers_do_not_know_where_the_body_was_left():
    def f(a: Item, n: int):
        assert a.size is not None
        try:
            a.size = None
            if n > 1:
                raise ValueError("")
            a.size = 4
        except ValueError:
            n = a.size + 1
        return n

    refused(f)


class Shown:
    def __init__(self, size: int):
        self.size: Optional[int] = size

    def __lt__(self, other: "Shown") -> bool:
        self.size = None
        return True

    def __str__(self) -> str:
        self.size = None
        return ""


def test_operators_that_run_methods():
    def sorts(a: Shown):
        assert a.size is not None
        xs = [a, a]
        xs.sort()
        return a.size + 1

    def prints(a: Shown):
        assert a.size is not None
        print((1, a))
        return a.size + 1

    def formats(a: Shown):
        assert a.size is not None
        return f"{a}", a.size + 1

    def by_percent(a: Shown):
        assert a.size is not None
        return "%s" % a, a.size + 1

    def in_a_function(a: Shown):
        assert a.size is not None
        writes(a)
        return a.size + 1

    def of_numbers(a: Shown):
        assert a.size is not None
        xs = sorted([2, 1])
        return f"{a.size} {xs}", a.size + 1

    for f in (sorts, prints, formats, by_percent, in_a_function):
        refused(f)
    agree(of_numbers, Shown(3))


def writes(a: Shown):
    print([a])


def test_the_error_names_the_way_out():
    def operator(a: Item):
        assert a.size is not None
        a.forget()
        return a.size + 1

    def call(a: Item):
        assert a.size is not None
        a.forget()
        return torch.ones(a.size)

    def attribute(h: Holder):
        if h.item is not None:
            h.item = Item(1)
            h.item = None
            return h.item.peek()
        return 0

    def iterated(a: Item, n: int):
        assert a.size is not None
        for _ in range(n):
            n += a.size
            a.forget()
        return n

    for f, way in ((operator, "size = a.size"), (call, "size = a.size"), (attribute, "item = h.item"),
                   (iterated, "size = a.size")):  # fmt: skip
        with pytest.raises(jitlite.CompileError) as info:
            jitlite.script(f)
        assert f"`{way}`" in (info.value.hint or "")

    def never_tested(a: Item):
        return a.size + 1

    with pytest.raises(jitlite.CompileError) as info:
        jitlite.script(never_tested)
    assert "may be None here" in (info.value.hint or "")


# -- assignments
def test_an_assigned_attribute_is_what_was_assigned():
    def filled(a: Item):
        if a.other is None:
            a.other = 5
        return a.other + 1

    def augmented(a: Item):
        assert a.size is not None
        a.size += 1
        return a.size * 2

    def none_is_none(a: Item):
        a.size = 3
        a.size = None
        return a.size is None

    agree(filled, Item(1))
    agree(augmented, Item(1))
    agree(none_is_none, Item(1))


# -- modules
class Caching(nn.Module):
    def __init__(self, bias: bool):
        super().__init__()
        self.cache: Optional[Tensor] = None
        self.log: list[int] = []
        self.unused: Optional[Tensor] = None
        self.register_parameter("bias", nn.Parameter(torch.ones(2)) if bias else None)

    def forward(self, x):
        if self.cache is None:
            self.cache = x * 2
        y = x + self.cache
        if self.bias is not None:
            y = y + self.bias
        if self.unused is not None:
            y = y.no_such_method()
        self.log.append(1)
        return y, len(self.log)


@pytest.mark.parametrize("bias", [True, False])
def test_attributes_of_modules(bias):
    scripted, module = jitlite.script(Caching(bias)), Caching(bias)
    for x in (torch.ones(2), torch.zeros(2)):
        torch.testing.assert_close(scripted(x), module(x))


def test_an_annotation_in_init_of_a_base_class():
    class Derived(Caching):
        def forward(self, x):
            self.cache = x if self.cache is None else self.cache + x
            return self.cache

    scripted, module = jitlite.script(Derived(True)), Derived(True)
    for x in (torch.ones(2), torch.ones(2)):
        torch.testing.assert_close(scripted(x), module(x))


class Declaring(nn.Module):
    def __init__(self):
        super().__init__()
        self.replaced: Union[int, str] = 3
        self.cleared: Optional[int] = 3
        self.grown: list[Optional[int]] = [1]
        self.table: dict[str, Optional[int]] = {}
        self.kept: Optional[int] = 5
        self.wrong: str = 7
        self.unknown: "NoSuchType" = 1  # noqa: F821

    def forward(self, x: int):
        if isinstance(self.replaced, int):
            self.replaced = "text"
        else:
            self.replaced = x
        self.cleared = None if self.cleared is not None else x
        self.grown.append(None)
        self.table["x"] = self.cleared
        count = len(self.grown) + len(self.table)
        return self.replaced, self.cleared, count, self.kept + self.wrong + self.unknown


def test_annotations_in_init_count_where_the_value_says_too_little():
    scripted, module = jitlite.script(Declaring()), Declaring()
    for x in range(3):
        assert scripted(x) == module(x)


class Overruled(nn.Module):
    level: Union[int, str]

    def __init__(self):
        super().__init__()
        self.level: Optional[int] = 1

    def forward(self):
        self.level = "a"
        return self.level


def test_an_annotation_of_the_class_comes_first():
    assert jitlite.script(Overruled())() == "a"
