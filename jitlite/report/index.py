"""The index of a run: one page that lists every function that was compiled, with links to their own pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from jitlite.base.records import Record
from jitlite.report.page import filled


class IndexRow(Record):
    """A function in the index.

    Attributes:
        name, place: of the function, and where it is written.
        page: the name of the file of its own page, empty where there is none.
        seconds: that compiling it took.
        calls: how many are known.
        turned_away: of these, by guards of specialized plans.
        by_python: how often machine code could not run, so that Python did.
        kernels: how many there are for tensors.
        refused: why it did not compile, empty where it did.
        sections: sentences by subject.
    """

    name: str
    place: str
    page: str = ""
    seconds: float = 0.0
    calls: int = 0
    turned_away: int = 0
    by_python: int = 0
    kernels: int = 0
    refused: str = ""
    sections: dict[str, list[str]] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """What became of it, in a word or two."""
        if self.refused:
            return "refused"
        return "fell back" if self.turned_away or self.by_python else "compiled"

    @property
    def words(self) -> str:
        """What a search looks at."""
        sentences = [sentence for found in self.sections.values() for sentence in found]
        return " ".join([self.name, self.place, self.status, self.refused, *sentences]).lower()


def index_page(title: str, rows: Sequence[IndexRow], ended: str) -> str:
    """The text of the page.

    Args:
        title: what ran.
        ended: how it ended, a sentence.
    """
    return filled(
        "index.html",
        "index.js",
        title=title,
        rows=rows,
        ended=ended,
        refused=sum(1 for row in rows if row.refused),
        fell_back=sum(1 for row in rows if row.status == "fell back"),
        seconds=sum(row.seconds for row in rows),
        longest=max((row.seconds for row in rows), default=1.0) or 1.0,
    )
