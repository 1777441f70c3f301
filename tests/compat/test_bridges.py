"""Tools that walk graphs of torch.jit, where they are installed: what docs/bridges.md says of them."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn

import jitlite


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        i = 0
        while bool(x.sum() < 10) and i < 5:
            x = self.lin(x) + 1.0
            i += 1
        return x


def image_model() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


MODELS: dict[str, Any] = {
    "layers": (lambda: nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4), nn.GELU(), nn.Dropout()), torch.rand(2, 8)),
    "loop": (Steps, torch.linspace(0, 1, 16).view(2, 8)),  # its sum is below 10, so that the loop runs
    "images": (image_model, torch.rand(1, 3, 8, 8)),
}
COMPILE: dict[str, Any] = {
    "traced": lambda m, x: jitlite.trace(m, x),
    "scripted": lambda m, x: jitlite.script(m),
    "frozen": lambda m, x: jitlite.freeze(jitlite.script(m)),
}
ALL = [(name, how) for name in MODELS for how in COMPILE]


def compiled(name: str, how: str) -> tuple[nn.Module, Any, torch.Tensor]:
    make, x = MODELS[name]
    model = make().eval()
    return model, COMPILE[how](model, x), x


@pytest.mark.slow
@pytest.mark.parametrize("name, how", [c for c in ALL if c[0] != "images" or c[1] == "traced"])
def test_coremltools_converts(name, how):
    coremltools = pytest.importorskip("coremltools")
    _, made, x = compiled(name, how)
    with jitlite.drop_in():
        converted = coremltools.convert(
            made,
            inputs=[coremltools.TensorType(shape=x.shape)],
            convert_to="mlprogram",
            minimum_deployment_target=coremltools.target.iOS15,
        )
    assert converted._mil_program.functions["main"].operations


@pytest.mark.slow
@pytest.mark.parametrize("name, how", [c for c in ALL if c[0] != "images" or c[1] == "traced"])
def test_openvino_converts(name, how):
    openvino = pytest.importorskip("openvino")
    model, made, x = compiled(name, how)
    with jitlite.drop_in():
        converted = openvino.convert_model(made, example_input=x)
    (result,) = openvino.compile_model(converted, "CPU")(x.numpy()).values()
    assert torch.allclose(torch.from_numpy(result), model(x), atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["eager", "scripted", "traced"])
def test_tensorboard_shows(how, tmp_path):
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    model, x = image_model().eval(), MODELS["images"][1]
    given = model if how == "eager" else COMPILE[how](model, x)
    with jitlite.drop_in(), SummaryWriter(str(tmp_path)) as writer:
        writer.add_graph(given, x)
    assert any(b"aten::batch_norm" in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_onnx_by_way_of_an_archive(name):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model, scripted, x = compiled(name, "scripted")
    file, target = io.BytesIO(scripted.save_to_buffer()), io.BytesIO()
    torch.onnx.export(torch.jit.load(file), (x,), target, dynamo=False, input_names=["x"])
    (result,) = runtime.InferenceSession(target.getvalue()).run(None, {"x": x.numpy()})
    assert torch.allclose(torch.from_numpy(result), model(x), atol=1e-4)


class Walker:
    """What converters ask of a graph: each value, its type and constant, by torch's names only."""

    def __init__(self, module: Any) -> None:
        self.module, self.seen = module, []

    def walk(self) -> list[tuple[Any, ...]]:
        assert isinstance(self.module, torch.jit.ScriptModule)
        graph = self.module.forward.graph
        torch._C._jit_pass_inline(graph)
        torch._C._jit_pass_dce(graph)
        torch._C._jit_pass_lint(graph)
        graph = torch._C._jit_pass_canonicalize(graph)
        assert isinstance(graph, torch._C.Graph)
        for value in graph.inputs():
            self.value(value)
        for node in graph.nodes():
            self.node(node)
        return self.seen

    def node(self, node: Any) -> None:
        assert isinstance(node, torch.Node) and node.hasMultipleOutputs() == (node.outputsSize() > 1)
        attributes = {n: getattr(node, node.kindOf(n))(n) for n in node.attributeNames()}
        assert isinstance(node.scopeName(), str) and isinstance(node.getModuleHierarchy(), str)
        self.seen.append((node.kind(), *(type(a).__name__ for a in attributes.values())))
        for value in (*node.inputs(), *node.outputs()):
            self.value(value)
        for block in node.blocks():
            assert block.owningNode() == node
            for inner in block.nodes():
                self.node(inner)

    def value(self, value: Any) -> None:
        t = value.type()
        assert isinstance(value, torch.Value) and isinstance(t, torch.Type) and t.kind() and str(t) and t.str()
        if isinstance(t, torch.TensorType):
            assert t.scalarType() is None or t.sizes() is None or len(t.sizes()) == t.dim()
        if isinstance(t, torch.ListType | torch.OptionalType):
            assert isinstance(t.getElementType(), torch.Type)
        assert value.node().output() == value if value.node().outputsSize() == 1 else True
        value.toIValue()


def walked(module: Any) -> list[tuple[Any, ...]]:
    with jitlite.drop_in():
        return Walker(module).walk()


@pytest.mark.parametrize("name, how", ALL)
def test_graphs_are_walked(name, how):
    assert len({row[0] for row in walked(compiled(name, how)[1])}) > 2


def test_a_walker_sees_what_torch_shows_it():
    """On a model of torch.jit the same walker finds constants and attributes of the same kinds."""
    x = MODELS["layers"][1]
    ours = walked(jitlite.trace(MODELS["layers"][0]().eval(), x))
    theirs = Walker(torch.jit.trace(MODELS["layers"][0]().eval(), x)).walk()
    for kind in ("aten::linear", "prim::GetAttr", "aten::layer_norm", "aten::gelu"):
        assert [row for row in ours if row[0] == kind] == [row for row in theirs if row[0] == kind]
    assert {row for row in theirs if row[0] == "prim::Constant"} >= {r for r in ours if r[0] == "prim::Constant"}
