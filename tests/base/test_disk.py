"""Machine code on disk: other processes use it, and nothing that happens to it is an error."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jitlite.base import disk, options
from jitlite.base.disk import LIMIT, Disk, key_of, symbolic
from jitlite.cli import main
from jitlite.native import entry

KEY = key_of("text")
ONE = "define i64 @one() {\n  ret i64 1\n}\n"

PROGRAM = """
import jitlite
from jitlite.native import entry

def count(n: int) -> int:
    total = 0
    for i in range(n):
        total += i * i
    return total

made = []
optimized = entry._optimized
entry._optimized = lambda *given: made.append(1) or optimized(*given)
scripted = jitlite.script(count)
print(scripted(100), len(made))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "cache"
    with options.override(cache_dir=str(found)):
        yield found


def run(folder: Path) -> list[str]:
    """What a process prints: its answer, and how many modules it has compiled."""
    program = folder.parent / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "JITLITE_CACHE_DIR": str(folder), "JITLITE_NATIVE": "now"}
    command = [sys.executable, str(program)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


# -- texts


def test_addresses_have_names() -> None:
    text = "call i32 inttoptr (i64 70 to ptr)(ptr inttoptr (i64 71 to ptr), ptr inttoptr (i64 70 to ptr), i64 70)"
    named, addresses = symbolic(text)
    assert addresses == [70, 71]
    assert named.endswith("call i32 @jitlite_address_0(ptr @jitlite_address_1, ptr @jitlite_address_0, i64 70)")
    assert symbolic(text.replace("i64 70 ", "i64 5 "))[0] == named
    assert symbolic(text.replace("i64 71", "i64 70"))[0] != named, "addresses that are the same have one name"
    assert symbolic("inttoptr (i64 0 to ptr)")[1] == []


def test_what_matters_is_in_the_key() -> None:
    assert len({key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", "")}) == 4


# -- modules


def test_other_processes_compile_nothing(folder: Path) -> None:
    first, second = run(folder), run(folder)
    answer = str(sum(i * i for i in range(100)))
    assert first[0] == second[0] == answer
    assert int(first[1]) > 1, "the function and the trial of machine code"
    assert second[1] == "0"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Calls compiled code, and gives how many modules have been compiled."""
    with options.override(cache_dir="off"):
        assert entry.is_ready()
    count = 0
    optimized = entry._optimized

    def counting(*given: object) -> object:
        nonlocal count
        count += 1
        return optimized(*given)

    monkeypatch.setattr(entry, "_optimized", counting)

    def call() -> int:
        engine, _ = entry._engine_of(ONE, is_plain=True)
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(engine.get_function_address("one"))() == 1
        return count

    return call


def test_code_is_kept(folder: Path, compiled: Callable[[], int]) -> None:
    assert compiled() == 1
    assert compiled() == 1
    (path,) = folder.iterdir()
    for wrong in (b"", b"nonsense", path.read_bytes()[:-1], path.read_bytes()[:-1] + b"x"):
        good = path.read_bytes()
        before = compiled()
        path.write_bytes(wrong)
        assert compiled() == before + 1, "what is damaged is not used"
        assert path.read_bytes() == good, "and is replaced"


def test_a_file_is_for_its_own_code_alone(folder: Path) -> None:
    """Where the file of other code lies in its place, which is as good a file of ours, this is not run."""
    kept, other = Disk(folder), key_of("another text")
    kept.write(KEY, b"code")
    kept.write(other, b"other code")
    paths = {path.name.split(".")[0]: path for path in folder.iterdir()}
    paths[KEY].write_bytes(paths[other].read_bytes())
    assert kept.read(other) == b"other code"
    assert kept.read(KEY) is None


def test_it_may_be_nowhere(tmp_path: Path, compiled: Callable[[], int]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for number, place in enumerate(("off", str(file), str(file / "below")), 1):
        with options.override(cache_dir=place):
            assert compiled() == number


# -- files


def test_a_disk_that_is_full_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.os, "replace", full)
    kept = Disk(folder)
    kept.write(KEY, b"code")
    assert kept.read(KEY) is None
    assert list(folder.iterdir()) == []


def test_folders_of_others_are_not_used(folder: Path) -> None:
    kept = Disk(folder)
    kept.write(KEY, b"code")
    assert kept.read(KEY) == b"code"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert kept.read(KEY) is None
    kept.write(key_of("other"), b"code")
    assert len(list(folder.iterdir())) == 1


def test_what_was_not_used_for_long_goes_first(folder: Path) -> None:
    kept = Disk(folder)
    keys = [key_of(str(i)) for i in range(4)]
    for age, key in enumerate(keys):
        kept.write(key, bytes(1000))
        os.utime(folder / f"{key}.jitlite-o", (age, age))
    assert kept.read(keys[0]) is not None, "it is used"
    (folder / "else").write_text("is not ours")
    kept.set_limit(2500)
    assert [kept.read(key) is not None for key in keys] == [True, False, False, True]
    assert (folder / "else").exists()
    for i in range(100):
        kept.write(key_of("more", str(i)), bytes(1000))
    assert kept.contents().bytes < 2500 + 33 * 1100
    assert Disk(folder).limit() == 2500


def test_processes_write_at_the_same_time(folder: Path) -> None:
    text = (
        "import sys; from pathlib import Path; from jitlite.base.disk import Disk\n"
        "kept = Disk(Path(sys.argv[1]))\n"
        "for i in range(300):\n"
        "    kept.write('k', bytes([i % 7]) * 50000); found = kept.read('k')\n"
        "    assert found is not None and len(set(found)) == 1, i\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", text, str(folder)]) for _ in range(3)]
    assert [each.wait() for each in started] == [0, 0, 0]


# -- the command


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Disk(folder).write(KEY, b"code")
    assert main(["cache", "--json"]) == 0
    size = (folder / f"{KEY}.jitlite-o").stat().st_size
    assert json.loads(capsys.readouterr().out) == {"folder": str(folder), "files": 1, "bytes": size, "limit": LIMIT}
    assert main(["cache", "limit", "20M"]) == 0
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.endswith("0 files, 0 of at most 20,000,000 bytes\n")
    for wrong in (["limit"], ["limit", "much"], ["show", "1"]):
        assert main(["cache", *wrong]) == 2
    with options.override(cache_dir="off"):
        assert main(["cache"]) == 2
