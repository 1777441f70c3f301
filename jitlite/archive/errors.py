"""What is said of archives that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitlite.base.source import CompileError


class ArchiveError(RuntimeError):
    """A file is no TorchScript archive, or one that is damaged, too new, or holds what it must not.

    Attributes:
        member: the member of the archive in which the fault is, None for the file as a whole.
        hint: a way out.
    """

    def __init__(self, message: str, member: str | None = None, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.member = member
        self.hint = hint

    def __str__(self) -> str:
        where = f"in member '{self.member}' of the archive: " if self.member else ""
        return f"{where}{self.message}" + (f"\nhint: {self.hint}" if self.hint else "")


@contextmanager
def faults_of(member: str | None) -> Iterator[None]:
    """Inside, whatever a damaged member makes Python raise is an `ArchiveError` that names it.

    Raises:
        ArchiveError: where something is raised; errors in the program of an archive stay what they are.
    """
    try:
        yield
    except (ArchiveError, CompileError):
        raise
    except (RecursionError, MemoryError) as error:
        raise ArchiveError(f"too deeply nested or too large ({type(error).__name__})", member) from None
    except Exception as error:
        text = str(error).partition("\n")[0]
        raise ArchiveError(f"damaged: {type(error).__name__}: {text}", member) from error
