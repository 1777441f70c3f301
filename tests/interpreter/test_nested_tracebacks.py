"""Errors that pass through scripts, through Python that they call, and through scripts which that calls."""

from __future__ import annotations

import pickle
import re

import pytest

import jitlite
from jitlite.base import options


def fails(x: int) -> int:
    assert x > 3, "small"
    return x


fails_in_script = jitlite.script(fails)


@jitlite.ignore
def python_between(x: int) -> int:
    return fails_in_script(x)


def calls_python(x: int) -> int:
    return python_between(x) + 1


@jitlite.ignore
def calls_again(x: int) -> int:
    return scripted_caller(x)


scripted_caller = jitlite.script(calls_python)


def outermost(x: int) -> int:
    return calls_again(x) * 2


def waits(f: jitlite.Future[int]) -> int:
    return jitlite.wait(f)


def waits_too(f: jitlite.Future[int]) -> int:
    result = jitlite.wait(f)
    return result


def functions_of(error: BaseException) -> list[str]:
    """The functions that the script traceback of an error names, outermost first."""
    (note,) = error.__notes__  # type: ignore[attr-defined]
    return re.findall(r"line \d+, in (\w+)", note)


def error_of(call, *arguments: object) -> BaseException:
    with pytest.raises(AssertionError, match="small") as found:
        call(*arguments)
    return found.value


@pytest.mark.parametrize("inner", ["python", "stack"])
@pytest.mark.parametrize("outer", ["python", "stack"])
def test_scripts_around_python_are_shown(outer, inner):
    with options.override(tier=inner):
        fails_in_script.executor.invalidate_entry()
        with options.override(tier=outer):
            scripted = jitlite.script(outermost)
            assert functions_of(error_of(scripted, 1)) == ["outermost", "calls_python", "fails"]


def test_each_who_waits_sees_his_own_calls():
    future = jitlite.fork(fails_in_script, 1)
    for function in (waits, waits_too, waits):
        assert functions_of(error_of(jitlite.script(function), future)) == [function.__name__, "fails"]
    assert functions_of(error_of(future.wait)) == ["fails"]


def test_a_note_is_pickled_as_text():
    error = pickle.loads(pickle.dumps(error_of(jitlite.script(outermost), 1)))
    assert all(type(note) is str for note in error.__notes__)
    assert functions_of(error) == ["outermost", "calls_python", "fails"]
