"""Golden tests of mistakes that a call shows: the exception is eager's, and a line says what to do about it.

A file `golden/errors_at_run_time.txt` holds cases as those of `test_mistakes.py`. Of a script's traceback they show the
lines of the program. `pytest --accept` writes them anew.
"""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path

import pytest
import torch
from test_mistakes import NAMES

import jitlite
from jitlite.base import options

FILE = "mistake.py"
PATH = Path(__file__).parents[1] / "golden" / "errors_at_run_time.txt"
_CASE = re.compile(r"^--- case: (.*)\n((?:(?!---).*\n)*)--- error\n((?:(?!---).*\n?)*)", re.M)
_ENTRY = re.compile(r"  File \"mistake\.py\", line (\d+), in (\w+)\n")
CASES = _CASE.findall(PATH.read_text())
IN_EAGER = {
    "keyword of forward misspelt in a call", "list where a tensor is wanted", "array of numpy where a tensor is wanted",
    "float where a call wants an int", "tensor where a call wants a number", "text where a call wants an int",
    "module where a call wants a tensor",
}  # fmt: skip
"""Mistakes that eager Python does not see, sees later, or tells in words of its own."""


def raised_by(program, **switches):
    linecache.cache[FILE] = (len(program), None, program.splitlines(keepends=True), FILE)
    module = sys.modules["mistake"] = type(sys)("mistake")
    vars(module).update(NAMES)
    vars(module)["__file__"] = FILE
    torch.manual_seed(0)
    try:
        with options.override(**switches):
            exec(compile(program, FILE, "exec", dont_inherit=True), vars(module))
    except Exception as error:
        return error
    finally:
        del linecache.cache[FILE], sys.modules["mistake"]
    return None


def told(error, program):
    """What a user sees of an exception, but for lines of libraries."""
    lines = [f"{type(error).__name__}: {error}"]
    for note in getattr(error, "__notes__", ()):
        for line, function in _ENTRY.findall(note):
            lines.append(f"  line {line}, in {function}: {program.splitlines()[int(line) - 1].strip()}")
        lines += note.details
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("title", "program", "expected"), CASES, ids=[case[0] for case in CASES])
def test_what_is_said_of_a_mistake(title, program, expected, accept):
    found = told(raised_by(program), program)
    if found != expected and accept:
        PATH.write_text(PATH.read_text().replace(f"{program}--- error\n{expected}", f"{program}--- error\n{found}"))
    assert found == expected
    assert found.count("hint: ") == 1, "what to do about it"


@pytest.mark.parametrize(("title", "program", "expected"), CASES, ids=[case[0] for case in CASES])
def test_the_stack_machine_says_the_same(title, program, expected):
    found = told(raised_by(program, tier="stack"), program).splitlines()
    assert [line for line in found if not line.startswith("with ")] == [
        line for line in expected.splitlines() if not line.startswith("with ")
    ]


@pytest.mark.parametrize(("title", "program", "expected"), CASES, ids=[case[0] for case in CASES])
def test_the_exception_is_that_of_eager(title, program, expected, monkeypatch):
    monkeypatch.setattr(jitlite, "script", lambda program: program)
    error = raised_by(program)
    if title in IN_EAGER:
        assert str(error) != expected.partition(": ")[2].partition("\n")[0]
    else:
        assert f"{type(error).__name__}: {error}".splitlines()[0] == expected.splitlines()[0]


def test_there_are_fifteen_mistakes():
    assert len({title for title, *_ in CASES}) == len(CASES) >= 15
    assert len(CASES) == PATH.read_text().count("--- case:")


def test_exceptions_of_programs_say_what_their_authors_want():
    class Unusual(RuntimeError):
        pass

    @jitlite.script
    def refuse(n: int) -> int:
        if n > 0:
            raise ValueError("Boolean value of something is ambiguous")
        return n

    with pytest.raises(ValueError) as caught:
        refuse(1)
    assert "hint:" not in str(caught.value.__notes__)
