"""`jitlite.to_stablehlo`: the text of operators and models, which needs no other package.

`golden/engines/stablehlo.txt` has the text of each case; `pytest --accept` rewrites it and still fails that run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from control_flow_models import of_one_size
from torch import Tensor, nn

import jitlite
from jitlite.cli import main
from jitlite.engines.stablehlo.builder import CONVERTERS
from jitlite.engines.whole_graphs import UnsupportedOperators

GOLDEN = Path(__file__).parent.parent / "golden" / "engines" / "stablehlo.txt"
_HEADING = "--- case: "


def broadcasts(x: Tensor, y: Tensor) -> Tensor:
    return x[:, None] * 2 + y


def linear(x: Tensor) -> Tensor:
    return F.linear(x, torch.ones(2, 3), torch.zeros(2)).relu()


def convolves(x: Tensor) -> Tensor:
    return F.max_pool2d(F.conv2d(x, torch.ones(4, 1, 3, 3), None, 2, 1, 1, 2), 2)


def reduces(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean(0), x.argmax(1)


def shares(x: Tensor) -> Tensor:
    return F.softmax(x, 1)


def views(x: Tensor) -> Tensor:
    return x.reshape(-1, 2)[1:].t()


def compares(x: Tensor) -> Tensor:
    return torch.where((x > 0) & ~x.isnan(), x.double(), float("-inf"))


def indexes(x: Tensor, i: Tensor) -> Tensor:
    return F.embedding(i, x)


def fills(x: Tensor) -> Tensor:
    return torch.arange(x.size(0)) + torch.zeros(x.size(0) * 2, dtype=torch.int64)[::2]


def writes_half(x: Tensor) -> Tensor:
    return (x.half() @ x.half().t()).bfloat16()


def orders(x: Tensor) -> Tensor:
    return x.sort(1, descending=True)[1]


def puts(x: Tensor, i: Tensor) -> Tensor:
    return x.scatter_add(1, i, x)


def sums_up(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.cumsum(1), x.cumsum(0)


ROWS = (torch.ones(4, 3),)
TEXTS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "sizes that are broadcast": (broadcasts, (torch.ones(4, 3), torch.ones(5, 3))),
    "a product": (linear, ROWS),
    "a convolution in groups, and pooling": (convolves, (torch.ones(4, 2, 8, 8),)),
    "reductions": (reduces, ROWS),
    "softmax": (shares, ROWS),
    "sizes as formulas": (views, (torch.ones(4, 6),)),
    "comparisons": (compares, ROWS),
    "indices": (indexes, (torch.ones(5, 3), torch.ones(4, dtype=torch.int64))),
    "what depends on sizes alone": (fills, ROWS),
    "halves": (writes_half, ROWS),
    "an order": (orders, ROWS),
    "elements that are put at indices": (puts, (torch.ones(4, 3), torch.ones(4, 3, dtype=torch.int64))),
    "sums of all elements before": (sums_up, ROWS),
}


def golden_texts() -> dict[str, str]:
    parts = GOLDEN.read_text().split(_HEADING)[1:] if GOLDEN.exists() else []
    return {name: text.strip() for name, _, text in (part.partition("\n") for part in parts)}


def text_of(f: Callable[..., object], args: tuple[Tensor, ...]) -> str:
    names = f.__code__.co_varnames
    text = jitlite.to_stablehlo(f, args, dynamic_shapes={names[len(args) - 1]: [0], names[0]: [0]})
    return "\n".join(line for line in text.splitlines() if "the trace was made" not in line).strip()


def test_texts_are_those_of_the_golden_file(accept):
    found = {name: text_of(*case) for name, case in TEXTS.items()}
    if found != golden_texts() and accept:
        GOLDEN.write_text("\n\n".join(f"{_HEADING}{name}\n{text}" for name, text in found.items()) + "\n")
        pytest.fail(f"{GOLDEN.name} was rewritten: look at it, then run without --accept")
    assert found == golden_texts()


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


IMAGE = torch.randn(2, 3, 8, 8)


def signature(text: str) -> str:
    return re.search(r"@main(.*) \{", text)[1]


@pytest.mark.parametrize("form", ["plain", "script", "trace", "optimized"])
def test_a_module_in_all_its_forms(form):
    net = Net().eval()
    model = {
        "plain": lambda: net, "script": lambda: jitlite.script(net), "trace": lambda: jitlite.trace(net, IMAGE),
        "optimized": lambda: jitlite.optimize(net, IMAGE),
    }[form]()  # fmt: skip
    text = jitlite.to_stablehlo(model, IMAGE, dynamic_shapes={"x": [0]})
    assert signature(text) == "(%arg0: tensor<?x3x8x8xf32>) -> (tensor<?x4xf32>)"
    assert "stablehlo.convolution" in text and 'dense<"0x' in text
    assert signature(jitlite.to_stablehlo(model, IMAGE)) == "(%arg0: tensor<2x3x8x8xf32>) -> (tensor<2x4xf32>)"


def test_containers():
    def f(x: Tensor, pair: tuple[Tensor, int]) -> dict[str, object]:
        y, n = pair
        return {"z": x * n + y, "more": [x, (y + 1, None)], "size": x.size(0)}

    text = jitlite.to_stablehlo(f, (torch.ones(2), (torch.ones(2), 4)))
    t = "tensor<2xf32>"
    assert signature(text) == f"(%arg0: {t}, %arg1: {t}) -> ({t}, {t}, {t}, tensor<i64>)"
    assert text.startswith("// forward of x, pair_0, to z, more_0, more_1_0, size\n")


def test_operators_without_translation_are_all_named():
    def f(x: Tensor) -> Tensor:
        y = torch.lgamma(x)
        return torch.digamma(x) + y.relu() + torch.lgamma(y)

    with pytest.raises(UnsupportedOperators) as info:
        jitlite.to_stablehlo(f, torch.ones(3))
    assert info.value.code == "J0812"
    assert [(u.kind, u.count) for u in info.value.unsupported] == [("aten::lgamma", 2), ("aten::digamma", 1)]
    line = f.__code__.co_firstlineno
    text = str(info.value)
    assert f"test_to_stablehlo.py:{line + 1}" in text and f"test_to_stablehlo.py:{line + 2}" in text


def draws(x: Tensor) -> Tensor:
    return x + torch.rand(3)


def nothing(x: Tensor) -> None:
    return None


def of_a_list(x: list[Tensor]) -> Tensor:
    return x[0]


def complex_numbers(x: Tensor) -> Tensor:
    return x.to(torch.complex64) * 2


@pytest.mark.parametrize(
    ("f", "args", "says"),
    [
        (draws, (torch.ones(3),), "aten::rand"),
        (nothing, (torch.ones(3),), "gives no tensor"),
        (of_a_list, ([torch.ones(3)],), "argument x is of type list"),
        (complex_numbers, (torch.ones(3),), "no torch.complex64"),
    ],
    ids=["draws", "no results", "a list", "complex"],
)
def test_what_has_no_meaning_in_stablehlo_is_refused(f, args, says):
    with pytest.raises(jitlite.CompileError, match=says):
        jitlite.to_stablehlo(f, args)


def test_branches_and_loops():
    models = of_one_size()
    for name, operations in {"branches": ["if"], "steps": ["if", "while"], "halves": ["while"]}.items():
        model, calls, varying = models[name]
        text = jitlite.to_stablehlo(model, calls[0], dynamic_shapes={n: [0] for n in varying})
        assert all(f'"stablehlo.{op}"' in text for op in operations), text


def grows(x: Tensor) -> Tensor:
    while bool(x.sum() < 10):
        x = torch.cat([x, x + 1])
    return x


def two_sizes(x: Tensor) -> Tensor:
    return x[:2] if bool(x.sum() > 0) else x[:1]


@pytest.mark.parametrize("f", [grows, two_sizes], ids=["a loop", "a branch"])
@pytest.mark.parametrize("varying", [False, {"x": [0]}], ids=["fixed", "varying"])
def test_what_changes_its_size_is_refused_with_its_line(f, varying):
    with pytest.raises(UnsupportedOperators, match="carried through it changes its sizes") as info:
        jitlite.to_stablehlo(f, torch.ones(4, 3), dynamic_shapes=varying)
    assert re.search(r"test_to_stablehlo\.py:\d+", str(info.value))


def test_training_mode_and_names_are_checked():
    with pytest.raises(ValueError, match="eval"):
        jitlite.to_stablehlo(Net(), IMAGE)
    with pytest.raises(ValueError, match="no parameter 'y'"):
        jitlite.to_stablehlo(Net().eval(), IMAGE, dynamic_shapes={"y": [0]})


def test_sizes_that_have_to_be_equal_are_conditions():
    def f(left: Tensor, right: Tensor) -> Tensor:
        return torch.cat([left, right], 1)

    text = jitlite.to_stablehlo(f, (torch.ones(2, 3), torch.ones(2, 4)), dynamic_shapes={"left": [0], "right": [1]})
    assert "// condition: left.size(0) == 2\n" in text or "tensor<2x?xf32>) -> (tensor<2x?xf32>)" in text


def test_what_stands_in_comments_ends_no_line():
    def f(x: Tensor) -> dict[str, Tensor]:
        return {"a\nmodule @other {}\u2028\x85": x}

    text = jitlite.to_stablehlo(f, torch.ones(2))
    assert [line for line in text.splitlines() if "other" in line][0].startswith("// forward of x, to a")


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    net = Net()
    jitlite.script(net).save("net.pt")
    torch.save(IMAGE, "x.pt")
    assert main(["convert", "net.pt", "--to", "stablehlo", "--input", "x.pt", "--dynamic", "x=0"]) == 0
    assert "net.mlir" in capsys.readouterr().out
    assert signature(Path("net.mlir").read_text()) == "(%arg0: tensor<?x3x8x8xf32>) -> (tensor<?x4xf32>)"
    assert main(["convert", "net.pt", "--to", "stablehlo", "--force"]) == 2
    assert "needs an --input" in capsys.readouterr().err


def test_each_kind_has_one_converter():
    with pytest.raises(ValueError, match="aten::relu has a converter to StableHLO"):
        CONVERTERS.of("aten::relu")(lambda out, x: x)


@pytest.mark.parametrize(
    "written",
    [({0: "batch"},), [0], "x", None, {"x": 0}, {"x": {0: 5}}, {"x": ["batch"]}, {"x": {"batch": 0}}],
    ids=str,
)
def test_sizes_that_vary_have_one_form(written):
    for call in (jitlite.to_stablehlo, jitlite.optimize):
        with pytest.raises(TypeError, match=r"dynamic_shapes: found .*\{'x': \[0\]\}"):
            call(Net().eval(), IMAGE, dynamic_shapes=written)
