"""A branch that gives a tensor made before it: a new one where nobody else knows it, and the very same one else."""

from __future__ import annotations

import pytest
import torch
from kernel_law import FEW, compared, outcome

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


def kept(x, c: bool):
    y = x * 2
    if c:
        y = y - x
    return y


def written_behind(x, c: bool):
    y = x * 2
    if c:
        y = y - x
    y.add_(1)
    return y


def either(x, c: bool):
    a, b = x * 2, x + 1
    z = a if c else b
    z.mul_(3)
    return z


def exchanged(x, c: bool):
    a, b = x * 2, x + 1
    if c:
        a, b = b, a
    a.add_(b)
    return a, b


def in_a_loop(x, c: bool):
    total = torch.zeros_like(x)
    for i in range(5):
        total = total * 0.5 + torch.sigmoid(x - i)
        if bool(total.sum() > 4.0) == c:
            total = total - x
    return total


def carried_next(x, c: bool):
    y = x * 2
    if c:
        y = y + 1
    for i in range(3):
        y = y * 0.5 + i
    return y


def read_in_the_branch(x, c: bool):
    y = x * 2
    if c:
        z = y * y.sum()
        for i in range(2):
            z = z + y * i
        y = z
    return y


def nested(x, c: bool):
    y = x * 2
    if c:
        if bool(x.sum() > 1):
            y = y + 1
        else:
            y = y - 1
    return y


TAKEN = [kept, written_behind, either, exchanged, in_a_loop, carried_next, read_in_the_branch, nested]


def given_beside(x, c: bool):
    y = x * 2
    z = y
    if c:
        z = y + 1
    return z, y


def read_behind(x, c: bool):
    y = x * 2
    z = y
    if c:
        z = y + 1
    z.add_(1)
    return z, y.sum()


def in_a_list(x, c: bool):
    y = x * 2
    xs = [y]
    if c:
        y = y + 1
    y.add_(1)
    return y, torch.stack(xs)


def appended(x, c: bool):
    y = x * 2
    xs = [x]
    xs.append(y)
    if c:
        y = y + 1
    y.add_(1)
    return y, torch.stack(xs)


def carried_first(x, c: bool):
    a = x * 2
    xs = [a]
    for _ in range(1 if c else 0):
        a = a + 1
    a.add_(1)
    return a, torch.stack(xs)


def given_twice(x, c: bool):
    y = x * 2
    z = y
    if c:
        z, y = y + 1, y + 2
    z.add_(1)
    return z, y


def given_by_an_inner_branch(x, c: bool):
    y = x * 2
    w = x
    if c:
        w = x + 3
    else:
        if bool(x.sum() > 1e9):
            w = x - 1
        else:
            w = y
    z = y if not c else x + 5
    z.add_(1)
    return z, w


def seen_through(x, c: bool):
    y = x * 2
    rows = y.view(-1)
    if c:
        y = y + 1
    y.add_(1)
    return y, rows.sum()


def seen_in_the_branch(x, c: bool):
    y = x * 2
    rows = x.view(-1)
    if c:
        y = y + 1
    else:
        rows = y.view(-1)
    y.add_(1)
    return y, rows.sum()


def outer_of_two(x, c: bool):
    y = x * 2
    if c:
        if bool(x.sum() > 1e9):
            z = x + 1
        else:
            z = y
        z.add_(1)
        return z, y
    return y, y + 1


def given_with_a_view(x, c: bool):
    y = x * 2
    columns = y.t()
    if c:
        y = y + 1
    return y, columns


def given_with_a_view_of_the_branch(x, c: bool):
    y = x * 2
    columns = x * 3
    if c:
        y = y + 1
    else:
        columns = y.view(-1)
    return y, columns


def given_with_what_wrote_it(x, c: bool):
    y = x * 2
    z = y.add_(1)
    if c:
        y = y + 1
    return y, z


def given_in_a_list(x, c: bool):
    y = x * 2
    xs = [y, y + 1]
    if c:
        y = y + 1
    return y, xs[0]


HELD = [
    given_with_a_view, given_with_a_view_of_the_branch, given_with_what_wrote_it, given_in_a_list, given_beside,
    read_behind, in_a_list, appended, carried_first, given_twice, given_by_an_inner_branch, seen_through,
    seen_in_the_branch, outer_of_two,
]  # fmt: skip


@pytest.mark.parametrize("size", [(3, 4), (1, 1), (0, 4)], ids=str)
@pytest.mark.parametrize("function", [*TAKEN, *HELD], ids=lambda f: f.__name__)
def test_as_in_eager(function, size):
    with options.override(native="now"), torch.no_grad():
        scripted = jitlite.script(function)
        for c in (True, False, True):
            x = torch.linspace(-1.0, 2.0, size[0] * size[1]).view(size)
            assert compared(outcome(function, (x, c)), outcome(scripted, (x.clone(), c)), FEW) is None
        if function in TAKEN and x.numel():
            (state,) = [state for _, state in tensor_regions(scripted.executor)]
            assert state.runs, state.status
