"""`fn.gradient_graph`: which operators are differentiated together, and what their gradients are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import jitlite


def layered(x: Tensor, w: Tensor, n: int) -> Tensor:
    y = torch.tanh(x @ w)
    if n > 2:
        y = y * torch.sigmoid(y)
    return y.sum()


def without(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2 + 1
    return y


def of_numbers(n: int) -> int:
    return n + 1


def written(x: Tensor) -> Tensor:
    y = x.exp().mul(2)
    y.add_(1)
    return y.sin().neg()


def looped(x: Tensor, n: int) -> Tensor:
    for _ in range(n):
        x = x.tanh() * 2
    return x


@pytest.mark.parametrize("least", [0, 1])
def test_groups_are_those_that_autograd_sees(least):
    with jitlite.options.override(symbolic_gradients=least):
        script = jitlite.script(layered)
        before = str(script.optimized_graph)
        groups = script.gradient_graph
        assert str(script.optimized_graph) == before
    found = [{n.kind for n in group.forward.all_nodes()} for group in groups]
    assert ["aten::matmul" in kinds for kinds in found] == [True, False, False]
    assert "aten::sigmoid" in found[1] and "aten::sum" in found[2]
    assert [group.of for group in groups][0] == ("x.1", "w.1")
    assert "aten::tanh_backward" in {n.kind for n in groups[0].backward.all_nodes()}
    first = layered.__code__.co_firstlineno
    assert f"test_gradient_graphs.py:{first + 1}:" in groups[0].place
    text = str(groups)
    assert text == repr(groups) and text.count("# forward from") == text.count("# backward") == 3


@pytest.mark.parametrize("function", [without, of_numbers], ids=["no_grad", "numbers"])
def test_what_has_no_gradient(function):
    groups = jitlite.script(function).gradient_graph
    assert len(groups) == 0
    assert str(groups) == "no operator of this graph is differentiated symbolically"


@pytest.mark.parametrize("function", [written, looped], ids=["writes", "loops"])
def test_groups_end_where_operators_are_not_differentiated(function):
    groups = jitlite.script(function).gradient_graph
    assert groups and all(group.of for group in groups)
    for group in groups:
        assert not any(n.kind.endswith("_") for n in group.forward.all_nodes())
        assert len(group.backward.outputs) == 1
        jitlite.ir.parse(str(group.backward))


def test_modules_methods_and_what_was_traced():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    for made in (jitlite.script(net), jitlite.trace(net, torch.ones(1, 2))):
        assert "aten::linear" in str(made.gradient_graph) == str(made.forward.gradient_graph)


def test_those_of_the_graph_that_ran_last():
    scripts = jitlite.script(layered), jitlite.script(looped)
    jitlite.last_executed_gradient_graph()  # runs are followed from here on
    x = torch.ones(2, 2, requires_grad=True)
    scripts[0](x, x, 3)
    assert "aten::matmul" in str(jitlite.last_executed_gradient_graph())
    scripts[1](x, 3).sum().backward()
    assert "aten::matmul" not in str(jitlite.last_executed_gradient_graph())
    assert "aten::tanh" in str(jitlite.last_executed_gradient_graph())
