"""Every switch of jitlite, in one frozen dataclass.

A switch is read from the environment variable in its declaration; `override` changes switches for a piece of code:

    with override(verify=True):
        run(graph, "inline,cse,dce")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Any


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected 0 or 1")


def _limit(text: str) -> int | None:
    return int(text) if text.strip() else None


def _switch(default: Any, variable: str, read: Callable[[str], Any], doc: str) -> Any:
    return field(default=default, metadata={"variable": variable, "read": read, "doc": doc})


@dataclass(frozen=True)
class Options:
    """The switches; see the `doc` of each field (`describe` lists them)."""

    verify: bool = _switch(False, "JITLITE_VERIFY", _boolean, "check the graph after every pass")
    print_changed: bool = _switch(
        False, "JITLITE_PRINT_CHANGED", _boolean, "print what each pass changed, as a unified diff, to stderr"
    )
    opt_bisect_limit: int | None = _switch(
        None,
        "JITLITE_OPT_BISECT_LIMIT",
        _limit,
        "run only the first N passes of the process: halve N to find the pass at fault",
    )

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Options:
        """The switches as the environment sets them.

        Raises:
            ValueError: where a variable holds something its switch cannot be.
        """
        found = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        for switch in fields(Options):
            variable = switch.metadata["variable"]
            text = found.get(variable)
            if text is None:
                continue
            try:
                values[switch.name] = switch.metadata["read"](text)
            except ValueError as error:
                raise ValueError(f"{variable}={text!r}: {error}") from None
        return Options(**values)


def describe() -> list[tuple[str, str, str]]:
    """Name, environment variable and meaning of every switch."""
    return [(f.name, f.metadata["variable"], f.metadata["doc"]) for f in fields(Options)]


_current: ContextVar[Options | None] = ContextVar("jitlite_options", default=None)
_from_environment: Options | None = None


def current() -> Options:
    """The switches in force: those of the innermost `override`, else the environment as it was when first asked."""
    global _from_environment
    overridden = _current.get()
    if overridden is not None:
        return overridden
    if _from_environment is None:
        _from_environment = Options.from_environment()
    return _from_environment


@contextmanager
def override(**changes: Any) -> Iterator[Options]:
    """Within the `with`, the named switches have the given values."""
    changed = replace(current(), **changes)
    token = _current.set(changed)
    try:
        yield changed
    finally:
        _current.reset(token)
