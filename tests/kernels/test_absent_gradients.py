"""Results without a gradient take no part in a backward pass, whatever zero times what they depend on would be."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.base import options


def root(x: Tensor, c: Tensor):
    h = x * 1
    d = c * 1
    for _ in range(3):
        h = (h - h).sqrt() + x
        d = torch.tanh(d) * 2 + x
    return h, d


def constant_root(x: Tensor, c: Tensor):
    h = x
    for _ in range(3):
        h = (h * 0).sqrt() + h
        c = torch.tanh(c) * 2
    return h, c


def in_a_branch(x: Tensor, c: Tensor):
    if bool(x.sum() > 100):
        a, b = x * 2, c * 3
    else:
        a, b = (x - x).sqrt() + 1, c * x
    return torch.tanh(a), torch.tanh(b)


def branch_in_a_loop(x: Tensor, c: Tensor):
    h = x * 1
    for i in range(4):
        if i % 2 == 0:
            h = (h - h).log() * x
        else:
            c = torch.tanh(c) * x
    return torch.tanh(c) * h.detach().nan_to_num(0.5, 0.5, 0.5), h * 2


def loop_in_a_branch(x: Tensor, c: Tensor):
    h = x * 0
    if bool(x.sum() < 100):
        for _ in range(3):
            h = (h * x) / (h - h) + 1
            c = torch.tanh(c) + x
    return h, c * 2


def straight(x: Tensor, c: Tensor):
    return (x - x).sqrt() * torch.tanh(c), torch.tanh(c * x) * 2


def rows(x: Tensor, c: Tensor):
    out = []
    h = x * 1
    for i in range(3):
        h = (h - h[i]).abs().sqrt() + c
        out.append(torch.tanh(c) * x[i])
    return torch.stack(out), h


def steep(x: Tensor, c: Tensor):
    h = x - x.detach()
    for _ in range(2):
        c = torch.tanh(c) * x
    return h**1.5 * 2, torch.tanh(c) * 3


FUNCTIONS = {
    f.__name__: f for f in (root, constant_root, in_a_branch, branch_in_a_loop, loop_in_a_branch, straight, rows, steep)
}
WAYS = {
    "kernels": {"native": "now"},
    "groups": {"symbolic_gradients": 1},
    "both": {"native": "now", "symbolic_gradients": 1},
}
GRADIENTS = ((True, False), (False, True), (True, True))


def gradients(function, wanted, twice):
    torch.manual_seed(0)
    given = [torch.rand(3, requires_grad=True) for _ in range(2)]
    results = [y for y, want in zip(function(*given), wanted, strict=True) if want]
    loss = sum(((y * torch.arange(1.0, 4)).sum() for y in results), torch.zeros(()))
    first = torch.autograd.grad(loss, given, create_graph=twice, allow_unused=True)
    if not twice:
        return first
    again = sum(((g * g).sum() for g in first if g is not None), torch.zeros(()))
    second = torch.autograd.grad(again, given, allow_unused=True) if again.requires_grad else ()
    return [g if g is None else g.detach() for g in (*first, *second)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_has_no_gradient_takes_no_part(name, way):
    function = FUNCTIONS[name]
    with options.override(**WAYS[way]):
        scripted = jitlite.script(function)
        for wanted, twice in itertools.product(GRADIENTS, (False, True, False)):
            expected, found = gradients(function, wanted, twice), gradients(scripted, wanted, twice)
            for e, g in zip(expected, found, strict=True):
                zeros = torch.zeros(3)
                e, g = (zeros if t is None else t for t in (e, g))
                torch.testing.assert_close(g, e, equal_nan=True, msg=lambda text: f"{wanted}, {twice}: {text}")
