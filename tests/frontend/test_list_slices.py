"""Slices of lists that are deleted and assigned, as Python does it, in the list itself."""

from __future__ import annotations

import pytest
from accepted_python import Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

SLICES = (":", "1:3", "::2", "::-1", "-2:", "5:1", "a:b", "a:b:c", "::0")
VALUES = ("[7, 8, 9]", "[]", "xs", "(7, 8)", "[v * 2 for v in xs]")
BOUNDS = ((0, 2, 1), (-3, 9, 2), (4, 0, -2), (1, 1, 3))
LISTS = [[list(range(n)), *bounds] for n in (0, 2, 5) for bounds in BOUNDS]
PARAMETERS = "xs: List[int], a: int, b: int, c: int"

DELETED: Table = {s: (PARAMETERS, f"ys = xs\ndel xs[{s}]\nreturn xs, ys is xs", LISTS) for s in SLICES}
ASSIGNED: Table = {
    s: (
        PARAMETERS,
        "\n".join(f"try:\n    xs[{s}] = {v}\nexcept ValueError as e:\n    print(e)" for v in VALUES) + "\nreturn xs",
        LISTS,
    )
    for s in SLICES
}
OTHERS: Table = {
    "extended slices of another length": (PARAMETERS, "xs[::2] = [7, 8, 9]\nreturn xs", LISTS),
    "augmented": (PARAMETERS, "ys = xs\nxs[1:3] *= 2\nxs[1:] += [a, b]\nxs[::2] += []\nreturn xs, ys is xs", LISTS),
    "floats": (
        "xs: List[float], ys: List[float]",
        "xs[1:] = ys\nxs[:1] = (0.5,)\nreturn xs",
        [[[1.0, 2.0], [3.0]], [[], []]],
    ),
    "in a dict": ("d: Dict[str, List[int]]", "d['a'][1:] = [9]\ndel d['a'][:1]\nreturn d", [[{"a": [1, 2, 3]}]]),
    "order of evaluation": (
        "xs: List[int]",
        "def say(n: int):\n    print(n)\n    return n\n"
        "xs[say(1):say(2)] = [say(0)]\ndel xs[say(3):], xs[say(4):]\nreturn xs",
        [[[1, 2, 3]]],
    ),
}


@pytest.mark.parametrize("name", DELETED)
def test_a_slice_is_deleted(name):
    check_case(DELETED, name)


@pytest.mark.parametrize("name", ASSIGNED)
def test_a_slice_is_assigned(name):
    check_case(ASSIGNED, name, dict.fromkeys(ASSIGNED, "try"))


@pytest.mark.parametrize("name", OTHERS)
def test_slices_of_lists(name):
    check_case(OTHERS, name)


@pytest.mark.parametrize(
    "body, said",
    [
        ("xs[1:] = ['a']", "the elements of a list of the same type"),
        ("xs[1:] = 2", "the elements of a list of the same type"),
        ("t = (1, 2)\ndel t[1:]", "slices of lists only"),
    ],
    ids=["strings", "a number", "a tuple"],
)
def test_what_is_refused_names_the_line(body, said):
    function = compile_source(source_of("xs: List[int]", body))["f"]
    with pytest.raises(CompileError, match=said) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
