"""What the user calls places in a program: lines, files with lines, functions, values of nodes."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable, Iterator

from jitlite.base.source import Source, SourceRange, did_you_mean
from jitlite.interpreter.code import Code
from jitlite.interpreter.debugging.breakpoints import (
    Breakpoint,
    FunctionBreakpoint,
    LineBreakpoint,
    NodeBreakpoint,
    is_file,
)
from jitlite.interpreter.debugging.scopes import CallScope, shown_path
from jitlite.interpreter.frames import CallFrame
from jitlite.ir.unit import Function, called_functions


class LocationError(ValueError):
    """A text that means no place."""


def breakpoint_at(text: str, scope: CallScope, frames: Iterable[CallFrame]) -> Breakpoint:
    """The breakpoint that a text means.

    Args:
        text: LINE, FILE:LINE, FUNCTION or %VALUE.
        scope: whose file a line is in.
        frames: the running calls, whose code tells which lines there are.

    Raises:
        LocationError: it means no place, or one where nothing runs.
    """
    frames = list(frames)
    if text.startswith("%"):
        return _at_value(text[1:], frames)
    filename, colon, line = text.rpartition(":")
    if colon or text.isdecimal():
        return _at_line(filename if colon else scope.filename, line_number(line), scope, frames)
    if not text.replace(".", "").isidentifier():
        raise LocationError(f"expected LINE, FILE:LINE, FUNCTION or %VALUE, got '{text}'")
    known = sorted(set(function_names(frames)))
    if text not in known:
        hint = did_you_mean(text, known) or f"it calls: {', '.join(known)}"
        raise LocationError(f"the program calls no function '{text}'; {hint}")
    return FunctionBreakpoint(text)


def line_number(text: str) -> int:
    """The number that a text is.

    Raises:
        LocationError: it is none.
    """
    if not text.strip().isdecimal():
        raise LocationError(f"expected the number of a line, got '{text.strip()}'")
    return int(text)


def _at_value(name: str, frames: list[CallFrame]) -> Breakpoint:
    known = [v.name for code in _codes(frames) for node in code.nodes for v in node.outputs]
    if name not in known:
        hint = did_you_mean(name, known)
        raise LocationError(f"no node gives %{name}; {hint or 'the command graph shows the nodes'}")
    return NodeBreakpoint(name)


def _at_line(filename: str, line: int, scope: CallScope, frames: list[CallFrame]) -> Breakpoint:
    sources = _sources_of(filename, scope, frames)
    source = next((s for s in sources if s.first_line <= line < s.first_line + s.line_count), None)
    if source is None and not os.path.isfile(filename):
        if sources:
            known = ", ".join(f"{s.first_line} to {s.first_line + s.line_count - 1}" for s in sources)
            raise LocationError(f"there is no line {line}: the source has lines {known}")
        return LineBreakpoint(filename, line)  # perhaps of a function that has not been called yet
    text = linecache.getline(filename, line) if source is None else source.line_text(line - source.first_line)
    if source is None and not text:
        raise LocationError(f"there is no line {line} in {shown_path(filename)}")
    if not text.strip() or text.strip().startswith("#"):
        raise LocationError(f"line {line} is {'a comment' if text.strip() else 'blank'}: nothing runs there")
    if source is None:
        return LineBreakpoint(filename, line)
    return LineBreakpoint(source.filename or filename, _line_that_runs(source, line, frames))


def _sources_of(filename: str, scope: CallScope, frames: list[CallFrame]) -> list[Source]:
    """The pieces of a file that the running functions, and those that they call, are in."""
    ranges = [scope.range, *(place.range for code in _codes(frames) for place in code.places)]
    ranges += [function.range for function in _functions(frames)]
    found = [r.source for r in ranges if r is not None and is_file(r.filename or "<string>", filename)]
    return sorted(dict.fromkeys(found), key=lambda source: source.first_line)


def _line_that_runs(source: Source, line: int, frames: list[CallFrame]) -> int:
    """The line itself, or the next one of a function around it that has an instruction."""
    for code in _codes(frames):
        lines = {p.range.line for p in code.places if p.range is not None and p.range.source is source}
        if lines and min(lines) <= line <= max(lines):
            return min(found for found in lines if found >= line)
    return line


def _codes(frames: list[CallFrame]) -> Iterator[Code]:
    """The code of the running calls, innermost first."""
    yield from dict.fromkeys(frame.code for frame in reversed(frames))


def _functions(frames: Iterable[CallFrame]) -> Iterator[Function]:
    """The functions that the running ones call."""
    for code in dict.fromkeys(frame.code for frame in frames):
        for function in code.functions:
            yield function
            yield from called_functions(function.graph)


def function_names(frames: Iterable[CallFrame]) -> Iterator[str]:
    """The names of the functions that run and of those that they call, also inlined ones."""
    frames = list(frames)
    for frame in frames:
        yield frame.code.name
        yield from (name for place in frame.code.places for name, _ in place.call_stack)
    yield from (function.name for function in _functions(frames))


def source_of(name: str, frames: Iterable[CallFrame]) -> Source | str:
    """The source of a function that runs or that a running one calls; why there is none."""
    frames = list(frames)
    known = sorted(set(function_names(frames)))
    if name not in known:
        hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
        return f"the program calls no function '{name}'; {hint}" if name else f"expected a function: {', '.join(known)}"
    found = next((r for r in _ranges_in(name, frames) if r is not None), None)
    return f"the function '{name}' has no source" if found is None else found.source


def _ranges_in(name: str, frames: Iterable[CallFrame]) -> Iterator[SourceRange | None]:
    """Places in a function of this name."""
    frames = list(frames)
    for frame in frames:
        for place in frame.code.places:
            if (place.call_stack[-1][0] if place.call_stack else frame.code.name) == name:
                yield place.range
    yield from (function.range for function in _functions(frames) if function.name == name)
