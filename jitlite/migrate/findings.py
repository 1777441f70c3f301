"""What was found in a file, and done about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class MigrationKind(Enum):
    """What became of a use of torch.jit."""

    REWRITTEN = "rewritten"
    LOOK = "rewritten, look at it"
    LEFT = "left"
    CAN_COMPILE = "can go to torch.compile"
    CANNOT_COMPILE = "cannot go to torch.compile"


@dataclass(frozen=True)
class MigrationFinding:
    """One use of torch.jit.

    Attributes:
        line: of the file as it was, from 1.
        column: from 1.
        kind: what became of it.
        text: the code, or the name.
        reason: why it was left, what to look at, or what can be done; empty for what is plainly rewritten.
    """

    line: int
    column: int
    kind: MigrationKind
    text: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.text}: {self.kind.value}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Migration:
    """What became of a file.

    Attributes:
        path: the name of the file.
        before: its text.
        after: what it should be; the same text where there is nothing to do.
        findings: in the order of the file.
        error: why the file could not be read, if it could not; then `after` is `before`.
    """

    path: str
    before: bytes
    after: bytes
    findings: tuple[MigrationFinding, ...] = field(default=())
    error: str = ""

    @property
    def changed(self) -> bool:
        """Is there anything to write?"""
        return self.after != self.before

    def of_kind(self, *kinds: MigrationKind) -> list[MigrationFinding]:
        """The findings of these kinds."""
        return [finding for finding in self.findings if finding.kind in kinds]
