"""`jitlite show`, `run` and `convert` of archives."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite import cli
from jitlite.archive.container import ArchiveReader
from jitlite.archive.errors import ArchiveError
from jitlite.loading.listing import describe, read_tensor
from jitlite.loading.setters import Setter


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(3, 4)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.arange(8.0)[::2])

    def forward(self, x: Tensor, times: int = 1) -> Tensor:
        return (self.first(x) + self.second(x)) * self.scale * times

    @jitlite.export
    def both(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + y, x - y

    @jitlite.export
    def fails(self, n: int) -> int:
        return 1 // n


class WithState(nn.Module):
    """Its `__setstate__` sets an attribute, which nothing but loading may have it do."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.ones(2)
        self.training = True

    @jitlite.export
    def __getstate__(self) -> tuple[Tensor, bool]:
        return self.w, self.training

    @jitlite.export
    def __setstate__(self, state: tuple[Tensor, bool]) -> None:
        self.w = state[0]
        self.training = state[1]

    def forward(self, x: Tensor) -> Tensor:
        return x + self.w


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archives") / "net.pt"
    torch.manual_seed(0)
    jitlite.save(jitlite.script(Net()), str(path), {"notes.txt": "hello"})
    return str(path)


@pytest.fixture
def run(capsys):
    """Run the command: (exit status, output, error output)."""

    def command(*words):
        try:
            status = cli.main(list(words))
        except SystemExit as stop:
            status = stop.code
        return (status, *capsys.readouterr())

    return command


def members(path: str) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(path: str, target: Any, **changes: Any) -> str:
    """The archive with other code: each change is a pair of texts by the end of a member's name."""
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members(path).items():
            for old, new in changes.get("code", ()) if name.endswith(".py") else ():
                data = data.replace(old.encode(), new.encode())
            archive.writestr(name, data)
    return str(target)


# -- show


def test_overview(run, archive):
    status, out, _ = run("show", archive)
    assert status == 0
    for part in ("format version 3", "scripted", "parameters: 3 of 20 numbers", "buffers: 1 of 4 numbers",
                 "both(self, x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]", "aten::mul x2",
                 "notes.txt  5 B"):  # fmt: skip
        assert part in out, part


def test_overview_as_json(run, archive):
    _, out, _ = run("show", archive, "--json")
    found = json.loads(out)
    assert found["kind"] == "scripted" and found["version"] == 3
    assert found["tensors"]["parameter"] == {"count": 3, "numbers": 20, "bytes": 80}
    assert found["extra_files"] == {"notes.txt": 5}
    assert any("forward" in c["methods"] for c in found["classes"].values())


def test_code_and_graph(run, archive):
    _, out, _ = run("show", archive, "--code")
    assert "class Net(Module):" in out and "torch.linear" in out
    _, out, _ = run("show", archive, "--graph")
    assert "graph(%self" in out and 'prim::CallMethod[name="forward"]' in out


def test_tree(run, archive):
    _, out, _ = run("show", archive, "--tree", "--json")
    tree = json.loads(out)["tree"]
    assert [t["path"] for t in tree] == ["", "first", "second"]
    assert tree[1]["parameters"] == 16


def test_weights(run, archive):
    _, out, _ = run("show", archive, "--weights", "--json")
    found = {w["name"]: w for w in json.loads(out)["weights"]}
    assert found["second.weight"]["shares"] == "first.weight" and found["first.weight"]["shares"] is None
    assert found["scale"]["strides"] == [2] and found["scale"]["kind"] == "buffer" and found["scale"]["shape"] == [4]
    assert "min" not in found["scale"]
    _, out, _ = run("show", archive, "--weights", "--stats", "--json")
    scale = next(w for w in json.loads(out)["weights"] if w["name"] == "scale")
    assert (scale["min"], scale["max"], scale["mean"]) == ("0", "6", "3")


def test_operators_that_need_allow(run, archive, tmp_path):
    changes = [("torch.linear(", "ops.strange.linear("), ("torch.mul(", "torch.nothing_like_it(")]
    path = rewritten(archive, tmp_path / "strange.pt", code=changes)
    _, out, _ = run("show", path, "--ops", "--json")
    statuses = {o["name"]: o["status"] for o in json.loads(out)["operators"]}
    assert statuses["strange::linear"] == "needs allow"
    assert statuses["aten::nothing_like_it"] == "unknown"
    assert statuses["aten::add"] == ""
    _, out, _ = run("show", path)
    assert "--allow strange::linear" in out


