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
import linecache
import re
import signal
import sys
import threading
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
from jitlite.interpreter.debugging.scopes import CallScope
from jitlite.interpreter.watching import DebuggerQuit

FILES = sorted((Path(__file__).parents[1] / "golden" / "debugger").glob("*.txt"))
PROMPT = "(jitlite) "


class Typist(io.StringIO):
    """A terminal: what is typed is seen."""

    def isatty(self) -> bool:
        return True

    def readline(self, *size: int) -> str:
        line = super().readline()
        print(line, end="")
        return line


@dataclass
class Case:
    """A program, a call of it and what is typed and shown."""

    title: str
    program: str
    call: str
    session: str

    @property
    def commands(self) -> list[str]:
        found = (re.match(r"\((?:jitlite|commands)\) (.*)", line) for line in self.session.splitlines())
        return [line.group(1) for line in found if line]

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
    linecache.clearcache()
    spec = importlib.util.spec_from_file_location("model", folder / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stdin, stdout = Typist("".join(f"{command}\n" for command in case.commands)), io.StringIO()
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


PAGE = Path(__file__).parents[2] / "docs" / "debugging.md"


def test_the_page_tells_of_every_command():
    told = PAGE.read_text()
    short = set("a b bt c cl cont d exit h l ll n rv p q r s si u unt w".split())
    for name in set(Prompt(Control()).get_names_of_commands()) - short:
        assert f"`{name}" in told, name


def program(x: torch.Tensor, n: int):
    for i in range(n):
        x = x + i
    return x


def test_a_program_gives_the_same_in_the_debugger(capsys):
    assert torch.equal(jitlite.debug_with(["continue"], program, torch.ones(2), n=3), torch.full((2,), 4.0))
    assert jitlite.debug_with([], program, torch.ones(2), 3) is None
    capsys.readouterr()


def test_who_stops_nothing_sees_no_debugger(monkeypatch, capsys):
    """PYTHONBREAKPOINT=0 has Python pass by its own breakpoints, and jitlite those of scripts."""

    @jitlite.script
    def stops(x: torch.Tensor):
        breakpoint()
        return x + 1

    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    assert torch.equal(stops(torch.ones(2)), torch.full((2,), 2.0))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("switches", [{}, {"tier": "stack"}, {"executor": "off"}, {"executor": "legacy"}], ids=str)
def test_a_breakpoint_stops_whatever_runs_functions(switches, monkeypatch, capsys):
    @jitlite.script
    def stops(x: torch.Tensor, n: int):
        for i in range(n):
            x = x + i
        breakpoint()
        return x

    with options.override(**switches):
        for _ in range(3):
            monkeypatch.setattr("sys.stdin", io.StringIO("p n\nc\n"))
            assert torch.equal(stops(torch.ones(2), 2), torch.full((2,), 2.0))
    assert capsys.readouterr().out.count("BREAKPOINT") == 3


def test_leaving_the_debugger_ends_the_program_and_no_except_holds_it(monkeypatch, capsys):
    @jitlite.script
    def stops(x: torch.Tensor):
        try:
            breakpoint()
        except BaseException:
            x = x + 1
        return x

    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    with pytest.raises(DebuggerQuit):
        stops(torch.ones(2))
    capsys.readouterr()


def test_an_archive_cannot_hold_a_breakpoint():
    @jitlite.script
    def stops(x: torch.Tensor):
        breakpoint()
        return x

    with pytest.raises(jitlite.NotSupportedError, match="breakpoint"):
        stops.save_to_buffer()
    assert "breakpoint()" in stops.to_python().source


def test_breakpoint_takes_no_arguments():
    def stops(x: torch.Tensor):
        breakpoint(x)
        return x

    with pytest.raises(jitlite.CompileError, match=r"takes no arguments(.|\n)*breakpoint\(\)"):
        jitlite.script(stops)


def test_post_mortem_needs_calls_of_scripts(monkeypatch):
    monkeypatch.delattr(sys, "last_value", raising=False)
    with pytest.raises(Error, match="no exception"):
        jitlite.post_mortem()
    with pytest.raises(Error, match="no script function"):
        jitlite.post_mortem(ValueError("without a traceback"))


def test_post_mortem_of_the_stack_machine(capsys):
    def fails(x: torch.Tensor):
        y = x + 1
        return y.view(7)

    with options.override(executor="debug"):
        try:
            jitlite.script(fails)(torch.ones(2))
        except RuntimeError:
            jitlite.post_mortem(commands=["p y"])
    assert "tensor([2., 2.])" in capsys.readouterr().out


def test_names_are_completed():
    scope = CallScope("f", None, {"total": torch.ones(2), "table": {}})
    assert expression_names("t", scope) == ["table", "torch", "total"]
    assert "total.sum" in expression_names("total.su", scope)
    assert expression_names("nothing.x", scope) == []
    assert Prompt(Control()).completenames("unt") == ["unt", "until"]


def test_what_archives_name_is_no_command_of_a_terminal(capsys):
    Prompt(Control(), io.StringIO(), sys.stdout).message("a\x1b[2Jb")
    assert capsys.readouterr().out == "a\\x1b[2Jb\n"


@jitlite.ignore
def interrupted(n: int) -> int:
    if n == 3:
        signal.raise_signal(signal.SIGINT)
    return n


def counts(n: int) -> int:
    total = 0
    for i in range(n):
        total += interrupted(i)
    return total


def test_ctrl_c_stops_the_program_at_the_next_line(capsys):
    assert jitlite.debug_with(["continue", "print i", "print total", "continue"], counts, 10) == 45
    shown = capsys.readouterr().out
    assert shown.count("> ") == 2  # at the first line, and after the interrupt
    assert "(jitlite) print i\n3\n" in shown
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        jitlite.script(counts)(10)


def test_ctrl_c_at_the_prompt_leaves_the_debugger():
    with pytest.raises(KeyboardInterrupt):
        jitlite.debug_with(["__import__('signal').raise_signal(2)"], at_the_prompt, 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def at_the_prompt(n: int) -> int:
    return n + 1


def test_other_threads_and_handlers_keep_their_signals():
    found = []

    def run() -> None:
        found.append(jitlite.debug_with(["continue"], at_the_prompt, 1))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [2]
    known = signal.signal(signal.SIGINT, lambda *_: found.append("mine"))
    try:
        assert jitlite.debug_with(["continue"], counts, 5) == 10
    finally:
        signal.signal(signal.SIGINT, known)
    assert found == [2, "mine"]
