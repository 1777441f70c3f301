"""The command: what it prints, where, and its exit status."""

from __future__ import annotations

import json
import re

import pytest

from jitlite import cli
from jitlite.cli.functions import STAGES
from jitlite.kernels.torch_abi import torch_abi
from jitlite.native.entry import is_ready

PROGRAM = """
import torch
from torch import Tensor


def scaled(x: Tensor, factor: float, times: int = 2) -> Tensor:
    for _ in range(times):
        x = x * factor
    return x


def greet(name: str, n: int) -> str:
    return ", ".join(["hello " + name] * n)


def fails(n: int) -> int:
    return 10 // n


def wrong(x: Tensor) -> Tensor:
    return torch.reluu(x)


def random(n: int) -> Tensor:
    return torch.rand(n)


number = 3
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def jitlite(capsys):
    """Run the command: (exit status, output, error output)."""

    def run(*words):
        try:
            status = cli.main(list(words))
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.mark.parametrize("stage", STAGES)
def test_show_prints_each_stage(jitlite, program, stage):
    status, out, _ = jitlite("show", f"{program}:scaled", "--stage", stage)
    assert status == 0
    assert out.strip()


def test_show_regions(jitlite, program):
    status, out, _ = jitlite("show", f"{program}:scaled", "--stage", "regions")
    assert status == 0 and 'prim::Region[kind="tensors"]' in out


@pytest.mark.skipif(not is_ready() or torch_abi() is None, reason="no kernels here")
def test_show_gradients(jitlite, program):
    status, out, _ = jitlite("show", f"{program}:scaled", "--stage", "gradient")
    assert status == 0 and "# backward, gradients of %" in out
    status, out, _ = jitlite("show", f"{program}:scaled", "--stage", "gradient", "--json")
    assert "# forward from" in json.loads(out)["stages"]["gradient"]


@pytest.mark.parametrize(("stage", "said"), [("kernels", "kernel tensors:"), ("llvm", "define"), ("asm", "ret")])
def test_show_kernels(jitlite, program, stage, said):
    example = ["--example", "ones(2, 3)", "--example", "0.5", "--example", "times=4"]
    status, out, _ = jitlite("show", f"{program}:scaled", "--stage", stage, *example)
    assert status == 0 and said in out and "f32[*, *]" in out.splitlines()[0]
    status, out, _ = jitlite("show", f"{program}:scaled", "--stage", stage, *example, "--json")
    assert said in json.loads(out)["stages"][stage]


def test_show_kernels_says_why_there_are_none(jitlite, program):
    status, out, err = jitlite("show", f"{program}:greet", "--stage", "kernels", "--example", "x", "--example", "2")
    assert status == 1 and not out and err.startswith("no kernels: ")


def test_an_example_is_a_value_and_no_code(jitlite, program):
    status, _, err = jitlite("show", f"{program}:scaled", "--stage", "asm", "--example", "__import__('os').getcwd()")
    assert status == 2 and "cannot be called here" in err


def test_show_graph(jitlite, program):
    _, out, _ = jitlite("show", f"{program}:scaled")
    assert out.startswith("graph(%x")
    assert "prim::Loop" in out
    assert "program.py:7:" in out


def test_show_diff_is_between_stages(jitlite, program):
    status, out, _ = jitlite("show", f"{program}:scaled", "--diff")
    assert status == 0
    assert "+++ ssa" in out
    assert re.search(r"^-.*prim::Store", out, re.M)


def test_show_json_and_dot(jitlite, program):
    _, out, _ = jitlite("show", f"{program}:scaled", "--stage", "all", "--json")
    stages = json.loads(out)["stages"]
    assert list(stages)[0] == "tree"
    assert list(stages)[-2:] == ["bytecode", "python"]
    _, out, _ = jitlite("show", f"{program}:scaled", "--dot")
    assert out.startswith("digraph")


def test_run(jitlite, program):
    assert jitlite("run", f"{program}:scaled", "ones(2)", "3.0")[:2] == (0, "tensor([9., 9.])\n")
    assert jitlite("run", f"{program}:scaled", "tensor([1.5])", "times=1", "factor=2.0")[:2] == (0, "tensor([3.])\n")


def test_run_takes_strings_without_quotes(jitlite, program):
    assert jitlite("run", f"{program}:greet", "Ann", "2")[1] == "'hello Ann, hello Ann'\n"
    assert jitlite("run", f"{program}:greet", "'A'", "1")[1] == "'hello A'\n"


def test_run_check_compares_with_eager(jitlite, program):
    status, _, err = jitlite("run", f"{program}:random", "3", "--check")
    assert status == 0
    assert "the same" in err


def test_run_json(jitlite, program):
    status, out, _ = jitlite("run", f"{program}:greet", "A", "1", "--json")
    assert (status, json.loads(out)["result"]) == (0, "'hello A'")


def test_a_program_that_raises_exits_1_without_a_python_traceback(jitlite, program):
    status, out, err = jitlite("run", f"{program}:fails", "0")
    assert (status, out) == (1, "")
    assert err.startswith("ZeroDivisionError")
    assert "return 10 // n" in err
    assert "site-packages" not in err and "vm.py" not in err
    assert len(err.splitlines()) <= 15


def test_a_program_that_does_not_compile_exits_1_and_names_the_line(jitlite, program):
    status, _, err = jitlite("show", f"{program}:wrong")
    assert status == 1
    assert "program.py:21:" in err
    assert "relu" in err
    status, out, _ = jitlite("show", f"{program}:wrong", "--json")
    assert json.loads(out)["error"]["location"].startswith(program + ":21:")


@pytest.mark.parametrize(
    "words, message",
    [
        (["show", "nowhere.py:f"], "no such file"),
        (["show", "{}:scalled"], "scaled"),
        (["show", "{}"], "program.py:scaled, "),
        (["show", "program"], "expected FILE:FN"),
        (["show", "{}:number"], "is no function and no module"),
        (["run", "{}:greet", "A", "__import__('os')"], "cannot be called"),
        (["opt", "{}:scaled", "-p", "inlin"], "inline"),
        (["show", "{}:scaled", "--stage", "grph"], "no such choice: 'grph'; did you mean 'graph'?"),
        (["show", "{}:scaled", "--stage", "kernels"], "--stage kernels needs an ARG for each argument"),
        (["show", "{}:scaled", "--example", "1"], "arguments are for --stage regions, kernels, llvm, asm"),
        (["show", "{}:scaled", "--full"], "--full goes with --stage all"),
        (["shwo", "{}:scaled"], "did you mean 'show'?"),
        (["explain", "J9999"], "no error has the code J9999"),
        ([], "COMMAND"),
    ],
)
def test_wrong_usage_exits_2(jitlite, program, words, message):
    status, _, err = jitlite(*(word.format(program) for word in words))
    assert status == 2
    assert message in err


def test_opt_on_graph_text(jitlite, tmp_path):
    path = tmp_path / "g.ir"
    path.write_text("graph(%x : Tensor):\n  %y : int[] = prim::ListConstruct()\n  return (%x)\n")
    status, out, err = jitlite("opt", str(path), "-p", "dce", "--time")
    assert (status, out.strip()) == (0, "graph(%x : Tensor):\n  return (%x)")
    assert "dce" in err and "yes" in err
    _, out, _ = jitlite("opt", str(path), "-p", "dce,cse", "--print-changed")
    assert "-  %y : int[] = prim::ListConstruct()" in out
    _, out, _ = jitlite("opt", str(path), "-p", "dce,cse", "--json")
    assert [p["changed"] for p in json.loads(out)["passes"]] == [True, False]


def test_opt_on_a_function_leaves_others_alone(jitlite, program):
    assert jitlite("opt", f"{program}:scaled", "-p", "inline,cse,dce")[0] == 0


def test_dis(jitlite, program):
    status, out, _ = jitlite("dis", f"{program}:scaled")
    assert status == 0
    assert "LOOP" in out and "RET" in out


def test_doctor(jitlite):
    status, out, _ = jitlite("doctor", "--json")
    report = json.loads(out)
    assert status == 0, report
    assert set(report["checks"].values()) == {""}
    assert report["verdict"] in ("works", "untested", "part off")
    assert {found["state"] for found in report["internals"].values()} <= {"found", "replaced"}


def test_demo(jitlite):
    status, out, _ = jitlite("demo")
    assert status == 0
    assert "she had your dark suit" in out
    headings = [line.split()[1] for line in out.splitlines() if line.startswith("── ")]
    assert headings[:4] == ["source", "tree", "emitted", "steps"], "what is compiled comes first"
    assert "def collapse(best: Tensor" in out.partition("── tree")[0]
    assert all(about in out for name, about in STAGES.items() if f"── {name} " in out)
    assert len(out.splitlines()) <= 100, "two screens"
    assert "jitlite show jitlite.cli.sample:collapse --stage all" in out


def test_no_color(jitlite, program, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\033[" in jitlite("show", f"{program}:scaled", "--stage", "all")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033[" not in jitlite("show", f"{program}:scaled", "--stage", "all")[1]


def test_check_compares_a_decorated_function_too(tmp_path, capsys):
    path = tmp_path / "decorated.py"
    path.write_text("import jitlite\n\n@jitlite.script\ndef twice(n: int) -> int:\n    return 2 * n\n")
    assert cli.main(["run", f"{path}:twice", "4", "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"result": "8", "checked": True}


@pytest.mark.parametrize(
    "node",
    [
        "%y : Tensor = aten::reluu(%x)",  # no such operator, which the text does not tell
        "%y : Tensor = aten::relu(%z)",
        "%y : int = aten::relu(%x)",
        "%y : Tensor = aten::view(%x, %n)",  # raises when it runs
    ],
)
def test_errors_of_graph_text_name_the_file_and_the_line(node, tmp_path, capsys):
    path = tmp_path / "g.ir"
    path.write_text(f"graph(%x : Tensor, %n : int[]):\n  {node}\n  return (%y)\n")
    assert cli.main(["run", str(path), "torch.ones(2)", "[3]"]) == 1
    err = capsys.readouterr().err
    assert f'"{path}", line 2' in err and "<string>" not in err


def test_a_graph_prints_no_places_of_its_own_text(tmp_path, capsys):
    path = tmp_path / "g.ir"
    path.write_text(text := "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n")
    assert cli.main(["opt", str(path), "-p", "cse"]) == 0
    assert text in capsys.readouterr().out


def test_graph_text_that_is_not_well_formed_is_no_traceback(tmp_path, capsys):
    path = tmp_path / "bad.ir"
    path.write_text("graph(%x : Tensor):\n  %y : Tensor = aten::add(%x)\n  return (%y)\n")
    assert cli.main(["opt", str(path), "-p", "cse"]) == 1
    assert "no overload of aten::add" in capsys.readouterr().err
