"""Branches through which gradients pass: two kernels and one node, held to what autograd does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gradient_programs import branched_program
from gradients import outcome, runner, same
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.interpreter import autograd
from jitlite.kernels import torch_abi
from jitlite.kernels.backend import KernelPart
from jitlite.kernels.recording import RecordingFactory
from jitlite.native.code import NotNative
from jitlite.passes import autodiff_branches, autodiff_scopes, autodiff_sources

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def at_once():
    """Kernels are made by the first call, and verified."""
    with options.override(native="now", verify=True):
        yield


def same_absences(ours: object, theirs: object) -> bool:
    """Is None in the same places?"""
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(same_absences, ours, theirs))
    return (ours is None) == (theirs is None)


def agree(run: Function, reference: Function, arguments: tuple[Any, ...] | list[Any]) -> bool:
    """Results, gradients and gradients of those; and which gradients are None."""
    ours, theirs = outcome(run, arguments), outcome(reference, arguments)
    return same(ours, theirs) and same_absences(ours[:2], theirs[:2])


# -- programs


def on_an_int(x: Tensor, w: Tensor, n: int):
    if n > 1:
        z = torch.tanh(x @ w) * w
    elif n > 0:
        z = torch.sin(x) * 2
    else:
        z = x * w
    return z * 2


def on_a_tensor(x: Tensor, w: Tensor, n: int):
    if bool((x > 0).all()):
        z = torch.sqrt(x) * w
    else:
        z = x * 3
    return z * 2


def nested(x: Tensor, w: Tensor, n: int):
    y = torch.exp(w)
    if n > 0:
        a = torch.tanh(x * y)
        if bool(a.sum() > 0):
            z = a * a
        else:
            z = a * y + x
    else:
        z = x * 2
    return z * 3


def unchanged(x: Tensor, w: Tensor, n: int):
    y = torch.tanh(x * w)
    if n > 0:
        y = y * w
    return y * 2


def without_gradient(x: Tensor, w: Tensor, n: int):
    if n > 0:
        z = torch.zeros_like(x)
    else:
        z = x * w
    return z * 2, w * 3


def several(x: Tensor, w: Tensor, n: int):
    if n > 0:
        a, b = torch.tanh(x), x * w
    else:
        a, b = w * 2, torch.sin(x) * 1
    return a * b, a + b


def loop_with_values(x: Tensor, w: Tensor, n: int):
    h = w[0] * 2
    for t in range(x.size(0)):
        if bool((x[t] > 0).any()):
            h = torch.tanh(h * w[0] + x[t])
        else:
            h = h * 0.5
    return h * 2


def chain_in_a_loop(x: Tensor, w: Tensor, n: int):
    h = w[0] * 2
    out = []
    for t in range(x.size(0)):
        if t % 2 == n % 2:
            h = torch.tanh(h * w[0] + x[t])
        elif bool(h.sum() > 0.3):
            h = h * torch.sigmoid(w[0] * x[t])
        else:
            h = x[t].sin()
        out.append(h)
    return torch.stack(out) * 2


def loop_in_a_branch(x: Tensor, w: Tensor, n: int):
    y = x * w
    if n > 0:
        for t in range(n):
            y = torch.tanh(y * w)
    else:
        y = y + 1
    return y * 2


def early_exit(x: Tensor, w: Tensor, n: int):
    y = x * 1
    for t in range(4):
        y = torch.tanh(y * w)
        if t == n:
            continue
        y = y + x
        if bool(y.sum() > 2.0):
            break
    return y * 2


def nested_loops(x: Tensor, w: Tensor, n: int):
    y = x * 2
    for i in range(2):
        for j in range(2):
            if i == j:
                y = torch.tanh(y * w)
            else:
                y = y + torch.sin(w)
        if bool(y.mean() > 0):
            y = y * 0.5
    return y * 2


def in_place(x: Tensor, w: Tensor, n: int):
    y = x * w
    if n > 0:
        z = torch.exp(y)
    else:
        z = torch.cat([y[:1], y[1:]], 0)
    return z.sum(0) * 2


def swapped(x: Tensor, w: Tensor, n: int):
    """After an odd number of iterations, what depends on one argument alone depends on the other."""
    for i in range(n + 1):
        x, w = w * 2, torch.sin(x)
    return x * 2


PROGRAMS = (on_an_int, on_a_tensor, nested, unchanged, without_gradient, several, loop_with_values, chain_in_a_loop,
            loop_in_a_branch, early_exit, nested_loops, in_place, swapped)  # fmt: skip


def name_of(function: Function) -> str:
    return function.__name__


def given(seed: int, size: tuple[int, ...] = (3, 3)) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(size, generator=generator, requires_grad=True) for _ in range(2))
    return x, w


def recordings_of(scripted: Any) -> int:
    return sum(len(state.recordings or ()) for _, state in tensor_regions(scripted.executor))


@pytest.mark.parametrize("function", PROGRAMS, ids=name_of)
def test_programs_with_branches(function: Function) -> None:
    scripted = jitlite.script(function)
    for seed in range(4):
        for n in (1, 0, 2):
            assert agree(scripted, function, (*given(seed), n)), (seed, n)
    assert recordings_of(scripted) == 1


@pytest.mark.parametrize("function", PROGRAMS, ids=name_of)
@pytest.mark.parametrize("chosen", [0, 1])
def test_gradients_of_some_arguments(function: Function, chosen: int) -> None:
    scripted = jitlite.script(function)
    for n in (1, 0, 2):
        arguments = [value.detach().requires_grad_(i == chosen) for i, value in enumerate(given(7))]
        assert agree(scripted, function, (*arguments, n)), n


@pytest.mark.parametrize("function", [on_an_int, nested, unchanged, several], ids=name_of)
def test_nothing_and_nan(function: Function) -> None:
    scripted = jitlite.script(function)
    for n in (1, 0, 2):
        x, w = given(3)
        assert agree(scripted, function, (x.detach().log().requires_grad_(), w, n)), n
    scripted = jitlite.script(function)
    for n in (1, 0):
        assert agree(scripted, function, (*given(3, (0, 0)), n)), n


def test_infinite_slopes_of_what_no_block_reads() -> None:
    """A gradient that is not there is no zero: zero times infinity would be NaN."""

    def f(x: Tensor, n: int):
        z = torch.sqrt(x)
        if n > 0:
            y = z * 2
        else:
            y = x * 3
        return y * 2

    scripted = jitlite.script(f)
    for n in (1, 0):
        assert agree(scripted, f, (torch.tensor([0.0, 1.0], requires_grad=True), n))
    assert recordings_of(scripted) == 1


def test_infinite_slopes_of_what_an_iteration_does_not_read() -> None:
    def f(x: Tensor, w: Tensor, n: int):
        h = x * 1
        s = w * 1
        for t in range(3):
            s = torch.sqrt(s)
            if t == n:
                h = h * s
                s = w * 1
        return h * 2

    scripted = jitlite.script(f)
    for n in (0, 2, 7):
        assert agree(scripted, f, (torch.ones(2, requires_grad=True), torch.tensor([0.0, 2.0], requires_grad=True), n))
    assert recordings_of(scripted) == 1


def test_what_only_the_other_block_reads_may_be_written() -> None:
    def f(x: Tensor, w: Tensor, n: int):
        y = torch.tanh(x)
        if n > 0:
            z = y * w
        else:
            z = y * 2
        return z * 3

    scripted = jitlite.script(f)
    x, w = given(1)
    scripted(x, w, 1)
    for n in (0, 1):
        v = w.detach().clone()
        out = scripted(x, v, n)
        v.add_(1)
        if n:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                out.sum().backward()
        else:
            (found,) = torch.autograd.grad(out.sum(), x)
            (expected,) = torch.autograd.grad(f(x, w, 0).sum(), x)
            torch.testing.assert_close(found, expected)
    assert recordings_of(scripted) == 2  # with a gradient of w, and without one


def test_elements_that_a_block_appends_are_left_to_python() -> None:
    def f(x: Tensor, w: Tensor, n: int):
        out = []
        for t in range(3):
            y = torch.tanh(x[t] * w[t])
            if t != n:
                out.append(y)
        return torch.stack(out) * 2

    scripted = jitlite.script(f)
    for n in (0, 5):
        assert agree(scripted, f, (*given(2), n))


# -- programs made at random


def check(seed: int) -> bool:
    """Hold a random program to what autograd does, whichever blocks are taken; says whether kernels record it."""
    graph, arguments = branched_program(seed)
    try:
        recorded = RecordingFactory(graph, KernelPart, lambda g, _: runner(g)).record(arguments, trial=False).run
    except NotNative:
        return False
    for flip in (0, 1, 2, 3):
        flags = [arguments[3] ^ bool(flip & 1), arguments[4] ^ bool(flip & 2)]
        chosen = [*arguments[:3], *flags, *arguments[5:]]
        attempt = recorded(*(a.detach().requires_grad_(a.requires_grad) if torch.is_tensor(a) else a for a in chosen))
        if attempt is not None:
            assert agree(recorded, runner(graph), chosen), f"program {seed}, {flags}\n{graph}"
    return True


def test_random_programs_have_the_gradients_of_autograd() -> None:
    assert sum(map(check, range(16))) > 8


@pytest.mark.slow
def test_more_random_programs() -> None:
    """Program 379 is open: zeros where autograd gives None, for an argument that a later iteration replaces."""
    assert sum(map(check, range(16, 300))) > 120


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "gradients that are not there are zeros": (
        autodiff_scopes.Backward, "any_present", lambda self, grads: None),
    "what blocks depend on is not told apart": (
        autodiff_sources.GradientSources, "branch", lambda self, branch: _joined(self, branch)),
    "what may have a gradient has one": (
        autograd.Layout, "sources_for", lambda self, reached: self.sources),
    "what a block contributes is dropped": (
        autodiff_branches.BranchScope, "add_outside", lambda self, value, grad: None),
    "gradients of kept values are dropped": (
        autodiff_branches.BranchScope, "add_late", lambda self: None),
}  # fmt: skip


def _joined(sources: Any, branch: Any) -> None:
    original(sources, branch)
    sources.inexact.difference_update(branch.node.outputs)


original = autodiff_sources.GradientSources.branch


@pytest.mark.parametrize("name", FAULTS)
def test_programs_find(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[name])
    with pytest.raises((AssertionError, RuntimeError)):
        assert agree(jitlite.script(on_an_int), on_an_int, (*given(0), 2))
        for seed in (3, 18, 32):
            check(seed)
