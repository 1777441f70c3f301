"""The container of an archive: a zip file whose members begin at multiples of 64 bytes, so that they can be mapped."""

from __future__ import annotations

import hashlib
import zipfile
from typing import BinaryIO

ALIGNMENT = 64
_HEADER = 30
"""Bytes of a local header before name and extra field."""
_ZIP64_FIELD = 20
"""Bytes of the extra field that says the size of a large member."""
_PADDING_ID = b"FB"
_SMALL = 200
"""Text of up to so many bytes is not compressed: it would not get shorter by much."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of all members: equal archives have equal bytes."""


class ArchiveWriter:
    """Writes members to a file that can seek.

    Args:
        folder: the folder that all members are in.
    """

    def __init__(self, file: BinaryIO, folder: str) -> None:
        self._file = file
        self._folder = folder
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)

    def write(self, name: str, data: bytes | memoryview, *, compress: bool = False) -> None:
        """Add a member.

        Raises:
            ValueError: where there is one of that name.
        """
        full = f"{self._folder}/{name}"
        if full in self._zip.NameToInfo:
            raise ValueError(f"the archive has a member '{name}' already")
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        info = zipfile.ZipInfo(full, _EPOCH)
        info.create_system = 0
        info.compress_type = zipfile.ZIP_DEFLATED if compress and size > _SMALL else zipfile.ZIP_STORED
        info.file_size = size
        is_large = size * 1.05 > zipfile.ZIP64_LIMIT
        info.extra = self._padding(full, is_large)
        with self._zip.open(info, "w", force_zip64=is_large) as member:
            member.write(data)

    def _padding(self, name: str, is_large: bool) -> bytes:
        start = self._file.tell() + _HEADER + len(name.encode()) + (_ZIP64_FIELD if is_large else 0) + 4
        filler = -start % ALIGNMENT
        return _PADDING_ID + filler.to_bytes(2, "little") + b"Z" * filler

    def write_serialization_id(self) -> None:
        """Add a number that depends on the names and contents of the members, and say that the archive is done."""
        listed = "".join(f"{i.filename}\n{i.CRC}\n" for i in self._zip.infolist())
        digest = hashlib.sha256(listed.encode()).digest()
        numbers = (int.from_bytes(digest[at : at + 8], "little") for at in (0, 8))
        self.write(".data/serialization_id", "".join(f"{n:020d}" for n in numbers).encode())

    def close(self) -> None:
        """Write the directory."""
        self._zip.close()
