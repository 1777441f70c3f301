"""`[]`, `{}`, `dict()`, `set()` and `frozenset()` are of the type that is wanted where they stand."""

from __future__ import annotations

import itertools

import pytest
import torch
from accepted_python import Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

KINDS = {
    "list": ("List[int]", "[]", [1]),
    "list call": ("List[int]", "list()", [1]),
    "dict": ("Dict[int, str]", "{}", {1: "a"}),
    "dict call": ("Dict[int, str]", "dict()", {1: "a"}),
    "set": ("Set[int]", "set()", {1}),
    "frozenset": ("FrozenSet[int]", "frozenset()", frozenset([1])),
}
PLACES = {
    "an item of a dict": ("d: Dict[str, TYPE], n: int", "d['a'] = EMPTY\nreturn d, len(d['a'])", [[{}, 1]]),
    "an element": (
        "xs: List[TYPE], n: int",
        "xs.append(EMPTY)\nxs[0] = EMPTY\nxs.insert(0, EMPTY)\nreturn xs",
        [[[], 1]],
    ),
    "a default": (
        "d: Dict[str, TYPE]",
        "return d.get('a', EMPTY), d.setdefault('b', EMPTY), d",
        [[{"a": "GIVEN"}], [{}]],
    ),
    "a conditional expression": (
        "x: TYPE, c: bool",
        "return x if c else EMPTY, EMPTY if c else x",
        [["GIVEN", True], ["GIVEN", False]],
    ),
    "or": ("x: Optional[TYPE]", "return x or EMPTY", [["GIVEN"], [None]]),
    "a default argument": (
        "x: Optional[TYPE] = None",
        "if x is None:\n    x = EMPTY\nreturn x",
        [["GIVEN"], [None], []],
    ),
    "a display": (
        "x: TYPE",
        "d: Dict[str, TYPE] = {'a': EMPTY, 'b': x}\nxs: List[TYPE] = [EMPTY, x]\n"
        "t: Tuple[TYPE, int] = (EMPTY, 2)\nreturn d, xs, t",
        [["GIVEN"]],
    ),
    "a comprehension": (
        "n: int",
        "d: Dict[int, TYPE] = {i: EMPTY for i in range(n)}\nxs: List[TYPE] = [EMPTY for _ in range(n)]\n"
        "return d, xs",
        [[0], [2]],
    ),
    "an argument of a function": ("x: TYPE", "def g(y: TYPE):\n    return len(y)\nreturn g(EMPTY), g(x)", [["GIVEN"]]),
    "a branch": ("x: TYPE, c: bool", "if c:\n    x = EMPTY\nreturn x", [["GIVEN", True], ["GIVEN", False]]),
}  # fmt: skip
OTHERS: Table = {
    "operands": (
        "s: Set[int], xs: List[int]",
        "s |= set()\ns.update(set())\n"
        "return s == set(), set() <= s, s | set(), set() - s, xs + [], len(set()), len({}), not {}",
        [[{1}, [1]], [set(), []]],
    ),
    "nothing wants another": (
        "x: Tensor",
        "d = {}\nd['a'] = x\nxs = []\nxs.append(x)\nreturn d, xs, {}, dict(), [], isinstance({}, dict)",
        [[torch.ones(2)]],
    ),
    "nothing to go through": (
        "n: int",
        "for k in {}:\n    n += 1\nfor k in set():\n    n += 1\nreturn n, list({}), n in set(), 'a' in {}",
        [[1]],
    ),
    "each time a new one": (
        "n: int", "d: Dict[int, Set[int]] = {}\nfor i in range(n):\n    d[i] = set()\n    d[i].add(i)\nreturn d", [[3]]
    ),
}  # fmt: skip


def _filled(place: str, kind: str) -> tuple[str, str, list[list[object]]]:
    annotation, empty, given = KINDS[kind]
    parameters, body, inputs = PLACES[place]
    arguments = [[{"a": given} if a == {"a": "GIVEN"} else given if a == "GIVEN" else a for a in i] for i in inputs]
    return parameters.replace("TYPE", annotation), body.replace("TYPE", annotation).replace("EMPTY", empty), arguments


TABLE: Table = {f"{place}, {kind}": _filled(place, kind) for place, kind in itertools.product(PLACES, KINDS)}


@pytest.mark.parametrize("name", TABLE)
def test_an_empty_literal_is_of_the_type_that_is_wanted(name):
    check_case(TABLE, name, {n: "TorchScript has no sets" for n in TABLE if "set" in n})


@pytest.mark.parametrize("name", OTHERS)
def test_empty_literals(name):
    check_case(OTHERS, name, {n: "TorchScript has no sets" for n in OTHERS if n != "nothing wants another"})


@pytest.mark.parametrize("body", ["s = set()", "return set()", "f = frozenset()", "x = f'{set()}'"])
def test_an_empty_set_whose_type_nothing_tells_is_refused(body):
    function = compile_source(source_of("n: int", body + "\nreturn n"))["f"]
    with pytest.raises(CompileError, match="the type of the elements of an empty set is not known") as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
