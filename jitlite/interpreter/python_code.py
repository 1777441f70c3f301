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

import torch

from jitlite.base.dynamo import unseen_by_dynamo
from jitlite.base.source import SourceRange
from jitlite.interpreter.code import CodePlace
from jitlite.interpreter.frames import Calling, add_traceback
from jitlite.ir.code_text import Identifier, Text, comment

_LOADER = "__loader__"
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_UNNAMED = re.compile(r"v(_\d+)?")
"""What generated code calls values that have no name in the script."""
_TENSORS = (torch.Tensor, torch.nn.Parameter)
"""Classes whose objects are described; what others say of themselves is a program's."""


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
    while traceback is not None:
        found = traceback.tb_frame.f_globals.get(_LOADER)
        following = traceback.tb_next
        # an exception that is raised again in the frame that caught it is in the traceback twice: where it came from
        # is told by the later entry
        again = following is not None and following.tb_frame is traceback.tb_frame
        if isinstance(found, PythonCode) and traceback.tb_frame.f_code is found.code and not again:
            yield found.name, found.place_of(*_position(traceback))
        traceback = following


def _position(traceback: TracebackType) -> tuple[int, int | None, int | None]:
    if sys.version_info >= (3, 11):
        positions = list(traceback.tb_frame.f_code.co_positions())
        line, last_line, column, end_column = positions[traceback.tb_lasti // 2]
        if line is not None and line == last_line:
            return line, column, end_column
    return traceback.tb_lineno, None, None


def add_script_traceback(error: BaseException) -> None:
    """Attach the script traceback of an exception that came out of generated functions, as a note."""
    if isinstance(error, Exception):
        calls = list(calls_in(error.__traceback__))
        if calls:
            add_traceback(error, calls, tensors_of(error.__traceback__), with_inner=True)


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
    tensors = {name: variables[name] for name in named if type(variables.get(name)) in _TENSORS}
    return [_described(t) if _UNNAMED.fullmatch(n) else f"{n}: {_described(t)}" for n, t in tensors.items()]


def _described(tensor: torch.Tensor) -> str:
    with torch._C.DisableTorchFunction():
        return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
