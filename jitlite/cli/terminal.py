"""Plain text for terminals: a few colours, diffs, headings, and errors cut to a readable length."""

from __future__ import annotations

import difflib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, TypeVar

from jitlite.base.source import OWN_FILES

_T = TypeVar("_T")

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_PATIENCE = 2.0
"""Seconds that may pass in silence."""
_BETWEEN_LINES = 0.2
_LONGEST_ERROR = 15
"""Lines an error may take; `CompileError` keeps to the same."""


def wants_color(stream: TextIO) -> bool:
    """Is `stream` a terminal that shows colours? `NO_COLOR` (any value) says no, `FORCE_COLOR` says yes."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, color: str, stream: TextIO | None = None) -> str:
    """`text` in a colour, or as it is where the stream shows none."""
    return f"\033[{_CODES[color]}m{text}\033[0m" if wants_color(stream or sys.stdout) else text


def progress(items: Sequence[_T], what: str, stream: TextIO | None = None) -> Iterator[_T]:
    """The items; meanwhile, where somebody looks on and it takes long, a line says how many are done."""
    shown_on = stream or sys.stderr
    next_line, is_shown = time.monotonic() + _PATIENCE, False
    for number, item in enumerate(items):
        if shown_on.isatty() and time.monotonic() >= next_line:
            print(f"\r{number} of {len(items)} {what} ", end="", file=shown_on, flush=True)
            next_line, is_shown = time.monotonic() + _BETWEEN_LINES, True
        yield item
    if is_shown:
        print("\r\033[K", end="", file=shown_on, flush=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Meanwhile, where somebody looks on and it takes long, a line says what is being done."""
    stream = sys.stderr
    if not stream.isatty():
        yield
        return
    said = threading.Event()

    def say() -> None:
        said.set()
        print(f"{what} ...", end="", file=stream, flush=True)

    timer = threading.Timer(_PATIENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if said.is_set():
            print("\r\033[K", end="", file=stream, flush=True)


def show(text: str) -> None:
    """Print a text; one that is longer than the terminal in a pager, `PAGER` or less."""
    text = text.replace(os.path.join(os.getcwd(), ""), "")
    if sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        command = shlex.split(os.environ.get("PAGER", "less -FRX"))
        if command and shutil.which(command[0]):
            subprocess.run(command, input=text, text=True, check=False)
            return
    sys.stdout.write(text)


class Collected(io.StringIO):
    """What a command prints, before it is shown: it takes colours where the terminal does."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._is_terminal = stream.isatty()

    def isatty(self) -> bool:
        return self._is_terminal


def colored_graph(text: str) -> str:
    """The text of a graph with its values, operators and places in colours, where the stream shows some."""
    if not wants_color(sys.stdout):
        return text
    return _PARTS.sub(lambda found: paint(found.group(), _COLORS_OF_PARTS[found.lastgroup or "place"]), text)


_PARTS = re.compile(r"(?P<value>%[\w.]+)|(?P<operator>\b(?:aten|prim)::\w+)|(?P<place>#[^\n]*)")
_COLORS_OF_PARTS = {"value": "cyan", "operator": "bold", "place": "dim"}


def heading(title: str) -> str:
    """A line that sets off a section."""
    return paint(f"── {title} ".ljust(78, "─"), "bold")


def diff(before: str, after: str, title_before: str, title_after: str) -> str:
    """A unified diff, added and removed lines in colour; empty where the texts are equal."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), title_before, title_after, lineterm="", n=2)
    return "\n".join(_painted(line) for line in lines)


def _painted(line: str) -> str:
    for mark, color in (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red")):
        if line.startswith(mark):
            return paint(line, color)
    return line


def error_text(error: BaseException) -> str:
    """Type, message, and notes or place of an exception in at most fifteen lines."""
    lines = f"{type(error).__name__}: {error}".rstrip().rstrip(":").splitlines()
    notes = [line for note in getattr(error, "__notes__", ()) for line in str(note).splitlines()] or _place_of(error)
    room = _LONGEST_ERROR - len(notes)
    if len(lines) > room >= 1:
        lines = [*lines[: max(room - 1, 1)], "..."]
    return "\n".join((lines + notes)[:_LONGEST_ERROR])


def _place_of(error: BaseException) -> list[str]:
    """The line of the user's at which an exception was raised that no notes tell of, such as in a file's import."""
    if isinstance(error, SyntaxError):  # it was raised by the parser, and tells itself where
        return "".join(traceback.format_exception_only(error)[:-1]).splitlines()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_NOT_THE_USERS)]
    return "".join(traceback.format_list(frames[-1:])).splitlines()


_NOT_THE_USERS = (OWN_FILES, *{sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib")}, "<")
"""How the names of files begin whose lines are no user's: jitlite, libraries, and what importlib is frozen as."""


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of cells, in columns; the first column is left-aligned, the others right-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
