"""Traces against torch.jit.trace: the same operators in the same order, but for the differences listed here."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jitlite

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "examples" / "models"))

NOT_NEEDED = frozenset({"aten::Int", "aten::ScalarImplicit"})
"""torch.jit.trace makes a tensor of each size and numbers of that again; here sizes stay numbers."""

RENAMED = {"aten::floor_divide": "aten::floordiv", "aten::floor_divide_": "aten::floordiv"}
"""Arithmetic of sizes is that of numbers here, not of tensors."""


def kinds(graph):
    """The operators of a graph of torch.jit or of jitlite; structure, attributes and constants do not count."""
    nodes = graph.nodes() if callable(graph.nodes) else graph.nodes
    names = [n.kind() if callable(n.kind) else n.kind for n in nodes]
    return [RENAMED.get(n, n) for n in names if n.startswith("aten::") and n not in NOT_NEEDED]


def both(function, *examples):
    """The operators of both traces."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.jit.trace(function, examples, check_trace=False, strict=False)
        ours = jitlite.trace(function, examples, check_trace=False, strict=False)
    if isinstance(ours, nn.Module):  # both have a method for each submodule
        return kinds(ours.inlined_graph), kinds(theirs.inlined_graph)
    return kinds(ours.graph), kinds(theirs.graph)


FUNCTIONS = {
    "arithmetic": lambda x: ((x + 1) * 2 - x) / 3 ** x,
    "in place": lambda x: x.clone().add_(1).mul_(x).clamp_(0, 1),
    "views": lambda x: x.view(-1).reshape(x.size(1), -1).t().unsqueeze(0).squeeze(),
    "sizes": lambda x: x.view(x.size(0) * 2, -1) + x.shape[1],
    "slices": lambda x: x[1:3, 1:3, None] + x[2:, None, -2:],
    "select": lambda x: x[0] + x[x.size(0) - 1],
    "index": lambda x: x[x > 0].sum() + x[torch.arange(2)].sum(),
    "assignment": lambda x: x.clone().index_put_((x[0].long(),), x[1]),
    "reductions": lambda x: x.sum() + x.mean(0).norm() + x.max(1)[0].prod() + torch.var(x),
    "joining": lambda x: torch.cat([x, torch.stack([x[0], x[1]])], 0).chunk(2)[0],
    "splitting": lambda x: x.split(2)[1] + x.unbind(0)[0],
    "dtypes": lambda x: x.to(torch.float64).int().float().type_as(x),
    "factories": lambda x: torch.zeros(2, x.size(1)) + torch.full((2, 1), 1.5) + torch.arange(x.shape[1]),
    "random": lambda x: torch.rand(2) + torch.randn_like(x)[0, :2] + F.dropout(x, 0.5)[0, :2],
    "functional": lambda x: F.softmax(F.gelu(F.relu(x)), -1) + F.layer_norm(x, (4,)) + F.silu(x).sigmoid(),
    "matrices": lambda x: torch.einsum("ij,kj->ik", x, x) @ (x @ x.t()) + torch.linalg.inv(torch.eye(4)),
    "padding": lambda x: F.pad(x, (1, 1)) + F.pad(x, (x.size(0) - 3, 1)),
    "sampling": lambda x: F.interpolate(x[None, None], scale_factor=2) + F.avg_pool2d(F.interpolate(x[None, None],
                                                                                       size=(16, 16)), 2),
    "embedding": lambda x: F.embedding(x.long().abs() % 3, torch.ones(3, 2)),
    "where": lambda x: torch.where(x > 0, x, -x).masked_fill(x < 1, 0.0),
    "losses": lambda x: F.mse_loss(x, x + 1) + F.cross_entropy(x, x[0].long().abs() % 4),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    ours, theirs = both(FUNCTIONS[name], torch.randn(4, 4))
    assert ours == theirs


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)).flatten(1))


def script_names(found):
    """torch.jit.trace sees convolutions one level lower than Python calls them, and than torch.jit.script does."""
    return ["aten::_convolution" if n.startswith("aten::conv") else n for n in found]


@pytest.mark.parametrize("training", [True, False])
def test_modules(training):
    ours, theirs = both(Convolutions().train(training), torch.randn(2, 1, 8, 8))
    assert script_names(ours) == theirs


@pytest.mark.parametrize("name", ["resnet", "mobilenet"])
def test_example_models(name):
    example = importlib.import_module(name)
    ours, theirs = both(example.build().eval(), example.batches(1)[0][0])
    assert script_names(ours) == theirs


DIFFERENCES = [
    # what torch drops because all there is is taken is there: other inputs may have more
    (lambda x: x.contiguous() + 1, ["aten::contiguous", "aten::add"]),
    # numbers made in Python are constants, without the conversions that made them
    (lambda x: x + torch.tensor([1.0]), ["aten::add"]),
    # `:` is no operator
    (lambda x: x[:, 0], ["aten::select"]),
    # `2 - x` calls one operator
    (lambda x: 2 - x, ["aten::rsub"]),
    # `.data` is followed
    (lambda x: x.data + x, ["aten::detach", "aten::add"]),
]


@pytest.mark.parametrize(("function", "wanted"), DIFFERENCES)
def test_known_differences(function, wanted):
    ours, _ = both(function, torch.randn(4, 4))
    assert ours == wanted


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))

    def forward(self, x):
        y = self.first(x)
        with torch.autocast("cpu", enabled=False):
            z = self.first(x)
        return y, z, self.second(y), F.softmax(x @ x, -1) @ y, torch.cat([x, y])


@pytest.mark.parametrize("traced_under", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("saved", [False, True])
def test_autocast_around_a_trace_is_part_of_it(traced_under, saved, tmp_path):
    model, x = Mixed(), torch.randn(4, 4)
    with torch.autocast("cpu", traced_under):
        expected = [r.dtype for r in model(x)]
        ours = jitlite.trace(model, x)
    with torch.autocast("cpu", traced_under, cache_enabled=False):  # casts that are kept are constants to torch.jit
        theirs = torch.jit.trace(model, x, check_trace=False)
    if saved:
        ours.save(tmp_path / "traced.pt")
        ours = jitlite.load(tmp_path / "traced.pt")
        assert [r.dtype for r in torch.jit.load(tmp_path / "traced.pt")(x)][:2] == expected[:2]
    for mine, other in zip(ours(x), theirs(x), strict=True):
        assert mine.dtype is other.dtype
        torch.testing.assert_close(mine, other)
    with torch.autocast("cpu", traced_under):
        assert [r.dtype for r in ours(x)] == expected
        assert [r.dtype for r in theirs(x)] != expected  # what is off within is on again for torch.jit's
    assert [r.dtype for r in ours(x)] == expected


def test_autocast_reaches_into_composed_operators():
    x = torch.randn(4, 4)

    def product(x):
        return torch.einsum("ij,jk->ik", x, x)

    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = jitlite.trace(product, x), torch.jit.trace(product, x, check_trace=False)
    assert (ours(x).dtype, theirs(x).dtype) == (torch.bfloat16, torch.float32)
