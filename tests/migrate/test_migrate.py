"""Code for torch.jit becomes code for jitlite: golden cases, all of which are run; files and folders.

A file of `golden/migrate/` holds cases: a file for torch.jit, what it becomes, and what is said about it. "same" stands
for a file that does not change.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest

import jitlite
from jitlite.cli import main, terminal
from jitlite.migrate import files, names
from jitlite.migrate.findings import Migration, MigrationKind
from jitlite.migrate.rewrite import migrate_source

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "migrate").glob("*.txt"))
_DONE = (MigrationKind.REWRITTEN, MigrationKind.LOOK)


def migrate(source: str, marks: bool = False) -> Migration:
    return migrate_source(source.encode(), "file.py", jitlite.__all__, marks)


def cases(path: Path) -> list[tuple[str, str]]:
    pieces = re.split(r"^--- case: (.*)\n", path.read_bytes().decode(), flags=re.MULTILINE)
    return [(pieces[i], pieces[i + 1].partition("--- after\n")[0]) for i in range(1, len(pieces), 2)]


ALL = [(path.stem, title, source) for path in GOLDEN for title, source in cases(path)]


def shown(title: str, source: str, marks: bool) -> str:
    done = migrate(source, marks)
    assert not done.error
    after = "same\n" if not done.changed else done.after.decode()
    said = "".join(f"{f.line}:{f.column} {f}\n" for f in done.findings)
    return f"--- case: {title}\n{source}--- after\n{after}--- said\n{said}"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_golden(path: Path, accept: bool) -> None:
    now = "".join(shown(title, source, path.stem == "compile") for title, source in cases(path))
    before = path.read_bytes().decode()
    if accept and now != before:
        path.write_bytes(now.encode())
    assert now == before


@pytest.mark.parametrize(("kind", "title", "source"), ALL, ids=[f"{kind}: {title}" for kind, title, _ in ALL])
def test_the_result_runs_and_stays(kind: str, title: str, source: str, tmp_path: Path) -> None:
    """What comes out is Python, a second run changes nothing, and where all was rewritten it runs without torch.jit."""
    done = migrate(source, marks=kind == "compile")
    ast.parse(done.after)
    again = migrate_source(done.after, "file.py", jitlite.__all__, kind == "compile")
    assert again.after == done.after
    assert not again.of_kind(*_DONE)
    if kind in ("imports", "uses") and not done.of_kind(MigrationKind.LEFT):
        lines = [line for line in done.after.decode().splitlines() if "import" in line]
        assert not any("torch.jit" in line or "_jit_internal" in line for line in lines)
        path = tmp_path / "migrated.py"
        path.write_bytes(done.after)
        scope: dict[str, object] = {"__name__": "migrated"}
        exec(compile(done.after, str(path), "exec"), scope)
        assert "result" in scope or kind == "compile"


def test_nearly_all_is_rewritten() -> None:
    done = [migrate(source) for kind, _, source in ALL if kind in ("imports", "uses")]
    rewritten, left = (sum(len(m.of_kind(*kinds)) for m in done) for kinds in (_DONE, (MigrationKind.LEFT,)))
    assert rewritten / (rewritten + left) > 0.95
    assert len(ALL) >= 50


_IMPORTS = {
    "import torch": "torch.jit", "import torch as t": "t.jit", "import torch.jit": "torch.jit",
    "import torch.jit as j": "j", "from torch import jit": "jit", "from torch import nn, jit as j": "j",
    "import torch; k = torch.jit": "k",
}  # fmt: skip
_PLACES = {
    "plain": "{i}\nresult = {u}\n",
    "function": "def f():\n    {i}\n    return {u}\nresult = f()\n",
    "closure": "{i}\ndef f():\n    def g():\n        return {u}\n    return g()\nresult = f()\n",
    "class": "{i}\nclass A:\n    x = {u}\nresult = A.x\n",
    "comprehension": "{i}\nresult = [{u} for _ in range(1)][0]\n",
    "default": "{i}\ndef f(x={u}):\n    return x\nresult = f()\n",
    "suite": "if True: {i}\nresult = {u}\n",
}  # fmt: skip


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("form", _IMPORTS)
def test_every_import_in_every_place_gives_the_counterpart(form: str, place: str) -> None:
    for name in ("script", "ScriptModule", "_fork", "Final"):
        source = _PLACES[place].format(i=form, u=f"{_IMPORTS[form]}.{name}")
        done = migrate(source)
        scope: dict[str, object] = {}
        exec(compile(done.after, "file.py", "exec"), scope)
        assert scope["result"] is getattr(jitlite, name.lstrip("_")), done.after.decode()


def test_every_public_name_has_a_counterpart_or_a_reason() -> None:
    import torch

    for name in sys.modules[torch.__name__ + ".jit"].__all__:
        path = f"torch.jit.{name}"
        found = names.counterpart(path, jitlite.__all__)
        assert found is not None and hasattr(jitlite, found) or "jitlite has nothing" not in names.reason_against(path)


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "package" / ".hidden").mkdir(parents=True)
    (tmp_path / "package" / "build").mkdir()
    use = "import torch\nf = torch.jit.script\n"
    for name in ("a.py", "b.pyi", "c.txt", ".hidden/d.py", "build/e.py", "f.ipynb"):
        (tmp_path / "package" / name).write_text(use)
    found = [p.name for p in files.find_files([str(tmp_path), str(tmp_path / "package" / "a.py")])]
    assert found == ["a.py", "b.pyi", "f.ipynb"]
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        list(files.find_files([str(tmp_path / "nothing")]))

    path = tmp_path / "package" / "a.py"
    path.chmod(0o755)
    done = files.migrate_file(path, files.rewriter(), jitlite.__all__)
    assert path.read_text() == use
    files.write(done)
    assert path.read_text() == "import torch\nimport jitlite\nf = jitlite.script\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".a")] == []
    with pytest.raises(OSError, match="has changed meanwhile"):
        files.write(done)
    notebook = files.migrate_file(tmp_path / "package" / "f.ipynb", files.rewriter(), jitlite.__all__)
    assert not notebook.changed and "a notebook" in str(notebook.findings[0])


def test_what_is_no_plain_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Links stay links, nothing waits for a pipe, and what must not be written, or cannot be read, is said."""
    use = "import torch\nf = torch.jit.script\n"
    for name in ("real.py", "locked.py"):
        (tmp_path / name).write_text(use)
    (tmp_path / "locked.py").chmod(0o444)
    (tmp_path / "link.py").symlink_to("real.py")
    (tmp_path / "nowhere.py").symlink_to("nothing")
    (tmp_path / "around").symlink_to(".")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    assert main(["migrate", str(tmp_path)]) == 1
    assert "locked.py' is read-only" in capsys.readouterr().out
    assert (tmp_path / "locked.py").read_text() == use
    assert (tmp_path / "link.py").is_symlink() and "jitlite.script" in (tmp_path / "real.py").read_text()
    assert main(["migrate", str(tmp_path / "pipe.py")]) == 2
    assert "is no file" in capsys.readouterr().err


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    assert main(["migrate", str(tmp_path)]) == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = " + " + ".join(["torch.jit.script"] * 500), ""),
        ("if 0: pass\n" + "elif 1: pass\n" * 500 + "x = torch.jit.script", ""),
        ("x = " + "(" * 3000 + "torch.jit.script" + ")" * 3000, "it is nested too deeply"),
        ("x = " + "not " * 100_000 + "torch.jit.script", "it is nested too deeply"),
    ],
    ids=["sum", "branches", "brackets", "operators"],
)
def test_deep_nesting(source: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(f"import torch\n{source}\n")
    limit = sys.getrecursionlimit()
    done = files.migrate_file(path, files.rewriter(), jitlite.__all__)
    assert (done.error, done.changed) == (message, not message)
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"import torch\ntorch.jit.script(\n", "it is not Python: parser error: error at 3:0"),
        (b"# -*- coding: nothing -*-\ntorch.jit\n", "cannot be read"),
        (b"\xff\xfe torch.jit\n", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said(source: bytes, message: str) -> None:
    done = migrate_source(source, "file.py", jitlite.__all__)
    assert message in done.error
    assert not done.changed


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libcst", None)
    for name in [name for name in sys.modules if name.startswith("jitlite.migrate.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(files.MissingLibrary, match="needs LibCST"):
        files.rewriter()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, broken = tmp_path / "a.py", tmp_path / "b.py"
    path.write_text("import torch\nf = torch.jit.load\nwith torch.jit.ONNXTracedModule(): pass\n")
    before = path.read_text()
    assert main(["migrate", str(tmp_path), "--check"]) == 1
    assert main(["migrate", str(tmp_path), "--diff"]) == 0
    out = capsys.readouterr().out
    assert f"{path}:3:6: torch.jit.ONNXTracedModule: left: it belongs" in out and "+f = jitlite.load" in out
    assert path.read_text() == before
    assert main(["migrate", str(path), "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert said["changed"] and [f["kind"] for f in said["findings"]] == ["look", "left"]
    assert "f = jitlite.load" in path.read_text()
    assert main(["migrate", str(path), "--check"]) == 0
    broken.write_text("torch.jit.script(")
    assert main(["migrate", str(broken)]) == 1
    assert "it is not Python" in capsys.readouterr().out and broken.read_text() == "torch.jit.script("
    assert main(["migrate", str(tmp_path / "nothing")]) == 2


def test_progress_is_told_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shown(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(terminal, "_PATIENCE", 0.0)
    monkeypatch.setattr(terminal, "_BETWEEN_LINES", 0.0)
    seen, piped = Shown(), io.StringIO()
    assert (
        list(terminal.progress([1, 2, 3], "files", seen)) == [1, 2, 3] == list(terminal.progress([1, 2, 3], "f", piped))
    )
    assert "2 of 3 files" in seen.getvalue() and seen.getvalue().endswith("\r\033[K") and not piped.getvalue()


@pytest.mark.parametrize("text", [b"def f(x:\n", b"x = \x00\n", b"print 'a'\n"], ids=["open", "null byte", "python 2"])
def test_a_file_that_is_named_has_to_be_python_and_others_of_a_folder_only_if_they_may_use_torch_jit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes
) -> None:
    path = tmp_path / "broken.py"
    path.write_bytes(text)
    assert main(["migrate", str(path)]) == 1
    assert "broken.py: it is not Python" in capsys.readouterr().out
    assert main(["migrate", str(tmp_path)]) == 0
    path.write_bytes(b"import torch.jit\n" + text)
    assert main(["migrate", str(tmp_path)]) == 1


def test_what_is_said_of_names_of_the_compiler_is_true() -> None:
    import torch

    told = {name: names.reason_against_compiler(f"torch._C.{name}") for name in dir(torch._C)}
    before = {name: getattr(torch._C, name) for name, reason in told.items() if reason and "is jitlite's too" in reason}
    assert {"Graph", "ScriptFunction", "TensorType", "parse_ir"} <= before.keys()
    with jitlite.drop_in():
        same = [name for name, known in before.items() if getattr(torch._C, name) is known]
    assert not same
    ours = ("TensorBase", "DispatchKeySet", "Generator", "_dispatch_keys", "_get_tracing_state", "device", "dtype")
    assert not any(told.get(name) for name in ours)
    assert all(told[name] for name in told if name.startswith("_jit_"))
