"""Format strings that are known when a program is compiled."""

from __future__ import annotations

import string

from jitlite.base.errors.statements import FORMAT_FIELD
from jitlite.base.source import SourceRange
from jitlite.ir.formatting import field_into_value
from jitlite.ir.graph import constant_of
from jitlite.operators.overloads import NamedValue


def has_plain_fields(subject: NamedValue | None) -> bool:
    """Is a format string known, and shows each field what `str` gives?"""
    text = constant_of(subject.value, None) if subject is not None and subject.value is not None else None
    if not isinstance(text, str):
        return False
    try:
        return all(not spec and conversion is None for _, _, spec, conversion in string.Formatter().parse(text))
    except ValueError:
        return False


def check_format(range: SourceRange, text: NamedValue | None) -> None:
    """See that the fields of a format string stand for values by their positions.

    Raises:
        NotSupportedError: one reaches into a value.
    """
    if text is None:
        return
    known = text.constant if text.value is None else constant_of(text.value, None)
    field = field_into_value(known) if isinstance(known, str) else None
    if field is not None:
        raise FORMAT_FIELD(
            f"the field {{{field}}} of a format string, which reaches into a value, isn't supported", range,
            hint="give what it names as a value of its own: '{}'.format(x.shape) or f'{x.shape}'",
        )  # fmt: skip
