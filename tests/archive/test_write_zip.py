"""The container of archives: a zip file that any reader of zip files takes, with aligned members."""

from __future__ import annotations

import io
import zipfile

import pytest
import torch

import jitlite
from jitlite.archive import write_zip
from jitlite.archive.write_zip import ALIGNMENT, ArchiveWriter

MEMBERS = {
    "a": b"",
    "b/é": b"x" * 63,
    "c": b"y" * 64,
    "long": b"z" * 5000,
    "n" * 200: b"w",
    "m": memoryview(b"12" * 99),
}


def written(**how: bool) -> bytes:
    buffer = io.BytesIO()
    writer = ArchiveWriter(buffer, "folder")
    for name, content in MEMBERS.items():
        writer.write(name, content, **how)
    writer.write_serialization_id()
    writer.close()
    return buffer.getvalue()


def begins(data: bytes, member: zipfile.ZipInfo) -> int:
    """Where the contents of a member begin, as its own header says."""
    at = member.header_offset
    lengths = (int.from_bytes(data[at + field : at + field + 2], "little") for field in (26, 28))
    return at + 30 + sum(lengths)


@pytest.mark.parametrize("surely_small", [1 << 30, 60, -1], ids=["small", "some large", "all large"])
@pytest.mark.parametrize("compress", [False, True])
def test_members_are_aligned_and_read_by_others(surely_small, compress, monkeypatch):
    monkeypatch.setattr(write_zip, "_SURELY_SMALL", surely_small)
    data = written(compress=compress)
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert read.testzip() is None
        assert {m.filename.removeprefix("folder/") for m in read.infolist()} == {*MEMBERS, ".data/serialization_id"}
        for member in read.infolist():
            assert begins(data, member) % ALIGNMENT == 0, member.filename
        for name, content in MEMBERS.items():
            assert read.read(f"folder/{name}") == bytes(content)


def test_equal_contents_give_equal_bytes():
    assert written() == written()


def test_a_member_is_written_once():
    writer = ArchiveWriter(io.BytesIO(), "folder")
    writer.write("a", b"1")
    with pytest.raises(ValueError, match="has a member 'a' already"):
        writer.write("a", b"2")


def test_what_was_not_completed_stays_incomplete(recwarn, capsys):
    buffer = io.BytesIO()
    writer = ArchiveWriter(buffer, "folder")
    writer.write("a", b"1")
    before = buffer.getvalue()
    del writer
    assert buffer.getvalue() == before and not zipfile.is_zipfile(buffer)
    closed = io.BytesIO()
    writer = ArchiveWriter(closed, "folder")
    closed.close()
    del writer
    assert not recwarn.list and not capsys.readouterr().err


@pytest.mark.parametrize("name", ["a\0b", "\udcff", "n" * 70_000])
def test_names_that_no_member_can_have_are_refused(name):
    with pytest.raises(ValueError, match="no member of an archive can be named"):
        ArchiveWriter(io.BytesIO(), "folder").write(name, b"1")


@pytest.mark.parametrize("content", [3, None, ["a"], 1.5])
def test_extra_files_are_text_or_bytes(content):
    with pytest.raises(TypeError, match="extra file 'notes' is to be text or bytes"):
        jitlite.save(jitlite.script(torch.nn.ReLU()), io.BytesIO(), _extra_files={"notes": content})
