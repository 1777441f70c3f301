"""Context managers in functions that enter and leave them in different blocks."""

from __future__ import annotations

from typing import Any

from jitlite.ir.values import special_method


def enter_context(entered: list[Any], manager: object) -> Any:
    """Enter a context manager and note it as the last one entered."""
    result = special_method(manager, "__enter__")()
    entered.append(manager)
    return result


def exit_context(entered: list[object]) -> Any:
    """Leave the context manager entered last."""
    return special_method(entered.pop(), "__exit__")(None, None, None)
