"""Thousands of damaged archives: each is shown, loaded, compiled and converted, or refused with an error that names the
member; those of one operator are called, too.

They are tried in a process of their own, which counts time and memory and watches what Python's audit events tell of
files, processes, imports and code that is run. That process and what it looks for are in `archive_attempts.py`.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections import Counter
from typing import Any

import archive_attempts
import pytest
import test_archive_bounds
import test_archive_hostile
from archive_mutations import KINDS, members_of, mutated, packed
from archive_specimens import SPECIMENS

import jitlite

ROOT = pathlib.Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
FEW, MANY = 5, 44
"""Archives of each specimen and kind of damage: in every run, and in the slow one, more than 3,000 in all."""
SWEPT = 250
"""The same in the sweep, 20,000 in all."""
AT_ONCE = 500
"""Archives that one process tries."""


def tried(folder: pathlib.Path, names: list[str]) -> list[dict[str, Any]]:
    """What came of each archive. One that ends the process, or takes it for ever, is told too, and the rest goes on."""
    results: list[dict[str, Any]] = []
    todo = list(names)
    while todo:
        command = [sys.executable, str(SUPPORT / "archive_attempts.py"), str(folder)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        run = subprocess.run(
            command, input="\n".join(todo), capture_output=True, text=True, env=environment, timeout=900, check=False
        )
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        done = [line for line in lines if "name" in line]
        assert done or any("begun" in line for line in lines), run.stderr
        results += done
        todo = todo[len(done) :]
        if todo:
            results.append(
                {"name": todo.pop(0), "faults": [f"ended the process: {run.returncode}\n{run.stderr[-2000:]}"]}
            )
    return results


def faults(tmp_path: pathlib.Path, first: int, end: int) -> tuple[int, list[str], Counter[str]]:
    """How many archives were tried, what was wrong, and how often what came of them."""
    names = []
    for specimen, make in SPECIMENS.items():
        good = make()
        (tmp_path / f"good-{specimen}").write_bytes(good)
        for kind in KINDS:
            for number in range(first, end):
                names.append(f"{specimen}-{kind}-{number}")
                (tmp_path / names[-1]).write_bytes(mutated(good, specimen, kind, number))
    results = [r for at in range(0, len(names), AT_ONCE) for r in tried(tmp_path, names[at : at + AT_ONCE])]
    assert [r["name"] for r in results] == names
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.get("counts", {}))
    return len(names), [f"{r['name']}: {fault}" for r in results for fault in r["faults"]], counts


@pytest.mark.slow
def test_damaged_archives(tmp_path):
    number, found, counts = faults(tmp_path, 0, FEW)
    assert not found, "\n".join(found)
    assert number >= 300
    assert counts["ArchiveError"] > number / 2, "most damage is to be noticed"
    assert counts["compiled"] > 100, "some is to get as far as the compiler"
    assert counts["converted"] > 20 and counts["run"] > 3


@pytest.mark.slow
def test_thousands_of_damaged_archives(tmp_path):
    number, found, _ = faults(tmp_path, FEW, FEW + MANY)
    assert not found, "\n".join(found)
    assert number >= 3000


@pytest.mark.sweep
def test_twenty_thousand_damaged_archives(tmp_path):
    """`MUTANTS=FIRST:END` tries a part: the numbers of the archives of each specimen and kind."""
    first, _, end = os.environ.get("MUTANTS", f"0:{SWEPT}").partition(":")
    number, found, counts = faults(tmp_path, int(first), int(end))
    print(number, counts)
    assert not found, "\n".join(found)
    assert counts["run"] and counts["converted"]


def test_the_same_number_gives_the_same_damage():
    for specimen in ("stateful", "lite"):
        good = SPECIMENS[specimen]()
        for kind in KINDS:
            assert mutated(good, specimen, kind, 3) == mutated(good, specimen, kind, 3)
            assert any(mutated(good, specimen, kind, n) != good for n in range(5)), kind


# -- the watch itself sees what it is to see


WRONG: dict[str, tuple[str, str]] = {
    "another error": ("raise KeyError(3)", "KeyError"),
    "no member": ("raise jitlite.ArchiveError('no')", "names no member"),
    "another member": ("raise jitlite.CompileError('no')", "names no member"),
    "a file": ("open(sys.argv[1] + '/written', 'w').close()", "open for writing"),
    "a file that is read": ("open('/etc/passwd').close()", "open: "),
    "a process": ("os.system('true')", "os.system"),
    "a subprocess": ("subprocess.run(['true'])", "subprocess.Popen"),
    "a socket": ("socket.socket().close()", "socket"),
    "code": ("exec(compile('1', 'archive', 'exec'))", "exec"),
    "a pickle": ("pickle.loads(pickle.dumps(jitlite.load))", "pickle.find_class"),
    "a module": ("__import__('hypothesis_of_nobody')", "import: hypothesis_of_nobody"),
    "memory": ("len(b'x' * 300_000_000)", "MiB for a file"),
    "an endless loop": ("[None for _ in iter(int, 1)]", "took more than"),
    "a crash": ("ctypes.string_at(0)", "ended the process"),
}

_WRONG_LOADER = """
import ctypes, os, pickle, socket, subprocess, sys
import archive_attempts, jitlite
archive_attempts.SECONDS = 0.5
def wrong(content):
    if content != b"good":
        {code}
archive_attempts.ACTIONS = {{"load": wrong}}
archive_attempts.main(sys.argv[1])
"""


@pytest.mark.parametrize("kind", [k if n < 4 else pytest.param(k, marks=pytest.mark.slow) for n, k in enumerate(WRONG)])
def test_the_watch_sees(kind, tmp_path):
    code, expected = WRONG[kind]
    (tmp_path / "good-one").write_bytes(b"good")
    (tmp_path / "one").write_bytes(b"bad")
    run = subprocess.run(
        [sys.executable, "-c", _WRONG_LOADER.format(code=code), str(tmp_path)], input="one\n", capture_output=True,
        text=True, check=False, env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{SUPPORT}"},
    )  # fmt: skip
    last = json.loads(run.stdout.splitlines()[-1])
    assert expected in " ".join(last.get("faults", ["ended the process"])), run.stderr


def test_specimens_hold_what_they_are_to_hold():
    for specimen, make in SPECIMENS.items():
        good = make()
        assert archive_attempts.attempt(good, specimen)["faults"] == [], specimen
        again = packed(members_of(good))
        assert archive_attempts.attempt(again)["faults"] == [], specimen
    assert isinstance(jitlite.ArchiveError("x"), RuntimeError)


def test_hostile_archives_by_kind():
    """At least a hundred are named, of all these kinds."""
    named = {
        "pickles": len(test_archive_hostile.PICKLES), "code": len(test_archive_hostile.CODES),
        "setters": len(test_archive_bounds.ENDLESS), "large members": len(test_archive_bounds.LARGE),
        "other files": len(test_archive_hostile.OTHER_FILES), "operators": len(test_archive_hostile.REFUSED),
        "Python": len(test_archive_hostile.PYTHON),
    }  # fmt: skip
    assert sum(named.values()) >= 100 and min(named.values()) >= 5, named
