"""Two texts side by side: what is equal stands beside itself, and long equal parts are folded."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from jitlite.report.content import Row, SourceLine

_CONTEXT = 2
"""Equal lines that are shown around each difference."""


def side_by_side(old: Sequence[SourceLine], new: Sequence[SourceLine]) -> list[Row]:
    """The rows of the diff; a skipped row stands for equal lines."""
    before, after = [line.text for line in old], [line.text for line in new]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    rows: list[Row] = []
    at = 0
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        start = group[0][1]
        if start > at:
            rows.append(Row("skipped", skipped=start - at))
        for tag, i, j, k, m in group:
            rows += _rows(tag, old[i:j], new[k:m])
        at = group[-1][2]
    if len(old) > at:
        rows.append(Row("skipped", skipped=len(old) - at))
    return rows


def _rows(tag: str, old: Sequence[SourceLine], new: Sequence[SourceLine]) -> Iterator[Row]:
    if tag == "equal":
        yield from (Row("same", a, b) for a, b in zip(old, new, strict=True))
        return
    for a, b in zip_longest(old, new):
        yield Row("removed" if b is None else "added" if a is None else "changed", a, b)
