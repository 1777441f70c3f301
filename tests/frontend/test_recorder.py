"""The recorder that both levels of tracing tell."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import jitlite
from jitlite.frontend import tracing

LEVELS = ("python", "dispatcher")
FOLDER = Path(str(tracing.__file__)).parent


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "normalize",
    [
        lambda x, mean, var: torch.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5),
        lambda x, mean, var: torch.batch_norm(x, None, None, mean, var, True, 0.1, 1e-5, False),
        lambda x, mean, var: torch.instance_norm(x, None, None, mean, var, True, 0.1, 1e-5, False),
    ],
)
def test_what_writes_statistics_stays_though_its_result_is_unused(level, normalize):
    def f(x, mean, var):
        normalize(x, mean, var)
        return x + 1

    def statistics():
        return torch.zeros(3), torch.ones(3)

    x = torch.randn(4, 3, 5)
    traced = jitlite.trace(f, (x, *statistics()), check_trace=False, level=level)
    ours, theirs = statistics(), statistics()
    traced(x, *ours)
    f(x, *theirs)
    assert not torch.equal(ours[0], torch.zeros(3))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("level", LEVELS)
def test_nodes_know_the_casting_block_that_they_are_in(level):
    def f(x):
        with jitlite.autocast(False):
            y = x.sin()
        return y.cos()

    nodes = list(jitlite.trace(f, (torch.ones(2),), check_trace=False, level=level).graph.all_nodes())
    scopes = {n.kind: n.scope for n in nodes if n.kind in ("aten::sin", "aten::cos")}
    assert scopes == {"aten::sin": "autocast:0", "aten::cos": ""}


class _Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return torch.stack([self.inner(x), self.scale.expand(4, 2)]).sum((0, 1)) * 2


@pytest.mark.parametrize("level", LEVELS)
def test_overloads_lists_and_state_are_recorded_alike(level):
    traced = jitlite.trace(_Layer(), (torch.ones(4, 3),), check_trace=False, level=level)
    nodes = list(traced.inlined_graph.all_nodes())
    found = {n.kind: n for n in nodes}
    assert {"inner", "scale", "weight", "bias"} == {n.attributes["name"] for n in nodes if n.kind == "prim::GetAttr"}
    assert found["aten::sum"].op.schema.overload == "dim_IntList"
    assert found["aten::stack"].inputs[0].node.kind == "prim::ListConstruct"
    assert found["aten::mul"].op.schema.overload in ("Tensor", "Scalar")


_MADE_BY_THE_RECORDER = ("ops.lookup", "set_op", "insert_call", "Graph()", '"prim::PythonOp"', '"prim::GetAttr"',
                         '"prim::CallMethod"')  # fmt: skip


@pytest.mark.parametrize("name", ["trace", "traced_values", "dispatch_trace", "graph_backend"])
def test_the_levels_leave_nodes_of_calls_to_the_recorder(name):
    text = (FOLDER / f"{name}.py").read_text()
    for made in _MADE_BY_THE_RECORDER:
        assert made not in text, f"{name}.py makes what recorder.py makes: {made}"


def test_the_recorder_makes_the_nodes_of_calls():
    text = (FOLDER / "recorder.py").read_text()
    assert all(made in text for made in _MADE_BY_THE_RECORDER)
