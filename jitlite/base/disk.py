"""Machine code that is kept on disk, for the next process.

A module's text is the key, along with all else that its code depends on. Texts name what is elsewhere in memory by
number: `symbolic` says how. So nothing in a file is for one process alone.

Files are written under another name and renamed: whoever reads one finds all of it. What is no file of ours, or has
become another one, is not used, and replaced. The folder has to belong to the user alone, for code in it is run.
Nothing that goes wrong with it is an error: the code is compiled.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from jitlite.base import options
from jitlite.base.records import Record

LIMIT = 256 * 1024 * 1024
"""Bytes that all files may have, unless something else is set."""

_SUFFIX = ".jitlite-o"
_LIMIT_FILE = "limit"
_HEAD = b"jitlite 2\n"
_OFTEN = 32
"""Files that are written from one look at the sizes of all to the next."""

_ADDRESS = re.compile(r"inttoptr \(i64 ([1-9][0-9]*) to ptr\)")


def name_of(number: int) -> str:
    """How the text of a module calls an address."""
    return f"jitlite_address_{number}"


def symbolic(text: str) -> tuple[str, list[int]]:
    """A module that names addresses by number, and the addresses. It says the same as the text with these.

    Different addresses have different names, so texts that are the same say the same.
    """
    numbers: dict[str, int] = {}

    def name(found: re.Match[str]) -> str:
        return f"@{name_of(numbers.setdefault(found[1], len(numbers)))}"

    named = _ADDRESS.sub(name, text)
    lines = ["%jitlite.anything = type opaque"]
    lines += [f"@{name_of(i)} = external global %jitlite.anything" for i in range(len(numbers))]
    return "\n".join([*lines, named]), [int(number) for number in numbers]


def key_of(*parts: str) -> str:
    """The name of what depends on these texts."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(b"%d " % len(encoded) + encoded)
    return digest.hexdigest()


def _head_of(key: str, code: bytes) -> bytes:
    """What a file begins with. It says what the file is for, too: another one of ours may have been copied over it."""
    return _HEAD + hashlib.sha256(key.encode() + b"\n" + code).digest()


def folder() -> Path | None:
    """Where files are, whether it is there or not; None where none are kept."""
    asked = options.current().cache_dir
    if asked == "off":
        return None
    if asked != "auto":
        return Path(asked)
    with suppress(RuntimeError):  # nobody's home is known
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jitlite"
    return None


class DiskContents(Record, eq=True):
    """What there is on disk.

    Attributes:
        files: how many.
        bytes: in all of them.
        limit: of that.
    """

    files: int
    bytes: int
    limit: int


class Disk:
    """The files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written = 0

    def read(self, key: str) -> bytes | None:
        """What was written, if it still is what it was."""
        if not self._is_ours():
            return None
        path = self._path(key)
        try:
            found = path.read_bytes()
        except OSError:
            return None
        size = len(_HEAD) + hashlib.sha256().digest_size
        if found[:size] != _head_of(key, found[size:]):
            return None
        with suppress(OSError):
            os.utime(path)
        return found[size:]

    def write(self, key: str, code: bytes) -> None:
        """Keep something."""
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours():
                return
            if self._written % _OFTEN == 0:
                self.shrink(self.limit())
            self._written += 1
            self._replace(self._path(key), _head_of(key, code) + code)

    def _replace(self, path: Path, contents: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=self.folder, prefix="new-", suffix=_SUFFIX)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(contents)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _is_ours(self) -> bool:
        """Does the folder belong to the user, and can nobody else write there?"""
        try:
            found = os.stat(self.folder)
        except OSError:
            return False
        is_ours = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
        return stat.S_ISDIR(found.st_mode) and is_ours and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

    # -- how much there is
    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        with suppress(OSError):
            for entry in os.scandir(self.folder):
                if entry.name.endswith(_SUFFIX):
                    with suppress(OSError):  # it has gone meanwhile
                        yield Path(entry.path), entry.stat(follow_symlinks=False)

    def limit(self) -> int:
        """How many bytes there may be."""
        try:
            return int((self.folder / _LIMIT_FILE).read_text())
        except (OSError, ValueError):
            return LIMIT

    def set_limit(self, limit: int) -> None:
        """Have at most so many bytes, from now on.

        Raises:
            OSError: where that cannot be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._replace(self.folder / _LIMIT_FILE, str(limit).encode())
        self.shrink(limit)

    def contents(self) -> DiskContents:
        """What there is."""
        sizes = [found.st_size for _, found in self._files()]
        return DiskContents(len(sizes), sum(sizes), self.limit())

    def shrink(self, limit: int) -> None:
        """Remove files, those first that were used the longest time ago, until there are at most so many bytes."""
        files = sorted(self._files(), key=lambda each: each[1].st_mtime)
        size = sum(found.st_size for _, found in files)
        for path, found in files:
            if size <= limit:
                return
            with suppress(OSError):
                path.unlink()
                size -= found.st_size


def disk() -> Disk | None:
    """Where machine code is kept; None where it is not."""
    place = folder()
    if place is None:
        return None
    found = _DISKS.get(place)
    if found is None:
        found = _DISKS[place] = Disk(place)
    return found


_DISKS: dict[Path, Disk] = {}
