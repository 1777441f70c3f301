"""What programs do to kernels while they run, and behind their backs."""

from __future__ import annotations

import signal
import time

import pytest
import torch

import jitlite
from jitlite.base import options
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


@pytest.fixture(autouse=True)
def kernels_now():
    with options.override(native="now"):
        yield


def states(scripted):
    return [r.implementation for r in scripted.executor.general.regions if r.implementation is not None]


def runs(scripted):
    return sum(state.runs for state in states(scripted))


def many_times(x, n: int):
    y = x * 1
    for _ in range(n):
        y = y * 0.5 + x
    return y


@pytest.mark.parametrize("size", [0, 3, 1 << 20])
def test_a_signal_interrupts_a_loop_over_tensors_of_any_size(size):
    scripted, x = jitlite.script(many_times), torch.ones(size)
    scripted(x, 2)
    assert runs(scripted)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    since = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            scripted(x, 100_000 if size > 3 else 10**12)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - since < 5


def chain(x, y):
    return (x * y + 1.5).tanh() * x


class Noting(torch.Tensor):
    seen: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class NotingMode(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_what_watches_sees_operators_alone():
    """It does not see what a kernel is made from."""
    scripted, x = jitlite.script(chain), torch.ones(3)
    for _ in range(2):
        with NotingMode() as mode:
            scripted(x, x)
        assert mode.seen == ["mul", "add", "tanh", "mul"]
        Noting.seen.clear()
        scripted(x.as_subclass(Noting), x)
        assert Noting.seen == ["mul", "add", "tanh", "mul"]
    with torch.no_grad():
        scripted(x, x)
    assert runs(scripted) == 1


def expanded_sum(x, a: int, b: int):
    return (x.expand(a, b) * 2 + 1).sum()


def zeros_sum(x, a: int, b: int):
    return (torch.zeros([a, b]) + x).sum()


@pytest.mark.parametrize("fn", [expanded_sum, zeros_sum])
def test_tensors_that_are_too_large_are_none_that_are_not_made(fn):
    """The kernel would have no need of their memory; it would run for days."""
    scripted, x = jitlite.script(fn), torch.ones(1, 1)
    assert scripted(x, 2, 3) == fn(x, 2, 3)
    assert runs(scripted)
    for sizes in ((1 << 40, 1 << 30), (1 << 62, 4), (1 << 31, 1 << 32), (1 << 32, 1 << 20)):
        with pytest.raises(RuntimeError):
            scripted(x, *sizes)
    assert scripted(x, 0, 3) == 0


def difference(x, y):
    return (x - y) * 1


def difference_of_number(x, y):
    return (3 - x) * 1 + y


@pytest.mark.parametrize("fn", [difference, difference_of_number])
def test_a_bool_is_not_subtracted(fn):
    scripted, numbers, truths = jitlite.script(fn), torch.tensor([1, 2]), torch.tensor([True, False])
    assert torch.equal(scripted(numbers, numbers), fn(numbers, numbers))
    assert runs(scripted)
    for given in ((truths, numbers), (truths, truths), (truths, numbers[0])):
        with pytest.raises(RuntimeError, match="Subtraction"):
            scripted(*given)
    if fn is difference:
        with pytest.raises(RuntimeError, match="Subtraction"):
            scripted(numbers, truths)
