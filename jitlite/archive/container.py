"""The file of an archive: a ZIP file whose members all lie in one folder. Nothing is ever extracted to disk.

An archive is not trusted. Members are looked up by name among those of the directory, so that no name leads out of the
file; the total of what is read is bounded by the size of the file, and so is what compressed members unpack to.
"""

from __future__ import annotations

import io
import mmap
import os
import struct
import zipfile
from typing import Any, BinaryIO

from jitlite.archive.errors import ArchiveError, faults_of

_MIB = 1 << 20
_SMALL = 1 * _MIB
"""A compressed member may always unpack to this much."""
_RATIO = 64
"""A larger one may unpack to this many times its size."""
_LARGEST_TEXT = 64 * _MIB
"""No member that is not tensor data is larger."""
_CHUNK = 1 * _MIB
_LARGEST_DIRECTORY = 24 * _MIB
"""The list of members, which takes many times its size once it is read."""
_END = b"PK\x05\x06"
_END_64 = b"PK\x06\x06"
_TAIL = 65557 + 76
"""The last bytes of a file, among which its end records are."""
_EXTRA = "extra/"
_HEADER = 30
"""Bytes before the name in the header of a member."""
_ENCRYPTED = 1


class ArchiveReader:
    """The members of an archive by their names within its folder.

    Args:
        file: a path, or a file opened for reading, of which everything behind its current position is the archive.

    Raises:
        ArchiveError: the file is no ZIP file.
        OSError: it cannot be opened.
    """

    def __init__(self, file: object) -> None:
        self._file, self._owned = _opened(file)
        self._map: memoryview | None = None
        try:
            self.size = self._file.seek(0, os.SEEK_END)
            self._left = 2 * self.size + _LARGEST_TEXT
            self._zip = self._directory()
            self._members = self._by_name()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close what was opened for reading."""
        if self._owned:
            self._file.close()

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- the directory
    def _directory(self) -> zipfile.ZipFile:
        self._file.seek(0)
        head = self._file.read(16)
        if _directory_size(self._file, self.size) > _LARGEST_DIRECTORY:
            raise ArchiveError("the file has more members than any archive of a program would have")
        try:
            return zipfile.ZipFile(self._file)
        except Exception as error:
            raise _no_zip(head, self.size, error) from None

    def _by_name(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._zip.infolist()
        if not infos:
            raise ArchiveError("the file is an empty ZIP file, and no TorchScript archive")
        folder = infos[0].filename.partition("/")[0] + "/"
        for info in infos:
            top, _, rest = info.filename.partition("/")
            if rest in ("data.pkl", "constants.pkl", "version"):
                folder = f"{top}/"
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            name = info.filename.removeprefix(folder) if info.filename.startswith(folder) else f"/{info.filename}"
            if name in members:
                raise ArchiveError("the archive has two members of this name", name)
            members[name] = info
        return members

    def names(self) -> list[str]:
        """The names of all members; of one outside of the archive's folder, with a slash before it."""
        return list(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def length(self, name: str) -> int:
        """The number of bytes of a member.

        Raises:
            ArchiveError: there is no such member.
        """
        return self._info(name).file_size

    def _info(self, name: str) -> zipfile.ZipInfo:
        found = self._members.get(name)
        if found is None:
            raise ArchiveError("the archive has no such member; the file is damaged or was written incompletely", name)
        return found

    # -- reading
    def read(self, name: str) -> bytes:
        """All of a member.

        Raises:
            ArchiveError: there is no such member, it is damaged, or it is larger than any program's would be.
        """
        info = self._info(name)
        if info.file_size > _LARGEST_TEXT and not name.startswith(_EXTRA):
            raise ArchiveError(f"{info.file_size} bytes are more than a member of this kind can have", name)
        found = bytearray(self._checked_size(name, info))
        self._fill(name, info, memoryview(found))
        return bytes(found)

    def read_into(self, name: str, buffer: memoryview) -> None:
        """Fill a buffer with a member of just that length.

        Raises:
            ArchiveError: there is no such member, or it is damaged or of another length.
        """
        info = self._info(name)
        if info.file_size != len(buffer):
            raise ArchiveError(f"expected {len(buffer)} bytes, found {info.file_size}", name)
        self._checked_size(name, info)
        self._fill(name, info, buffer)

    def mapped(self, name: str, alignment: int) -> memoryview | None:
        """A member as memory that lies in the file: it is read when it is used, and writing to it changes the memory
        only. None where it is compressed, or does not begin at a multiple of `alignment`.

        Raises:
            ArchiveError: there is no such member, or the file does not hold all of it.
        """
        info = self._info(name)
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & _ENCRYPTED or not info.file_size:
            return None
        size = self._checked_size(name, info)
        self._file.seek(info.header_offset)
        head = self._file.read(_HEADER)
        if len(head) < _HEADER or head[:4] != b"PK\x03\x04":
            raise ArchiveError("its header is damaged", name)
        name_length, extra_length = struct.unpack("<HH", head[-4:])
        start = info.header_offset + _HEADER + name_length + extra_length
        if start + size > self.size:
            raise ArchiveError("the file ends before it", name)
        if start % alignment:
            return None
        if self._map is None:
            self._map = memoryview(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY))
        return self._map[start : start + size]

    def _checked_size(self, name: str, info: zipfile.ZipInfo) -> int:
        """The size of a member, which the file can really hold, as far as that can be told before it is read."""
        size, packed = info.file_size, info.compress_size
        if packed > self.size or (info.compress_type == zipfile.ZIP_STORED and size != packed):
            raise ArchiveError("its size is not that of its data; the file is damaged", name)
        if size > max(_SMALL, _RATIO * packed):
            raise ArchiveError(f"{packed} bytes that unpack to {size} are refused: a ZIP bomb would do that", name)
        if size > self._left:
            raise ArchiveError("the members of the archive are larger than its file could hold", name)
        self._left -= size
        return size

    def _fill(self, name: str, info: zipfile.ZipInfo, buffer: memoryview) -> None:
        with faults_of(name), self._zip.open(info) as stream:
            done = 0
            while done < len(buffer):
                part = stream.read(min(_CHUNK, len(buffer) - done))
                if not part:
                    raise ArchiveError(f"it ends after {done} of {len(buffer)} bytes", name)
                buffer[done : done + len(part)] = part
                done += len(part)
            stream.read(1)  # which compares the checksum


