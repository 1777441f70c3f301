"""Two texts side by side: what is equal stands beside itself, and long equal parts are folded."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from jitlite.report.content import Row, SourceLine

_Place = TypeVar("_Place")
"""What is known of a line beside its text: its place."""
_CONTEXT = 2
"""Equal lines that are shown around each difference."""
_MANY = 500
"""Lines of a text in which those that are repeated often, such as `block():`, are compared beside others only: it takes
a fifth of the time."""


def side_by_side(
    old: Sequence[tuple[str, _Place]], new: Sequence[tuple[str, _Place]], line: Callable[[str, _Place], SourceLine]
) -> list[Row]:
    """The rows of the diff; a skipped row stands for equal lines. `line` makes those that are shown."""
    before, after = [text for text, _ in old], [text for text, _ in new]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=len(after) > _MANY)
    rows: list[Row] = []
    at = 0
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        start = group[0][1]
        if start > at:
            rows.append(Row("skipped", skipped=start - at))
        for tag, i, j, k, m in group:
            rows += _rows(tag, [line(*shown) for shown in old[i:j]], [line(*shown) for shown in new[k:m]])
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
