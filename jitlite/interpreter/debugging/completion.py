"""Names that begin as the user has begun to write them."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

import torch

from jitlite.interpreter.debugging.locations import function_names
from jitlite.interpreter.debugging.scopes import CallScope
from jitlite.interpreter.frames import CallFrame

_DOTTED = re.compile(r"(?:(.+)\.)?(\w*)")


def expression_names(text: str, scope: CallScope) -> list[str]:
    """Variables, and behind a dot attributes of what is before it. Nothing is called to find them."""
    match = _DOTTED.fullmatch(text)
    if match is None:
        return []
    owner, begun = match.groups()
    if owner is None:
        return sorted(name for name in (*scope.variables, "torch") if name.startswith(begun))
    first, *rest = owner.split(".")
    found = {"torch": torch, **scope.variables}.get(first)
    for name in rest:
        found = getattr(found, name, None)
    names = [name for name in dir(found) if name.startswith(begun) and (begun or not name.startswith("_"))]
    return [f"{owner}.{name}" for name in names if not keyword.iskeyword(name)]


def break_targets(text: str, frames: Iterable[CallFrame]) -> list[str]:
    """Functions to stop in."""
    return sorted({name for name in function_names(frames) if name.startswith(text)})
