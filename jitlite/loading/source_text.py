"""The files `code/*.py` of an archive: what they define, and where that stood in the source of the original program."""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Callable, Mapping
from typing import Any

from jitlite.archive.errors import ArchiveError, faults_of
from jitlite.base.errors.ways_out import BAD_ARCHIVE
from jitlite.base.records import Record
from jitlite.base.source import CompileError, Source, SourceRange, Surroundings, Utf8Offsets
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.python_ast import function_in_text, refuse_decorators
from jitlite.frontend.syntax.python_expressions import TreeBuilder
from jitlite.frontend.syntax.python_source import Parsed, parse_statements
from jitlite.ir.graph import Graph
from jitlite.loading.unpickling import Unpickler

_HIGH_OCTAL = re.compile(r"\\[23][0-7][0-7]")
"""An escaped byte of a letter that is not ASCII."""


class CodeFile:
    """One file of code.

    Args:
        member: its name in the archive.
        content: the bytes of the file.
        table: the bytes of the table that leads to places in the original program, if there is one.

    Raises:
        ArchiveError: it is no text of definitions.
    """

    def __init__(self, member: str, content: bytes, table: bytes = b"") -> None:
        self.member = member
        with faults_of(member):
            text = content.decode()
        self.source = Source(text, member)
        try:
            self.parsed: Parsed = parse_statements(self.source)
        except CompileError as error:
            raise ArchiveError(f"its code cannot be read: {error}", member) from None
        if text.isascii() and _HIGH_OCTAL.search(text):
            _decode_strings(self.parsed.body)
        self.definitions: dict[str, ast.ClassDef | ast.FunctionDef] = {}
        for node in self.parsed.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                if node.name in self.definitions:
                    raise ArchiveError(f"it defines '{node.name}' twice", member)
                self.definitions[node.name] = node
            elif not isinstance(node, ast.Import) and not _is_old_version(node):
                raise ArchiveError(f"line {node.lineno} is no definition of a class or function", member)
        self.places = _OriginalPlaces(table, f"{member}.debug_pkl", text)

    def expression(self, node: ast.expr) -> tree.Expr:
        """The tree of an expression."""
        return TreeBuilder(self.parsed.positions, is_text=True).expression(node)

    def function(self, node: ast.FunctionDef, *, is_method: bool) -> tree.Def:
        """The tree of a function.

        Raises:
            CompileError: it has decorators, or holds what TorchScript does not have.
        """
        refuse_decorators(self.parsed, node)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Compare) and len(inner.ops) > 1:  # whose meaning differs between the languages
                raise BAD_ARCHIVE("an archive's code has no chains of comparisons", self.place(node))
        return function_in_text(self.parsed, node, node.lineno, is_method=is_method)

    def place(self, node: ast.stmt) -> SourceRange:
        """Where a statement stands."""
        return self.parsed.positions.first(node, 1)

    def original(self, range: SourceRange) -> SourceRange:
        """A place in this file as the place in the original program."""
        return _TracedRange(range.source, range.start, range.end, self.places.find)


def show_original_places(graph: Graph, files: Mapping[Source, CodeFile]) -> None:
    """Let nodes, also those of graphs that nodes carry, and the calls they were inlined from stand where the original
    program had them."""

    def original(range: SourceRange | None) -> SourceRange | None:
        file = None if range is None else files.get(range.source)
        return range if file is None or range is None else file.original(range)

    for node in graph.all_nodes():
        node.range = original(node.range)
        node.call_stack = tuple((name, original(called_at)) for name, called_at in node.call_stack)
        for carried in node.attributes.values():
            if isinstance(carried, Graph):
                show_original_places(carried, files)


def _is_old_version(node: ast.stmt) -> bool:
    """Is it `op_version_set = 1`, as the first versions wrote it?"""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(target, ast.Name) and target.id == "op_version_set"


