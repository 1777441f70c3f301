"""`str.format` and `%` of programs: fields by position, with an amount of padding that fits the text of a message.

In Python the field `{0.x}` reads an attribute of a value, and from any value a chain of attributes leads to all modules
and the environment. A program may come from a file of strangers, so a field names a value and nothing in it. Width and
precision, a few digits, ask for any amount of memory: they are bounded.
"""

from __future__ import annotations

import re
import string
from typing import Any

MOST_PADDING = 1 << 20
"""Characters that all widths and precisions of one call may ask for together."""


def format_by_position(text: str, *args: object) -> str:
    """`text.format(*args)`, of which a field gives the position of a value or none.

    Raises:
        ValueError: a field reaches into a value (`{0.x}`, `{0[1]}`), or they ask for more padding than `MOST_PADDING`.
        Exception: what `str.format` raises.
    """
    fill_fields(text, args, 0, False)
    return text.format(*args)


def pieces_of(text: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """Each text of a format string with the field that follows it, up to where it is malformed."""
    found = []
    try:
        for piece in string.Formatter().parse(text):
            found.append(piece)
    except ValueError:  # which str.format raises when it comes there
        pass
    return found


def _check_field(field: str) -> None:
    if "." in field or "[" in field:
        raise ValueError(f"the field {{{field}}} of a format string reaches into a value")


def fill_fields(text: str, args: tuple[object, ...], position: int, is_nested: bool) -> tuple[int, int, str]:
    """Check the fields of a format string, or, nested, of a specification in one.

    Returns:
        the next position of a field that gives none, the padding that the fields ask for, and the text with its fields
        filled in where it is nested.
    """
    parts, padding = [], 0
    for literal, field, spec, conversion in pieces_of(text):
        parts.append(literal)
        if field is None:
            continue
        spec = spec or ""
        _check_field(field)
        at, position = (int(field), position) if field.isdecimal() else (position, position + (not field))
        if "{" in spec and not is_nested:  # str.format goes no deeper
            position, more, spec = fill_fields(spec, args, position, True)
            padding += more
        padding = add_padding(padding, re.findall(r"\d+", spec))
        if is_nested and at < len(args):
            parts.append(format(converted(args[at], conversion), spec))
    return position, padding, "".join(parts)


def converted(value: object, conversion: str | None) -> Any:
    """A value as the letter behind `!` asks for it."""
    if conversion == "r":
        return repr(value)
    if conversion == "a":
        return ascii(value)
    return str(value) if conversion == "s" else value


def add_padding(padding: int, numbers: list[str]) -> int:
    """The sum of what was asked for and these numbers.

    Raises:
        ValueError: it is more than a call may ask for.
    """
    for number in numbers:
        padding += int(number) if len(number) < 10 else MOST_PADDING + 1
        if padding > MOST_PADDING:
            raise ValueError(f"a format asks for more than {MOST_PADDING} characters of padding")
    return padding


def format_with_percent(text: str, *args: object) -> str:
    """`text % args`, with a bound on padding. A single argument stands for itself, so a tuple gives the values.

    Raises:
        ValueError: more padding is asked for than `MOST_PADDING`.
        Exception: what Python's `%` raises.
    """
    values = args[0] if len(args) == 1 else args
    check_percent(text, list(values) if isinstance(values, tuple) else [values])
    return text % values


def _end_of_name(text: str, at: int) -> int:
    """Where the name of a value for `%` ends, whose parentheses come in pairs."""
    depth = 0
    while at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
        if not depth:
            break
    return at


def check_percent(text: str, values: list[Any]) -> int:
    """The padding that the fields of a text for `%` ask for; a ValueError where it is too much."""
    at, padding, rest = text.find("%"), 0, iter(values)
    while at >= 0:
        at += 1
        if text[at : at + 1] == "(":
            at = _end_of_name(text, at)
        found = re.compile(r"[#0\- +]*(\*|[0-9]*)(?:\.(\*|[0-9]*))?[hlL]?").match(text, at)
        assert found is not None
        for number in found.groups():
            given = next(rest, number) if number == "*" else number
            if isinstance(given, int) or (given is number and given not in ("", "*", None)):
                padding = add_padding(padding, [str(int(given)).lstrip("-")])
        at = found.end()
        if text[at : at + 1] != "%":
            next(rest, None)
        at = text.find("%", at + 1)
    return padding


# -- texts that are known before


def is_plain_format(text: str) -> bool:
    """Is a format string harmless whatever values it is given?"""
    try:
        fill_fields(text, (), 0, False)
    except ValueError:
        return False
    return not any("{" in (spec or "") for _, _, spec, _ in pieces_of(text))


def is_plain_percent(text: str) -> bool:
    """The same of a text for `%`."""
    try:
        check_percent(text, [])
        return "*" not in text
    except ValueError:
        return False


def field_into_value(text: str) -> str | None:
    """A field of a format string that reaches into a value; None where there is none."""
    pieces = pieces_of(text)
    fields = [p[1] for p in (*pieces, *(inner for piece in pieces if piece[2] for inner in pieces_of(piece[2])))]
    return next((field for field in fields if field and ("." in field or "[" in field)), None)
