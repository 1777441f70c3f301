"""Graphs written with core ATen: the same results, for other sizes too, and one report of what cannot be."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jitlite
from jitlite.compat.testing import create_function_from_graph
from jitlite.passes.rules import core_aten
from jitlite.passes.to_core_aten import CanonicalizationError, lower_to_core_aten


def lowered(function, inputs, **options):
    """The traced function with operators of core ATen, and the report."""
    traced = jitlite.trace(function, inputs, check_trace=False, strict=False)
    module = traced if isinstance(function, nn.Module) else None
    graph = traced.graph.copy()
    report = lower_to_core_aten(graph, inputs, module=module, **options)
    compiled = create_function_from_graph("f", graph)
    return (lambda *args: compiled(*([] if module is None else [module]), *args)), report, graph


def assert_core(graph):
    for node in graph.all_nodes():
        assert node.op is None or core_aten.is_supported(node.op), node.kind


def check(function, inputs, *others):
    """Results and gradients are the function's, for the example and for others."""
    if isinstance(function, nn.Module):
        function.eval()
    run, report, graph = lowered(function, inputs)
    assert_core(graph)
    for given in (inputs, *others):
        wanted, ours = with_gradients(function, given), with_gradients(run, given)
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4)
    return report


def with_gradients(function, inputs):
    given = [i.detach().clone().requires_grad_(i.is_floating_point()) for i in inputs]
    results = function(*given)
    results = results if isinstance(results, tuple | list) else [results]
    floats = [r for r in results if r.is_floating_point() and r.requires_grad]
    if floats:
        sum((r * torch.arange(r.numel()).reshape(r.shape).cos()).sum() for r in floats).backward()
    return list(results), [g.grad for g in given if g.grad is not None]


torch.manual_seed(0)
X = torch.randn(4, 6)

MODULES = {
    "linear": (nn.Linear(6, 3), (X,), (torch.randn(7, 6),)),
    "perceptron": (
        nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.LayerNorm(5), nn.Softmax(-1), nn.Dropout(0.5)),
        (X,),
        (torch.randn(2, 6),),
    ),
    "convolutions": (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 1),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
        ),
        (torch.randn(2, 3, 8, 8),),
        (torch.randn(3, 3, 10, 12),),
    ),
    "transposed": (nn.ConvTranspose2d(3, 2, 3, stride=2), (torch.randn(1, 3, 4, 4),), (torch.randn(2, 3, 5, 6),)),
    "groups": (nn.GroupNorm(2, 4), (torch.randn(2, 4, 5, 5),), (torch.randn(3, 4, 6, 2),)),
    "attention": (nn.MultiheadAttention(8, 2, batch_first=True), (torch.randn(2, 5, 8),) * 3, ()),
    "transformer": (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (torch.randn(2, 5, 8),),
        (torch.randn(3, 7, 8),),
    ),
    "recurrent": (nn.LSTM(4, 5, batch_first=True), (torch.randn(2, 3, 4),), ()),
    "embedding": (nn.Embedding(10, 4), (torch.tensor([[1, 2], [3, 0]]),), (torch.tensor([[5]]),)),
    "activations": (
        nn.Sequential(nn.GELU(), nn.SiLU(), nn.Mish(), nn.ELU(), nn.Hardswish(), nn.Softplus(), nn.LogSigmoid()),
        (X,),
        (torch.randn(3, 2),),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    module, inputs, others = MODULES[name]

    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *args):
            result = self.inner(*args)
            return result[0] if isinstance(result, tuple) else result

    check(First(), inputs, *([others] if others else []))


