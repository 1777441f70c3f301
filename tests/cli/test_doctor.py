"""`jitlite doctor` where things are missing, old, or broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jitlite.base import torch_internals
from jitlite.base.command_line import asks_for_doctor
from jitlite.cli import doctor

ROOT = Path(__file__).parents[2]
NO_TORCH = "raise ImportError('libcudart.so.12: cannot open shared object file')"
CRASHES = "import os; os.abort()"
OLD = "class _Missing: pass\n__version__ = '2.1.0'\ndef get_num_threads(): return 1\nclass cuda: is_available = bool"


def ask(tmp_path, torch, *words):
    """What `python -m jitlite doctor` says where this is torch's source."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(torch)
    paths = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "jitlite", "doctor", *words]
    return subprocess.run(command, env=os.environ | paths, cwd=tmp_path, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("torch", "said"),
    [
        (NO_TORCH, "torch cannot be used: ImportError: libcudart.so.12: cannot open shared object file"),
        (CRASHES, "torch cannot be used: the process was ended by SIGABRT"),
        (OLD, "jitlite cannot be imported: "),
    ],
    ids=["fails", "crashes", "old"],
)
def test_torch_that_cannot_be_used(tmp_path, torch, said):
    done = ask(tmp_path, torch, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["verdict"] == "does not work"
    assert report["error"].startswith(said)
    if torch == OLD:
        assert "older than" in report["untested"][0] and report["parts_off"]


def test_text_where_torch_is_broken(tmp_path):
    done = ask(tmp_path, NO_TORCH)
    assert done.returncode == 1 and not done.stderr
    assert "does not work" in done.stdout and "libcudart" in done.stdout


def test_the_doctor_is_reached_without_the_rest():
    code = "import sys; sys.argv = ['/usr/bin/jitlite', 'doctor']; import jitlite.cli; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize(
    ("argv", "orig_argv", "is_asked"),
    [
        (["/venv/bin/jitlite", "doctor"], [], True),
        (["/venv/bin/jitlite", "doctor", "--json"], [], True),
        (["-m", "doctor"], ["python", "-m", "jitlite", "doctor"], True),
        (["-m", "doctor", "--json"], ["python", "-X", "dev", "-mjitlite", "doctor", "--json"], True),
        (["/site/jitlite/__main__.py", "doctor"], [], True),
        (["-m", "doctor"], ["python", "-m", "hospital", "doctor"], False),
        (["/usr/bin/hospital", "doctor"], [], False),
        (["/venv/bin/jitlite", "show", "doctor"], [], False),
        (["/venv/bin/jitlite"], [], False),
        ([], [], False),
    ],
)
def test_who_asks(monkeypatch, argv, orig_argv, is_asked):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", orig_argv)
    assert asks_for_doctor() is is_asked


def report(torch="2.13.0", python="3.11.7", **what):
    return doctor.DoctorReport({"python": python, "torch": torch}, {}, {}, **what)


MISSING = {"is_exporting": {"state": "replaced", "purpose": "p", "lost": "exports", "reason": "no such name"}}


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (report(), "works"),
        (report("2.13.0+cpu"), "works"),
        (report("2.5.1"), "untested"),
        (report("9.9.0"), "untested"),
        (report("2.14.0a0+git1234"), "untested"),
        (report("2.14.0.dev20260801"), "untested"),
        (report("2.14.0rc2"), "untested"),
        (report(python="3.99.0"), "untested"),
        (report(internals=MISSING), "part off"),
        (report(absent=["torch._C.Future"]), "part off"),
        (report(checks={"run": "", "text": "differs"}), "does not work"),
        (report(error="torch is not installed"), "does not work"),
    ],
)
def test_verdict(found, verdict):
    assert found.verdict == verdict


def test_text(monkeypatch, capsys):
    found = report("9.9.0", internals=MISSING, checks={"run": ""})
    monkeypatch.setattr(doctor, "examine", lambda: found)
    monkeypatch.setattr(doctor, "_OPTIONAL", {})
    assert doctor.run() == 0
    out = capsys.readouterr().out
    assert "part off" in out and "untested: torch 9.9.0" in out and "off: exports\n     (no such name)" in out


@pytest.mark.parametrize(
    ("found", "first", "then"),
    [
        (report(), "works", []),
        (report("9.9.0"), "untested", ["untested: torch 9.9.0"]),
        (report(internals=MISSING), "part off", ["off: exports", "     (no such name)"]),
        (report(checks={"run": "", "text": "differs"}), "does not work", ["fails: text", "     (differs)"]),
        (report(error="torch is not installed"), "does not work", ["torch is not installed"]),
    ],
    ids=["works", "untested", "part off", "a check fails", "no import"],
)
def test_the_verdict_is_the_first_line_and_what_is_wrong_comes_next(monkeypatch, capsys, found, first, then):
    monkeypatch.setattr(doctor, "examine", lambda: found)
    monkeypatch.setattr(doctor, "_OPTIONAL", {})
    assert doctor.run() == int(first == "does not work")
    before, versions, _ = capsys.readouterr().out.partition("── versions")
    lines = before.splitlines()
    assert versions and lines[0].startswith(f"{first}: jitlite ") and f"torch {found.versions['torch']}" in lines[0]
    assert lines[1:] == then


def test_what_kernels_lean_on_is_told_part_by_part(monkeypatch, capsys):
    parts = [("tensors in machine code", True, ""), ("products of f32 (sgemm_)", False, "it is not exported")]
    monkeypatch.setattr(doctor, "examine", lambda: report(tensor_parts=parts))
    monkeypatch.setattr(doctor, "_OPTIONAL", {})
    assert doctor.run() == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(i for i, line in enumerate(lines) if "machine code for tensors" in line)
    assert lines[first + 1].split(None, 1) == ["found", "tensors in machine code"]
    assert lines[first + 2].split(None, 1) == ["off", "products of f32 (sgemm_): it is not exported"]


def test_tested_versions_are_in_order_and_begin_with_the_oldest():
    assert torch_internals.TESTED[0] == torch_internals.OLDEST
    assert list(torch_internals.TESTED) == sorted(torch_internals.TESTED)
