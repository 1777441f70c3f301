"""What programs do that record gradients where regions have become kernels: held to eager Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def at_once():
    """Kernels are made by the first call, and verified."""
    with options.override(native="now", verify=True):
        yield


def runs(scripted: Any) -> int:
    return sum(state.runs for _, state in tensor_regions(scripted.executor))


# -- numbers that tensors give


def compared(x: Tensor, y: Tensor, n: int):
    z = x * y if (x * 2).sum().item() > 0 else x - y
    if n > (y * 2).sum().item():
        z = z * 2
    return z.neg()


def computed(x: Tensor, y: Tensor, n: int):
    return (x * y * ((x * 2).sum().item() + n)).neg()


@pytest.mark.parametrize("function", [compared, computed])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_numbers_of_a_type_that_only_the_tensor_knows(function: Function, dtype: torch.dtype) -> None:
    scripted = jitlite.script(function)
    for x in (torch.tensor([1, -2, 3]), torch.tensor([-1, -2, 0])):
        arguments = (x.to(dtype), torch.tensor([1, 5, 2]), 1)
        try:
            expected = function(*arguments)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                scripted(*arguments)
        else:
            torch.testing.assert_close(scripted(*arguments), expected)


def test_a_comparison_of_such_numbers_is_machine_code() -> None:
    scripted = jitlite.script(compared)
    x = torch.tensor([1.0, 2.0, 3.0])
    for _ in range(2):
        torch.testing.assert_close(scripted(x, x, 100), compared(x, x, 100))
    assert runs(scripted)


@pytest.mark.parametrize("op", ["max", "min"])
def test_the_largest_of_one_element(op: str) -> None:
    """A dimension of size 1, or none at all."""

    def largest(x: Tensor):
        found, place = (x.sum(-1, keepdim=True) * 2).max(-1)
        return found * 3, place

    def smallest(x: Tensor):
        found, place = (x.sum(-1, keepdim=True) * 2).min(-1, keepdim=True)
        return found * 3, place

    function = largest if op == "max" else smallest
    scripted = jitlite.script(function)
    for x in (torch.tensor(3), torch.tensor(2.5), torch.tensor([1.0, 4.0]), torch.ones(2, 3), torch.ones(0, 3)):
        torch.testing.assert_close(scripted(x), function(x))
    assert runs(scripted)


# -- recordings


def recordings(scripted: Any) -> int:
    return sum(len(state.recordings or ()) for _, state in tensor_regions(scripted.executor))


def recurrence(x: Tensor, h: Tensor, w: Tensor):
    for t in range(x.size(0)):
        h = torch.tanh(x[t] + h @ w.t())
    return h


def gated(x: Tensor, w: Tensor, b: Tensor):
    a, c = (x @ w + b).chunk(2, 1)
    return torch.sigmoid(a) * torch.tanh(c)


def leaves(*sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    torch.manual_seed(3)
    return tuple(torch.randn(size, requires_grad=True) for size in sizes)


EXAMPLES = [(recurrence, ((5, 2, 3), (2, 3), (3, 3))), (gated, ((4, 3), (3, 10), (10,)))]


@pytest.mark.parametrize("function, sizes", EXAMPLES)
def test_a_recording_for_floats_is_none_for_doubles(function: Function, sizes: Any) -> None:
    """Gradients of doubles are not summed up in floats."""
    scripted, arguments = jitlite.script(function), leaves(*sizes)
    scripted(*arguments)
    doubles = tuple(a.detach().double().requires_grad_() for a in arguments)
    ours = torch.autograd.grad(scripted(*doubles).sum(), doubles)
    theirs = torch.autograd.grad(function(*doubles).sum(), doubles)
    assert recordings(scripted) == 2
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("function, sizes", EXAMPLES)
@pytest.mark.parametrize("create_graph", [False, True])
def test_many_gradients_at_once(function: Function, sizes: Any, create_graph: bool) -> None:
    """Batches of gradients, as `is_grads_batched` and `vmap` have them."""
    scripted, arguments = jitlite.script(function), leaves(*sizes)
    for _ in range(2):
        out = scripted(*arguments)
    basis = torch.eye(out.numel()).reshape(-1, *out.shape)
    found = torch.autograd.grad(
        out, arguments, basis, is_grads_batched=True, create_graph=create_graph, retain_graph=True
    )
    expected = torch.autograd.grad(function(*arguments), arguments, basis, is_grads_batched=True)
    torch.testing.assert_close(found, expected)
    mapped = torch.vmap(lambda v: torch.autograd.grad(out, arguments, v, retain_graph=True))(basis)
    torch.testing.assert_close(mapped, expected)


def counted(y: Tensor, z: Tensor, n: int):
    v = y * 2
    for _ in range(n):
        v = torch.sin(v * z) + v
    return v * 3


def conditional(y: Tensor, z: Tensor, n: int):
    v = y.neg() * 2
    k = 0
    while k < n:
        v = v + z
        k += 1
    return v * 3


def within(y: Tensor, z: Tensor, n: int):
    v = y * 2
    for _ in range(2):
        for _ in range(n):
            v = v * z
        v = v + 1
    return v * 3


@pytest.mark.parametrize("function", [counted, conditional, within])
@pytest.mark.parametrize("only_second", [False, True])
def test_a_loop_that_does_not_run_has_no_gradients(function: Function, only_second: bool) -> None:
    """What is only read in its body has None as a gradient; where nothing else requires one, the result has none."""
    scripted = jitlite.script(function)
    for n in (2, 0, 1, 0):
        y, z = leaves((3,), (3,))
        y.requires_grad_(not only_second)
        ours, theirs = scripted(y, z, n), function(y, z, n)
        assert ours.requires_grad == theirs.requires_grad
        torch.testing.assert_close(ours, theirs)
        if theirs.requires_grad:
            wanted = [t for t in (y, z) if t.requires_grad]
            pairs = zip(
                torch.autograd.grad(ours.sum(), wanted, allow_unused=True),
                torch.autograd.grad(theirs.sum(), wanted, allow_unused=True),
                strict=True,
            )
            for found, expected in pairs:
                assert (found is None) == (expected is None)
                assert expected is None or torch.allclose(found, expected)
    assert recordings(scripted) == 1


def test_what_no_gradient_reaches_is_not_asked_for_one() -> None:
    """Autograd does not go on to what made an argument that no result depends on: it may have been written since."""

    def f(x: Tensor, y: Tensor, z: Tensor):
        v = x * 1
        for i in range(z.size(0)):
            v = v * 0.5 + y[i]  # may raise
        return (z * z + 1).rsqrt()

    scripted = jitlite.script(f)
    x, y, z = leaves((3,), (4, 3), (4, 3))
    for _ in range(2):
        written = y.exp()
        written.mul_(2)
        ours = torch.autograd.grad(scripted(x, written, z).sum(), (y, z), allow_unused=True)
        assert ours[0] is None and ours[1] is not None


def apart(x: Tensor):
    return torch.tanh(x) * 2, x.sqrt() * 3


def kept(x: Tensor):
    y = x.log() * 3
    return torch.tanh(x) * 2 + x, y, x * y


def detached(x: Tensor):
    return torch.tanh(x) * 2, (x.sqrt() * 3).detach(), 1 / x


@pytest.mark.parametrize("function", [apart, kept, detached])
def test_a_result_that_is_not_used_has_no_part_in_the_gradient(function: Function) -> None:
    """A zero for its gradient would give 0 * inf, which is nan."""
    scripted = jitlite.script(function)
    for used in ((0,), (0, 1), (1,), (0, 2)):
        for _ in range(3):
            gradients = []
            for call in (scripted, function):
                x = torch.tensor([0.0, 1.0, -1.0]).requires_grad_()
                results = [r for i, r in enumerate(call(x)) if i in used and r.requires_grad]
                gradients.append(torch.autograd.grad([r.sum() for r in results], x)[0] if results else x.detach())
            torch.testing.assert_close(*gradients, equal_nan=True)
    assert recordings(scripted) == 1
