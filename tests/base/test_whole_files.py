"""Files that are there as a whole or not at all."""

from __future__ import annotations

import pytest

from jitlite.base.whole_files import replacing


def test_a_file_takes_the_place_of_another(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o600)
    with replacing(path) as made:
        made.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_there_stays_where_writing_fails(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as made:
        made.write_text("ne")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_links_are_followed(tmp_path):
    path, link = tmp_path / "a", tmp_path / "b"
    link.symlink_to(path)
    with replacing(link) as made:
        made.write_text("new")
    assert link.is_symlink() and path.read_text() == "new"


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    path = tmp_path / "none" / "a"
    with pytest.raises(OSError) as info, replacing(path) as made:
        made.write_text("new")
    assert info.value.filename == str(path)
