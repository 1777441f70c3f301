"""Python source as markup. Whatever stands in it is escaped; what is wrapped in elements is so by its kind alone."""

from __future__ import annotations

import io
import keyword
import textwrap
import tokenize
from collections.abc import Sequence
from functools import lru_cache

from markupsafe import Markup, escape

_KINDS = {tokenize.STRING: "str", tokenize.COMMENT: "com", tokenize.NUMBER: "num"}

_Spans = dict[int, list[tuple[int, int, str]]]
"""For each line, from 0: where a piece begins and ends, and what it is."""


def highlighted(texts: Sequence[str]) -> list[Markup]:
    """The lines, with strings, comments, numbers and keywords marked; plain where they are no Python."""
    return _highlighted(tuple(texts))


@lru_cache(64)  # the page is measured before it is written
def _highlighted(texts: tuple[str, ...]) -> list[Markup]:
    spans = _spans(texts)
    return [_line(text, spans.get(i, [])) for i, text in enumerate(texts)]


def _line(text: str, spans: list[tuple[int, int, str]]) -> Markup:
    parts, at = [], 0
    for start, end, kind in spans:
        parts += [escape(text[at:start]), Markup('<i class="{}">{}</i>').format(kind, text[start:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])


def _spans(texts: Sequence[str]) -> _Spans:
    found: _Spans = {}
    flat = textwrap.dedent("\n".join(texts)).splitlines()
    moved = [len(text) - len(short) if short else 0 for text, short in zip(texts, flat, strict=False)]
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(flat) + "\n").readline):
            kind = "kw" if keyword.iskeyword(token.string) else _KINDS.get(token.type)
            if kind is not None and token.end[0] <= len(flat):
                _add(found, token, kind, flat, moved)
    except (tokenize.TokenError, SyntaxError, IndexError):
        return {}
    return found


def _add(found: _Spans, token: tokenize.TokenInfo, kind: str, flat: Sequence[str], moved: Sequence[int]) -> None:
    """A token may go over several lines."""
    (first, start), (last, end) = token.start, token.end
    for row in range(first - 1, last):
        begin = start if row == first - 1 else 0
        stop = end if row == last - 1 else len(flat[row])
        found.setdefault(row, []).append((begin + moved[row], stop + moved[row], kind))
