"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives the path of a file to write, which takes the place of another at the end, with its permissions.

    What is there stays as it is where an exception is raised meanwhile. Links are followed; a device, such as
    `/dev/stdout`, is written itself.

    Raises:
        OSError: where the file cannot be written; it names the file that was asked for.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        yield target
        return
    temporary = target.parent / f".{target.name[:100]}.{uuid.uuid4().hex}.tmp"
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and str(error.filename) == str(temporary):
            error.filename = str(path)
        raise


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text to a file, as `replacing` does.

    Raises:
        OSError: where the file cannot be written.
    """
    with replacing(path) as made:
        made.write_text(text, encoding="utf-8", errors="backslashreplace")
