"""Gradients through scripts, gradients computed in scripts, and random draws: all as in eager."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

import pytest
import torch
from torch import Tensor

import jitlite

# -- gradients through scripts


def loop(x: Tensor, w: Tensor):
    h = torch.zeros_like(x)
    for i in range(x.size(0)):
        h = torch.tanh(h * w + x[i])
    return h


def containers(x: Tensor, w: Tensor):
    parts: List[Tensor] = []
    named: Dict[str, Tensor] = {}
    pair: Tuple[Tensor, Tensor] = (x * w, x + w)
    for part in x.unbind(0):
        parts.append(part * w[0])
        named["last"] = part
    first, second = pair
    return torch.stack(parts).sum() + named["last"] * w[1] + (first * second).sum()


def in_place(x: Tensor, w: Tensor):
    y = x * w
    y.add_(w)
    y[0] += 2 * w[0]
    y[1:] = w[1:] * x[1:]
    y += x
    y[0].neg_()
    return y


def through_views(x: Tensor, w: Tensor):
    y = x.clone()
    row = y[0]
    column = y.view(-1)
    row += w[0]
    column[2] = x[1] * w[1]
    column[1:].sub_(w[1:])
    return y, row * 3, column


def partly_without(x: Tensor, w: Tensor):
    with torch.no_grad():
        scale = (x * w).sum()
    y = x * scale
    z = (w * 2).detach() * x
    return y + z, scale.requires_grad


def branches(x: Tensor, w: Tensor):
    found: Optional[Tensor] = None
    if bool(x.sum() > 0):
        found = x * w
    if found is None:
        return w.sum()
    while found.sum() < 20:
        found = found * 1.5
    return found.exp().log()


def stops(x: Tensor, w: Tensor):
    return (x.detach() * w).sum() + (x * w.data).sum()


def conditional_freeze(x: Tensor, w: Tensor):
    leaf = x.detach().requires_grad_(True)
    inner = (leaf * w).sum()
    return inner, leaf.requires_grad, inner.is_leaf, leaf.is_leaf


def where_and_max(x: Tensor, w: Tensor):
    values, indices = torch.max(x, 0)
    return torch.where(x > 1, x * w, w / (x + 1)).sum() + values * 2, indices


PROGRAMS = [
    loop,
    containers,
    in_place,
    through_views,
    partly_without,
    branches,
    stops,
    conditional_freeze,
    where_and_max,
]


def tensors_of(value):
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [t for v in value for t in tensors_of(v)]
    return []


def gradients(call, *shapes):
    """Results, first and second order gradients for fresh inputs."""
    generator = torch.Generator().manual_seed(5)
    inputs = [torch.rand(shape, generator=generator, dtype=torch.float64).requires_grad_(True) for shape in shapes]
    result = call(*inputs)
    total = sum(t.square().sum() for t in tensors_of(result) if t.requires_grad)
    first = torch.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
    needed = [g for g in first if g is not None and g.requires_grad]
    second = torch.autograd.grad(sum(g.square().sum() for g in needed), inputs, allow_unused=True) if needed else ()
    return result, first, second


def assert_same(a, b):
    if isinstance(a, Tensor):
        torch.testing.assert_close(a, b)
        assert a.requires_grad == b.requires_grad
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_same(left, right)
    else:
        assert a == b


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_eagers(program):
    scripted = jitlite.script(program)
    for shapes in (((3,), (3,)), ((4,), (4,)), ((3,), (3,))):
        assert_same(gradients(scripted, *shapes), gradients(program, *shapes))


def test_hooks_of_python_run():
    def f(x: Tensor, w: Tensor):
        y = x * w
        return (y * y).sum()

    for call in (f, jitlite.script(f)):
        x, w = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
        seen = []
        x.register_hook(lambda g, seen=seen: seen.append(g.tolist()) or g * 10)
        w.register_post_accumulate_grad_hook(lambda p, seen=seen: seen.append(p.grad.tolist()))
        call(x, w).backward()
        assert sorted(seen) == [[6.0, 6.0], [18.0, 18.0]]
        assert x.grad.tolist() == [180.0, 180.0]


# -- gradients in scripts


def descend(x: Tensor, rounds: int):
    point = x.detach().clone().requires_grad_(True)
    for _ in range(rounds):
        loss = ((point - 3) ** 2).sum()
        (g,) = torch.autograd.grad([loss], [point])
        assert g is not None
        with torch.no_grad():
            point -= 0.1 * g
    return point


def second_order(x: Tensor, rounds: int):
    y = (x**3).sum() * rounds
    g = torch.autograd.grad([y], [x], create_graph=True)[0]
    assert g is not None
    h = torch.autograd.grad([g.sum()], [x], retain_graph=True)[0]
    assert h is not None
    return g, h


def unused_input(x: Tensor, rounds: int):
    other = torch.ones(2, requires_grad=True)
    y = (x * rounds).sum()
    found = torch.autograd.grad([y], [x, other], allow_unused=True)
    return found[0], found[1] is None


def single_tensors(x: Tensor, rounds: int):
    y = (x * x).sum()
    a = torch.autograd.grad(y, x, retain_graph=True)[0]
    b = torch.autograd.grad(y, [x], torch.tensor(2.0), retain_graph=True)[0]
    seeds: List[Optional[Tensor]] = [torch.tensor(float(rounds))]
    c = torch.autograd.grad(outputs=[y], inputs=x, grad_outputs=seeds)[0]
    return a, b, c


def backward_in_loop(x: Tensor, rounds: int):
    for i in range(rounds):
        y = (x * i).sum()
        y.backward()
    z = x * x
    z.backward(torch.ones_like(z), retain_graph=True)
    seeds: List[Optional[Tensor]] = [torch.ones_like(z)]
    torch.autograd.backward([z], seeds)
    return x.grad


@pytest.mark.parametrize("program", [descend, second_order, unused_input, single_tensors, backward_in_loop])
@pytest.mark.parametrize("rounds", [1, 9])
def test_gradients_inside_are_eagers(program, rounds):
    found = []
    for call in (jitlite.script(program), program):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        found.append((call(x, rounds), x.grad))
    assert_same(*found)


def test_using_a_freed_graph_raises_as_in_eager():
    def f(x: Tensor):
        y = (x * x).sum()
        y.backward()
        y.backward()

    def g(x: Tensor):
        y = x * 2
        z = y * y
        y.mul_(3)
        z.sum().backward()

    for call, message in ((f, "a second time"), (g, "modified by an inplace operation")):
        for either in (call, jitlite.script(call)):
            with pytest.raises(RuntimeError, match=message):
                either(torch.ones(1, requires_grad=True))


# -- random draws


def unused_draws(n: int):
    torch.rand(2)
    x = torch.randn(3)
    for i in range(n):
        torch.randint(0, 9, (2,))
        x = x + torch.rand(1) * 0
    return x, torch.rand(2)


def equal_draws(n: int):
    a = torch.rand(2)
    b = torch.rand(2)
    return a, b, torch.equal(a, b), torch.randperm(n), torch.bernoulli(torch.full((4,), 0.5))


def draws_in_branches(n: int):
    out: List[Tensor] = []
    for i in range(n):
        if float(torch.rand(1)) > 0.5:
            out.append(torch.randn(1))
        else:
            torch.randn(2)
            out.append(torch.nn.functional.dropout(torch.ones(3), 0.5, True))
    return out


def seeds_itself(n: int):
    torch.manual_seed(n)
    a = torch.rand(1)
    torch.manual_seed(n)
    return a, torch.rand(1)


def in_place_draws(n: int):
    x = torch.zeros(n)
    x.normal_()
    y = torch.empty(n).uniform_(0.0, 1.0)
    torch.zeros(n).exponential_()
    return x, y, torch.rand_like(x), torch.multinomial(torch.ones(5), 2)


@pytest.mark.parametrize("program", [unused_draws, equal_draws, draws_in_branches, seeds_itself, in_place_draws])
def test_draws_are_eagers(program):
    scripted = jitlite.script(program)
    for n in (3, 6):
        states = []
        for call in (scripted, program):
            torch.manual_seed(11)
            states.append((call(n), torch.get_rng_state()))
        assert_same(*states)