@pytest.mark.parametrize("view", ["", "--code", "--graph", "--tree", "--ops", "--weights"])
def test_showing_runs_nothing(run, tmp_path, monkeypatch, view):
    path = tmp_path / "state.pt"
    jitlite.save(jitlite.script(WithState()), str(path))
    runs, set_state = [], Setter.run
    monkeypatch.setattr(Setter, "run", lambda self, *arguments: runs.append(self.name) or set_state(self, *arguments))
    jitlite.load(str(path))
    assert len(runs) == 1  # loading does
    status, _, _ = run("show", str(path), *filter(None, [view]))
    assert status == 0
    assert len(runs) == 1


def test_traced_archives(run, tmp_path):
    path = tmp_path / "traced.pt"
    jitlite.save(jitlite.trace(nn.Linear(2, 2), torch.ones(1, 2)), str(path))
    status, out, _ = run("show", str(path))
    assert status == 0 and "Linear" in out


def test_other_files(run, tmp_path):
    checkpoint = tmp_path / "state.pt"
    torch.save(nn.Linear(2, 2).state_dict(), checkpoint)
    status, _, error = run("show", str(checkpoint))
    assert status == 1 and "state_dict" in error and "torch.load" in error
    text = tmp_path / "text.pt"
    text.write_text("hello")
    status, out, _ = run("show", str(text), "--json")
    assert status == 1 and json.loads(out)["error"]["type"] == "ArchiveError"
    status, _, error = run("show", str(tmp_path / "none.pt"))
    assert status == 2 and "no such file" in error


def test_options_of_the_other_kind(run, archive, tmp_path):
    assert run("show", archive, "--code", "--tree")[0] == 2
    assert run("show", archive, "--stats")[0] == 2
    assert run("show", "os:getcwd", "--code")[0] == 2
    assert run("run", "os:getcwd", "--method", "x")[0] == 2


def test_names_that_terminals_take_for_commands(run, archive, tmp_path):
    path = tmp_path / "colours.pt"
    with zipfile.ZipFile(path, "w") as target:
        for name, data in members(archive).items():
            target.writestr(name, data)
        target.writestr("net/extra/\x1b]0;title\x07", b"x")
    _, out, _ = run("show", str(path))
    assert "\x1b]" not in out and "\\x1b]0;title\\x07" in out


def test_damaged_archives_name_the_member(archive, tmp_path):
    found = members(archive)
    name = next(n for n in found if n.endswith("data.pkl"))
    for cut in range(1, len(found[name]), 37):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as target:
            for other, content in found.items():
                target.writestr(other, content[:cut] if other == name else content)
        data.seek(0)
        with pytest.raises(ArchiveError) as caught:
            describe(ArchiveReader(data))
        assert caught.value.member == "data.pkl"


def test_tensors_alone(archive):
    with ArchiveReader(archive) as reader:
        listing = describe(reader)
        found = {t.path: read_tensor(reader, t.tensor) for t in listing.tensors}
    expected = dict(jitlite.load(archive).state_dict())
    assert {n: v.tolist() for n, v in expected.items()} == {n: v.tolist() for n, v in found.items()}


# -- run


def test_run_with_files(run, archive, tmp_path):
    x = torch.randn(2, 3)
    numpy.save(tmp_path / "x.npy", x.numpy())
    torch.save(x, tmp_path / "x.pt")
    expected = jitlite.load(archive)(x, 2)
    for suffix in (".npy", ".pt"):
        output = tmp_path / "y.npy"
        status, out, _ = run(
            "run", archive, "--input", str(tmp_path / f"x{suffix}"), "--input", "2", "--output", str(output)
        )
        assert status == 0 and "y.npy" in out
        assert torch.equal(torch.from_numpy(numpy.load(output)), expected.detach())


def test_run_a_method_with_an_npz(run, archive, tmp_path):
    numpy.savez(tmp_path / "xy.npz", numpy.array([3.0]), numpy.array([1.0]))
    status, out, _ = run(
        "run", archive, "--method", "both", "--input", str(tmp_path / "xy.npz"), "--output", str(tmp_path / "r.npz")
    )
    assert status == 0
    found = numpy.load(tmp_path / "r.npz")
    assert [found[n].tolist() for n in found.files] == [[4.0], [2.0]]
    assert run("run", archive, "ones(1)", "ones(1)", "--method", "both")[1].startswith("(tensor([2.])")


