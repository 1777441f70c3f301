"""Names of files as messages show them."""

from __future__ import annotations

import json

import pytest
import torch

import jitlite
from jitlite.base.shown_paths import within_library
from jitlite.interpreter.debugging.scopes import shown_path


@pytest.mark.parametrize(
    "filename, shown",
    [
        (torch.nn.functional.__file__, "torch/nn/functional.py"),
        (json.__file__, "json/__init__.py"),
        ("/a/b.py", "/a/b.py"),
    ],
)
def test_a_file_of_a_library_begins_in_the_library(filename, shown):
    assert within_library(filename) == shown_path(filename) == shown


def test_the_debugger_names_places_within_libraries(capsys):
    jitlite.debug_with(["step", "where", "continue"], torch.nn.LayerNorm(2), torch.ones(2))
    out = capsys.readouterr().out
    assert "torch/nn/modules/normalization.py" in out and torch.__path__[0] not in out
