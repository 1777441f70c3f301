"""What a report shows, as plain data: stages of lines, each with the place in the source that it comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from markupsafe import escape

from jitlite.base.records import Record
from jitlite.base.source import Source, SourceRange
from jitlite.ir.graph import Graph, Value
from jitlite.ir.printer import graph_lines
from jitlite.report.highlight import highlighted

_LIMITS = ((4000, 2000), (2000, 1500), (1200, 1000), (800, 700), (500, 500), (300, 300), (150, 150), (50, 100))
"""Lines of a stage or a source that are shown, and characters of a line: as many as leave the page small enough."""
_MOST_BYTES = 850_000
"""Of stages and sources, their markup included: a page stays below a megabyte."""
_MARKUP = 75
"""Characters of markup around a line, about."""
_BOX_MARKUP = 290
"""The same for a box of a drawing, with its edges."""
_LEAST_OF_SENTENCES = 500
"""Characters of a sentence that are shown at least: there are few of them."""
_SOURCE_MARKUP = 100
"""The same for a line of a source."""
_DEFINITION = re.compile(r"(?:\s*@[^\n]*\n)*\s*def\s+(\w+)")
_HEATS = (0.5, 0.25, 0.1, 0.02)
"""Shares of the time of a call from which a line is marked, the most first."""
_AROUND = 3
"""Lines of a long source that are shown around those that something came from."""
_LONG_SOURCE = 200


class SourceLine(Record, eq=True):
    """A line of a stage.

    Attributes:
        text: without its place.
        place: the id of the line of the source that it comes from, empty where none is known.
        number: the number of that line in its file.
        facts: what is known of the values it defines, for the arguments of the call.
    """

    text: str
    place: str = ""
    number: int = 0
    facts: str = ""
    others: str = ""
    """The ids of further lines of the source that it comes from, with blanks between them."""


class Row(Record, eq=True):
    """A row of a side-by-side diff: `kind` is same, changed, removed, added or skipped."""

    kind: str
    old: SourceLine | None = None
    new: SourceLine | None = None
    skipped: int = 0


class Box(Record):
    """A node in a drawing."""

    x: int
    y: int
    width: int
    label: str
    detail: str
    place: str
    number: int
    kind: str = "node"
    opens: str = ""
    """The id of the drawing of its submodule or of its first block."""
    facts: str = ""
    """What is known of the values that it gives."""


class Drawing(Record):
    """A part of a graph, drawn in layers. `edges` are paths of SVG, `inner` what its boxes open."""

    id: str
    title: str
    width: int
    height: int
    boxes: list[Box]
    edges: list[str]
    inner: list[Drawing] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Of boxes, in it and in what they open."""
        return len(self.boxes) + sum(drawing.count for drawing in self.inner)


class Stage(Record, frozen=False):
    """One part of the page.

    Attributes:
        id: of its element.
        name: what `jitlite show --stage` calls it, or the pass.
        group: the heading that it stands under.
        about: what it is, or what a pass did, in a sentence.
        lines, rows, drawings, sections, timings, costs: its content; one of them is there.
        left_out: lines that were too many to show.
    """

    id: str
    name: str
    group: str
    about: str
    purpose: str = ""
    lines: list[SourceLine] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    sections: dict[str, list[str]] = field(default_factory=dict)
    timings: list[Timing] = field(default_factory=list)
    costs: list[CostRow] = field(default_factory=list)
    seconds: float | None = None
    is_pass: bool = False
    left_out: int = 0
    heads: tuple[str, str] | None = None
    """What stands above the two columns of `rows`; None for before and after."""


class CostRow(Record, eq=True):
    """What a line of the source has cost in the call.

    Attributes:
        line: of the source, with its place.
        file: the name of its file, with the number of the line.
        count: how often it began.
        seconds, own_seconds: with what it calls, and without.
        share: of the whole call, from 0 to 1, without what it calls.
        operators: what it called most, in words.
    """

    line: SourceLine
    file: str
    count: int
    seconds: float
    own_seconds: float
    share: float
    operators: str

    @property
    def heat(self) -> int:
        """From 0, no mark, to 4."""
        return sum(self.share >= least for least in _HEATS)

    @property
    def told(self) -> str:
        """In a few words."""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"ran {times}, {1e3 * self.own_seconds:.3f} ms ({self.share:.0%})"


class Timing(Record, eq=True):
    """How long a step took, and what it left."""

    name: str
    stage: str
    """The id of the part that shows what it changed; empty where it changed nothing."""
    seconds: float
    nodes: str


class SourceView(Record, frozen=False):
    """A piece of source text, of a function where it has a name: numbered lines from `first` on."""

    name: str
    filename: str
    prefix: str
    first: int
    texts: list[str]
    left_out: int = 0
    costs: dict[int, CostRow] = field(default_factory=dict)
    """What lines have cost, by their numbers."""

    @property
    def numbered(self) -> list[tuple[int, str]]:
        return list(enumerate(self.texts, self.first))

    @property
    def ids(self) -> list[str]:
        """Of the lines."""
        return [f"{self.prefix}-{number}" for number, _ in self.numbered]


