"""Positions in source text."""

import pytest

from jitlite.base.source import Source, Utf8Offsets

TEXTS = ["", "plain", "wört.größe", "a\U0001f600b", "ключ = 1\n", "é" * 50 + "x"]


@pytest.mark.parametrize("text", TEXTS)
def test_characters_and_bytes(text):
    offsets = Utf8Offsets(text)
    for character in range(len(text) + 1):
        byte = offsets.byte_at(character)
        assert byte == len(text[:character].encode())
        assert offsets.character_at(byte) == character


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_of_no_character(text):
    offsets = Utf8Offsets(text)
    size = len(text.encode())
    for byte in (-(2**70), -1, size + 1, 2**70):
        assert offsets.character_at(byte) == (0 if byte < 0 else len(text))
    begun = -1
    for byte, unit in enumerate(text.encode()):  # a byte within a character is of that one
        begun += unit & 0xC0 != 0x80
        assert offsets.character_at(byte) == begun


def test_a_surrogate_is_written_as_a_question_mark():
    text = "a\ud800b"
    assert Source(text).utf8.byte_at(3) == len(text.encode(errors="replace"))
