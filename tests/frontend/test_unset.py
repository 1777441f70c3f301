"""What a `with` has set whose manager ended an exception: variables are read, or not there, as in Python."""

from __future__ import annotations

from typing import Any, List, Optional

import pytest

import jitlite


class Ends:
    """Ends every exception."""

    def __init__(self):
        self.count = 0

    def __enter__(self):
        self.count += 1

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        return True


class MayEnd:
    def __init__(self, answer: Optional[bool]):
        self.answer = answer

    def __enter__(self):
        pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> Optional[bool]:
        return self.answer


def set_inside(xs: List[int], n: int):
    with Ends():
        found = xs[n]
    return found


def set_twice(n: int):
    with Ends():
        found = 1
        if n > 0:
            raise ValueError("no")
        found = 2
    return found


def set_again(xs: List[int], n: int):
    with Ends():
        found = xs[n]
    if n > 1:
        found = 7
    return found


def set_in_an_earlier_round(n: int):
    total = 0
    for i in range(4):
        with Ends():
            if i == n:
                raise ValueError("no")
            last = i * 10
        total += last
    return total


def two_types(xs: List[int], n: int):
    if n > 0:
        item = "text"
        first = len(item)
    else:
        first = 0
    with Ends():
        item = xs[n]
    return item + first


def own_in_a_comprehension(xs: List[int], n: int):
    with Ends():
        item = xs[n]  # noqa: F841
    return [item for item in xs]


def nested(xs: List[int], n: int):
    with Ends():
        outer = 1
        with Ends():
            inner = xs[n]
        outer = inner + 1
    return outer


def answers(answer: Optional[bool], fails: bool):
    with MayEnd(answer):
        if fails:
            raise KeyError("k")
        return 1
    return 2


def with_an_else(xs: List[int], n: int, reads: bool):
    try:
        with Ends():
            item = xs[n]
    except IndexError:
        return -1
    else:
        if reads:
            return item
    return 0


def after_an_else(xs: List[int], n: int, reads: bool):
    try:
        with Ends():
            item = xs[n]
    except IndexError:
        return -1
    else:
        pass
    if reads:
        return item
    return 0


def after_a_loop_with_else(xs: List[int], n: int, reads: bool):
    for i in range(3):
        with Ends():
            item = xs[n + i]
        if i == 1:
            break
    else:
        return -1
    if reads:
        return item
    return 0


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        *((f, ([5, 6], n)) for f in (set_inside, set_again, own_in_a_comprehension, nested) for n in range(4)),
        *((two_types, ([5, 6], n)) for n in range(2)),
        *(
            (f, ([5, 6], n, reads))
            for f in (with_an_else, after_an_else, after_a_loop_with_else)
            for n in (0, 1, 2, 7)
            for reads in (True, False)
        ),
        *((f, (n,)) for f in (set_twice, set_in_an_earlier_round) for n in range(3)),
        *((answers, (answer, fails)) for answer in (None, True, False) for fails in (True, False)),
    ],
)
def test_as_in_python(function, args):
    assert outcome(jitlite.script(function), *args) == outcome(function, *args)


def test_what_is_said_of_a_variable_that_is_not_set():
    with pytest.raises(UnboundLocalError, match="variable 'found' where it is not associated with a value"):
        jitlite.script(set_inside)([], 0)


def test_what_is_certainly_set_is_not_looked_at():
    def plain():
        with Ends():
            a = 1
        a = 2
        return a

    assert "UnboundLocalError" not in str(jitlite.script(plain).graph)
