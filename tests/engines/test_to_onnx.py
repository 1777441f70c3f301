"""`jitlite.to_onnx`: whole models as ONNX, checked by the package `onnx` and run by onnxruntime."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.cli import main
from jitlite.engines.whole_graphs import UnsupportedOperators

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(self.relu(self.norm(self.conv(x))).mean([2, 3])))


class Containers(nn.Module):
    """Tuples go in, dicts, lists and tuples come out; a weight has two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("v1", torch.arange(3.0))

    def forward(
        self, x: Tensor, pair: tuple[Tensor, int] = (torch.ones(3), 2), scale: float = 1.5
    ) -> dict[str, object]:
        y, n = pair
        z = self.second(self.first(x)) * n + self.v1 * scale
        return {"z": z, "more": [z.relu(), (y + 1, None)], "output": x}


def session(model: object) -> object:
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(model.SerializeToString())


def run(model: object, *args: Tensor) -> list[Tensor]:
    made = session(model)
    names = [i.name for i in made.get_inputs()]
    found = made.run(None, {n: a.numpy() for n, a in zip(names, args, strict=True)})
    return [torch.from_numpy(a) for a in found]


def check(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    torch.testing.assert_close(list(found), list(expected), rtol=1e-4, atol=1e-5)


def forms(net: nn.Module, x: Tensor) -> dict[str, object]:
    buffer = io.BytesIO()
    jitlite.save(jitlite.script(net), buffer)
    buffer.seek(0)
    return {
        "plain": net, "script": jitlite.script(net), "trace": jitlite.trace(net, x),
        "loaded": jitlite.load(buffer).eval(), "optimized": jitlite.optimize(net, x),
    }  # fmt: skip


@pytest.mark.parametrize("form", ["plain", "script", "trace", "loaded", "optimized"])
def test_a_module_in_all_its_forms(form):
    net = Net().eval()
    x = torch.randn(2, 3, 8, 8)
    model = jitlite.to_onnx(forms(net, x)[form], x, dynamic_shapes={"x": [0]})
    with torch.no_grad():
        for n in (2, 5, 3):
            x = torch.randn(n, 3, 8, 8)
            check(run(model, x), [net(x)])


def test_containers_names_and_weights(tmp_path):
    net = Containers().eval()
    x, y = torch.randn(2, 3), torch.randn(3)
    path = tmp_path / "net.onnx"
    made = jitlite.to_onnx(net, (x, (y, 4)), path, {"x": {0: "rows"}})
    model = onnx.load(path)
    assert model == made
    assert [i.name for i in model.graph.input] == ["x", "pair_0"]
    assert [o.name for o in model.graph.output] == ["z", "more_0", "more_1_0", "output"]
    weights = {i.name: i for i in model.graph.initializer}
    assert {"first.weight", "first.bias", "second.bias", "v1"} <= set(weights) and "second.weight" not in weights
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert dims[0].dim_param == "rows" and dims[1].dim_value == 3
    x, y = torch.randn(7, 3), torch.randn(3)
    with torch.no_grad():
        expected = net(x, (y, 4))
    check(run(model, x, y), [expected["z"], expected["more"][0], expected["more"][1][0], expected["output"]])
    conditions = [p.value for p in model.metadata_props]
    assert any(c.startswith("pair[1]: the trace was made for 4") for c in conditions)


def test_names_that_are_wanted():
    named = jitlite.to_onnx(Net().eval(), torch.ones(1, 3, 8, 8), input_names=["image"], output_names=["class"])
    assert (named.graph.input[0].name, named.graph.output[0].name) == ("image", "class")
    with pytest.raises(ValueError, match="1 different names are needed, for output"):
        jitlite.to_onnx(Net().eval(), torch.ones(1, 3, 8, 8), output_names=["a", "b"])


def test_a_model_without_operators():
    def same(x: Tensor) -> Tensor:
        return x

    x = torch.ones(2)
    check(run(jitlite.to_onnx(same, x), x), [x])

    def constant(x: Tensor) -> Tensor:
        return torch.arange(3.0)

    check(run(jitlite.to_onnx(constant, x), x), [torch.arange(3.0)])


def test_results_that_are_one_tensor():
    def twice(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x * 2
        return y, y, x.view(-1)

    x = torch.randn(2, 2)
    check(run(jitlite.to_onnx(twice, x), x), twice(x))


def test_operators_without_translation_are_all_named():
    def f(x: Tensor) -> Tensor:
        y = torch.lgamma(x)
        return torch.digamma(x) + y.relu() + torch.lgamma(y)

    with pytest.raises(UnsupportedOperators) as info:
        jitlite.to_onnx(f, torch.ones(3))
    assert [(u.kind, u.count) for u in info.value.unsupported] == [("aten::lgamma", 2), ("aten::digamma", 1)]
    line = f.__code__.co_firstlineno
    text = str(info.value)
    assert f"test_to_onnx.py:{line + 1}" in text and f"test_to_onnx.py:{line + 2}" in text and "aten::relu" not in text


def draws(x: Tensor) -> Tensor:
    return x + torch.rand(3)


def writes(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


@pytest.mark.parametrize(
    ("f", "says"), [(draws, "aten::rand"), (writes, r"aten::copy_ \(.*test_to_onnx.py:\d+")],
    ids=["draws", "writes"],
)  # fmt: skip
def test_what_no_graph_does_is_refused(f, says):
    with pytest.raises(jitlite.CompileError, match=says):
        jitlite.to_onnx(f, torch.ones(3))


def test_training_mode_is_refused():
    with pytest.raises(ValueError, match="eval"):
        jitlite.to_onnx(Net(), torch.ones(1, 3, 8, 8))
    with pytest.raises(ValueError, match="no parameter 'y'"):
        jitlite.to_onnx(Net().eval(), torch.ones(1, 3, 8, 8), dynamic_shapes={"y": [0]})


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    net = Net()
    jitlite.script(net).save("net.pt")
    torch.save(torch.randn(2, 3, 8, 8), "x.pt")
    assert main(["convert", "net.pt", "--to", "onnx", "--input", "x.pt", "--dynamic", "x=0"]) == 0
    assert "net.onnx" in capsys.readouterr().out
    x = torch.randn(4, 3, 8, 8)
    with torch.no_grad():
        check(run(onnx.load("net.onnx"), x), [net.eval()(x)])
    for words in (["--force"], ["--force", "--input", "x.pt", "--dynamic", "x"], ["--force", "--input", "x=x.pt"]):
        assert main(["convert", "net.pt", "--to", "onnx", *words]) == 2
    told = capsys.readouterr().err
    assert "needs an --input" in told and "as in x=0,2" in told and "by position" in told


def test_large_models_have_their_weights_beside_them(tmp_path, monkeypatch):
    monkeypatch.setattr("jitlite.api.to_onnx._LARGEST_FILE", 100)
    net, path = nn.Linear(30, 40).eval(), Path(tmp_path) / "net.onnx"
    jitlite.to_onnx(net, torch.ones(2, 30), path)
    assert (tmp_path / "net.onnx.data").stat().st_size >= 30 * 40 * 4
    x = torch.randn(2, 30)
    found = onnxruntime.InferenceSession(str(path)).run(None, {"input": x.numpy()})
    check([torch.from_numpy(found[0])], [net(x)])


def test_weights_beside_a_model_are_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr("jitlite.api.to_onnx._LARGEST_FILE", 100)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        made = jitlite.to_onnx(nn.Linear(30, 40).eval(), torch.ones(2, 30), "net.onnx")
        assert sum(len(t.raw_data) for t in made.graph.initializer) == (30 * 40 + 40) * 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
    assert (tmp_path / "net.onnx.data").stat().st_size == (30 * 40 + 40) * 4


@pytest.mark.parametrize("largest", [100, 2**30], ids=["beside", "inside"])
def test_a_path_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch, largest):
    monkeypatch.setattr("jitlite.api.to_onnx._LARGEST_FILE", largest)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "none" / "net.onnx"):
        with pytest.raises(OSError, match=path.parent.name):
            jitlite.to_onnx(nn.Linear(30, 40).eval(), torch.ones(2, 30), path)
    assert [p.name for p in tmp_path.rglob("*")] == ["folder"]


def test_inputs_keep_their_names():
    def f(x: Tensor, output: Tensor) -> dict[str, Tensor]:
        return {"x": x + output, "output": x}

    x = torch.randn(2)
    made = jitlite.to_onnx(f, (x, x))
    assert [i.name for i in made.graph.input] == ["x", "output"]
    assert [o.name for o in made.graph.output] == ["x_2", "output_2"]
    check(run(made, x, x), [x + x, x])
    with pytest.raises(ValueError, match="called a"):
        jitlite.to_onnx(f, (x, x), input_names=["a", "b"], output_names=["c", "a"])


def test_numbers_among_the_results():
    def f(x: Tensor) -> tuple[Tensor, int, int, float]:
        return x + 1, x.size(0), 3, 2.5

    x = torch.randn(2, 3)
    check(run(jitlite.to_onnx(f, x), x), [x + 1, torch.tensor(2), torch.tensor(3), torch.tensor(2.5).double()])


def test_bfloat16():
    class Weights(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(20).bfloat16())

        def forward(self, x: Tensor) -> Tensor:
            return self.weight.float() + x

    net, x = Weights().eval(), torch.randn(20)
    check(run(jitlite.to_onnx(net, x), x), [net(x)])


class Assigns(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.calls, self.how = 0, how
        self.shapes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "seen":
            self.seen = self.seen + 1
        elif self.how == "calls":
            self.calls += 1
        else:
            self.shapes.append(x.dim())
        return x * 2 + self.seen + self.calls


class Outer(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner = Assigns(how)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


@pytest.mark.without_engine
@pytest.mark.parametrize(
    ("how", "form"),
    [("seen", "plain"), ("calls", "plain"), ("shapes", "plain"), ("seen", "script"), ("calls", "script")],
)
def test_a_model_that_assigns_attributes_is_refused_and_runs_as_it_was(how, form):
    net, x = Outer(how).eval(), torch.ones(2)
    model = jitlite.script(net) if form == "script" else net
    with pytest.raises(jitlite.NotSupportedError, match=f"inner.{how}"):
        jitlite.to_onnx(model, x)
    fast = jitlite.optimize(model, x, engine="onnxruntime")
    with torch.no_grad():
        found = [fast(x)[0].item() for _ in range(3)]
    assert found == ([2.0] * 3 if how == "shapes" else [3.0, 4.0, 5.0])


def nothing(x: Tensor) -> None:
    return None


def of_a_list(x: list[Tensor]) -> Tensor:
    return x[0]


def selects(x: Tensor) -> Tensor:
    return x.sum().index_select(0, torch.tensor([0]))


@pytest.mark.parametrize(
    ("f", "args", "says"),
    [
        (nothing, (torch.ones(3),), "gives no tensor"),
        (of_a_list, ([torch.ones(3)],), "argument x is of type list"),
        (selects, (torch.ones(3),), "without dimensions"),
    ],
    ids=["no results", "a list", "no dimensions"],
)
def test_what_has_no_meaning_in_onnx_is_refused(f, args, says):
    with pytest.raises(jitlite.NotSupportedError, match=says):
        jitlite.to_onnx(f, args)


def test_the_sign_of_nan():
    def f(x: Tensor) -> Tensor:
        return torch.sign(x)

    x = torch.tensor([float("nan"), -2.0, 0.0, float("inf")])
    check(run(jitlite.to_onnx(f, x), x), [f(x)])
