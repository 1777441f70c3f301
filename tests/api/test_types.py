"""What type checkers make of programs that use jitlite."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jitlite

PROGRAM = """
import torch
from torch import Tensor, nn

import jitlite


@jitlite.script
def scaled(x: Tensor, factor: float = 2.0) -> Tensor:
    return x * factor


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def encode(self, x: Tensor) -> int:
        return self.width

    def forward(self, x: Tensor) -> Tensor:
        return x


@jitlite.script
class Pair:
    def __init__(self, first: int) -> None:
        self.first = first


def takes_module(net: nn.Module) -> None:
    pass


net = jitlite.script(Net(3))
takes_module(net)
net.save("net.pt")
jitlite.save(net, "net.pt")
reveal_type(scaled(torch.ones(1)))  # Tensor
reveal_type(scaled.graph)  # Graph
reveal_type(net.encode(torch.ones(1)))  # Any
reveal_type(net.graph)  # Any
reveal_type(Pair(1).first)  # int
reveal_type(jitlite.script([1, 2])[0])  # int
reveal_type(jitlite.script({"a": 1.0})["a"])  # float
reveal_type(jitlite.script(scaled)(torch.ones(1)))  # Tensor
reveal_type(net(torch.ones(1)))  # Tensor
reveal_type(net.forward(torch.ones(1)))  # Tensor
reveal_type(jitlite.script(nn.Linear(2, 2))(torch.ones(2)))  # Tensor
fast = jitlite.optimize(net, (torch.ones(1),))
reveal_type(fast)  # OptimizedModule
quick = jitlite.optimize(scaled, torch.ones(1))
reveal_type(quick(torch.ones(1)))  # Tensor
reveal_type(jitlite.compare(quick, torch.ones(1)))  # Comparison
reveal_type(jitlite.load("net.pt"))  # ScriptModule
reveal_type(jitlite.trace(scaled, torch.ones(1))(torch.ones(1)))  # Tensor
reveal_type(jitlite.trace(Net(3), torch.ones(1))(torch.ones(1)))  # Tensor
reveal_type(jitlite.fork(scaled, torch.ones(1)))  # Future
reveal_type(jitlite.wait(jitlite.fork(scaled, torch.ones(1))))  # Tensor
net("text")  # error
net(torch.ones(1), 2)  # error
quick("text")  # error
jitlite.fork(scaled, "text")  # error
jitlite.load(3)  # error
jitlite.save(3, "net.pt")  # error
jitlite.optimize(3, ())  # error
jitlite.compare(net)  # error
jitlite.to_onnx(3, ())  # error
jitlite.to_stablehlo(3, ())  # error
jitlite.bisect(3)  # error
scaled("text")  # error
scaled(torch.ones(1), 2.0, 3)  # error
scaled(torch.ones(1), factr=1.0)  # error
Pair("text")  # error
number: str = scaled(torch.ones(1))  # error

"""
ROOT = Path(jitlite.__file__).parent.parent


def lines_with(mark: str) -> dict[int, str]:
    """The lines of the program that end in a mark, and what stands after it."""
    found = {}
    for number, line in enumerate(PROGRAM.splitlines(), 1):
        code, _, comment = line.partition("  # ")
        if (mark in code) if mark != "error" else comment.startswith("error"):
            found[number] = comment
    return found


def told(checker: list[str], folder: Path, pattern: str) -> dict[int, str]:
    """What a type checker says of each line."""
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*checker, str(folder / "program.py")], capture_output=True, text=True, timeout=900, cwd=ROOT, env=environment
    )
    found = re.findall(pattern, done.stdout)
    assert found, done.stdout + done.stderr
    return {int(line): text for line, text in found}


def check(said: dict[int, str]) -> None:
    revealed = lines_with("reveal_type")
    for line, name in revealed.items():
        assert re.search(rf"\b{name}\b", said[line]), said[line]
    assert set(said) - set(revealed) == set(lines_with("error")), said


@pytest.mark.slow
def test_mypy(tmp_path):
    pytest.importorskip("mypy")
    # with the settings of `make lint`, and so with what it keeps of torch and jitlite
    check(told([sys.executable, "-m", "mypy", "--no-pretty"], tmp_path, r"program\.py:(\d+): (?:error|note): (.*)"))


@pytest.mark.slow
def test_pyright(tmp_path):
    if shutil.which("pyright") is None:
        pytest.skip("pyright is not installed")
    check(told(["pyright", "--pythonpath", sys.executable], tmp_path, r"program\.py:(\d+):\d+ - \w+: (.*)"))
