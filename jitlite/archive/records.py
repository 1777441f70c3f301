"""Members of an archive by name: a writer and a reader with the methods that torch's own have."""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

from jitlite.archive.container import ArchiveReader
from jitlite.archive.errors import ArchiveError
from jitlite.archive.write_zip import ArchiveWriter

_DEFAULT_FOLDER = "archive"
_VERSION = 3
"""The oldest version that torch's reader takes."""


class RecordWriter:
    """Writes records into a new archive.

    Args:
        file: a path, whose stem becomes the folder of the archive, or a file that is open for writing bytes and can
            seek.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, file: str | os.PathLike[str] | BinaryIO) -> None:
        self._owned = isinstance(file, str | os.PathLike)
        name = os.path.basename(os.fspath(file)) if isinstance(file, str | os.PathLike) else ""
        self._file: BinaryIO = open(file, "wb") if isinstance(file, str | os.PathLike) else file  # noqa: SIM115
        self._folder = os.path.splitext(name)[0] or _DEFAULT_FOLDER
        self._writer = ArchiveWriter(self._file, self._folder)
        self._names: set[str] = set()
        self._version = _VERSION
        self._done = False

    def set_min_version(self, version: int) -> None:
        """Let the archive be of this version at least."""
        self._version = max(self._version, version)

    def write_record(self, name: str, data: str | bytes | memoryview, size: int) -> None:
        """Add a record: the first `size` bytes of `data`; a text is written in UTF-8.

        Raises:
            RuntimeError: the archive is complete.
            ValueError: it has a record of this name, or `data` has fewer bytes.
        """
        if self._done:
            raise RuntimeError("the archive is complete: nothing can be added to it")
        content = memoryview(data.encode() if isinstance(data, str) else data).cast("B")
        if not 0 <= size <= len(content):
            raise ValueError(f"record '{name}': {size} bytes are asked for, the data has {len(content)}")
        self._writer.write(name, content[:size])
        self._names.add(name)

    def write_end_of_file(self) -> None:
        """Complete the archive with its version and byte order. A second call does nothing."""
        if self._done:
            return
        self._done = True
        try:
            for name, text in (("version", f"{self._version}\n"), ("byteorder", sys.byteorder)):
                if name not in self._names:
                    self._writer.write(name, text.encode())
            self._writer.write_serialization_id()
            self._writer.close()
        finally:
            if self._owned:
                self._file.close()

    def archive_name(self) -> str:
        """The folder that all records are in."""
        return self._folder

    def get_all_written_records(self) -> set[str]:
        """The names of the records so far."""
        return set(self._names)


class RecordReader:
    """Reads the records of an archive, which need not be trusted.

    Args:
        file: a path, or a file that is open for reading bytes.

    Raises:
        ArchiveError: the file is no archive.
        OSError: it cannot be opened.
    """

    def __init__(self, file: object) -> None:
        self._reader = ArchiveReader(file)

    def get_record(self, name: str) -> bytes:
        """The bytes of a record.

        Raises:
            ArchiveError: there is none of this name, or it is damaged.
        """
        return self._reader.read(name)

    def has_record(self, name: str) -> bool:
        """Is there a record of this name?"""
        return name in self._reader

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return self._reader.names()

    def get_record_size(self, name: str) -> int:
        """The number of bytes of a record.

        Raises:
            ArchiveError: there is none of this name.
        """
        return self._reader.length(name)

    def serialization_id(self) -> str:
        """The number that depends on the names and contents of the records; empty in old archives."""
        try:
            return self._reader.read(".data/serialization_id").decode("ascii", "replace")
        except ArchiveError:
            return ""
