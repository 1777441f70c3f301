"""Pickles by cloudpickle carry their programs: a process without the source runs them."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import shipped_programs
import torch

import jitlite

cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed: pip install '.[test]'")

SOURCE = Path(shipped_programs.__file__)
RUN = """
import pickle, sys, torch
pickled = pickle.load(open(sys.argv[1], "rb"))
for name, content in pickled.items():
    called, args, expected = pickle.loads(content)
    try:
        torch.testing.assert_close(called(*args), expected)
        print(name, "runs")
    except Exception as error:
        print(name, type(error).__name__, error)
    assert "shipped_programs" not in sys.modules
"""


@pytest.fixture(scope="module", params=["", "--registered"], ids=["main", "registered"])
def lines(request, tmp_path_factory):
    """What a process says that has nothing but the pickles, of each case."""
    folder = tmp_path_factory.mktemp("sender")
    elsewhere = tmp_path_factory.mktemp("receiver")
    source = folder / SOURCE.name
    shutil.copy(SOURCE, source)
    pickled = elsewhere / "programs.pkl"
    subprocess.run([sys.executable, source, pickled, request.param], check=True, cwd=folder)
    shutil.rmtree(folder)
    ran = subprocess.run([sys.executable, "-c", RUN, pickled], capture_output=True, text=True, cwd=elsewhere)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("name", shipped_programs.CASES)
def test_a_process_without_the_source_runs_the_program(name, lines):
    assert f"{name} runs" in lines


def test_what_has_a_name_that_leads_to_it_is_pickled_by_name():
    assert cloudpickle.loads(cloudpickle.dumps(shipped_programs.decorated)) is shipped_programs.decorated
    assert len(cloudpickle.dumps(shipped_programs.decorated)) < 100


def test_a_registered_package_counts_for_its_submodules(monkeypatch):
    package, inner = type(sys)("shipped_package"), type(sys)("shipped_package.inner")
    for module in (package, inner):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(shipped_programs.scaled, "__module__", inner.__name__)
    inner.scaled = shipped_programs.scaled
    scripted = jitlite.script(shipped_programs.scaled)
    assert b"SCALE" not in cloudpickle.dumps(scripted)
    cloudpickle.register_pickle_by_value(package)
    try:
        assert b"return x * SCALE" in cloudpickle.dumps(scripted)
    finally:
        cloudpickle.unregister_pickle_by_value(package)


def test_parameters_and_identity_are_kept():
    made = shipped_programs.net()
    copied, inner, parameters = pickle.loads(cloudpickle.dumps((made, made.inner, list(made.parameters()))))
    assert copied.inner is inner and copied.again is inner
    assert all(a is b for a, b in zip(copied.parameters(), parameters, strict=True))
    for (name, value), (other, kept) in zip(made.state_dict().items(), copied.state_dict().items(), strict=True):
        assert name == other and torch.equal(value, kept)
