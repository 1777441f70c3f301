"""Long lines of Python, broken at the commas within their brackets."""

from __future__ import annotations

import itertools

from jitlite.ir.code_text import Text, code, cut, stripped

LONGEST = 110
"""Columns of a line, where it can be broken."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}


def laid_out(line: Text) -> list[Text]:
    """The lines that a line is written as."""
    if len(line) <= LONGEST:
        return [line]
    margin = cut(line, 0, len(line) - len(line.lstrip()))
    found = _widest(line)
    if found is None:
        return [line]
    start, end, commas = found
    parts = _pieces(line, [start, *commas, end])
    needs_comma = len(parts) > 1 or line[end - 1] == ","
    lines = [cut(line, 0, start + 1)]
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        has_comma = not is_last or (needs_comma and not part.startswith("*") and " for " not in part)
        lines += laid_out(code("{}    {}," if has_comma else "{}    {}", margin, part))
    return [*lines, code("{}{}", margin, cut(line, end))]


def _pieces(line: Text, signs: list[int]) -> list[Text]:
    """What is between brackets and the commas in them, which are at these positions."""
    between = (stripped(cut(line, before + 1, after)) for before, after in itertools.pairwise(signs))
    return [part for part in between if part]


def _widest(line: str) -> tuple[int, int, list[int]] | None:
    """The outermost brackets with most between them: where they open and close, and the commas directly within."""
    best: tuple[int, int, list[int]] | None = None
    stack: list[tuple[str, int, list[int]]] = []
    position = 0
    while position < len(line):
        sign = line[position]
        if sign in "'\"":
            position = _end_of_text(line, position)
        elif sign in _CLOSING:
            stack.append((_CLOSING[sign], position, []))
        elif stack and sign == stack[-1][0]:
            _, start, commas = stack.pop()
            is_wide = position - start > 1 and (commas or sign != "]")
            if not stack and is_wide and (best is None or position - start > best[1] - best[0]):
                best = start, position, commas
        elif sign == "," and stack:
            stack[-1][2].append(position)
        elif sign == "#":
            break
        position += 1
    return best


def _end_of_text(line: str, start: int) -> int:
    """Where a string literal ends."""
    quote = line[start]
    position = start + 1
    while position < len(line) and line[position] != quote:
        position += 2 if line[position] == "\\" else 1
    return position
