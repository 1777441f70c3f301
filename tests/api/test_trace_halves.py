"""Traces of models for halves and floats together: halves are floats while they are traced, and casts say the rest."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.compat.testing import create_function_from_graph
from jitlite.passes.casting_policy import AutocastPolicy, CastingOptions, cast_by_policy, half_states
from jitlite.passes.prepare import prepare

HALF, FLOAT = torch.float16, torch.float32


class Mixed(nn.Module):
    """A linear layer of halves, one of floats, and noise in the dtype of what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4).half()
        self.second = nn.Linear(4, 2)
        self.register_buffer("scale", torch.full((2,), 0.5, dtype=HALF))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x))) * self.scale + torch.zeros(2, dtype=x.dtype)


def mixed() -> tuple[Mixed, Tensor]:
    torch.manual_seed(0)
    return Mixed().eval().requires_grad_(False), torch.randn(5, 3).half()


def test_a_model_that_torch_refuses_is_traced():
    net, x = mixed()
    with pytest.raises(RuntimeError, match="dtype"):
        net(x)
    before = dict(net.state_dict())
    traced = jitlite.trace(net, x, halves_as_float=True)
    assert set(traced.halves) == {"x", "first.weight", "first.bias", "scale"}
    for name, tensor in traced.state_dict().items():
        assert tensor.dtype is before[name].dtype and tensor.data_ptr() == before[name].data_ptr(), name
    assert net.first.weight.dtype is HALF and x.dtype is HALF


@pytest.mark.parametrize("half_casts, expected", [("downcast_to_half", HALF), ("upcast_to_float", FLOAT)])
def test_casts_are_put_in_by_the_policy(half_casts, expected):
    net, x = mixed()
    traced = jitlite.trace(net, x, halves_as_float=True)
    graph = traced.graph.copy()
    assert cast_by_policy(graph, CastingOptions(half_casts), [x], module=traced)
    found = create_function_from_graph("cast", graph)(traced, x)
    assert found.dtype is expected
    torch.testing.assert_close(found.float(), net.float()(x.float()), rtol=1e-2, atol=1e-2)


def test_it_agrees_with_eager_under_autocast():
    net, x = mixed()
    traced = jitlite.trace(net, x, halves_as_float=True)
    graph = traced.graph.copy()
    casting = CastingOptions("downcast_to_half", policy=AutocastPolicy())
    done = prepare(graph, [x], module=traced, casting=casting)
    assert done.log[0].changed and not done.unsupported
    with torch.autocast("cpu", dtype=HALF):
        expected = net(x)
    found = create_function_from_graph("cast", graph)(traced, x)
    assert found.dtype is expected.dtype is HALF
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


def test_both_types_and_what_is_undecided_are_shown():
    def f(x: Tensor, y: Tensor) -> Tensor:
        return torch.rand(2, 3, dtype=x.dtype) * x + y

    x, y = torch.ones(2, 3, dtype=HALF), torch.ones(3)
    traced = jitlite.trace(f, (x, y), halves_as_float=True, check_trace=False)
    assert traced.halves == ("x",)
    text = half_states(traced.graph, [x, y])
    assert "%x : Half<-Float(2, 3)" in text and "%y : Float(3)" in text, text
    assert text.count(": half or float = aten::rand(") == 1, text
    graph = traced.graph.copy()
    cast_by_policy(graph, CastingOptions("downcast_to_half"), [x, y])
    assert "half or float" not in half_states(graph, [x, y])


@pytest.mark.parametrize("half_casts", ["downcast_to_half", "upcast_to_float"])
def test_what_is_drawn_between_halves_is_half(half_casts):
    def f(low: Tensor, high: Tensor) -> Tensor:
        return torch.distributions.Uniform(low, high, validate_args=False).sample()

    low, high = torch.zeros(4, dtype=HALF), torch.ones(4, dtype=HALF)
    traced = jitlite.trace(f, (low, high), halves_as_float=True, check_trace=False)
    graph = traced.graph.copy()
    cast_by_policy(graph, CastingOptions(half_casts), [low, high])
    found = create_function_from_graph("drawn", graph)(low, high)
    assert found.dtype is HALF is f(low, high).dtype and bool(((found >= 0) & (found <= 1)).all())


def test_halves_in_containers_and_shared_ones():
    def f(x: Tensor, pair: tuple[Tensor, Tensor], named: dict[str, Tensor]) -> Tensor:
        return x @ pair[0] + pair[1] * named["y"]

    x, y = torch.randn(3, 3, dtype=HALF), torch.randn(3, 3)
    traced = jitlite.trace(f, (x, (y, x), {"y": x}), halves_as_float=True)
    assert traced.halves == ("x", "pair", "named")


def test_a_module_without_halves_is_traced_as_ever():
    net = nn.Linear(2, 2)
    one, other = (jitlite.trace(net, torch.ones(1, 2), halves_as_float=given) for given in (True, False))
    assert one.halves == other.halves == () and str(one.graph) == str(other.graph)


def test_the_dispatcher_refuses_it():
    with pytest.raises(ValueError, match="halves_as_float"):
        jitlite.trace(torch.sin, torch.ones(2, dtype=HALF), halves_as_float=True, level="dispatcher")
    with pytest.raises(ValueError, match="half_casts: expected one of native, downcast_to_half"):
        CastingOptions("both")
