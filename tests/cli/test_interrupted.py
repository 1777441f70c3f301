"""Ctrl-C: one line, the exit status of shells, and no file that is there in part."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

import jitlite
from jitlite import cli

PROGRAM = """
import torch


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    jitlite.script(torch.nn.ReLU()).save(f"{path}.pt")
    np.save(f"{path}.npy", np.ones(2, np.float32))
    return str(path)


def _stop(*arguments, **keywords):
    raise KeyboardInterrupt


WRITERS = {
    "report": (["report", "{}:scaled"], "-o", "out.html"),
    "pt": (["run", "{}.pt", "--input", "{}.npy"], "--output", "out.pt"),
    "npy": (["run", "{}.pt", "--input", "{}.npy"], "--output", "out.npy"),
    "npz": (["run", "{}.pt", "--input", "{}.npy"], "--output", "out.npz"),
    "trace": (["profile", "{}:scaled", "torch.ones(2)", "2.0"], "--trace", "out.json"),
    "python": (["convert", "{}:scaled", "--to", "python", "--force"], "-o", "out.py"),
    "fx": (["convert", "{}:scaled", "--to", "fx", "--force"], "-o", "out.pt"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_files_stay_as_they_are(writer, program, tmp_path, capsys, monkeypatch):
    words, option, name = WRITERS[writer]
    folder = tmp_path / "written"
    folder.mkdir()
    target = folder / name
    command = [word.format(program) for word in words] + [option, str(target)]
    assert cli.main(command) == 0 and target.stat().st_size
    target.write_text("old")
    capsys.readouterr()
    monkeypatch.setattr(os, "fsync", _stop)  # the file is written, and not yet in its place
    assert cli.main(command) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert target.read_text() == "old" and list(folder.iterdir()) == [target]


@pytest.mark.parametrize("words", [["show", "{}"], ["show", "{}:scaled"], ["dis", "{}:scaled"], ["doctor"], ["passes"]])
def test_every_command_stops(words, program, capsys, monkeypatch):
    command = cli.COMMANDS[words[0]]
    monkeypatch.setitem(cli.COMMANDS, words[0], type(command)(**vars(command) | {"run": _stop}))
    assert cli.main([word.format(program) for word in words]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_no_pager_opens_on_half_a_text(program, capsys, monkeypatch):
    def some(options):
        print("half")
        raise KeyboardInterrupt

    command = cli.COMMANDS["show"]
    monkeypatch.setitem(cli.COMMANDS, "show", type(command)(**vars(command) | {"run": some}))
    assert command.paged
    assert cli.main(["show", f"{program}:scaled"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
