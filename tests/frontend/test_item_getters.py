"""`operator.itemgetter` and `operator.attrgetter` give a part, or a tuple of several."""

from __future__ import annotations

import pytest
from accepted_python import T34, Table, check_case, source_of
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
    "attributes": (
        "n: int, x: Tensor",
        "lines = [Line(n, 2), Line(1, 5)]\ng = operator.attrgetter('x', 'double')\n"
        "return [p.x for p in sorted(lines, key=operator.attrgetter('x'))], [g(p) for p in lines], "
        "max(lines, key=operator.attrgetter('y', 'x')).y, operator.attrgetter('T.dtype')(x)",
        [[3, T34]],
    ),
}


@pytest.mark.parametrize("name", GETTERS)
def test_getters_give_parts(name):
    check_case(GETTERS, name)


@pytest.mark.parametrize(
    "body",
    [
        "operator.itemgetter(n)([1])",
        "operator.itemgetter()",
        "operator.itemgetter(0)(n)",
        "operator.attrgetter(1)(n)",
        "operator.attrgetter('x; y')(n)",
        "operator.attrgetter('nothing')(n)",
        "operator.attrgetter(str(n))(n)",
    ],
)
def test_what_is_no_getter_is_refused(body):
    function = compile_source(source_of("n: int", f"return {body}"))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
