"""Torch's own samples of operators that have a kernel: each in a small region, as kernels and in eager Python."""

from __future__ import annotations

import types

import pytest
import torch

from jitlite.base import options
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

SLICES = 6
"""Parts of the list of operators, so that several workers share it."""

LEAST_RUNS = {1: 150, 12: 1000}
"""Runs of kernels per sample count when this was written, with room: a sweep of nothing proves nothing."""


@pytest.fixture(scope="module")
def samples() -> types.ModuleType:
    """The sweep; its import takes seconds, so that only these tests should pay for it."""
    from . import kernel_samples

    return kernel_samples


def sweep_slice(samples: types.ModuleType, number: int, most: int, dtype: torch.dtype = torch.float32) -> None:
    total = samples.Row()
    with options.override(native="now", verify=True), samples.opinfo.reproducible():
        for op in samples.operators()[number::SLICES]:
            total.add(samples.sweep(op, most, dtype))
    assert total.failures == []
    if dtype.is_floating_point:
        assert total.runs >= LEAST_RUNS[most] / SLICES / 2


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SLICES))
def test_one_sample_of_every_operator(samples: types.ModuleType, number: int) -> None:
    sweep_slice(samples, number, 1)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("number", range(SLICES))
def test_many_samples_of_every_operator(samples: types.ModuleType, number: int, dtype: torch.dtype) -> None:
    sweep_slice(samples, number, 12, dtype)


def test_the_sweep_sees_wrong_results(samples: types.ModuleType) -> None:
    def doubled(x):
        return torch.sigmoid(x) * 2, x == x

    op = next(op for op in samples.opinfo.op_db if op.name == "sigmoid")
    row = samples.Row()
    for call, python in samples.calls(op, torch.float32, 1):
        samples.compare(row, call, python, doubled)
    assert row.failures
