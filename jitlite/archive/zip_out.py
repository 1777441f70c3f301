"""The container of an archive: a zip file whose members begin at multiples of 64 bytes, so that they can be mapped."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import BinaryIO, NamedTuple

ALIGNMENT = 64
_PADDING_ID = b"FB"
_SMALL = 200
"""Text of up to so many bytes is not compressed: it would not get shorter by much."""
_DATE = 0x21
"""The first of January 1980, the date of all members: equal archives have equal bytes."""
_STORED, _DEFLATED = 0, 8
_UTF8 = 0x800
_PLAIN, _ZIP64 = 20, 45
"""Versions of the format: the oldest that has folders, and that with sizes of 64 bits."""
_MOST = 0xFFFFFFFF
"""A size or position of 32 bits, which says that the true one stands elsewhere."""
_MOST_MEMBERS = 0xFFFF

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")


class _Member(NamedTuple):
    """What the directory says of a member."""

    name: bytes
    flags: int
    method: int
    checksum: int
    packed: int
    size: int
    position: int


class ArchiveWriter:
    """Writes members to a file that can seek.

    Args:
        folder: the folder that all members are in.
    """

    def __init__(self, file: BinaryIO, folder: str) -> None:
        self._file = file
        self._folder = folder
        self._position = file.tell()
        self._members: dict[str, _Member] = {}

    def write(self, name: str, data: bytes | memoryview, *, compress: bool = False) -> None:
        """Add a member.

        Raises:
            ValueError: where there is one of that name.
        """
        full = f"{self._folder}/{name}"
        if full in self._members:
            raise ValueError(f"the archive has a member '{name}' already")
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        packed, method = data, _STORED
        if compress and size > _SMALL:
            packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            packed, method = packing.compress(data) + packing.flush(), _DEFLATED
        stored = len(packed) if method else size
        encoded, flags = full.encode(), 0 if full.isascii() else _UTF8
        member = _Member(encoded, flags, method, zlib.crc32(data), stored, size, self._position)
        self._members[full] = member
        self._put(self._header(member))
        self._put(packed, stored)

    def _put(self, data: bytes | memoryview, size: int | None = None) -> None:
        self._file.write(data)
        self._position += len(data) if size is None else size

    def _header(self, m: _Member) -> bytes:
        """What stands before a member; it ends at a multiple of 64 bytes."""
        large = m.size >= _MOST or m.packed >= _MOST
        extra = struct.pack("<2H2Q", 1, 16, m.size, m.packed) if large else b""
        start = self._position + _LOCAL.size + len(m.name) + len(extra) + 4
        filler = -start % ALIGNMENT
        extra += _PADDING_ID + filler.to_bytes(2, "little") + b"Z" * filler
        sizes = (_MOST, _MOST) if large else (m.packed, m.size)
        version = _ZIP64 if large else _PLAIN
        head = _LOCAL.pack(
            b"PK\x03\x04", version, m.flags, m.method, 0, _DATE, m.checksum, *sizes, len(m.name), len(extra)
        )
        return head + m.name + extra

    def write_serialization_id(self) -> None:
        """Add a number that depends on the names and contents of the members, and say that the archive is done."""
        listed = "".join(f"{name}\n{m.checksum}\n" for name, m in self._members.items())
        digest = hashlib.sha256(listed.encode()).digest()
        numbers = (int.from_bytes(digest[at : at + 8], "little") for at in (0, 8))
        self.write(".data/serialization_id", "".join(f"{n:020d}" for n in numbers).encode())

    def close(self) -> None:
        """Write the directory."""
        start = self._position
        self._put(b"".join(map(_entry, self._members.values())))
        count, length = len(self._members), self._position - start
        if count >= _MOST_MEMBERS or start >= _MOST or length >= _MOST:
            end64 = self._position
            self._put(_END64.pack(b"PK\x06\x06", 44, _ZIP64, _ZIP64, 0, 0, count, count, length, start))
            self._put(_LOCATOR.pack(b"PK\x06\x07", 0, end64, 1))
        counted = min(count, _MOST_MEMBERS)
        self._put(_END.pack(b"PK\x05\x06", 0, 0, counted, counted, min(length, _MOST), min(start, _MOST), 0))


def _entry(m: _Member) -> bytes:
    """The entry of a member in the directory."""
    true = [m.size, m.packed, m.position]
    beyond = [number for number in true if number >= _MOST]
    extra = struct.pack(f"<2H{len(beyond)}Q", 1, 8 * len(beyond), *beyond) if beyond else b""
    size, packed, position = (min(number, _MOST) for number in true)
    version = _ZIP64 if beyond else _PLAIN
    head = _CENTRAL.pack(
        b"PK\x01\x02", version, version, m.flags, m.method, 0, _DATE, m.checksum, packed, size, len(m.name),
        len(extra), 0, 0, 0, 0, position,
    )  # fmt: skip
    return head + m.name + extra
