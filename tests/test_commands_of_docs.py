"""The command lines of pages run, in the order in which they stand, with the files that the page shows."""

from __future__ import annotations

import importlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

import jitlite
from jitlite import cli

DOCS = Path(__file__).parent.parent / "docs"
PAGES = ("report.md", "profiling.md", "debugging.md")
_MODEL = re.compile(r"^```py\n(.*?)^```", re.M | re.S)
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
_SESSION = re.compile(r"^```\n(> model\.py.*?)^```", re.M | re.S)
_REMARK = re.compile(r"(?<=\S) {3,}.*$")


def commands_of(page):
    for block in _CONSOLE.findall((DOCS / page).read_text()):
        for line in block.splitlines():
            if line.startswith("jitlite "):
                yield page, shlex.split(_REMARK.sub("", line))[1:]


COMMANDS = [found for page in PAGES for found in commands_of(page)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the files of the page are; `make(page)` writes them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def make(page):
        Path("model.py").write_text(_MODEL.search((DOCS / page).read_text()).group(1))
        sys.modules.pop("model", None)
        model = importlib.import_module("model")
        jitlite.script(model.Net(4)).save("model.pt")
        Path("graph.txt").write_text("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n")

    yield make
    sys.modules.pop("model", None)


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[" ".join([page, *words]) for page, words in COMMANDS])
def test_a_command_of_a_page_runs(page, words, folder, monkeypatch, capsys):
    folder(page)
    monkeypatch.setattr(sys, "stdin", io.StringIO("continue\ncontinue\n"))
    assert cli.main(words) == 0, capsys.readouterr().err


def test_the_pages_have_commands():
    assert {page for page, _ in COMMANDS} == set(PAGES) and len(COMMANDS) > 12


def test_the_session_of_the_debugger_is_what_it_prints(folder, monkeypatch, capsys):
    folder("debugging.md")
    (session,) = _SESSION.findall((DOCS / "debugging.md").read_text())
    typed = re.findall(r"^\(jitlite\) (.*)$", session, re.M)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join([*typed, ""])))
    assert cli.main(["debug", "model.py:smooth", "ones(3)", "2"]) == 0
    assert capsys.readouterr().out == session
