"""Preparation: the steps are data and are logged, handlers come first, and dtypes that are lacking are done without."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import jitlite
from jitlite.compat.testing import create_function_from_graph
from jitlite.ir.graph import Graph, constant_of
from jitlite.passes.casting_policy import AutocastPolicy, CastingOptions
from jitlite.passes.example_facts import facts_of
from jitlite.passes.narrowing import narrow_dtypes
from jitlite.passes.prepare import STEPS, Preparation, PreparationStep, prepare
from jitlite.passes.to_core_aten import CanonicalizationError

NARROW = {torch.int64: torch.int32, torch.float64: torch.float32}


def graph_of(function, *inputs) -> Graph:
    return jitlite.trace(function, inputs, check_trace=False).graph.copy()


def run(graph: Graph, *inputs):
    return create_function_from_graph("prepared", graph)(*inputs)


# -- steps


def gated(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    z = x * 2
    z.relu_()
    return F.silu(z), F.glu(z) + y[:2]


def test_each_step_is_logged_and_results_are_those_of_eager():
    x, y = torch.randn(2, 4), torch.randn(4)
    graph = graph_of(gated, x, y)
    done = prepare(graph, [x, y])
    assert [s.name for s in done.log] == [s.name for s in STEPS] and not done.unsupported
    assert {s.name for s in done.log if s.changed} >= {"writes", "core ATen"}
    assert "aten::silu, 1 times" in str(done) and done.log[-1].nodes == len(list(graph.all_nodes()))
    torch.testing.assert_close(run(graph, x, y), gated(x, y))


def test_what_is_left_is_reported_or_refused():
    def f(x: Tensor) -> Tensor:
        return torch.lgamma(x) + 1

    x = torch.ones(3)
    done = prepare(graph_of(f, x), [x], strict=False)
    assert [u.kind for u in done.unsupported] == ["aten::lgamma"] and "left: aten::lgamma" in str(done)
    with pytest.raises(CanonicalizationError, match=r"aten::lgamma, 1 time"):
        prepare(graph_of(f, x), [x])
    assert not prepare(graph_of(f, x), [x], handlers={"aten::lgamma": None}).unsupported


def test_the_order_may_be_another():
    seen: list[str] = []

    def notes(made: Preparation) -> bool:
        seen.append("ran")
        return False

    mine = PreparationStep("mine", notes)
    graph = graph_of(gated, torch.ones(2, 4), torch.ones(4))
    done = prepare(graph, [torch.ones(2, 4), torch.ones(4)], steps=[mine, *STEPS[:2]])
    assert seen == ["ran"] and [s.name for s in done.log] == ["mine", "casting policy", "calls"]


@jitlite.script
def tripled(x: Tensor) -> Tensor:
    return x + x + x


def test_handlers_of_users_come_first():
    x, y = torch.randn(2, 4), torch.randn(4)
    graph = graph_of(gated, x, y)
    done = prepare(graph, [x, y], handlers={"aten::silu": tripled})
    found, other = run(graph, x, y)
    z = x * 2
    z.relu_()
    torch.testing.assert_close(found, z * 3)
    torch.testing.assert_close(other, F.glu(z) + y[:2])
    assert any("aten::silu at" in note for s in done.log for note in s.notes if s.name == "handlers")


def test_handlers_that_do_not_fit_are_refused():
    graph = graph_of(gated, torch.ones(2, 4), torch.ones(4))
    with pytest.raises(ValueError, match="aten::glu takes 1 and gives 1 values, the operator takes 2 and gives 1"):
        prepare(graph, [torch.ones(2, 4), torch.ones(4)], handlers={"aten::glu": tripled})
    with pytest.raises(TypeError, match="expected a graph or a script for aten::glu, got int"):
        prepare(graph, handlers={"aten::glu": 3})
    with pytest.raises(TypeError, match="got str"):
        prepare("graph")


def test_the_policy_sees_modules_and_agrees_with_autocast():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).eval().requires_grad_(False)
    x = torch.randn(3, 4)
    traced = jitlite.trace(net, x, check_trace=False)
    graph = traced.graph.copy()
    done = prepare(graph, [x], module=traced, casting=CastingOptions(policy=AutocastPolicy()))
    assert done.log[0].changed
    with torch.autocast("cpu", dtype=torch.float16):
        expected = net(x)
    found = run(graph, traced, x)
    assert found.dtype is expected.dtype is torch.float16
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


# -- dtypes that are lacking


def indices(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    j = x.argmax(1) + i
    return j, x[i], torch.gather(x, 1, i[:, None]), F.embedding(i, x), torch.full((2,), 3), i.sum(), i.cumsum(0)


def doubles(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    y = x.double()
    return y.mean(0) + torch.arange(3), torch.cat([y, y * i[:, None]]), y.to(torch.float64).sum(dtype=torch.float64)


def orders(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    values, places = x.sort(1)
    return values, places * 2, x.topk(2, 1)[1], torch.where(i > 1, i, -i), (i // 2, i % 2, i << 1)[1]


def outside(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    return i, x.double(), i * 1


FUNCTIONS = [indices, doubles, orders, outside]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("lowered", [True, False])
def test_results_and_their_dtypes_are_those_of_eager(function, lowered):
    x, i = torch.randn(3, 3), torch.tensor([0, 2, 1])
    graph = graph_of(function, x, i)
    if lowered:
        done = prepare(graph, [x, i], lacks=NARROW)
        assert any(s.changed for s in done.log if s.name == "dtypes that are lacking")
    else:
        assert narrow_dtypes(graph, NARROW, [x, i]).changed
    torch.testing.assert_close(run(graph, x, i), function(x, i), rtol=1e-5, atol=1e-5)


def dtypes_of(graph: Graph, *inputs) -> set[torch.dtype]:
    """Of all results of operators but the casts at the borders, as they are in a call."""
    facts = facts_of(graph, inputs, None)
    nodes = [n for n in graph.nodes if n.op is not None and n.kind not in ("aten::_to_copy", "prim::Constant")]
    return {getattr(facts.get(v, v.type), "dtype", None) for n in nodes for v in n.outputs}


def test_nothing_computes_with_what_is_lacking():
    def f(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        return (i * 2 + 1 - i).abs(), x.double().mul(2).exp()

    x, i = torch.randn(3), torch.tensor([0, 2, 1])
    graph = graph_of(f, x, i)
    before = graph.copy()
    done = prepare(graph, [x, i], lacks=NARROW)
    assert not done.log[-2].notes
    assert {torch.int64, torch.float64} & dtypes_of(before, x, i)
    assert not {torch.int64, torch.float64} & dtypes_of(graph, x, i)
    casts = [constant_of(n.inputs[1]) for n in graph.nodes if n.kind == "aten::_to_copy"]
    assert len(casts) == 4  # one in, one out, x to float32 for float64, and its result


def test_what_needs_the_dtype_is_told():
    def f(x: Tensor, i: Tensor) -> Tensor:
        return F.one_hot(i, 3) + x.argmax()

    x, i = torch.randn(3, 3), torch.tensor([0, 2, 1])
    graph = graph_of(f, x, i)
    found = narrow_dtypes(graph, NARROW, [x, i])
    assert any("aten::one_hot" in k and "needs torch.int64" in k for k in found.kept), found.kept
    assert any("aten::argmax" in k and "gives torch.int64" in k for k in found.kept), found.kept
    torch.testing.assert_close(run(graph, x, i), f(x, i))


def test_branches_see_what_they_saw():
    @jitlite.script
    def f(x: Tensor, i: Tensor) -> Tensor:
        j = i * 2
        if bool(x.sum() > 0):
            j = j + j.numel()
        return j.float() + x

    x, i = torch.randn(3), torch.tensor([0, 2, 1])
    for sign in (1, -1):
        graph = f.graph.copy()
        narrow_dtypes(graph, NARROW, [x, i])
        given = x.abs() * sign
        torch.testing.assert_close(run(graph, given, i), f(given, i))


def test_a_replacement_that_is_lacking_itself_is_refused():
    with pytest.raises(ValueError, match=r"torch.int32 takes the place of torch.int64"):
        narrow_dtypes(Graph(), {torch.int64: torch.int32, torch.int32: torch.int16})
