"""Small classes of fields, declared as frozen dataclasses are.

`dataclass` writes and compiles methods for each class, which takes most of a module's import where it has dozens of
them. Records share their constructor.
"""

from __future__ import annotations

from inspect import get_annotations
from typing import Any, ClassVar

from typing_extensions import dataclass_transform


@dataclass_transform(eq_default=False, frozen_default=True)
class Record:
    """Takes its fields in order or by name. Nobody changes a record; each is equal to itself only."""

    field_names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.field_names += tuple(get_annotations(cls))

    def __init__(self, *given: Any, **named: Any) -> None:
        fields = vars(self)
        fields.update(zip(self.field_names, given, strict=False))
        if len(given) != len(self.field_names):
            fields.update(named)
            if len(given) > len(self.field_names) or not all(hasattr(self, name) for name in self.field_names):
                raise TypeError(f"{type(self).__name__} is made of {', '.join(self.field_names)}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
