"""Regions that record a gradient: two kernels and one node, held to what autograd does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gradient_cases import CASES
from gradients import assert_same, gradients_of, graph_of, leaves, outcome, runner, same, tensors_of
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import torch_abi
from jitlite.kernels.backend import KernelPart
from jitlite.kernels.recording import Recorder
from jitlite.native.code import NotNative

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def at_once():
    """Kernels are made by the first call, and verified."""
    with options.override(native="now", verify=True):
        yield


# -- every formula

LEFT_TO_PYTHON = {
    "_slow_conv2d_forward", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d",
}  # fmt: skip
"""Operators with a formula that have no kernel, or whose gradients have none."""

_SAMPLES = [(name, number) for name, cases in CASES.items() for number in range(len(cases))]


def recorded(name: str, number: int) -> tuple[Function, Function, list[Tensor]] | None:
    """An operator as kernels record it and as autograd does, and its arguments; None where there are no kernels."""
    graph, tensors = graph_of(name, CASES[name][number])
    inputs = leaves(tensors)
    try:
        made = Recorder(graph, KernelPart, lambda g, _: runner(g)).record(inputs, trial=False)
    except NotNative:
        return None
    return made, runner(graph), inputs


@pytest.mark.parametrize("name, number", _SAMPLES)
def test_gradients_of_operators(name: str, number: int) -> None:
    found = recorded(name, number)
    if found is None:
        pytest.skip("Python does it")
    ours, theirs, inputs = found
    results = []
    for run in (ours, theirs):
        given = leaves(inputs)
        for mark, value in zip(inputs, given, strict=True):
            value.requires_grad_(mark.requires_grad)
        results.append(gradients_of(run, given))
    assert tensors_of(ours(*inputs))[0].grad_fn is not None
    for mine, other in zip(*results, strict=True):
        assert_same(mine, other)


def test_most_operators_with_a_formula_have_kernels() -> None:
    """Which have none is said, so that one that loses its kernels is noticed."""
    found = {name for name, number in _SAMPLES if recorded(name, number) is not None}
    assert set(CASES) - found == LEFT_TO_PYTHON
