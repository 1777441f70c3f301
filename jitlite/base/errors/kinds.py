"""What a kind of error is, and how one is declared.

    UNKNOWN_NAME = ErrorKind(CompileError, "J0101", "unknown name", "The compiler looks ...", wrong="...", right="...")

    raise UNKNOWN_NAME(f"undefined value {name}", range, hint="...")

The modules beside this one declare the kinds by subject; `catalog.py` finds them all.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jitlite.base.source import CompileError, NotSupportedError, SourceRange

_E = TypeVar("_E", bound=CompileError, covariant=True)


@dataclass(frozen=True)
class ErrorKind(Generic[_E]):
    """A kind of error, which makes the errors of that kind.

    Attributes:
        error: the class of its errors.
        code: `J` and four digits. A code keeps its meaning for good.
        title: a few words, as the heading of a page.
        text: what the compiler cannot do, why, and what to write.
        wrong: a program that raises the error; empty only where no program does.
        right: the same program put right. It prints what eager Python prints.
    """

    error: type[_E]
    code: str
    title: str
    text: str
    wrong: str = ""
    right: str = ""

    def __call__(
        self,
        message: str,
        range: SourceRange | None = None,
        *,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
        notes: Sequence[str] = (),
    ) -> _E:
        """An error of this kind; the arguments are those of `CompileError`."""
        made = self.error(message, range, expected=expected, found=found, hint=hint, notes=notes)
        made.code = self.code
        return made

    def unsupported(
        self, message: str, range: SourceRange | None = None, *, hint: str | None = None, notes: Sequence[str] = ()
    ) -> NotSupportedError:
        """An error of this kind for what Python has and TorchScript does not."""
        made = NotSupportedError(message, range, hint=hint, notes=notes)
        made.code = self.code
        return made

    def page(self) -> str:
        """The page of the kind, as Markdown."""
        parts = [f"## {self.code}: {self.title}", textwrap.fill(" ".join(self.text.split()), 119)]
        for lead, program in (("Wrong:", self.wrong), ("Right:", self.right)):
            if program:
                parts += [lead, f"```python\n{program.strip()}\n```"]
        return "\n\n".join(parts) + "\n"
