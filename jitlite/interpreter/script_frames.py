"""Tracebacks that show the user's file and line in place of generated Python.

A frame cannot be made, but code can be run that raises at a given line of a given file: its frame takes the place of
the generated one in the traceback, with the variables that were there, so that `pdb` shows the script as well. That is
what template engines do. Places that are in no file, such as the code of an archive, keep their generated frames.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

from jitlite.base.source import SourceRange
from jitlite.interpreter.code import CodePlace

_RAISED = "_raised"
_CALL = "_call"


class ShownCall(NamedTuple):
    """What a frame of a script is of."""

    function: str
    range: SourceRange


def shown_call(frame: FrameType) -> ShownCall | None:
    """The call that a frame made here stands for."""
    found = frame.f_globals.get(_CALL)
    return found if isinstance(found, ShownCall) else None


def replaced_tracebacks(
    name: str, place: CodePlace, variables: dict[str, object], following: TracebackType | None
) -> TracebackType | None:
    """What stands in a traceback for a call of generated Python, inlined calls as calls of their own.

    Args:
        name: of the function.
        place: where it is.
        variables: what is shown of it.
        following: the rest of the traceback.

    Returns:
        None where a place is in no file.
    """
    calls: list[tuple[str, SourceRange | None]] = []
    for callee, called_at in place.call_stack:
        calls.append((name, called_at))
        name = callee
    calls.append((name, place.range))
    made = following
    for function, found in reversed(calls):
        if found is None or found.filename is None or not _is_shown(found.filename):
            return None
        made = _traceback(ShownCall(function, found), variables, made)
    return made


def _is_shown(filename: str) -> bool:
    """Does Python find the text of the file? That of a notebook's cell is kept by `linecache`."""
    return filename in linecache.cache or os.path.isfile(filename)


@functools.lru_cache(maxsize=256)
def _code(call: ShownCall) -> CodeType:
    """Code that raises at a place."""
    found, source = call.range, call.range.source
    first, last = source.line_index(found.start), source.line_index(max(found.end - 1, found.start))
    place = {
        "lineno": found.line,
        "end_lineno": found.line + last - first,
        "col_offset": _bytes(source.text[source.line_start(first) : found.start]),
        "end_col_offset": _bytes(source.text[source.line_start(last) : found.end]),
    }
    raised = ast.Name(_RAISED, ast.Load(), **place)
    module = ast.Module([ast.Raise(raised, None, **place)], [])
    return compile(module, found.filename or "<string>", "exec", dont_inherit=True).replace(co_name=call.function)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _traceback(call: ShownCall, variables: dict[str, object], following: TracebackType | None) -> TracebackType:
    """The traceback of an exception that is raised in a call, going on with another one."""
    shown = {**variables, _RAISED: _Raised}
    try:
        exec(_code(call), {"__name__": "script", _CALL: call}, shown)
    except _Raised as error:
        found = error.__traceback__
        assert found is not None and found.tb_next is not None
        raised = found.tb_next
        shown.pop(_RAISED, None)
        return TracebackType(following, raised.tb_frame, raised.tb_lasti, raised.tb_lineno)
    raise AssertionError("the code raises")


class _Raised(Exception):
    """Raised to make a frame, and caught where that is done."""