FUNCTIONS = {
    "statistics": lambda x: (x.std(0), x.var(), x.std(1, keepdim=True), x.mean(0), x.logsumexp(1)),
    "reductions": lambda x: (x.sum(), x.max(), x.min(), x.amax(0), x.prod(1), x.cumsum(0)),
    "matrices": lambda x: (x @ x.t(), torch.matmul(x, x.transpose(0, 1)), torch.einsum("ij,kj->ik", x, x)),
    "batches": lambda x: (torch.matmul(x.reshape(-1, 2, 3), x.reshape(-1, 3, 2)), torch.tensordot(x, x, ([1], [1]))),
    "views": lambda x: (
        x.reshape(2, -1),
        x.flatten(),
        x.T,
        x.expand(3, -1, -1),
        x.unflatten(1, (2, 3)),
        x.movedim(0, 1),
    ),
    "parts": lambda x: (x[1:, ::2], x.narrow(0, 1, 2), x.split(2, 1)[0], x.index_select(0, torch.tensor([1, 0]))),
    "joined": lambda x: (torch.stack([x, x]), torch.cat([x, x * 2], 1), torch.hstack([x, x]), x.repeat(2, 1)),
    "activations": lambda x: (F.silu(x), F.mish(x), F.softplus(x), F.selu(x), F.hardsigmoid(x), F.glu(x), F.celu(x)),
    "losses": lambda x: (F.mse_loss(x, x * 2), F.smooth_l1_loss(x, x + 1), F.l1_loss(x, x * 3), F.huber_loss(x, x + 2)),
    "made": lambda x: (torch.zeros_like(x), torch.ones(3), x.new_full((2,), 4.0), torch.arange(5), torch.eye(3)),
    "compared": lambda x: (torch.where(x > 0, x, -x), x.clamp(-1, 1), x.masked_fill(x < 0, 2.0), torch.maximum(x, -x)),
    "scalars": lambda x: (1 - x, 2.0 / x, 2**x, x**2, torch.rsub(x, 1), x.addcmul(x, x, value=2.0)),
    "norms": lambda x: (x.norm(), F.normalize(x, dim=1), F.cosine_similarity(x, x * 2), F.layer_norm(x, (6,))),
    "triangles": lambda x: (x.tril(), x.triu(1), x.diagonal(), torch.outer(x[0], x[1]), x.flip(0), x.roll(1, 0)),
    "images": lambda x: (F.pad(x, (1, 2)), F.interpolate(x[None, None], scale_factor=2.0), F.avg_pool1d(x, 2)),
    "transcendental": lambda x: (x.exp2(), x.expm1(), x.sigmoid(), x.sinc(), x.abs().log2(), x.logit(0.1), x.tanh()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    check(FUNCTIONS[name], (X,))


@pytest.mark.parametrize("name", ["statistics", "activations", "losses", "norms", "compared", "scalars"])
def test_functions_with_other_sizes(name):
    check(FUNCTIONS[name], (X,), (torch.randn(9, 6),))


CELLS = {
    "gru": (3, lambda x, h, w, u, b, c: torch.gru_cell(x, h, w, u, b, c)),
    "gru without bias": (3, lambda x, h, w, u, b, c: torch.gru_cell(x, h, w, u) + b.sum() * c.sum()),
    "tanh": (1, lambda x, h, w, u, b, c: torch.rnn_tanh_cell(x, h, w, u, b, c)),
    "relu": (1, lambda x, h, w, u, b, c: torch.rnn_relu_cell(x, h, w, u, b, c)),
}


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_cells(name):
    gates, cell = CELLS[name]
    weights = [torch.randn(gates * 5, *rest) for rest in ((6,), (5,), (), ())]
    check(cell, (X, torch.randn(4, 5), *weights), (torch.randn(7, 6), torch.randn(7, 5), *weights))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("batches", [(1, 4), (4, 1)], ids=str)
def test_recurrent_cells_take_one_batch(name, batches):
    gates, cell = CELLS[name]
    weights = [torch.randn(gates * 5, *rest) for rest in ((6,), (5,), (), ())]
    run, _, _ = lowered(cell, (X, torch.randn(4, 5), *weights))
    wrong = torch.randn(batches[0], 6), torch.randn(batches[1], 5), *weights
    for function in (cell, run):
        with pytest.raises(RuntimeError):
            function(*wrong)


def test_classes_as_targets():
    def function(x, target):
        return F.cross_entropy(x, target, label_smoothing=0.1) + F.nll_loss(F.log_softmax(x, 1), target)

    report = check(function, (X, torch.tensor([1, 2, 3, 0])), (torch.randn(2, 6), torch.tensor([5, 0])))
    assert any("cross_entropy_loss" in a and "self.size(0), target.size(0)" in a for a in report.assumptions)


def test_writes_of_the_graphs_own_are_removed_first():
    def function(x):
        y = x * 2
        y.add_(1)
        y.mul_(x)
        return F.silu(y)

    check(function, (X,))


def test_views_are_copied_so_that_any_layout_will_do():
    run, _, _ = lowered(lambda x: x.reshape(-1) * 2, (torch.randn(3, 4),))
    x = torch.randn(4, 3).t()
    assert torch.equal(run(x), x.reshape(-1) * 2)
    run, _, _ = lowered(lambda x: torch.einsum("ij,kj->ik", x, x), (torch.randn(3, 4),))
    torch.testing.assert_close(run(x), torch.einsum("ij,kj->ik", x, x))


def test_control_flow_is_kept():
    @jitlite.script
    def function(x, n: int):
        for i in range(n):
            if i % 2 == 0:
                x = F.silu(x)
            else:
                x = F.mish(x) + 1
        return x

    graph = function.graph.copy()
    lower_to_core_aten(graph, [X, 3])
    assert_core(graph)
    assert {n.kind for n in graph.nodes} & {"prim::Loop"}
    torch.testing.assert_close(create_function_from_graph("f", graph)(X, 5), function(X, 5))


def test_all_that_is_left_is_reported_at_once():
    def function(x):
        y = torch.lgamma(x) + torch.lgamma(x * 2)
        z = torch.dropout(y, 0.5, True)
        x.add_(1)
        return z

    with pytest.raises(CanonicalizationError) as caught:
        lowered(function, (X.clone(),))
    found = {u.kind: u for u in caught.value.unsupported}
    assert set(found) == {"aten::lgamma", "aten::dropout", "aten::add_"}
    assert found["aten::lgamma"].count == 2
    assert found["aten::lgamma"].places[0].startswith(f"{__file__}:")
    text = str(caught.value)
    assert text.startswith("4 operators cannot be written with those of core ATen:")
    assert "aten::lgamma, 2 times: there is no decomposition for it" in text
    assert "aten::dropout, 1 time: it draws random numbers" in text


def test_what_may_stay():
    _, report, graph = lowered(lambda x: torch.lgamma(F.silu(x)), (X,), allow=["aten::lgamma"])
    assert not report.unsupported
    assert report.decomposed == {"aten::silu": 1}
    _, report, _ = lowered(torch.lgamma, (X,), strict=False)
    assert [u.kind for u in report.unsupported] == ["aten::lgamma"]


def test_what_is_taken_for_granted_about_sizes():
    _, report, _ = lowered(lambda x: x.chunk(2, 0)[1], (X,))
    assert any("self.size(0)" in a for a in report.assumptions)
    with pytest.raises(CanonicalizationError, match="depends on sizes"):
        lowered(lambda x: x.chunk(2, 0)[1], (X,), may_assume=False)
    lowered(F.silu, (X,), may_assume=False)


def test_without_examples_types_have_to_say_it():
    graph = jitlite.trace(F.silu, X).graph.copy()
    with pytest.raises(CanonicalizationError, match="give example inputs"):
        lower_to_core_aten(graph)


def test_examples_are_as_many_as_inputs():
    module = jitlite.script(nn.Linear(4, 2))
    with pytest.raises(ValueError, match="2 inputs, and 1 were given; the graph of a method needs its module"):
        lower_to_core_aten(module.graph.copy(), [X])
    with pytest.raises(ValueError, match="2 inputs, and 3 were given$"):
        lower_to_core_aten(module.graph.copy(), [X, X], module=module)


def test_sizes_that_depend_on_what_tensors_hold():
    check(lambda x: x[x[:, 0] > 0].softmax(1), (X,))
    check(lambda x: torch.nonzero(x > 0).float().std(0), (X,))


def test_nothing_to_do():
    _, report, _ = lowered(lambda x: torch.relu(x) + 1, (X,))
    assert not report.decomposed
    assert not report.unsupported


def test_other_types_of_elements():
    check(lambda x: (F.silu(x), x.softmax(0)), (X.double(),))
    check(lambda x: x.float().std(0), (torch.arange(12).reshape(3, 4),))
    check(lambda x: (x * 2).exp2(), (torch.arange(4),))


def test_empty_and_scalar_tensors():
    check(lambda x: F.silu(x).sum(), (torch.ones(0, 3),))
    check(lambda x: F.silu(x), (torch.tensor(2.0),))


def test_what_is_no_graph_is_refused():
    with pytest.raises(TypeError, match="expected a graph, such as the .graph of a script, got ScriptFunction"):
        lower_to_core_aten(jitlite.script(_doubled), (torch.ones(1),))


def _doubled(x: torch.Tensor):
    return x * 2
