"""Regions of which each takes little become kernels early, once all of them have paid for it."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import backend, heat, torch_abi
from jitlite.native.entry import is_loaded

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


def chain(x: Tensor, y: Tensor) -> Tensor:
    return torch.tanh(x * y + 0.5) * x


X = torch.linspace(-1.0, 1.0, 6)


@pytest.fixture
def now(monkeypatch) -> heat.Heat:
    """What is counted from here on."""
    fresh = heat.Heat()
    monkeypatch.setattr(backend, "HEAT", fresh)
    return fresh


def state_of_a_region() -> backend.KernelState:
    scripted = jitlite.script(chain)
    scripted(X, X)
    ((_, state),) = tensor_regions(scripted.executor)
    state.seconds, state._python_runs, state._least = 0.0, 0, 1.0
    return state


def run_for(state: backend.KernelState, seconds: float, runs: int) -> None:
    for _ in range(runs):
        state.record_run(time.perf_counter() - seconds / runs)


@pytest.fixture(autouse=True)
def without_calls_for_it():
    with options.override(background=False, native="auto"), torch.no_grad():
        yield


def test_a_region_alone_takes_half_of_what_compiling_it_takes(now):
    state = state_of_a_region()
    run_for(state, 0.5, 20)
    assert state.run is None
    run_for(state, 0.6 + backend.IMPORT_SECONDS, 2)
    assert state.run is not None


def test_others_pay_for_a_region_that_has_run_some_times(now):
    state = state_of_a_region()
    now.python = 10.0
    run_for(state, 0.3, heat.EARLY_RUNS - 1)
    assert state.run is None
    run_for(state, 0.01, 1)
    assert state.run is not None


def test_nobody_pays_for_a_region_that_hardly_takes_time(now):
    state = state_of_a_region()
    now.python = 10.0
    run_for(state, 0.1, 50)
    assert state.run is None


def test_what_has_been_asked_for_is_paid(now):
    first, second = state_of_a_region(), state_of_a_region()
    now.python = 2.5 if is_loaded() else 2.6
    run_for(first, 0.3, heat.EARLY_RUNS)
    run_for(second, 0.3, heat.EARLY_RUNS)
    assert first.run is not None and second.run is None


def test_compiling_that_is_cheap_is_done_sooner(now):
    for _ in range(20):
        now.ask(0.1)
        now.note(0.1, 0.01)
    assert now.cost < 0.2 and now.compiling == pytest.approx(0.2)
    state = state_of_a_region()
    run_for(state, 0.3 + backend.IMPORT_SECONDS, 2)
    assert state.run is not None


def test_compiling_that_is_dear_is_not_done_later_than_expected(now):
    now.note(0.1, 5.0)
    assert now.cost == 1.0
