"""The debugger, by transcripts that read like documentation, and what transcripts do not show.

A file `golden/debugger/<subject>.txt` holds cases:

    --- case: what the case shows
    the text of model.py
    --- call
    f(torch.ones(2), 3)
    --- session
    (jitlite) break 3
    Breakpoint 1: model.py:3

The commands of a session are what stands behind its prompts. `pytest --accept` writes what comes out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import jitlite
from jitlite import options
from jitlite.base.source import Error
from jitlite.interpreter.debugging.commands import Prompt
from jitlite.interpreter.debugging.completion import expression_names
from jitlite.interpreter.debugging.control import Control
from jitlite.interpreter.debugging.scopes import Scope
from jitlite.interpreter.watching import DebuggerQuit

FILES = sorted((Path(__file__).parents[1] / "golden" / "debugger").glob("*.txt"))
PROMPT = "(jitlite) "


@dataclass
class Case:
    """A program, a call of it and what is typed and shown."""

    title: str
    program: str
    call: str
    session: str

    @property
    def commands(self) -> list[str]:
        return [line.removeprefix(PROMPT) for line in self.session.splitlines() if line.startswith(PROMPT)]

    def __str__(self) -> str:
        return f"--- case: {self.title}\n{self.program}--- call\n{self.call}--- session\n{self.session}"


def read(path: Path) -> list[Case]:
    cases = []
    for text in re.split(r"^--- case: ", path.read_text(), flags=re.MULTILINE)[1:]:
        title, _, rest = text.partition("\n")
        program, rest = rest.split("--- call\n")
        call, session = rest.split("--- session\n")
        cases.append(Case(title, program, call, session.rstrip("\n") + "\n"))
    return cases


def run(case: Case, folder: Path) -> str:
    """What the session shows; `call` may use `debug_with`, or do something else that stops."""
    (folder / "model.py").write_text(case.program)
    spec = importlib.util.spec_from_file_location("model", folder / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stdin, stdout = io.StringIO("".join(f"{command}\n" for command in case.commands)), io.StringIO()
    names = vars(module) | {"torch": torch, "jitlite": jitlite, "commands": case.commands}
    torch.manual_seed(0)
    with contextlib.redirect_stdout(stdout), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        if case.call.startswith("f("):
            shown = eval(f"jitlite.debug_with(commands, f, {case.call.strip()[2:]}", names)
            print(f"=> {shown}")
        else:
            exec(case.call, names)
    return re.sub(r"[ \t]+$", "", stdout.getvalue(), flags=re.MULTILINE).replace(PROMPT.rstrip() + "\n", "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_sessions_are_as_the_golden_file_says(path, accept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    cases = read(path)
    shown = [run(case, tmp_path) for case in cases]
    if accept:
        text = "\n".join(str(Case(c.title, c.program, c.call, out)) for c, out in zip(cases, shown, strict=True))
        if text != path.read_text():
            path.write_text(text)
            pytest.fail(f"{path.name} was rewritten: look at it, then run without --accept")
    for case, out in zip(cases, shown, strict=True):
        assert out == case.session, case.title
