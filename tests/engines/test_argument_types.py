"""What is said where `optimize`, `compare`, `to_onnx` and `to_stablehlo` get arguments of a wrong type."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import jitlite
from jitlite.engines.engine import Engine

NET = nn.Linear(3, 4).eval()
X = torch.ones(2, 3)
ENTRIES: dict[str, Callable[..., object]] = {
    "optimize": jitlite.optimize,
    "to_stablehlo": jitlite.to_stablehlo,
    "to_onnx": jitlite.to_onnx,
}


@pytest.fixture(params=list(ENTRIES))
def entry(request):
    if request.param == "to_onnx" and importlib.util.find_spec("onnx") is None:
        pytest.skip("onnx is not installed")
    return ENTRIES[request.param]


@pytest.mark.parametrize(
    ("inputs", "found"),
    [(3, "int"), ({"input": X}, "dict"), ("ab", "str"), (None, "NoneType"), ({X}, "set"), (1.5, "float")],
    ids=["int", "dict", "str", "None", "set", "float"],
)
def test_inputs(entry, inputs, found):
    with pytest.raises(TypeError, match=f"inputs: expected a tuple of arguments or a single tensor, got {found}"):
        entry(NET, inputs)


@pytest.mark.parametrize(
    ("model", "found"),
    [(3, "int"), ("net", "str"), (None, "NoneType"), (nn.Linear, "the class Linear; call the class")],
    ids=["int", "str", "None", "class"],
)
def test_models(entry, model, found):
    with pytest.raises(TypeError, match=f"model: expected an nn.Module or a function, got {found}"):
        entry(model, X)


def test_a_list_of_arguments_is_one_of_inputs(entry):
    assert entry(NET, [X]) is not None


@pytest.mark.parametrize("path", [3, ["net"], True], ids=["int", "list", "bool"])
@pytest.mark.parametrize("name", ["to_stablehlo", "to_onnx"])
def test_paths(name, path):
    with pytest.raises(TypeError, match="path: expected a path \\(str or os.PathLike\\), got"):
        ENTRIES[name](NET, X, path)


def test_a_path_may_be_an_object(tmp_path):
    jitlite.to_stablehlo(NET, X, Path(tmp_path) / "net.mlir")
    assert (tmp_path / "net.mlir").exists()


@pytest.mark.parametrize("given", [3, "name", [3], [None]], ids=["int", "str", "ints", "Nones"])
@pytest.mark.parametrize("argument", ["input_names", "output_names"])
def test_names(argument, given):
    with pytest.raises(TypeError, match=f"{argument}: expected a sequence of names, got"):
        jitlite.to_onnx(NET, X, **{argument: given})


@pytest.mark.parametrize("given", [3, "aten::mm", [3]], ids=["int", "str", "ints"])
@pytest.mark.parametrize("argument", ["allow", "deny"])
def test_kinds(argument, given):
    with pytest.raises(TypeError, match=f"{argument}: expected a sequence of kinds of nodes"):
        jitlite.optimize(NET, X, **{argument: given})


class Mine(Engine):
    pass


@pytest.mark.parametrize(
    ("engine", "found"), [(3, "int"), (None, "NoneType"), (Mine, "the class Mine; call the class")],
    ids=["int", "None", "class"],
)  # fmt: skip
def test_engines(engine, found):
    with pytest.raises(TypeError, match=f"engine: expected the name of an engine or an Engine, got {found}"):
        jitlite.optimize(NET, X, engine=engine)


def test_compare():
    with pytest.raises(TypeError, match="fast: expected what jitlite.optimize gives, got Linear"):
        jitlite.compare(NET, X)
    fast = jitlite.optimize(NET, X)
    for argument in ("rtol", "atol"):
        with pytest.raises(TypeError, match=f"{argument}: expected a number, got str"):
            jitlite.compare(fast, X, **{argument: "1e-3"})
