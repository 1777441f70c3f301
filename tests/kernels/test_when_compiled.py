"""When a region becomes a kernel, when that is settled, and what other plans learn of it."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.base import options, turns
from jitlite.base.background import wait_for_compilation
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import backend, race, recording, torch_abi
from jitlite.native import policy

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


def chain(x: Tensor, y: Tensor) -> Tensor:
    if x.dim() == 2 and x.size(1) > 1:
        y = y * 2.0 + 1.0
    else:
        y = y * 3.0 + 1.0
    for _ in range(3):
        x = torch.tanh(x * y + 0.5)
    return x


X = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)


@pytest.fixture(autouse=True)
def is_hot_at_once(monkeypatch):
    for module in (backend, policy):
        for name in ("COMPILE_SECONDS", "NODE_SECONDS", "IMPORT_SECONDS"):
            monkeypatch.setattr(module, name, 0.0)


def slow(*arguments: object) -> object:
    time.sleep(0.01)
    return arguments


def test_a_kernel_that_is_many_times_as_fast_is_compared_once():
    run = race.Race(lambda *arguments: arguments, before=0.05)
    assert run.turn(1) == (1,)
    assert run.is_over and not run.is_lost


def test_a_kernel_that_is_about_as_fast_is_compared_by_turns():
    run = race.Race(slow, before=0.015)
    for _ in range(2 * race.TURNS):
        assert not run.is_over
        if run.turn(1) is None:
            run.python.append(0.005)
    assert run.is_over and run.is_lost


def race_against(state: backend.KernelState, python_seconds: float) -> None:
    """Have the kernel, which takes 10 ms, lose or win against a Python that takes so long."""
    state._fastest = python_seconds
    state._begin_race()
    while state._race is not None:
        state._race._entry = slow
        if state.run(X, X) is None:
            state.record_run(time.perf_counter() - python_seconds)


def test_a_kernel_that_loses_by_little_is_compared_again_later():
    with options.override(background=False, native="auto"), torch.no_grad():
        scripted = jitlite.script(chain)
        for _ in range(20):
            scripted(X, X)
        (state,) = [state for _, state in tensor_regions(scripted.executor)]
        race_against(state, 0.009)
        assert state.run(X, X) is None and "compared again" in state.status
        state.record_run(time.perf_counter() - 0.05)
        assert state._race is None, "Python runs for a while first"
        state.record_run(time.perf_counter() - 5.0)
        assert state._race is not None
        race_against(state, 0.011)
        assert state.run(X, X) is not None and "machine code" in state.status


def test_a_kernel_that_loses_again_and_again_is_given_up():
    with options.override(background=False, native="auto"), torch.no_grad():
        scripted = jitlite.script(chain)
        for _ in range(20):
            scripted(X, X)
        (state,) = [state for _, state in tensor_regions(scripted.executor)]
        for _ in range(race.RACES):
            assert not state._is_given_up
            race_against(state, 0.009)
        assert state._is_given_up


def test_a_kernel_that_takes_much_longer_is_given_up_at_once():
    with options.override(background=False, native="auto"), torch.no_grad():
        scripted = jitlite.script(chain)
        for _ in range(20):
            scripted(X, X)
        (state,) = [state for _, state in tensor_regions(scripted.executor)]
        race_against(state, 0.001)
        assert state._is_given_up


def test_python_need_not_record_what_takes_less_than_its_forward_pass():
    asked = []

    def python(*arguments: Tensor) -> Tensor:
        asked.append(arguments)
        time.sleep(0.01)
        return arguments[0] * 2

    trial = recording._Trial(lambda x: x * 2, python, [X], [True])
    assert trial.is_faster(5.0) and not asked
    assert trial.is_faster(0.0) and asked


def test_what_is_machine_code_is_not_specialized():
    with options.override(background=True, native="auto", specialize_after=4), torch.no_grad():
        scripted = jitlite.script(chain)
        for _ in range(60):
            torch.testing.assert_close(scripted(X, X), chain(X, X))
            assert wait_for_compilation(60)
        assert scripted.executor.decision == "general plan: nearly all of it is machine code"


def test_a_region_without_a_kernel_is_in_the_way_of_nothing():
    def chosen(x: Tensor, y: Tensor) -> Tensor:
        if x.dim() == 2 and x.size(0) != 77 and x.size(1) != 77 and y.dim() == 2 and y.size(0) != 77:
            x = torch.addcmul(x, x, y)  # which is always left to Python
        for _ in range(3):
            x = torch.tanh(x * y + 0.5)
        return x

    with options.override(background=True, native="auto", specialize_after=4), torch.no_grad():
        scripted = jitlite.script(chosen)
        for _ in range(100):
            torch.testing.assert_close(scripted(X, X), chosen(X, X))
            assert wait_for_compilation(60)
        assert scripted.executor.decision.endswith("knowing the types of arguments would save nothing")


@pytest.mark.parametrize(
    ("call", "turn"), [(0.0, turns.SHORTEST), (1e-6, turns.SHORTEST), (2e-4, 4 * 2e-4), (1.0, turns.LONGEST)]
)
def test_turns_are_as_long_as_some_calls(call, turn):
    try:
        turns.begin(1, call)
        assert turns._turn == pytest.approx(turn)
    finally:
        turns.begin(0)


def plus(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def test_a_function_of_one_operator_is_a_kernel():
    with options.override(background=False, native="now"), torch.no_grad():
        scripted = jitlite.script(plus)
        torch.testing.assert_close(scripted(X, X), plus(X, X))
        ((_, state),) = tensor_regions(scripted.executor)
        assert state.runs == 1


def test_one_operator_between_others_is_none():
    def function(x: Tensor) -> Tensor:
        return torch.linalg.inv(x) + 1

    with options.override(background=False, native="now"), torch.no_grad():
        scripted = jitlite.script(function)
        scripted(torch.eye(2))
        assert not tensor_regions(scripted.executor)
        assert "too few operators" in str(scripted.explain(torch.eye(2)))


def test_kernels_are_left_alone_where_there_is_none_for_the_arguments(monkeypatch):
    monkeypatch.setattr(recording._Trial, "is_faster", lambda trial, seconds: False)
    with options.override(background=False, native="auto"):
        scripted = jitlite.script(plus)
        x = X.detach().requires_grad_()
        for _ in range(40):
            scripted(x, X)
        ((_, state),) = tensor_regions(scripted.executor)
        state._least = 1e-3
        for _ in range(2000):
            scripted(x, X)
            if state._unasked == backend.UNASKED:
                break
        assert state.run is backend._give_up
        for _ in range(backend.UNASKED):
            scripted(x, X)
        assert not state._unasked, "they are asked again"
        state._least = 0.0
        with torch.no_grad():
            for _ in range(20):
                torch.testing.assert_close(scripted(X, X), X + X)
            assert state.runs, "calls without a gradient are run by a kernel"
            before = state.runs
            scripted(X, X)
            assert state.runs == before + 1
