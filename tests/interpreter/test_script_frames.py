"""Tracebacks of generated Python show the script: its files, lines, columns, and variables."""

import io
import pdb
import re
import sys
import traceback

import pytest
import torch

import jitlite
from jitlite.base import options
from jitlite.interpreter.python_code import calls_in


def inner(y: torch.Tensor):
    ä = y.view(7) + 1  # noqa: PLC2401 - columns are counted in characters, and in bytes by Python
    return ä


@jitlite.script
def outer(x: torch.Tensor):
    y = x * 2
    z = inner(y)
    return z + y


@jitlite.ignore
def between(x: torch.Tensor) -> torch.Tensor:
    return outer(x)


@jitlite.script
def through_python(x: torch.Tensor):
    return between(x)


def recursive(n: int) -> int:
    if n == 0:
        return [1][n + 1]
    return recursive(n - 1)


@jitlite.script
def raises_again(x: torch.Tensor):
    try:
        y = x.view(7)
    finally:
        x = x + 1
    return y


def error_of(function, *arguments) -> BaseException:
    with pytest.raises((RuntimeError, IndexError)) as found:
        function(*arguments)
    return found.value


def shown(error: BaseException) -> list[tuple[str, str]]:
    """The functions and lines of this file in a traceback, after the one that calls."""
    entries = traceback.extract_tb(error.__traceback__)
    return [(e.name, e.line or "") for e in entries if e.filename == __file__][1:]


def test_calls_are_the_scripts_also_inlined_ones():
    assert shown(error_of(outer, torch.ones(2))) == [("outer", "z = inner(y)"), ("inner", inner_line())]


def inner_line() -> str:
    return "ä = y.view(7) + 1  # noqa: PLC2401 - columns are counted in characters, and in bytes by Python"


def test_no_generated_function_of_a_script_is_left():
    text = "".join(traceback.format_exception(error_of(through_python, torch.ones(2))))
    assert not re.search(r'File "generated/(?!enter|operator)', text)


def test_python_in_between_stays_where_it_is():
    found = [name for name, _ in shown(error_of(through_python, torch.ones(2)))]
    assert found == ["through_python", "between", "outer", "inner"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="columns are told from Python 3.11 on")
def test_carets_are_under_the_operation():
    lines = "".join(traceback.format_exception(error_of(outer, torch.ones(2)))).splitlines()
    at = next(i for i, line in enumerate(lines) if "ä = y.view(7)" in line)
    start = lines[at].index("y.view(7)")  # TorchScript leaves the bracket out of the place of a call
    assert lines[at + 1].rstrip() == " " * start + "^" * len("y.view(7")


def test_recursion_is_shown_call_by_call():
    error = error_of(jitlite.script(recursive), 3)
    assert [name for name, _ in shown(error)] == ["recursive"] * 4
    assert shown(error)[-1][1] == "return [1][n + 1]"
    assert len(list(calls_in(error.__traceback__))) == 4
    (note,) = error.__notes__
    assert note.count("in recursive") == 4


def test_what_is_raised_again_is_shown_once():
    assert [name for name, _ in shown(error_of(raises_again, torch.ones(2)))] == ["raises_again"]


def test_pdb_shows_the_script_and_its_variables():
    error = error_of(jitlite.script(recursive), 2)
    out = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("p n\nup\np n\nq\n"), stdout=out, nosigint=True, readrc=False)
    debugger.reset()
    debugger.interaction(None, error.__traceback__)
    assert f"{__file__}({recursive_line()})recursive()" in out.getvalue()


def recursive_line() -> int:
    return recursive.__code__.co_firstlineno + 3


def test_post_mortem_finds_the_calls(capsys):
    jitlite.post_mortem(error_of(through_python, torch.ones(2)), ["where"])
    assert re.findall(r"\(\d+\)(\w+)\(\)", capsys.readouterr().out)[1:] == ["through_python", "outer", "inner"]


def test_machine_code_that_checks_arguments_shows_the_script_too():
    with options.override(native="now"):
        called = jitlite.script(outer.__wrapped__)
        assert [name for name, _ in shown(error_of(called, torch.ones(2)))] == ["outer", "inner"]


def test_what_is_in_no_file_keeps_its_generated_frames():
    unit = jitlite.CompilationUnit("def f(x: Tensor):\n    return x.view(7)\n")
    text = "".join(traceback.format_exception(error_of(unit.f, torch.ones(2))))
    assert "generated/f.py" in text
