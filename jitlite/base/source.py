"""Places in the user's source, and the errors that point at them.

Every tree, node and instruction carries a `SourceRange`, so that whatever goes wrong at whatever stage is
reported on the user's own line.
"""

from __future__ import annotations

import bisect
import difflib
import os
import re
import traceback
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from jitlite.base.computed_once import cached_property

OWN_FILES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
"""The folder of jitlite. Places in it are never the user's."""

_LONGEST_MESSAGE = 15
"""Lines an error may take; an error that scrolls away teaches nothing."""
_LINES_BEFORE = 2
"""Lines between the head of a function and the place of an error that are shown; of more, only the last one is."""
_LINES_AFTER = 2
"""Lines of the function behind the place of an error that are shown."""
_MARKER = " <--- HERE"
_DEFINITION = re.compile(r"\s*(?:async\s+)?(?:def|class)\s+(\w+)")


class Utf8Offsets:
    """The bytes at which the characters of a text begin in UTF-8, found once: archives count in bytes.

    A surrogate, which UTF-8 cannot have, is written as one byte, a question mark.
    """

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._starts = None if text.isascii() else array("Q", accumulate(map(_width, text), initial=0))

    def byte_at(self, character: int) -> int:
        """The byte at which a character begins. The text has it, or ends there."""
        return character if self._starts is None else self._starts[character]

    def character_at(self, byte: int) -> int:
        """The character that a byte is of; the first or the last end of the text for one outside of it."""
        if self._starts is None:
            return min(max(byte, 0), self._length)
        return max(bisect.bisect_right(self._starts, byte) - 1, 0)


def _width(character: str) -> int:
    code = ord(character)
    if code < 0x80 or 0xD800 <= code < 0xE000:
        return 1
    return 2 if code < 0x800 else 3 if code < 0x10000 else 4


@dataclass(frozen=True, eq=False)
class Source:
    """A piece of source text and where it stands in its file.

    `text` is kept as written (not dedented), so columns are the file's. `first_line` is the 1-based line of
    the file on which `text` begins. Is it the text of a graph (`is_graph`), then graphs do not print places in it:
    each line would tell its own number.
    """

    text: str
    filename: str | None = None
    first_line: int = 1
    is_graph: bool = False
    _line_starts: list[int] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        starts = self._line_starts
        starts.append(0)
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)

    @cached_property
    def utf8(self) -> Utf8Offsets:
        return Utf8Offsets(self.text)

    def line_start(self, index: int) -> int:
        """Offset of the first character of line `index` (0-based within this text)."""
        return self._line_starts[min(index, len(self._line_starts) - 1)]

    def line_index(self, offset: int) -> int:
        """0-based line, within this text, that holds `offset`."""
        return max(bisect.bisect_right(self._line_starts, offset) - 1, 0)

    def line_text(self, index: int) -> str:
        """Text of line `index` without its newline."""
        start = self.line_start(index)
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    @property
    def line_count(self) -> int:
        return len(self._line_starts)


