"""What the command says where a file of the user's cannot be read, and which parts of modules can be named."""

from __future__ import annotations

import pytest
import torch

import jitlite
from jitlite import cli
from jitlite.base.source import did_you_mean
from jitlite.cli.commands import COMMANDS

NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.layer = torch.nn.Linear(size, 3)

    def forward(self, x):
        return self.layer(x)
"""


@pytest.fixture
def run(capsys):
    """Run the command: (exit status, output, error output)."""

    def run(*words):
        try:
            status = cli.main([str(word) for word in words])
        except SystemExit as stop:
            status = stop.code
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("text", "kind", "line", "shown"),
    [
        ("x = 1\ndef f(x)\n    return x\n", "SyntaxError", 2, "def f(x)"),
        ("import no_such_module_here\n", "ModuleNotFoundError", 1, "import no_such_module_here"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", 2, "sys.exit(3)"),
        ("def g():\n    return 1 // 0\ng()\n", "ZeroDivisionError", 2, "return 1 // 0"),
        ("import torch\nnet = torch.nn.Linear('a', 2)\n", "TypeError", 2, "net = torch.nn.Linear('a', 2)"),
        ("if True:\n\tx = 1\n        y = 2\n", "TabError", 3, "y = 2"),
    ],
)
def test_a_file_that_cannot_be_imported_is_shown_with_its_line(run, tmp_path, text, kind, line, shown):
    path = tmp_path / "broken_file.py"
    path.write_text(text)
    status, out, err = run("show", f"{path}:f")
    assert status == 1 and not out
    assert err.startswith(kind)
    assert f'File "{path}", line {line}' in err and shown in err


def test_a_constructor_that_raises_is_shown_with_its_line(run, tmp_path):
    path = tmp_path / "net_file.py"
    path.write_text(NET)
    status, _, err = run("show", f"{path}:Net", "--init", "'a'")
    assert status == 1
    assert f'File "{path}", line 8, in __init__' in err


def test_parts_of_a_class_are_those_of_an_object_made_of_it(run, tmp_path):
    path = tmp_path / "net_file.py"
    path.write_text(NET)
    assert run("run", f"{path}:Net.layer", "--init", "2", "zeros(1, 2)")[0] == 0
    assert run("show", f"{path}:Net.layer.forward", "--init", "2")[0] == 0
    for words, said in (
        (["Net.layer"], "missing a required argument: 'size'; give --init ARG"),
        (["Net.lay", "--init", "2"], "has no 'lay'; did you mean 'layer'?"),
        (["Net.fowrard", "--init", "2"], "has no 'fowrard'; did you mean 'forward'?"),
        (["Net.fowrard"], "has no 'fowrard'; did you mean 'forward'?"),
    ):
        status, _, err = run("show", f"{path}:{words[0]}", *words[1:])
        assert status == 2 and said in err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_what_may_be_left_out_is_not_called_required(run, name):
    """Without its words, a command either runs or names those that it needs."""
    parameters = COMMANDS[name].parameters
    needed = [p for p in parameters if not p.names[0].startswith("-") and p.settings.get("nargs") not in ("?", "*")]
    if not needed:
        return
    status, _, err = run(name)
    assert status == 2
    missing = err.rpartition("required: ")[2]
    assert needed[0].settings.get("metavar", needed[0].names[0]) in missing and "ARG" not in missing.split(", ")


def test_without_a_command_there_is_the_help(run):
    status, out, err = run()
    assert status == 2 and not out
    assert "Exit status" in err and "show" in err


@pytest.mark.parametrize(
    ("name", "said"), [("dec", "'dce'"), ("cse", None), ("sce", "'cse'"), ("ced", None), ("xyz", None)]
)
def test_two_letters_in_the_other_order_are_a_likely_slip(name, said):
    hint = did_you_mean(name, ["dce", "cse", "inline"])
    assert hint is None if said is None else said in hint


def test_a_file_that_is_no_source_and_a_folder_are_named(run, tmp_path):
    path = tmp_path / "binary_file.py"
    path.write_bytes(b"\x7fELF\x00\x01")
    for target, said in ((f"{path}:f", f"{path} is no Python source"), (f"{tmp_path}:f", f"'{tmp_path}' is a folder")):
        status, out, err = run("show", target)
        assert status == 2 and not out
        assert err.startswith(f"jitlite: {said}") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "missing value for argument 'x'"),
        (("ones(2)", "2", "3"), "expected at most 2 argument(s) but received 3"),
        (("ones(2)", "ones(2)"), "value of type 'int' for argument 'n'"),
        (("ones(2)", "m=3"), "m"),
    ],
)
@pytest.mark.parametrize(
    "command", [("run",), ("run", "--check"), ("debug",), ("profile",), ("show", "--stage", "asm")]
)
def test_arguments_that_do_not_fit_are_refused_in_one_line(run, tmp_path, command, words, said):
    path = tmp_path / "two_arguments.py"
    path.write_text("import torch\n\n\ndef f(x, n: int):\n    print('ran')\n    return x * n\n")
    status, out, err = run(*command, f"{path}:f", *words)
    assert status == 2 and "ran" not in out
    assert said in err and err.startswith("jitlite: ") and err.count("\n") == 1


def test_arguments_that_do_not_fit_an_archive_are_refused_in_one_line(run, tmp_path):
    path = tmp_path / "linear.pt"
    jitlite.script(torch.nn.Linear(2, 3)).save(path)
    for words in ((), ("3",), ("ones(1, 2)", "3")):
        status, out, err = run("run", path, *words)
        assert status == 2 and not out
        assert err.startswith("jitlite: forward() ") and err.count("\n") == 1
