"""Every command takes functions, methods, modules, classes of modules, archives and the text of graphs."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import jitlite
from jitlite import cli
from jitlite.base import options as switches
from jitlite.base.errors.catalog import all_kinds
from jitlite.cli import terminal
from jitlite.cli.commands import COMMANDS
from jitlite.cli.functions import STAGES
from jitlite.cli.programs import WHAT
from jitlite.passes import registry

PROGRAM = """
import jitlite
import torch
from torch import Tensor, nn


def plain(x: Tensor) -> Tensor:
    return torch.relu(x) + 1


class Net(nn.Module):
    def __init__(self, size: int = 2):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Linear(size, 3), nn.ReLU())

    @jitlite.export
    def encode(self, x: Tensor, name: str = "a") -> Tensor:
        return x + len(name)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer1(x)

    def unused(self, x: Tensor) -> Tensor:
        return x


class Sized(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return x * self.size


net = Net()
parts = nn.ModuleList([nn.ReLU(), nn.ReLU()])
number = 3


def negated(x: float) -> float:
    return -x
"""
ROOT = Path(jitlite.__file__).parents[1]
GRAPH = "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n"
PROGRAMS = {
    "function": (["{py}:plain"], "aten::relu"),
    "module": (["{py}:net"], "layer1"),
    "submodule": (["{py}:net.layer1"], "Linear"),
    "part of a container": (["{py}:net.layer1.0"], "weight"),
    "method": (["{py}:net.encode"], "aten::add"),
    "named method": (["{py}:net", "--method", "encode"], "aten::add"),
    "class": (["{py}:Net", "--init", "5"], "layer1"),
    "method of a class": (["{py}:Net.encode"], "aten::add"),
    "archive": (["{pt}"], "layer1"),
    "method behind an archive": (["{pt}:encode"], "aten::add"),
    "method of an archive": (["{pt}", "--method", "encode"], "aten::add"),
    "graph": (["{txt}"], "aten::relu"),
}
LOOKS = {
    "show": ["--stage", "graph"], "list": [], "dis": [], "opt": ["-p", "dce"], "explain": ["ones(2, 2)"],
    "run": ["ones(2, 2)"],
    "bisect": ["ones(2, 2)"], "report": ["ones(2, 2)", "-o", "{folder}/report.html"],
    "profile": ["ones(2, 2)"], "debug": ["ones(2, 2)", "-c", "continue"],
    "convert": ["--to", "python", "-o", "{folder}/converted.py", "--force"],
}  # fmt: skip
"""The commands that take a program, with what they need besides."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    (folder / "model.py").write_text(PROGRAM)
    (folder / "graph.txt").write_text(GRAPH)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.delitem(sys.modules, "model", raising=False)
        model = importlib.import_module("model")
        jitlite.script(model.net).save(str(folder / "net.pt"))
        patch.setitem(sys.modules, "model", model)  # and taken away with the rest
    return {"py": folder / "model.py", "pt": folder / "net.pt", "txt": folder / "graph.txt", "folder": folder}


@pytest.fixture
def command(capsys, files):
    def run(*words):
        try:
            status = cli.main([word.format(**files) for word in words])
        except SystemExit as stop:
            status = stop.code
        return status, *capsys.readouterr()

    return run


def test_every_command_that_takes_a_program_is_tried():
    taking = {name for name, c in COMMANDS.items() if any(WHAT in str(p.settings.get("metavar")) for p in c.parameters)}
    assert taking == set(LOOKS)
    assert {name for name in taking if COMMANDS[name].takes("args")} == taking - {"dis", "list", "opt"}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", LOOKS)
def test_a_command_takes_a_program(command, name, program):
    words, said = PROGRAMS[program]
    options = LOOKS[name]
    if "--init" in words and COMMANDS[name].takes("args"):
        options = [option.replace("ones(2, 2)", "ones(2, 5)") for option in options]
    status, out, err = command(name, *words, *options)
    assert status == 0, err
    assert out.strip()
    if name == "show":
        assert said in out


def listed(command, *words):
    status, out, err = command("list", *words, "--json")
    assert status == 0, err
    return {row["program"]: (row["kind"], row["place"]) for row in json.loads(out)}


def test_what_there_is_is_listed_as_other_commands_call_it(command, files):
    py, pt = str(files["py"]), str(files["pt"])
    assert listed(command, "{py}") == {
        f"{py}:plain": ("function", "line 7"), f"{py}:Net": ("class", "line 11"), f"{py}:Sized": ("class", "line 27"),
        f"{py}:net": ("module", "line 11"), f"{py}:parts": ("module", listed(command, "{py}")[f"{py}:parts"][1]),
        f"{py}:negated": ("function", "line 41"),
    }  # fmt: skip
    of_module = listed(command, "{py}:net")
    assert [*of_module] == [f"{py}:net.encode", f"{py}:net.forward", f"{py}:net.layer1"]
    assert of_module[f"{py}:net.encode"][1].endswith("model.py:17")
    for name in of_module:
        assert command("show", name)[0] == 0
    assert [*listed(command, "{pt}")] == [f"{pt}:encode", f"{pt}:forward", "layer1"]
    assert command("show", f"{pt}:encode", "--stage", "graph")[0] == 0
    assert listed(command, "{txt}") == {str(files["txt"]): ("graph", "")}


@pytest.mark.parametrize(("words", "said"), [
    (["{py}:net.unused"], "mark it with @jitlite.export"),
    (["{py}:net.cuda"], "Net has no compiled method 'cuda'; there are: encode, forward"),
    (["{py}:net.nothing_like_it"], "it has: layer1, encode, forward, unused"),
    (["{py}:parts"], "ModuleList has no compiled method 'forward'; it is made of: {py}:parts.0, {py}:parts.1"),
    (["{py}"], "It has: {py}:plain, {py}:Net, {py}:Sized, {py}:net, {py}:parts, {py}:negated"),
    (["{py}:nothing_like_it"], "it has: plain, Net, Sized, net, parts, negated"),
    (["{folder}"], "is a folder; name a file in it"),
    (["{pt}:encod"], "did you mean 'encode'?"),
    (["{pt}:encode", "--method", "forward"], "names the method 'encode', and --method 'forward'"),
    (["{py}:Sized"], "Sized(size: int): missing a required argument: 'size'; give --init ARG"),
    (["{py}:Sized", "--init", "1", "--init", "2"], "Sized(size: int): too many positional arguments"),
    (["{py}:net.laier1"], "did you mean 'layer1'?"),
    (["{py}:net", "--method", "encod"], "did you mean 'encode'?"),
    (["{py}:plain", "--method", "encode"], "--method is for modules"),
    (["{py}:net", "--init", "1"], "--init is for classes"),
    (["{py}:number"], "is no function and no module"),
])  # fmt: skip
def test_what_is_no_program_is_refused_with_a_hint(command, files, words, said):
    status, _, err = command("dis", *words)
    assert status == 2 and said.format(**files) in err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_option_that_a_command_has_not_is_refused_with_what_was_perhaps_meant(command, name):
    needed = {"opt": ["-p", "dce"], "convert": ["--to", "python"], "completion": ["bash"], "migrate": ["x.py"]}
    words = ["{py}:plain"] if name in LOOKS else []
    status, _, err = command(name, *words, *needed.get(name, []), "--jsn")
    assert status == 2 and f"{name} has no option --jsn; did you mean '--json'?" in err
    status, _, err = command(name, *words, *needed.get(name, []), "-Z")
    assert status == 2 and f"{name} has no option -Z; " in err


def test_negative_numbers_are_arguments_and_no_options(command):
    for word in ("-1", "-inf", "-0.5"):
        status, out, err = command("run", "{py}:negated", word)
        assert status == 0 and float(out) == -float(word), err


@pytest.mark.parametrize("contents", [b"", b"hello there", b"PK\x03\x04 and no more", b"\x80\x02}."])
@pytest.mark.parametrize("name", LOOKS)
def test_a_file_that_is_no_archive_is_named(command, files, name, contents):
    path = files["folder"] / "broken.pt"
    path.write_bytes(contents)
    status, _, err = command(name, str(path), *LOOKS[name])
    assert status == 1 and err.startswith(f"{path}: ")


@pytest.mark.parametrize("file", ["{folder}", "{folder}/nowhere/file"])
@pytest.mark.parametrize("words", [
    ["report", "{py}:plain", "-o"],
    ["convert", "{py}:plain", "--to", "python", "-o"],
    ["profile", "{py}:plain", "ones(2)", "--trace"],
    ["run", "{pt}", "ones(2, 2)", "--output"],
], ids=lambda words: words[0])  # fmt: skip
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(command, files, words, file):
    suffix = {"convert": ".py", "run": ".pt"}.get(words[0], "") if "nowhere" in file else ""
    status, out, err = command(*words, file + suffix)
    said = "it is a folder; name a file" if file == "{folder}" else "there is no folder "
    assert status == 2 and not out
    assert f"cannot write {file.format(**files)}{suffix}: {said}" in err


@pytest.mark.parametrize("name", ["opt", "bisect"])
@pytest.mark.parametrize("names", ["", " , "])
def test_passes_have_to_be_named(command, name, names):
    status, _, err = command(name, "{py}:plain", "-p", names)
    assert status == 2 and "-p names no pass; jitlite passes lists them" in err


def test_arguments_of_classes_have_names(command):
    status, out, err = command("run", "{py}:Sized", "--init", "size=4", "ones(1)")
    assert status == 0 and out == "tensor([4.])\n", err


def test_codes_that_begin_so_are_listed(command):
    status, out, _ = command("explain", "j01")
    kinds = [kind for kind in all_kinds() if kind.code.startswith("J01")]
    assert status == 0 and out == "".join(f"{kind.code}  {kind.title}\n" for kind in kinds)
    assert list(json.loads(command("explain", "J01", "--json")[1])) == [kind.code for kind in kinds]
    status, _, err = command("explain", "J87")
    assert status == 2 and "no error has the code J87" in err


def test_who_leaves_the_debugger_is_told_that_the_call_was_not_finished(command):
    status, out, _ = command("debug", "{py}:plain", "ones(2)", "-c", "quit")
    assert status == 0 and out.endswith("left the debugger; the call was not finished\n") and "None" not in out


def test_paths_of_the_demo_are_those_within_jitlite(command):
    assert "# jitlite/cli/sample.py:" in command("demo")[1] and str(ROOT) not in command("demo")[1]


def test_headings_are_the_names_of_stages(command):
    _, out, _ = command("show", "{py}:plain", "--stage", "all", "--full")
    headings = [line.split()[1] for line in out.splitlines() if line.startswith("── ")]
    assert headings == list(STAGES)
    assert all(f" {'─' * (74 - len(name))}\n{about}\n" in out for name, about in STAGES.items())
    _, short, _ = command("show", "{py}:plain", "--stage", "all")
    shown = [line.split()[1] for line in short.splitlines() if line.startswith("── ")]
    assert set(shown) < set(STAGES) and {"tree", "emitted", "graph", "bytecode", "python"} <= set(shown)


def test_paths_are_relative(command, files, monkeypatch):
    monkeypatch.chdir(files["folder"])
    for name in LOOKS.keys() - {"run", "debug", "convert", "report"}:
        status, out, _ = command(name, "model.py:plain", *LOOKS[name])
        assert status == 0 and str(files["folder"]) not in out
        assert "# model.py:8:" in out or name not in ("show", "opt")


def test_pages_of_errors(command):
    for kind in all_kinds()[:3]:
        status, out, _ = command("explain", kind.code.lower())
        assert status == 0 and kind.title in out and kind.wrong.strip() in out and kind.right.strip() in out
        page = json.loads(command("explain", kind.code, "--json")[1])
        assert page["code"] == kind.code and page["right"] == kind.right.strip()


def test_lists_of_passes_and_switches(command):
    status, out, _ = command("passes")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == registry.names()
    status, out, _ = command("options")
    assert status == 0 and all(variable in out for _, variable, _ in switches.describe())
    assert len(json.loads(command("options", "--json")[1])) == len(switches.describe())


def completed(script, *words):
    """What bash completes the last of the words to."""
    program = (
        f"{script}\nCOMP_WORDS=(jitlite {' '.join(words)})\nCOMP_CWORD={len(words)}\n_jitlite\necho ${{COMPREPLY[@]}}"
    )
    run = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_bash_completes(command):
    script = command("completion", "bash")[1]
    assert completed(script, "sh") == ["show"]
    assert completed(script, "show", "f.py:f", "--stage", "pyth") == ["python"]
    assert completed(script, "opt", "-p", "cs") == ["cse"]
    assert "--method" in completed(script, "run", "--m")
    for shell in ("zsh", "fish"):
        status, out, _ = command("completion", shell)
        assert status == 0 and all(name in out for name in COMMANDS)


def test_graphs_have_colors_on_a_terminal(command, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _, out, _ = command("show", "{py}:plain")
    assert "\033[36m%x.1\033[0m" in out and "\033[1maten::relu\033[0m" in out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in command("show", "{py}:plain")[1]


def test_a_long_text_goes_to_a_pager(monkeypatch, tmp_path):
    class Terminal(terminal.Collected):
        def __init__(self):
            super().__init__(sys.stdout)
            self._is_terminal = True

    shown = tmp_path / "shown"
    monkeypatch.setenv("PAGER", f"tee {shown}")
    monkeypatch.setattr(sys, "stdout", Terminal())
    terminal.show("short\n")
    assert sys.stdout.getvalue() == "short\n" and not shown.exists()
    terminal.show("line\n" * 500)
    assert shown.read_text() == "line\n" * 500


def test_long_work_is_announced_on_a_terminal(monkeypatch):
    class Terminal(terminal.Collected):
        def __init__(self):
            super().__init__(sys.stdout)
            self._is_terminal = True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(terminal, "_PATIENCE", 0.0)
    with terminal.working("writing report.html"):
        while "writing report.html ..." not in sys.stderr.getvalue():
            pass
    assert sys.stderr.getvalue().endswith("\r\033[K")


def test_variables_that_are_no_switches_are_named_once():
    program = "import jitlite\nfor _ in range(2):\n    jitlite.options.current()\n"
    environment = {**os.environ, "JITLITE_TEIR": "stack", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("JITLITE_TEIR is no switch of jitlite; did you mean JITLITE_TIER?") == 1
