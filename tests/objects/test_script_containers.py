"""Lists and dicts that keep to one type."""

from __future__ import annotations

import copy
import pickle

import pytest

import jitlite
from jitlite.ir import types as T


def add_to(xs: list[int], x: int) -> int:
    xs.append(x)
    return len(xs)


def count_words(seen: dict[str, int], word: str) -> int:
    seen[word] = seen.get(word, 0) + 1
    return seen[word]


def test_a_script_works_on_the_list_itself():
    numbers = jitlite.script([1, 2])
    assert jitlite.script(add_to)(numbers, 3) == 3
    assert numbers == [1, 2, 3] and numbers.type is T.ListType.of(T.INT)


def test_a_script_works_on_the_dict_itself():
    seen = jitlite.script({"a": 1})
    assert jitlite.script(count_words)(seen, "a") == 2
    assert seen == {"a": 2} and seen.type is T.DictType.of(T.STRING, T.INT)


def test_the_original_is_left_alone():
    given, entries = [1], {1: 2}
    jitlite.script(given).append(2)
    jitlite.script(entries)[2] = 3
    assert given == [1] and entries == {1: 2}


LIST_FAULTS = [
    lambda xs: xs.append("a"),
    lambda xs: xs.extend(["a"]),
    lambda xs: xs.insert(0, "a"),
    lambda xs: xs.__iadd__(["a"]),
    lambda xs: xs.__setitem__(0, "a"),
    lambda xs: xs.__setitem__(slice(0, 1), ["a"]),
    lambda xs: xs.remove("a"),
    lambda xs: xs.count("a"),
    lambda xs: xs.index("a"),
    lambda xs: "a" in xs,
]


@pytest.mark.parametrize("fault", LIST_FAULTS)
def test_elements_of_another_type_are_refused(fault):
    numbers = jitlite.script([1, 2])
    with pytest.raises(TypeError, match="type 'int' for an element of the list"):
        fault(numbers)
    assert numbers == [1, 2]


DICT_FAULTS = [
    (lambda d: d.__setitem__(1, 1), "a key of the dict"),
    (lambda d: d.__setitem__("b", "c"), "a value of the dict"),
    (lambda d: d.update(b="c"), "a value of the dict"),
    (lambda d: d.setdefault("b", "c"), "a value of the dict"),
    (lambda d: d.__ior__({1: 1}), "a key of the dict"),
    (lambda d: d.__delitem__(1), "a key of the dict"),
]


@pytest.mark.parametrize("fault, what", DICT_FAULTS)
def test_entries_of_other_types_are_refused(fault, what):
    entries = jitlite.script({"a": 1})
    with pytest.raises(TypeError, match=what):
        fault(entries)
    assert entries == {"a": 1}


def test_looking_for_a_key_of_another_type_is_a_key_error():
    with pytest.raises(KeyError):
        _ = 1 in jitlite.script({"a": 1})


def test_an_empty_list_takes_the_type_of_what_comes_first():
    words = jitlite.script([])
    assert words.type is None and "a" not in words
    words += ["a"]
    with pytest.raises(TypeError):
        words.append(1)


def test_what_lists_and_dicts_can_do_they_can_do():
    xs = jitlite.script([3, 1, 2])
    xs.sort()
    xs[1:] = [5, 6, 7]
    assert xs.pop() == 7 and xs == [1, 5, 6] and repr(xs) == "[1, 5, 6]" and xs.index(5, 1) == 1
    d = jitlite.script({1: 1.5})
    assert d.setdefault(1, 2.5) == 1.5 and d.setdefault(2, 3.5) == 3.5
    d |= {4: 1.0}
    del d[1]
    assert list(d) == [2, 4]


@pytest.mark.parametrize("made", [jitlite.script([1]), jitlite.script({"a": 1}), jitlite.script([])])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_keep_the_type(made, duplicate):
    other = duplicate(made)
    assert other == made and other is not made and type(other) is type(made) and other.type is made.type