class Sources:
    """The source texts that stages came from, each once, in the order in which they were met."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str | None, int, str], int] = {}
        self._sources: list[Source] = []
        self._used: list[set[int]] = []

    def place(self, range: SourceRange | None) -> tuple[str, int]:
        """The id of the line that a range begins on, and its number; nothing where it is in no source."""
        if range is None:
            return "", 0
        range = range.program_range
        source = range.source
        if not source.text:
            return "", 0
        number = self._number(source)
        index = source.line_index(range.start)
        self._used[number].add(index)
        return f"s{number}-{source.first_line + index}", source.first_line + index

    def place_of_line(self, source: Source, line: int) -> str:
        """The id of a line by its number in the file, empty where the source was not met."""
        number = self._numbers.get((source.filename, source.first_line, source.text))
        return "" if number is None else f"s{number}-{line}"

    def _number(self, source: Source) -> int:
        key = (source.filename, source.first_line, source.text)
        if key not in self._numbers:
            self._numbers[key] = len(self._sources)
            self._sources.append(source)
            self._used.append(set())
        return self._numbers[key]

    def views(self) -> list[SourceView]:
        """The texts to show. Of a long one, the lines from the first to the last that something came from."""
        found = []
        for number, source in enumerate(self._sources):
            first, last = 0, source.line_count - 1
            if source.line_count > _LONG_SOURCE:
                first = max(min(self._used[number]) - _AROUND, 0)
                last = min(max(self._used[number]) + _AROUND, last)
            texts = [source.line_text(i) for i in range(first, last + 1)]
            while len(texts) > 1 and not texts[-1].strip():
                texts.pop()
            named = _DEFINITION.match(source.text)
            name = named.group(1) if named else ""
            found.append(
                SourceView(name, source.filename or "<string>", f"s{number}", source.first_line + first, texts)
            )
        return found

    def with_short_names(self, text: str) -> str:
        """The text, with the names of files as the page shows them: without their folders."""
        for name in dict.fromkeys(source.filename for source in self._sources if source.filename):
            text = text.replace(f"{name}:", f"{os.path.basename(name)}:")
        return text

    def line(self, text: str, range: SourceRange | None, facts: str = "") -> SourceLine:
        """A line of a stage that comes from a place."""
        return SourceLine(text, *self.place(range), facts)

    def line_of(self, text: str, ranges: Sequence[SourceRange]) -> SourceLine:
        """A line of a stage that comes from several places."""
        places = list(dict.fromkeys(self.place(range) for range in ranges)) or [("", 0)]
        (place, number), *others = places
        return SourceLine(text, place, number, others=" ".join(id for id, _ in others))

    def lines(self, pairs: Iterable[tuple[str, SourceRange | None]]) -> list[SourceLine]:
        return [self.line(text, range) for text, range in pairs]

    def graph_lines(self, graph: Graph, facts: Mapping[Value, str] | None = None) -> list[SourceLine]:
        """The lines of a graph, with what is known of the values that each defines."""
        known: dict[int, list[str]] = {}
        for value, fact in (facts or {}).items():
            known.setdefault(id(value.node), []).append(f"%{value.name} : {fact}")
        shown = graph_lines(graph, ranges=False)
        return [
            self.line(text, None if node is None else node.range, "; ".join(known.get(id(node), ())))
            for text, node in shown
        ]


def clipped(text: str, most: int = _LIMITS[0][1]) -> str:
    """The text, where it is too long with its beginning only."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def shorten(stages: Sequence[Stage], sources: Sequence[SourceView] = ()) -> None:
    """Leave out lines, and the ends of lines, so that the page is not too large; each part says how many lines."""
    for lines, characters in _LIMITS:
        for source in sources:
            source.left_out += max(len(source.texts) - lines, 0)
            source.texts = [clipped(text, characters) for text in source.texts[:lines]]
        for stage in stages:
            _shorten(stage, lines, characters)
        if sum(map(_size, stages)) + sum(map(_size_of_source, sources)) < _MOST_BYTES:
            return


def _shorten(stage: Stage, lines: int, characters: int) -> None:
    """Leave out what is too long, of a page that is too large. Most lines are short, and stay the objects they are."""
    counts = [len(stage.lines), len(stage.rows), *map(len, stage.sections.values())]
    stage.left_out += sum(max(count - lines, 0) for count in counts)
    stage.lines = [_clipped_line(line, characters) for line in stage.lines[:lines]]
    stage.rows = [_clipped_row(row, characters) for row in stage.rows[:lines]]
    least = max(characters, _LEAST_OF_SENTENCES)
    stage.sections = {
        clipped(title, least): [clipped(sentence, least) for sentence in sentences[:lines]]
        for title, sentences in stage.sections.items()
    }


def _clipped_line(line: SourceLine, most: int) -> SourceLine:
    if max(len(line.text), len(line.facts)) <= most:
        return line
    return SourceLine(clipped(line.text, most), line.place, line.number, clipped(line.facts, most), line.others)


def _clipped_row(row: Row, most: int) -> Row:
    old = None if row.old is None else _clipped_line(row.old, most)
    new = None if row.new is None else _clipped_line(row.new, most)
    return row if old is row.old and new is row.new else Row(row.kind, old, new, row.skipped)


def _size(stage: Stage) -> int:
    lines = [*stage.lines, *(line for row in stage.rows for line in (row.old, row.new) if line is not None)]
    boxes = sum(drawing.count for drawing in stage.drawings)
    sentences = [sentence for found in stage.sections.values() for sentence in found]
    texts = "".join([*(line.text + line.facts + line.others for line in lines), *sentences])
    return _bytes(escape(texts)) + _MARKUP * (len(lines) + len(sentences)) + _BOX_MARKUP * boxes


def _size_of_source(source: SourceView) -> int:
    return sum(_bytes(text) + _SOURCE_MARKUP for text in highlighted(source.texts))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))