class SourceRange:
    """Characters `start` to `end` (exclusive) of a source. Nobody changes one; every tree and node has one."""

    __slots__ = ("end", "source", "start")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.start = start
        self.end = end

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return (self.source, self.start, self.end) == (other.source, other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.source, self.start, self.end))

    def __repr__(self) -> str:
        return f"SourceRange({self.source!r}, {self.start}, {self.end})"

    @property
    def program_range(self) -> SourceRange:
        """The place in the program as its author wrote it; for one in the code of an archive, where that comes from."""
        return self

    @property
    def filename(self) -> str | None:
        return self.source.filename

    @property
    def line(self) -> int:
        """1-based line in the file."""
        return self.source.first_line + self.source.line_index(self.start)

    @property
    def column(self) -> int:
        """0-based column in the file."""
        return self.start - self.source.line_start(self.source.line_index(self.start))

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def ending_with(self, name: str) -> SourceRange:
        """The part that is a name at its end, such as the attribute in `a.b`; all of it where it ends otherwise."""
        return SourceRange(self.source, self.end - len(name), self.end) if self.text.endswith(name) else self

    def is_own(self) -> bool:
        """Is the place in a file of jitlite's?"""
        return (self.source.filename or "").startswith(OWN_FILES)

    def location(self) -> str:
        """`file:line:column`, the column counted from 0 as Python's `ast` and TorchScript's graph text do."""
        return f"{self.filename or '<string>'}:{self.line}:{self.column}"

    def excerpt(self, context: int = 0, marker: str = "") -> str:
        """The lines of the range with `~~~` under it, `context` lines around it, `marker` after the last tildes."""
        first = self.source.line_index(self.start)
        last = self.source.line_index(max(self.start, self.end - 1))
        out = [self.source.line_text(i) for i in range(max(0, first - context), first)]
        for i in range(first, last + 1):
            text, start = self.source.line_text(i), self.source.line_start(i)
            out.append(text)
            left = max(self.start - start, len(text) - len(text.lstrip()) if i > first else 0)
            width = max(1, min(self.end - start, len(text)) - left)
            out.append(" " * left + "~" * width + (marker if i == last else ""))
        out += [self.source.line_text(i) for i in range(last + 1, min(self.source.line_count, last + 1 + context))]
        return "\n".join(out)

    def marked(self) -> list[str]:
        """The lines of the range with `~~~` under it; of a long one, the beginning."""
        lines = self.excerpt(marker=_MARKER).splitlines()
        return lines if len(lines) <= 4 else [lines[0], lines[1] + _MARKER, "..."]

    def surroundings(self) -> Surroundings:
        """What stands around the lines of the range in its function."""
        source, line = self.source, self.source.line_text
        first = source.line_index(self.start)
        last = source.line_index(max(self.start, self.end - 1))
        inside = _indent(line(first))
        head = next((i for i in range(first - 1, -1, -1) if _begins(line(i), inside)), None)
        if head is None:
            begun = _DEFINITION.match(line(first))
            return Surroundings(begun and begun.group(1), [], [], self._following(last, inside) if begun else [])
        before = [line(i) for i in range(head + 1, first)]
        if len(before) > _LINES_BEFORE:
            before = ["...", before[-1]]
        named = _DEFINITION.match(line(head))
        return Surroundings(named and named.group(1), [line(head)], before, self._following(last, _indent(line(head))))

    def _following(self, last: int, indent: int) -> list[str]:
        """The next lines of a function whose head is indented so far."""
        found = []
        for i in range(last + 1, min(self.source.line_count, last + 1 + _LINES_AFTER)):
            text = self.source.line_text(i)
            if not text.strip() or _indent(text) <= indent:
                break
            found.append(text)
        return found


class Surroundings(NamedTuple):
    """The lines around a place: the head of its function, those between head and place, those behind it."""

    name: str | None
    head: list[str]
    before: list[str]
    after: list[str]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _begins(line: str, inside: int) -> bool:
    """Is it the head of what contains a line that is indented so far?"""
    return _DEFINITION.match(line) is not None and _indent(line) < inside


