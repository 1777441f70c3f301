"""The container of an archive: a zip file whose members begin at multiples of 64 bytes, so that they can be mapped."""

from __future__ import annotations

import hashlib
import zipfile
from typing import BinaryIO

ALIGNMENT = 64
_PADDING_ID = b"FB"
_SMALL = 200
"""Text of up to so many bytes is not compressed: it would not get shorter by much."""
_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all members: equal archives have equal bytes."""
_UNIX = 3
_LONGEST_NAME = 0xFFFF
_SURELY_SMALL = 1 << 30
"""Members of more bytes than this have a header for large ones, so that its length is known beforehand."""
_FIXED_HEADER, _ZIP64_EXTRA = 30, 20
"""Bytes before the name of a member, and of what the format adds after it for a large one."""


class ArchiveWriter:
    """Writes members to a file that can seek.

    Args:
        folder: the folder that all members are in.
    """

    def __init__(self, file: BinaryIO, folder: str) -> None:
        self._file = file
        self._folder = folder
        self._zip = zipfile.ZipFile(file, "w")

    def write(self, name: str, data: bytes | memoryview, *, compress: bool = False) -> None:
        """Add a member.

        Raises:
            ValueError: where there is one of that name, or no member can have it.
        """
        full = f"{self._folder}/{name}"
        if "\0" in full or any(0xD800 <= ord(c) < 0xE000 for c in full) or len(full.encode()) > _LONGEST_NAME:
            raise ValueError(
                f"no member of an archive can be named {name[:50]!r}: a name has no zeros and no lone surrogates, and "
                f"takes up to {_LONGEST_NAME} bytes with that of the archive"
            )
        member = zipfile.ZipInfo(full, _DATE)
        if member.filename in self._zip.NameToInfo:
            raise ValueError(f"the archive has a member '{name}' already")
        member.create_system = _UNIX
        member.file_size = data.nbytes if isinstance(data, memoryview) else len(data)
        if compress and member.file_size > _SMALL:
            member.compress_type = zipfile.ZIP_DEFLATED
        is_large = member.file_size > _SURELY_SMALL
        member.extra = self._padding(len(member.filename.encode()) + (_ZIP64_EXTRA if is_large else 0))
        with self._zip.open(member, "w", force_zip64=is_large) as written:
            written.write(data)
        member.extra = b""  # in the directory, nothing has to be aligned

    def _padding(self, length: int) -> bytes:
        """What makes a header end at a multiple of 64 bytes, of which the name and so on take `length`."""
        start = self._file.tell() + _FIXED_HEADER + length + 4
        filler = -start % ALIGNMENT
        return _PADDING_ID + filler.to_bytes(2, "little") + b"Z" * filler

    def write_serialization_id(self) -> None:
        """Add a number that depends on the names and contents of the members, and say that the archive is done."""
        listed = "".join(f"{member.filename}\n{member.CRC}\n" for member in self._zip.infolist())
        digest = hashlib.sha256(listed.encode()).digest()
        numbers = (int.from_bytes(digest[at : at + 8], "little") for at in (0, 8))
        self.write(".data/serialization_id", "".join(f"{n:020d}" for n in numbers).encode())

    def close(self) -> None:
        """Write the directory."""
        self._zip.close()

    def __del__(self) -> None:
        self._zip.fp = None  # an archive that was not completed stays so: ZipFile would write a directory now
