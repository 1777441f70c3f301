"""How values are read that are shown: as text, or as what Python shows of them."""

from __future__ import annotations

from collections.abc import Callable

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.format_strings import has_plain_fields
from jitlite.frontend.emit.values import BuiltinFunction, SugaredValue
from jitlite.ir.graph import Value
from jitlite.operators.overloads import NamedValue

Reading = Callable[[SugaredValue, Builder, SourceRange], Value]
"""How the graph's value is read of what an expression denotes."""


def as_argument(found: SugaredValue, b: Builder, range: SourceRange) -> Value:
    """As an operator reads it that computes with it."""
    return found.as_argument(b, range)


def _as_text(found: SugaredValue, b: Builder, range: SourceRange) -> Value:
    return found.as_text(b, range)


def _as_shown(found: SugaredValue, b: Builder, range: SourceRange) -> Value:
    return found.as_shown(b, range)


def reading_of(callee: BuiltinFunction) -> Reading:
    """How an operator reads its arguments. The text is enough for a template that is known, each field of which shows
    what `str` gives."""
    if callee.name != "aten::format":
        return as_argument
    return _as_text if has_plain_fields(callee.self_value) else _as_shown


def shown(b: Builder, argument: NamedValue, range: SourceRange) -> Value:
    """An argument as what Python shows of it."""
    given = argument.constant
    return given.as_shown(b, range) if isinstance(given, SugaredValue) else argument.in_graph(b.graph)
