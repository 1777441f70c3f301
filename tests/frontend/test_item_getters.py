"""`operator.itemgetter` gives an item, or a tuple of several."""

from __future__ import annotations

import pytest
from accepted_python import Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

GETTERS: Table = {
    "keys": (
        "xs: List[Tuple[int, str]]",
        "g = operator.itemgetter(1)\n"
        "return sorted(xs, key=g), max(xs, key=operator.itemgetter(0)), [g(x) for x in xs], "
        "sorted(xs, key=operator.itemgetter(1, 0)), list(map(operator.itemgetter(-1), xs))",
        [[[(1, "b"), (0, "b"), (2, "a")]]],
    ),
    "of a dict": (
        "d: Dict[str, int]",
        "return sorted(d.items(), key=operator.itemgetter(1)), operator.itemgetter('a', 'b')(d)",
        [[{"a": 3, "b": 1}], [{"a": 3}]],
    ),
}


@pytest.mark.parametrize("name", GETTERS)
def test_itemgetter_gives_items(name):
    check_case(GETTERS, name)


@pytest.mark.parametrize("body", ["operator.itemgetter(n)([1])", "operator.itemgetter()", "operator.itemgetter(0)(n)"])
def test_what_is_no_getter_is_refused(body):
    function = compile_source(source_of("n: int", f"return {body}"))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
