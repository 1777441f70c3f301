"""Is exercise 1 solved?"""

from ch1_tree import parse, smooth
from ex1_unused import unused


def all_read(a: int) -> int:
    b = a
    return b


def some_not_read(a: int, b: int, c: int) -> int:
    d = a
    for i in range(a):
        e = a
        if a > 1:
            f = c
        else:
            a += 1
    while a > 5:
        a = a - 1
        g = 0
    return a


def adds_to_itself(a: int) -> int:
    b = 0
    b += a
    return a


def test_parameters_and_variables():
    assert unused(parse(all_read)) == []
    assert unused(parse(some_not_read)) == ["b", "d", "e", "f", "g", "i"]


def test_the_name_of_the_function_and_its_types_are_no_variables():
    assert unused(parse(smooth)) == ["_"]


def test_a_variable_that_is_read_to_be_written_is_read():
    assert unused(parse(adds_to_itself)) == []
