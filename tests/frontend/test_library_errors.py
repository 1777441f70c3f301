"""Errors in functions of jitlite's that stand for functions of Python's library: they are told at the call."""

from __future__ import annotations

import pytest
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

WRONG = {
    "min(xs, key=lambda: 1)": "in min: ",
    "sorted(xs, key=lambda p, q: p)": "in sorted: ",
    "xs.sort(key=lambda p, q: p)": "in sort: ",
    "list(itertools.accumulate(xs, initial='a'))": "in accumulate: ",
    "list(itertools.product(xs, repeat=3.5))": "",
    "functools.reduce(lambda a: a, xs)": "in reduce: ",
}


def program(text):
    """A function that gives what an expression of a list of ints is."""
    return compile_source(f"import functools, itertools\n\n\ndef f(xs: List[int]):\n    return {text}\n")["f"]


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_compile_is_told_at_the_call(text):
    with pytest.raises(CompileError) as caught:
        jitlite.script(program(text))
    told = str(caught.value)
    assert WRONG[text] in told
    assert f"return {text}" in told
    assert "python_library" not in told and "/jitlite/" not in told


def test_what_is_wrong_in_a_function_of_the_program_is_told_there():
    with pytest.raises(CompileError) as caught:
        jitlite.script(program("sorted(xs, key=lambda v: v.size(0))"))
    told = str(caught.value)
    assert "v.size" in told.partition("<--- HERE")[0] and "python_library" not in told