class CompileError(RuntimeError):
    """The user's program is not one we can compile: what is wrong, where, and a way out.

    Args:
        message: what is wrong, in one sentence.
        range: the offending source, None only where no source exists (a graph built by hand).
        expected, found: the two sides of a disagreement.
        hint: a way out.
        notes: further lines, e.g. the overloads that were tried.

    Its attribute `code` names the kind of error (`jitlite/base/errors/`), of which `jitlite explain CODE` tells more.
    """

    code: str | None = None

    def __init__(
        self,
        message: str,
        range: SourceRange | None = None,
        *,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.range = range
        self.expected = expected
        self.found = found
        self.hint = hint
        self.notes = list(notes)
        self.called_from: list[tuple[str, str, SourceRange]] = []

    def add_caller(self, callee: str, name: str, range: SourceRange) -> None:
        """Record that `callee`, with the failing code, was being compiled because function `name` calls it at `range`.

        An error without a place of its own, such as of a function without source, is told at the call.
        """
        if self.range is None:
            self.range = range
        else:
            self.called_from.append((callee, name, range))

    def tell_at_call(self, function: str, call: SourceRange) -> None:
        """Tell at its call what is wrong in code of jitlite's own, which stands there for Python's `function`."""
        self.called_from = [
            (callee, name, range)
            for callee, name, range in self.called_from
            if range is not call and not range.is_own()
        ]
        if self.range is not None and self.range.is_own():
            self.range, self.notes = call, []
            self.message = f"in {function}: {self.message}"

    def __str__(self) -> str:
        place = self.range
        head = (f"{place.location()}: {self.message}" if place else self.message).splitlines()
        tail = self._sides_and_hint()
        marked = place.marked() if place else []
        callers = [_Caller(*caller) for caller in self.called_from]
        more = [f"more: jitlite explain {self.code}"] if self.code else []
        room = _Room(_LONGEST_MESSAGE - len(head) - len(marked) - len(tail) - len(callers) - len(more))
        around = place.surroundings() if place else Surroundings(None, [], [], [])
        # by importance, as far as there is room
        function = room.take(around.head)
        notes = room.shortened([line for note in self.notes for line in note.splitlines()])
        told_by = [line for caller in callers for line in caller.lines(room)]
        named = room.take([_place_in_file(place, around.name)] if place else [])
        before = room.take(around.before if function else [])
        after = room.take(around.after)
        lines = [*head, *named, *function, *before, *marked, *after, *notes, *tail, *told_by]
        return "\n".join([*lines[: _LONGEST_MESSAGE - len(more)], *more])

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of the error: the frames of the user's program, and the message."""
        frames = [f for f in traceback.extract_tb(self.__traceback__) if not _is_of_tools(f.filename)]
        shown = [line for text in traceback.format_list(frames) for line in text.splitlines()]
        return ["Traceback (most recent call last):", *shown, f"{type(self).__name__}: {self}"]

    def _sides_and_hint(self) -> list[str]:
        told = ("expected", self.expected), ("found", self.found), ("hint", self.hint)
        return [line for name, text in told if text for line in f"{name}: {text}".splitlines()]


def _is_of_tools(filename: str) -> bool:
    return filename.startswith(OWN_FILES) or f"{os.sep}IPython{os.sep}" in filename


class _Room:
    """Lines that an error may still take."""

    def __init__(self, lines: int) -> None:
        self.lines = lines

    def take(self, wanted: list[str]) -> list[str]:
        """The lines, if there is room for all of them, else none."""
        if len(wanted) > self.lines:
            return []
        self.lines -= len(wanted)
        return wanted

    def shortened(self, wanted: list[str]) -> list[str]:
        """As many of the lines as there is room for, one at least."""
        room = max(1, self.lines)
        if len(wanted) > room:
            wanted = [*wanted[: room - 1], f"... and {len(wanted) - room + 1} more"]
        self.lines -= len(wanted)
        return wanted


class _Caller(NamedTuple):
    """Why a function is being compiled: the function, the one that calls it, and where."""

    callee: str
    name: str
    range: SourceRange

    def lines(self, room: _Room) -> list[str]:
        why = f"'{self.callee}' is being compiled since it was called from '{self.name}' at {self.range.location()}:"
        shown = room.take([*self.range.surroundings().head, *self.range.marked()])
        return [why, *shown] if shown else [f"{why} {self.range.excerpt().splitlines()[0].strip()}"]


def _place_in_file(place: SourceRange, function: str | None) -> str:
    """The place as Python's tracebacks name it, for programs and eyes that look for that."""
    named = f'  at File "{place.filename or "<string>"}", line {place.line}'
    return f"{named}, in {function}" if function else named


class NotSupportedError(CompileError):
    """Python that TorchScript does not have."""


class AnnotationError(CompileError, ValueError):
    """An annotation that is no type of TorchScript, or that stands where it may not. It is a ValueError, too."""


class Error(Exception):
    """An error of a running program for which eager Python has no type of its own."""


def _swapped(name: str) -> set[str]:
    """A name with each two of its neighbouring letters in the other order."""
    return {name[:i] + name[i + 1] + name[i] + name[i + 2 :] for i in range(len(name) - 1)}


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint naming the candidates spelled nearly like `name`, or None."""
    public = dict.fromkeys(c for c in candidates if c != name and (name.startswith("_") or not c.startswith("_")))
    other_case = [c for c in public if c.lower() == name.lower()]
    close = other_case or difflib.get_close_matches(name, public, n=3, cutoff=0.7)
    close = close or [c for c in public if c in _swapped(name)]  # too unlike for the ratio in short names
    return f"did you mean {' or '.join(repr(c) for c in close)}?" if close else None