def test_run_errors(run, archive, tmp_path):
    assert run("run", archive, "0", "--method", "fails")[0] == 1
    status, _, error = run("run", archive, "0", "--method", "bot")
    assert status == 2 and "did you mean 'both'" in error
    assert run("run", archive, "--method", "train")[0] == 2
    assert run("run", archive, "nonsense")[0] == 2
    assert run("run", archive, "--input", str(tmp_path / "none.npy"))[0] == 2
    assert run("run", archive, "ones(2, 3)", "--output", str(tmp_path / "y.txt"))[0] == 2
    assert run("run", archive, "ones(2, 3)", "--map-location", "nowhere")[0] == 2
    evil = tmp_path / "evil.npy"
    numpy.save(evil, numpy.array([{"an": "object"}], dtype=object))
    status, _, error = run("run", archive, "--input", str(evil))
    assert status == 2 and "evil.npy" in error
    status, _, error = run("run", archive)
    assert status == 2 and "x" in error


def test_run_needs_allow(run, archive, tmp_path):
    path = rewritten(archive, tmp_path / "strange.pt", code=[("torch.mul(", "ops.strange.mul(")])
    status, _, error = run("run", path, "ones(2, 3)")
    assert status == 1 and "strange::mul" in error


# -- convert


def test_convert_to_python(run, archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run("convert", archive, "--to", "python")
    assert status == 0 and (tmp_path / "net.py").is_file() and (tmp_path / "net_weights.pt").is_file()
    found: dict[str, Any] = {"__file__": str(tmp_path / "net.py")}
    exec((tmp_path / "net.py").read_text(), found)
    x = torch.randn(2, 3)
    assert torch.equal(found["load"]()(x), jitlite.load(archive)(x))
    status, _, error = run("convert", archive, "--to", "python")
    assert status == 2 and "--force" in error
    assert run("convert", archive, "--to", "python", "--force", "--json")[0] == 0
    assert run("convert", archive, "--to", "python", "-o", "net.txt")[0] == 2


def test_convert_to_fx(run, archive, tmp_path):
    status, _, error = run("convert", archive, "--to", "fx", "-o", str(tmp_path / "fx.pt"))
    assert status == 0, error
    graph_module = torch.load(tmp_path / "fx.pt", weights_only=False)
    x = torch.randn(2, 3)
    assert torch.allclose(graph_module(x), jitlite.load(archive)(x))


def test_convert_to_exported(run, archive, tmp_path):
    path = tmp_path / "net.pt2"
    status, _, error = run("convert", archive, "--to", "exported", "-o", str(path), "--input", "ones(2, 3)")
    assert status == 0, error
    x = torch.ones(2, 3)
    assert torch.allclose(torch.export.load(path).module()(x), jitlite.load(archive)(x))


def test_arguments_by_name(run, archive, tmp_path):
    status, out, error = run("run", archive, "--input", "x=ones(2, 3)", "--json")
    assert status == 0 and "tensor" in out, error
    words = ("convert", archive, "--to", "exported", "-o", str(tmp_path / "a.pt2"))
    status, _, error = run(*words, "--input", "ones(2, 9)")
    assert status == 1 and error


def test_places_that_cannot_be_written(run, archive, tmp_path):
    for to, suffix in (("python", ".py"), ("fx", ".pt"), ("exported", ".pt2")):
        (tmp_path / f"taken{suffix}").mkdir()
        status, _, error = run("convert", archive, "--to", to, "-o", str(tmp_path / f"taken{suffix}"), "--force")
        assert status == 2 and "folder" in error
    status, _, error = run("run", archive, "ones(2, 3)", "--output", str(tmp_path / "taken.pt"))
    assert status == 2 and "folder" in error


def test_convert_says_what_there_is_not(run, archive, tmp_path):
    status, _, error = run("convert", archive, "--to", "stablehlo")
    assert status == 2 and "--input" in error
    status, _, error = run("convert", archive, "--to", "exported", "-o", str(tmp_path / "x.pt2"))
    assert status == 2 and "--input" in error
    status, _, error = run("convert", archive, "--to", "fx", "-o", archive, "--force")
    assert status == 2 and "the archive itself" in error
