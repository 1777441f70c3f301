"""Text that knows which place of the user's source each part of it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jitlite.base.source import SourceRange
from jitlite.ir import code_text as texts
from jitlite.ir.code_text import Text, fixed


@dataclass(frozen=True)
class Fragment:
    """A piece of an expression: parts of text, each with its place."""

    parts: tuple[tuple[Text, SourceRange | None], ...]

    @property
    def text(self) -> Text:
        """All of its text."""
        return texts.joined("", (text for text, _ in self.parts))


def fragment(range: SourceRange | None, *pieces: Text | Fragment) -> Fragment:
    """The pieces one after the other; plain ones, and parts without a place, are of the place `range`.

    Names of variables are such parts: a reader takes the place of `x.f(y)` to be that of its first letter.
    """
    parts: list[tuple[Text, SourceRange | None]] = []
    for piece in pieces:
        if isinstance(piece, Fragment):
            parts += [(text, range if place is None else place) for text, place in piece.parts]
        elif piece:
            parts.append((piece, range))
    return Fragment(tuple(parts))


def joined(pieces: Iterable[Fragment]) -> list[Text | Fragment]:
    """The pieces with commas between them."""
    found: list[Text | Fragment] = []
    for piece in pieces:
        found += [_COMMA, piece] if found else [piece]
    return found


_COMMA = fixed(", ")
LINE_END = fixed("\n")


@dataclass(frozen=True)
class TextRecord:
    """From byte `offset` of a file on, its text comes from `range`."""

    offset: int
    range: SourceRange | None


class Lines:
    """The text of a file as it grows, and where its parts come from."""

    def __init__(self) -> None:
        self._parts: list[Text] = []
        self._bytes = 0
        self.records: list[TextRecord] = []

    def write(self, range: SourceRange | None, *pieces: Text | Fragment) -> None:
        """Add the pieces; plain ones are of the place `range`."""
        for text, place in fragment(range, *pieces).parts:
            if not self.records or self.records[-1].range is not place:
                self.records.append(TextRecord(self._bytes, place))
            self._parts.append(text)
            self._bytes += len(text) if text.isascii() else len(text.encode())

    def __str__(self) -> str:
        return "".join(self._parts)
