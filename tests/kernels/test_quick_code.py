"""Large kernels are compiled quickly first, and improved when nothing else waits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.base import background, options
from jitlite.base.background import wait_for_compilation
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import backend, torch_abi
from jitlite.kernels.emit import NEXT
from jitlite.native import entry, policy

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


@pytest.fixture(autouse=True)
def is_hot_at_once(monkeypatch):
    for module in (backend, policy):
        for name in ("COMPILE_SECONDS", "NODE_SECONDS", "IMPORT_SECONDS"):
            monkeypatch.setattr(module, name, 0.0)


@pytest.fixture
def later(monkeypatch):
    """All kernels are large, and are improved when the test says so."""
    monkeypatch.setattr(entry, "_LARGE", 0)
    waiting = []
    monkeypatch.setattr(backend.KernelState, "_improve_later", lambda state: waiting.append(state))
    original = backend.KernelState.improve

    def improve_all() -> bool:
        return any([original(state) for state in waiting])

    return improve_all


def states_of(scripted):
    return [state for _, state in tensor_regions(scripted.executor)]


def run_until_compiled(scripted, *arguments):
    for _ in range(40):
        scripted(*arguments)
        assert wait_for_compilation(60)


def mathematics(x: Tensor, y: Tensor):
    z = torch.tanh(x * y + 0.5) / (y.abs() + 1.0)
    return torch.exp(z), torch.log(y.abs()) + torch.erf(x), torch.sqrt(x), x.pow(3) - z.rsqrt(), torch.atan2(x, y)


def reduced(x: Tensor, y: Tensor):
    return torch.softmax(x * y, -1), (x - y).sum(0), (x * y).mean(), x.amax(-1), torch.layer_norm(x, [7]) * y


def looped(x: Tensor, y: Tensor):
    total = torch.zeros_like(x)
    for i in range(5):
        total = total * 0.5 + torch.sigmoid(x - y * i)
        if bool(total.sum() > 9.0):
            total = total - y
    return total, total.argmax(-1)


def products(x: Tensor, y: Tensor):
    return torch.relu(x @ y.t() + 1.0), (x.t() @ y).softmax(-1)


def odd(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    x, y = torch.randn(9, 7), torch.randn(9, 7) * 3
    x[0] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-41, 3e38])
    return x.to(dtype), y.to(dtype)


def bits(found):
    found = found if isinstance(found, tuple) else (found,)
    return [x.reshape(-1).view(torch.uint8).tolist() for x in found]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=["f32", "f64", "bf16"])
@pytest.mark.parametrize("function", [mathematics, reduced, looped, products], ids=lambda f: f.__name__)
def test_better_code_gives_the_same_bits(later, function, dtype):
    x, y = odd(dtype)
    with options.override(background=True, native="auto"), torch.no_grad():
        scripted = jitlite.script(function)
        run_until_compiled(scripted, x, y)
        kernels = [kernel for state in states_of(scripted) for kernel in state.kernels]
        assert kernels and all(kernel.is_quick for kernel in kernels)
        entries, before = [kernel.entry for kernel in kernels], [kernel.runs for kernel in kernels]
        quick = bits(scripted(x, y))
        addresses = [kernel._machine.address for kernel in kernels]
        assert later() and not later()
        assert bits(scripted(x, y)) == quick
    assert not any(kernel.is_quick for kernel in kernels)
    assert [kernel.entry for kernel in kernels] == entries, "callers keep what they call"
    assert not set(addresses) & {kernel._machine.address for kernel in kernels}
    assert [kernel.runs for kernel in kernels] == [n + 2 for n in before]


def test_a_kernel_that_is_asked_next_is_improved_too(later):
    with options.override(background=True, native="auto"), torch.no_grad():
        scripted = jitlite.script(mathematics)
        for dtype in (torch.float32, torch.float64):
            run_until_compiled(scripted, *odd(dtype))
        (state,) = states_of(scripted)
        first, second = state.kernels
        assert first.is_quick and second.is_quick
        assert later()
        for dtype in (torch.float32, torch.float64):
            x, y = odd(dtype)
            torch.testing.assert_close(scripted(x, y), mathematics(x, y), equal_nan=True)
        assert first._cells[NEXT] == second._machine.address
        assert second.runs and not second.is_quick


def test_kernels_are_improved_in_the_background(monkeypatch):
    monkeypatch.setattr(entry, "_LARGE", 0)
    monkeypatch.setattr(background, "failures", [])
    x, y = odd(torch.float32)
    x.requires_grad_()
    with options.override(background=True, native="auto"):
        scripted = jitlite.script(looped)
        for _ in range(40):
            found = scripted(x, y)
            assert wait_for_compilation(60)
        (state,) = states_of(scripted)
        parts = [part for made in state.recordings.made.values() for part in (made.forward, made.backward)]
        kernels = [*state.kernels, *(kernel for part in parts for kernel in part.state.kernels)]
        assert kernels and not any(kernel.is_quick for kernel in kernels)
        torch.testing.assert_close(found, looped(x, y), equal_nan=True)
    assert not background.failures


@pytest.mark.parametrize("is_faster", [[True], [False, True], [False, False]], ids=str)
def test_a_recording_is_compared_with_better_code_before_it_is_refused(monkeypatch, is_faster):
    monkeypatch.setattr(entry, "_LARGE", 0)
    answers, improved = list(is_faster), []
    monkeypatch.setattr("jitlite.kernels.recording._Trial.is_faster", lambda *_: answers.pop(0))
    improve = backend.KernelPart.improve
    monkeypatch.setattr(backend.KernelPart, "improve", lambda part: improved.append(1) or improve(part))
    x = torch.ones(3, 7, requires_grad=True)
    with options.override(background=True, native="auto"):
        scripted = jitlite.script(looped)
        run_until_compiled(scripted, x, torch.ones(3, 7))
        (state,) = states_of(scripted)
    assert len(improved) == (0 if is_faster[0] else 2) and not answers
    assert bool(state.recordings.refused) == (not is_faster[-1])


def test_quick_code_that_loses_waits_for_better_code(later):
    x, y = odd(torch.float32)
    with options.override(background=True, native="auto"), torch.no_grad():
        scripted = jitlite.script(mathematics)
        run_until_compiled(scripted, x, y)
        (state,) = states_of(scripted)
        lose(state, x, y)
        assert not state._is_given_up, "the better code has not been tried"
        assert later()


def test_quick_code_that_loses_while_it_is_improved_is_not_given_up(later, monkeypatch):
    x, y = odd(torch.float32)
    with options.override(background=True, native="auto"), torch.no_grad():
        scripted = jitlite.script(mathematics)
        run_until_compiled(scripted, x, y)
        (state,) = states_of(scripted)
        compiling = entry.MachineCode._compiled

        def compiled(machine, text, quickly=False):
            lose(state, x, y)
            return compiling(machine, text, quickly)

        monkeypatch.setattr(entry.MachineCode, "_compiled", compiled)
        assert later()
        assert not state._is_given_up, "the better code has not been tried"
        assert not state.kernels[0].is_quick


def lose(state, x: Tensor, y: Tensor) -> None:
    """Have machine code be compared with a Python that takes no time."""
    state._begin_race()
    race = state._race
    race._before = 0.0
    while state._race is race:
        if race.turn(x, y) is None:
            race.python.append(0.0)
        if race.is_over:
            state._compete(x, y)


def test_code_that_cannot_be_improved_is_not_quick_any_more(later, monkeypatch):
    x, y = odd(torch.float32)
    with options.override(background=True, native="auto"), torch.no_grad():
        scripted = jitlite.script(mathematics)
        run_until_compiled(scripted, x, y)
        (state,) = states_of(scripted)
        monkeypatch.setattr(entry, "_engine_of", lambda *_, **__: 1 / 0)
        assert later()
        assert not state.kernels[0].is_quick


def test_a_region_compiled_at_once_is_compiled_well(monkeypatch):
    monkeypatch.setattr(entry, "_LARGE", 0)
    with options.override(native="now"), torch.no_grad():
        scripted = jitlite.script(mathematics)
        scripted(*odd(torch.float32))
        (state,) = states_of(scripted)
    assert not state.kernels[0].is_quick


def test_the_disk_keeps_better_code_only(tmp_path, monkeypatch):
    monkeypatch.setattr(entry, "_LARGE", 0)
    text = "define i64 @entry() {\n  ret i64 1\n}\n"
    with options.override(cache_dir=str(tmp_path / "cache")):
        assert entry._engine_of(text, is_plain=True, quickly=True)[1]
        assert not list((tmp_path / "cache").glob("*"))
        assert not entry._engine_of(text, is_plain=True)[1]
        assert not entry._engine_of(text, is_plain=True, quickly=True)[1], "what is there is not made again"