def _decode_strings(body: list[ast.stmt]) -> None:
    """Archives write letters that are not ASCII as the bytes of their UTF-8."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.isascii():
                try:
                    node.value = node.value.encode("latin-1").decode()
                except UnicodeError:
                    continue


# -- the original source


class _Entry(Record, eq=True):
    """What begins at a byte of a file of code: bytes of an original source, in UTF-8."""

    source: Source
    start: int
    end: int


class _OriginalPlaces:
    """The table that leads from places in a file of code to places in the original program, read when it is needed."""

    def __init__(self, table: bytes, member: str, text: str) -> None:
        self._table = table
        self._member = member
        self._utf8 = Utf8Offsets(text)
        self._entries: tuple[list[int], list[_Entry | None]] | None = None

    def find(self, start: int) -> SourceRange | None:
        """Where what stands at a character comes from; None where that is not known."""
        if self._entries is None:
            try:
                self._entries = _entries(self._table, self._member)
            except Exception:  # damaged tables only cost the places that they would have told
                self._entries = [], []
            self._table = b""
        offsets, entries = self._entries
        index = bisect.bisect_right(offsets, self._utf8.byte_at(start)) - 1
        found = entries[index] if index >= 0 else None
        if found is None:
            return None
        positions = found.source.utf8
        return SourceRange(found.source, positions.character_at(found.start), positions.character_at(found.end))


def _entries(data: bytes, member: str) -> tuple[list[int], list[_Entry | None]]:
    if not data:
        return [], []
    table = Unpickler(data, member, lambda module, name: _ListMaker(), None).load()
    sources: dict[object, Source | None] = {}
    strings: tuple[str, ...] = ()
    if table and table[0] == "FORMAT_WITH_STRING_TABLE":
        strings, table = table[1], table[2]
    offsets: list[int] = []
    entries: list[_Entry | None] = []
    for offset, (described, start, end), *_ in table:
        pieces, filename, first_line = described
        if not all(type(number) is int for number in (offset, start, end, first_line)):
            raise ValueError("a position in a table of places is no number")
        key = (tuple(pieces) if isinstance(pieces, list) else pieces, filename, first_line)
        if key not in sources:
            sources[key] = _source(strings, pieces, filename, first_line)
        source = sources[key]
        offsets.append(offset)
        entries.append(None if source is None else _Entry(source, start, end))
    return offsets, entries


def _source(strings: tuple[str, ...], pieces: Any, filename: Any, first_line: int) -> Source | None:
    if isinstance(pieces, list):
        text, name = "".join(strings[i] for i in pieces), strings[filename]
    else:
        text, name = pieces, filename
    if not all(part is None or isinstance(part, str) for part in (text, name)):
        raise ValueError("a source in a table of places is no text")
    return Source(text, name, max(first_line, 1)) if text and name else None


class _ListMaker:
    """The only global name in a table: a function that makes lists of ints."""

    def call(self, argument: Any) -> Any:
        return argument[0]

    def build(self, state: object) -> Any:
        raise ValueError("a table of places has no objects")


class _TracedRange(SourceRange):
    """A place in the code of an archive that shows itself as the place it comes from."""

    __slots__ = ("origin",)

    def __init__(self, source: Source, start: int, end: int, origin: Callable[[int], SourceRange | None]) -> None:
        super().__init__(source, start, end)
        self.origin = origin

    @property
    def program_range(self) -> SourceRange:
        return self._shown()

    def _shown(self) -> SourceRange:
        return self.origin(self.start) or SourceRange(self.source, self.start, self.end)

    @property
    def filename(self) -> str | None:
        return self._shown().filename

    @property
    def line(self) -> int:
        return self._shown().line

    @property
    def column(self) -> int:
        return self._shown().column

    def location(self) -> str:
        return self._shown().location()

    def excerpt(self, context: int = 0, marker: str = "") -> str:
        return self._shown().excerpt(context, marker)

    def marked(self) -> list[str]:
        return self._shown().marked()

    def surroundings(self) -> Surroundings:
        return self._shown().surroundings()
