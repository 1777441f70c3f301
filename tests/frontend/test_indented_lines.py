"""Where functions end by indentation: as Python's tokens say, or it is known that indentation does not tell."""

from __future__ import annotations

import inspect

import pytest

import jitlite
from jitlite.frontend.syntax.indented_lines import lines_of_definition

PLAIN = """
def f(x):
    return x

def g(): pass
"""
LAST = """
    def f(self):
        # about what follows

        if self.a:
            return 1


"""
SIGNATURE = """
@decorated(
    1,
)
@decorated
def f(
    x,
    y,
) -> int:
    return call(
        x,
    )
# of g
g = 1
"""
COMMENT_INSIDE = """
def f(x):
    a = 1
# further left
    return a
class C: pass
"""
ONE_LINE = """
def f(x): return x
y = 1
"""
COROUTINE = """
async  def f(x):
    return x
y = 1
"""


@pytest.mark.parametrize("text", [PLAIN, LAST, SIGNATURE, COMMENT_INSIDE, ONE_LINE, COROUTINE])
def test_lines_are_those_that_tokens_tell(text):
    lines = text.splitlines(keepends=True)[1:]
    assert lines_of_definition(lines) == inspect.getblock(lines)


def test_the_definition_may_begin_anywhere():
    lines = ["import this\n", "\n", *PLAIN.splitlines(keepends=True)[1:]]
    assert lines_of_definition(lines, 2) == lines[2:4]


@pytest.mark.parametrize(
    "text", ["f = lambda x: x\n", "x = call(lambda y: y,\n  1)\n", "def f(x):\n    return x\n    # of f\ny = 1\n"]
)
def test_where_indentation_does_not_tell(text):
    assert lines_of_definition(text.splitlines(keepends=True)) is None


def _with_text(x: int) -> str:
    text = """
left"""
    return text + str(x)


def test_such_a_function_compiles():
    assert jitlite.script(_with_text)(3) == _with_text(3)


def test_a_string_that_goes_on_further_left_is_cut():
    text = 'def f(x):\n    s = """\nleft"""\n    return s\n'
    found = lines_of_definition(text.splitlines(keepends=True))
    with pytest.raises(SyntaxError):
        compile("".join(found), "text", "exec")
