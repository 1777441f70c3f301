"""Records: fields, defaults, comparison."""

from __future__ import annotations

from dataclasses import field

import pytest

from jitlite.base.records import Record, replace


class Point(Record, eq=True):
    x: int
    y: int = 0


class Named(Point, eq=True):
    name: str = ""


class Plain(Record):
    x: int
    notes: list[str] = field(default_factory=list)


class Counter(Record, eq=True, frozen=False):
    count: int = 0


class Empty(Record, eq=True):
    pass


def test_fields_are_given_in_order_by_name_or_by_default():
    assert (Point(1).x, Point(1).y) == (1, 0)
    assert (Point(y=2, x=1).x, Point(1, y=2).y, Point(1, 2).y) == (1, 2, 2)
    assert repr(Named(1, name="a")) == "Named(x=1, y=0, name='a')"
    assert repr(Point(y=2, x=1)) == "Point(x=1, y=2)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Point(),
        lambda: Point(y=1),
        lambda: Point(1, 2, 3),
        lambda: Point(1, z=2),
        lambda: Point(1, 2, z=3),
        lambda: Empty(1),
    ],
)
def test_what_is_no_field_or_missing_is_refused(make):
    with pytest.raises(TypeError, match=" is made of "):
        make()


def test_a_default_that_is_made_is_made_for_each():
    first, second = Plain(1), Plain(2)
    first.notes.append("a")
    assert (first.notes, second.notes, Plain(3, ["b"]).notes, Plain(4, notes=["c"]).notes) == (["a"], [], ["b"], ["c"])


def test_records_are_equal_by_fields_where_they_ask_for_it():
    assert Point(1, 2) == Point(x=1, y=2) != Point(1, 3)
    assert hash(Point(1)) == hash(Point(1, 0))
    assert Point(1) != Named(1)
    assert Named(1, 2, "a") != Named(1, 2, "b")
    assert Empty() == Empty() and hash(Empty()) == hash(Empty())
    assert Plain(1) != Plain(1)
    assert len({Point(1), Point(1, 0), Plain(1)}) == 2


def test_what_changes_has_no_hash():
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


def test_replace_gives_a_record_that_differs():
    named = Named(1, name="a")
    assert replace(named, x=2) == Named(2, 0, "a")
    assert named.x == 1
    with pytest.raises(TypeError, match="is made of"):
        replace(named, z=1)
