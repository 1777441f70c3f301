"""Methods of Python's types as functions: `str.upper`, `float.is_integer`."""

from __future__ import annotations

import pytest
from accepted_python import Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

METHODS: Table = {
    "mapped": (
        "xs: List[str]",
        "return list(map(str.upper, xs)), [s for s in map(str.strip, xs)], list(filter(str.isdigit, xs)), "
        "sorted(xs, key=str.lower), all(map(str.isalpha, xs))",
        [[["b ", "A", "1"]], [[]]],
    ),
    "called": (
        "s: str, n: int",
        "return str.replace(s, 'a', 'c'), str.join(',', [s, s]), int.bit_length(n), float.is_integer(n / 2)",
        [["ab", 5]],
    ),
    "chosen": (
        "s: str",
        "f = str.upper if len(s) > 3 else str.lower\nreturn f(s), {'u': str.upper}['u'](s)",
        [["aB"], ["aBcD"]],
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_types_are_functions(name):
    check_case(METHODS, name)


@pytest.mark.parametrize("body", ["str.upper(n)", "str.upper()", "str.nothing('a')", "int.bit_length('a')"])
def test_values_of_other_types_are_refused(body):
    function = compile_source(source_of("n: int", f"return {body}"))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
