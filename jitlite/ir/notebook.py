"""What notebooks show: graphs with the lines of source that they come from, schemas, source, sentences."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence

from jitlite.ir.printer import PrintedGraph, graph_lines

_TOKEN = re.compile(r"(?P<value>%[\w.]+)|(?P<kind>\w+::\w+)")
_STYLES = {"value": "color:#3b6fd4", "kind": "font-weight:600"}
_FRAME = '<pre style="line-height:1.45;overflow-x:auto">{}</pre>'
_MOST_LINES = 400
"""Lines that are shown: a notebook keeps what it has shown."""


def graph_html(graph: PrintedGraph, anchor: str = "") -> str:
    """The markup of a graph.

    Args:
        anchor: what ids of lines of the source on the page begin with, if they are there to be linked.
    """
    found = graph_lines(graph, ranges=False)
    lines = [_line(text, None if node is None or node.range is None else node.range.line, anchor)
             for text, node in found[:_MOST_LINES]]  # fmt: skip
    if len(found) > _MOST_LINES:
        lines.append(f"... and {len(found) - _MOST_LINES} more lines")
    return _FRAME.format("\n".join(lines))


def source_html(text: str, first: int, anchor: str) -> str:
    """The markup of source text, whose lines can be linked."""
    lines = [
        f'<span id="{anchor}{number}">{number:>5}  {html.escape(line)}</span>'
        for number, line in enumerate(text.splitlines(), first)
    ]
    return _FRAME.format("\n".join(lines))


def schema_html(schema: str) -> str:
    """The markup of a schema."""
    name, parenthesis, rest = schema.partition("(")
    return _FRAME.format(f'<span style="{_STYLES["kind"]}">{html.escape(name)}</span>{html.escape(parenthesis + rest)}')


def sentences_html(title: str, sections: Mapping[str, Sequence[str]]) -> str:
    """The markup of sentences by subject."""
    shown = []
    for heading, sentences in sections.items():
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences or ["nothing"])
        shown.append(f"<p><b>{html.escape(heading)}</b></p><ul>{items}</ul>")
    return f"<p><code>{html.escape(title)}</code></p>{''.join(shown)}"


def _line(text: str, number: int | None, anchor: str) -> str:
    shown = "" if number is None else str(number)
    gutter = f'<a href="#{anchor}{number}">{shown}</a>' if anchor and shown else shown
    return f"{' ' * (5 - len(shown))}{gutter}  {_coloured(text)}"


def _coloured(text: str) -> str:
    parts, at = [], 0
    for found in _TOKEN.finditer(text):
        style = _STYLES[str(found.lastgroup)]
        parts.append(f'{html.escape(text[at : found.start()])}<span style="{style}">{found.group()}</span>')
        at = found.end()
    return "".join([*parts, html.escape(text[at:])])
