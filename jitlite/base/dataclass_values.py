"""Objects of dataclasses, taken apart and put together."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import TypeVar

_T = TypeVar("_T")


def fields_of(value: object) -> dict[str, object] | None:
    """The fields of an object of a dataclass, by name; None for anything else. A field that is not set is left out."""
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return None
    names = [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def with_fields(value: _T, fields: Mapping[str, object]) -> _T:
    """A copy of an object of a dataclass, frozen or not, with other values of some fields. No `__init__` runs."""
    made = copy.copy(value)
    for name, field in fields.items():
        object.__setattr__(made, name, field)
    return made