class _Rest(io.RawIOBase):
    """What stands behind the current position of a file, as a file."""

    def __init__(self, file: Any) -> None:
        self._inner = file
        self._start = int(file.tell())
        self._at = 0
        self._end = int(file.seek(0, os.SEEK_END)) - self._start

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._end}[whence]
        if base + offset < 0:
            raise ValueError("a position before the beginning of the file")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._inner.seek(self._start + self._at)
        found: bytes = self._inner.read(len(buffer))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def _opened(file: object) -> tuple[BinaryIO, bool]:
    """The file, and whether it was opened here."""
    if isinstance(file, str | os.PathLike):
        return open(file, "rb"), True
    if not hasattr(file, "read"):
        raise TypeError(f"load takes a path or a file that is open for reading, not {type(file).__name__}")
    try:
        rest: Any = _Rest(file)
        return rest, False
    except (AttributeError, OSError, ValueError):  # it cannot be read from wherever one likes
        content = file.read()
        if not isinstance(content, bytes):
            raise TypeError("load needs a file that is open for reading bytes: open it with 'rb'") from None
        return io.BytesIO(content), True


def _directory_size(file: BinaryIO, size: int) -> int:
    """The bytes that the list of members is said to have; 0 where there is no end record."""
    file.seek(max(size - _TAIL, 0))
    tail = file.read()
    end, large = tail.rfind(_END), tail.rfind(_END_64)
    if end < 0 or len(tail) < end + 16:
        return 0
    found: int = struct.unpack_from("<I", tail, end + 12)[0]
    if 0 <= large <= len(tail) - 48:
        found = max(found if found != 0xFFFFFFFF else 0, struct.unpack_from("<Q", tail, large + 40)[0])
    return found if found != 0xFFFFFFFF else 0


_HEADS: tuple[tuple[bytes, int, str, str | None], ...] = (
    (b"PTMF", 4, "is a model of the lite interpreter in the flatbuffer format (.ff)", "write it with torch.jit.save"),
    (b"\x80\x02", 0, "is a pickle, such as an old checkpoint of torch.save", "read it with torch.load"),
    (b"\x89HDF", 0, "is an HDF5 file", None),
    (b"PK\x03\x04", 0, "is a ZIP file without its end: it was written or copied incompletely", "copy it again"),
)  # fmt: skip
"""Bytes, where they stand, what a file is that has them, and what to do."""


def _no_zip(head: bytes, size: int, error: Exception) -> ArchiveError:
    if size == 0:
        return ArchiveError("the file is empty")
    for magic, start, what, hint in _HEADS:
        if head[start : start + len(magic)] == magic:
            return ArchiveError(f"the file {what}", hint=hint)
    return ArchiveError(f"the file is no TorchScript archive: it is no ZIP file ({error})")
