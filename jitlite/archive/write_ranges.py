"""`.debug_pkl`: where each part of a file of source comes from, for errors while the archive runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.archive.pickling import PickleStream
from jitlite.base.source import Source, SourceRange
from jitlite.codegen.torchscript.fragments import TextRecord

FORMAT = "FORMAT_WITH_STRING_TABLE"


class RangeTags:
    """Numbers of source ranges, the same in all files of an archive."""

    def __init__(self) -> None:
        self._tags: dict[SourceRange | None, int] = {}

    def tag(self, range: SourceRange | None) -> int:
        """The number of a range."""
        return self._tags.setdefault(range, len(self._tags))


class _Strings:
    """The table of strings: the lines of sources, and the names of files."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def _numbered(sources: Iterable[Source], strings: _Strings) -> dict[Source, tuple[list[int], int]]:
    """The numbers of the lines and of the file name of each source."""
    found = {}
    for source in sources:
        lines = [strings.number(_readable(line)) for line in source.text.splitlines(keepends=True)]
        found[source] = lines, strings.number(_readable(source.filename or ""))
    return found


def pickled_ranges(records: Sequence[TextRecord], tags: RangeTags) -> bytes:
    """The pickle that says so. What was loaded from an archive comes from the program that this was written for."""
    records = [r if r.range is None else TextRecord(r.offset, r.range.program_range) for r in records]
    strings = _Strings()
    sources = _numbered(dict.fromkeys(r.range.source for r in records if r.range is not None), strings)
    stream = PickleStream()
    stream.string(FORMAT)
    with stream.marked_tuple():
        for text in strings.numbers:
            stream.string(text)
    with stream.marked_tuple():
        for record in records:
            stream.integer(record.offset)
            _range(stream, record.range, sources)
            stream.integer(tags.tag(record.range))
            stream.short_tuple(3)
    stream.short_tuple(3)
    return stream.finish()


def _range(stream: PickleStream, range: SourceRange | None, sources: dict[Source, tuple[list[int], int]]) -> None:
    source = None if range is None else range.source
    if not stream.get(("source", source)):
        lines, filename = ([], 0) if source is None else sources[source]
        stream.integers(lines)
        stream.integer(filename)
        stream.integer(0 if source is None else source.first_line)
        stream.short_tuple(3)
        stream.put(("source", source))
    for offset in (0, 0) if range is None else (range.start, range.end):
        stream.integer(offset if source is None else source.utf8.byte_at(offset))
    stream.short_tuple(3)


def _readable(text: str) -> str:
    return text.encode(errors="replace").decode()
