"""Generated Python functions: their text, and where in the script each part of it comes from.

Tracebacks and debuggers show the text with the script's line behind each line: the text is handed out through
`__loader__`, as the standard library's `linecache` expects of modules that are in no file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from types import CodeType, TracebackType
from typing import Any, NamedTuple

from jitlite.base.dynamo import unseen_by_dynamo
from jitlite.base.source import SourceRange
from jitlite.interpreter.code import CodePlace
from jitlite.interpreter.frames import Calling, add_traceback
from jitlite.interpreter.script_frames import replaced_tracebacks, shown_call
from jitlite.interpreter.value_words import DESCRIBED_TENSORS, tensor_in_brief
from jitlite.ir.code_text import Identifier, Text, comment

_LOADER = "__loader__"
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_UNNAMED = re.compile(r"v(_\d+)?")
"""What generated code calls values that have no name in the script."""


class Span(NamedTuple):
    """The columns of a line that an operation is written in, and its place."""

    start: int
    end: int
    place: CodePlace


class Line(NamedTuple):
    """A line of generated code, the place of its statement, and the parts of it that come from other places."""

    text: Text
    place: CodePlace | None
    spans: tuple[Span, ...]


class PythonCode:
    """A generated function.

    Attributes:
        name: of the script function.
        run: the generated function: takes a value for each input of the graph; gives its result (a tuple where the
            graph has several outputs).
    """

    def __init__(
        self,
        name: str,
        lines: list[Line],
        names: dict[str, Any],
        entry: Identifier,
    ) -> None:
        self.name = name
        self._lines = lines
        text = "\n".join(line.text for line in lines) + "\n"
        names |= {"__name__": f"jitlite.generated.{entry}", _LOADER: self}
        exec(compile(text, f"generated/{entry}.py", "exec", dont_inherit=True), names)
        self.run: Callable[..., Any] = unseen_by_dynamo(names[entry])
        self.code: CodeType = self.run.__code__

    @property
    def source(self) -> str:
        """The text, each line with the place in the script that it was made from."""
        width = min(60, max(len(line.text) for line in self._lines))
        written, last = [], None
        for line in self._lines:
            text, found = line.text, line.place.range if line.place else None
            where = f"# {comment(found.filename or '<string>')}:{found.line}" if found else ""
            written.append(f"{text:<{width}}  {where}".rstrip() if where and where != last else text)
            last = where
        return "\n".join(written) + "\n"

    @property
    def lines(self) -> list[tuple[str, SourceRange | None]]:
        """The lines of the text and where each comes from."""
        return [(line.text, line.place.range if line.place else None) for line in self._lines]

    def get_source(self, name: str) -> str:
        """What `linecache` asks a loader for."""
        return self.source

    def text_of(self, line: int, column: int | None, end_column: int | None) -> str:
        """A part of the text without the operations within it, which have been done before."""
        found = self._lines[line - 1]
        if column is None or end_column is None:
            return found.text
        text = str(found.text)
        for span in found.spans:
            if column <= span.start and span.end <= end_column and (span.start, span.end) != (column, end_column):
                text = text[: span.start] + " " * (span.end - span.start) + text[span.end :]
        return text[column:end_column]

    def place_of(self, line: int, column: int | None, end_column: int | None) -> CodePlace:
        """The place in the script of a part of the text: of the smallest operation around it."""
        found = self._lines[line - 1]
        place = found.place or CodePlace(None)
        if column is None or end_column is None:
            return place
        around = [span for span in found.spans if span.start <= column and end_column <= span.end]
        return min(around, key=lambda span: span.end - span.start).place if around else place


def calls_in(traceback: TracebackType | None) -> Iterator[Calling]:
    """The calls of generated functions in a traceback, outermost first."""
    return ((name, place) for _, name, place in calls_with_entries(traceback))


Entry = tuple[TracebackType, str, CodePlace]
"""An entry of a traceback that is a call of a script, the function's name, and where it is."""


def calls_with_entries(traceback: TracebackType | None) -> Iterator[Entry]:
    """The same with the entries of the traceback. Calls that it shows as the script's already are among them."""
    for entry in _entries(traceback):
        code, shown = _generated(entry), shown_call(entry.tb_frame)
        if code is not None:
            yield entry, code.name, code.place_of(*_position(entry))
        elif shown is not None:
            yield entry, shown.function, CodePlace(shown.range)


def _entries(traceback: TracebackType | None) -> list[TracebackType]:
    """The entries of a traceback.

    An exception that a generated function has caught and raises again is in the traceback twice, the second time where
    it came from. Only that is told.
    """
    entries: list[TracebackType] = []
    at: dict[int, int] = {}
    while traceback is not None:
        if _generated(traceback) is not None:
            del entries[at.setdefault(id(traceback.tb_frame), len(entries)) :]
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries


def _generated(entry: TracebackType) -> PythonCode | None:
    """The generated function that an entry of a traceback is a call of."""
    found = entry.tb_frame.f_globals.get(_LOADER)
    return found if isinstance(found, PythonCode) and entry.tb_frame.f_code is found.code else None


def _position(traceback: TracebackType) -> tuple[int, int | None, int | None]:
    if sys.version_info >= (3, 11):
        positions = list(traceback.tb_frame.f_code.co_positions())
        line, last_line, column, end_column = positions[traceback.tb_lasti // 2]
        if line is not None and line == last_line:
            return line, column, end_column
    return traceback.tb_lineno, None, None


def add_script_traceback(error: BaseException) -> None:
    """Say where the script was when an exception came out of generated functions: in a note, and in the traceback,
    which shows the script's files and lines in place of generated ones.
    """
    if isinstance(error, Exception):
        found = list(calls_with_entries(error.__traceback__))
        if found:
            calls = [(name, place) for _, name, place in found]
            add_traceback(error, calls, tensors_of(error.__traceback__), with_inner=True)
            error.__traceback__ = _with_script_frames(error.__traceback__, found)


def _with_script_frames(traceback: TracebackType | None, found: list[Entry]) -> TracebackType | None:
    """The traceback with frames of the script in place of those of generated functions."""
    calls = {id(entry): (name, place) for entry, name, place in found}
    made: TracebackType | None = None
    for entry in reversed(_entries(traceback)):
        replaced = None
        if _generated(entry) is not None:
            shown = {name: value for name, value in entry.tb_frame.f_locals.items() if not name.startswith("_")}
            replaced = replaced_tracebacks(*calls[id(entry)], shown, made)
        made = replaced or TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def tensors_of(traceback: TracebackType | None) -> list[str]:
    """The tensors that the innermost generated call of a traceback names where it failed, described."""
    innermost: tuple[PythonCode, TracebackType] | None = None
    while traceback is not None:
        found = traceback.tb_frame.f_globals.get(_LOADER)
        if isinstance(found, PythonCode) and traceback.tb_frame.f_code is found.code:
            innermost = found, traceback
        traceback = traceback.tb_next
    if innermost is None:
        return []
    code, entry = innermost
    variables = entry.tb_frame.f_locals
    named = dict.fromkeys(_NAME.findall(code.text_of(*_position(entry))))
    tensors = {name: variables[name] for name in named if type(variables.get(name)) in DESCRIBED_TENSORS}
    return [tensor_in_brief(t) if _UNNAMED.fullmatch(n) else f"{n}: {tensor_in_brief(t)}" for n, t in tensors.items()]
