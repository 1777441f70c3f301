"""Where the source of a function ends, by the indentation of its lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEAD = re.compile(r"(async\s+)?def\s")
_CLOSING = tuple(")]}")
"""What no statement begins with: the line goes on with the one before."""


def lines_of_definition(lines: Sequence[str], first: int = 0) -> Sequence[str] | None:
    """The lines of the function definition that begins, decorators included, with line number `first`: those up to the
    next one that is indented no more.

    A string or an expression may go on in a line that stands further left. What this gives is no Python then.

    Returns:
        None where indentation does not tell: there is no definition, or comments that may belong to it stand behind it.
    """
    margin = _indentation(lines[first])
    end, has_head = first, False
    for number in range(first, len(lines)):
        line = lines[number]
        text = line.lstrip()
        if not text or text.startswith("#"):
            continue
        if _indentation(line) <= margin and not text.startswith(_CLOSING):
            if has_head:
                return None if _has_comment(lines[end:number], margin) else lines[first:end]
            has_head = _HEAD.match(text) is not None
            if not has_head and not text.startswith("@"):
                return None
        end = number + 1
    return lines[first:end] if has_head and not _has_comment(lines[end:], margin) else None


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _has_comment(lines: Sequence[str], margin: int) -> bool:
    """Is there a comment, indented more than the margin?"""
    return any(line.strip() and _indentation(line) > margin for line in lines)
