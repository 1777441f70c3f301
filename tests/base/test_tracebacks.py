"""What an uncaught error of the compiler prints: the user's frames and the message, in at most 25 lines."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import traceback

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.base import options
from jitlite.base.source import OWN_FILES, CompileError

LONGEST = 25


def helper(x: Tensor) -> Tensor:
    return x.transposed(0, 1)


def fails(x: Tensor) -> Tensor:
    y = x + 1
    z = y * 2
    w = z - 1
    return helper(w)


@jitlite.ignore
def left_to_python(x: Tensor) -> Tensor:
    return x


def cannot_be_saved(x: Tensor) -> Tensor:
    return left_to_python(x)


class Fails(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return fails(x)


def traced(x):
    return inner_of_traced(x)


def inner_of_traced(x):
    return fails_when_traced(x)


def fails_when_traced(x):
    raise CompileError("raised by the program")


class Scores:
    def score(self, x):
        return x


WAYS = {
    "function": lambda: jitlite.script(fails),
    "module": lambda: jitlite.script(Fails()),
    "text": lambda: jitlite.CompilationUnit("def f(x):\n  return y\n"),
    "more text": lambda: jitlite.CompilationUnit().define("def f(x):\n  return y\n"),
    "interface": lambda: jitlite.interface(Scores),
    "archive": lambda: jitlite.save(jitlite.script(cannot_be_saved), io.BytesIO()),
}


def raised_by(way):
    with pytest.raises(CompileError) as caught:
        way()
    return caught.value


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_one_frame_of_ours_is_left(way):
    error = raised_by(way)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(OWN_FILES)]
    assert len(frames) == 1
    shown = "".join(traceback.format_exception(type(error), error, error.__traceback__.tb_next)).rstrip().splitlines()
    assert len(shown) <= LONGEST, "\n".join(shown)


def test_a_switch_leaves_all_frames():
    with options.override(full_tracebacks=True):
        error = raised_by(WAYS["function"])
    assert len([f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(OWN_FILES)]) > 5


def test_frames_of_a_traced_function_stay():
    with pytest.raises(CompileError) as caught:
        jitlite.trace(traced, torch.ones(2))
    names = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["trace", "traced", "inner_of_traced", "fails_when_traced"]


def test_what_a_handler_of_the_user_deals_with_is_told():
    try:
        {}["missing"]
    except KeyError:
        error = raised_by(WAYS["function"])
    assert isinstance(error.__context__, KeyError) and not error.__suppress_context__


def test_a_program_in_a_shell(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import jitlite\n\ndef g(x):\n    return x.foo()\n\n@jitlite.script\ndef f(x):\n    y = x\n    return g(y)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment, check=False)
    lines = run.stderr.rstrip().splitlines()
    assert run.returncode == 1 and len(lines) <= LONGEST and lines[-1].startswith("more: jitlite explain J")
    assert sum("/jitlite/" in line for line in lines) == 1


def test_what_ipython_shows():
    """IPython asks an exception for its lines; those of the user's frames are in them."""
    error = raised_by(WAYS["module"])
    lines = "\n".join(error._render_traceback_()).splitlines()
    assert lines[0] == "Traceback (most recent call last):" and lines[-1].startswith("more: ")
    assert len(lines) <= LONGEST and not any(OWN_FILES in line for line in lines)
    assert any("in raised_by" in line for line in lines)


# -- errors of a running program


class Block(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(Block(3), Block(5))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer1(x)


def note_of(function, *args):
    with pytest.raises(RuntimeError) as caught:
        function(*args)
    (note,) = caught.value.__notes__
    return note


@pytest.mark.parametrize("tier", options.TIERS)
def test_a_failing_call_names_its_module(tier):
    x = torch.ones(1, 3, 9, 9)
    with options.override(tier=tier):
        note = note_of(jitlite.script(Net()), x)
    assert "\nin the module layer1.1.conv" in note
    with pytest.raises(RuntimeError) as eager:
        Net()(x)
    with options.override(tier=tier), pytest.raises(RuntimeError) as ours:
        jitlite.script(Net())(x)
    assert type(ours.value) is type(eager.value) and str(ours.value) == str(eager.value)


def test_a_module_that_fails_itself_has_no_path():
    class Adds(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    assert "in the module" not in note_of(jitlite.script(Adds()), torch.ones(2), torch.ones(3))


@jitlite.script
def multiplied(x: Tensor, y: Tensor, n: int) -> Tensor:
    z = x + 1
    for i in range(n):
        z = torch.cat([z, x]) @ y
    return z


def test_a_failing_call_names_the_shapes_of_its_tensors():
    note = note_of(multiplied, torch.ones(2, 3), torch.ones(4, 5, dtype=torch.float64), 2)
    last, hint = note.splitlines()[-2:]
    assert last.startswith("with ") and "y: float64[4, 5]" in last and "x: " not in last
    assert hint.startswith("hint: ")
