"""What machine code writes where tensors say is what eager Python writes, and an index outside raises eager's error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_law import EXACT, LAYOUTS, compared, outcome
from torch import Tensor
from torch.nn import functional as F

import jitlite
from jitlite.base import options


def run(program: Callable[..., Any], calls: list[tuple[Any, ...]]) -> int:
    """Compare with eager; gives how often kernels ran."""
    with options.override(native="now", verify=True):
        function = jitlite.script(program)
        for arguments in calls:
            reason = compared(outcome(program, arguments), outcome(function, arguments), EXACT)
            assert reason is None, f"{reason}\n{arguments}"
    return sum(region.implementation.runs for region in function.executor.general.regions)


def scatters(x: Tensor, i: Tensor, v: Tensor):
    a = x.scatter(1, i, v)
    b = x.scatter(0, i, 2.0)
    return a, b, x.scatter_add(1, i, v), x.scatter_add(0, i, v)


def scatters_in_place(x: Tensor, i: Tensor, v: Tensor):
    z = x * 1
    z.scatter_(1, i, z + v)
    y = x + 1
    y.scatter_add_(0, i, v)
    y.scatter_(-1, i, -1)
    return z, y


def rows(x: Tensor, i: Tensor, v: Tensor):
    j = i[0]
    a = x.index_add(0, j, v)
    b = x.index_add(0, j, v, alpha=2)
    return a, b, x.index_copy(0, j, v), x.index_fill(1, j, 3.0), x.index_fill(0, j - 4, 1), x.index_add(1, j, v.t())


def rows_in_place(x: Tensor, i: Tensor, v: Tensor):
    z, j = x * 1, i[1]
    z.index_add_(0, j, v)
    z.index_fill_(1, j, 0.5)
    z.index_copy_(0, j, z[:4] * 2)
    return z, j + 1


def items(x: Tensor, i: Tensor, v: Tensor):
    z, j = x * 1, i[0]
    z[j] = v
    z[j - 4] += 1
    z[:, j] = 2
    z[1:, j] = v[:3]
    z[j, 0] = v[:, 1]
    z[j, j] = 5
    z[i] = v[:, 0]
    return z, x[j, j], x[j, 1], x[i, j], x[:, j] + 1


def masks(x: Tensor, b: Tensor, c: Tensor):
    z = x * 1
    z[b] = 4
    z[z > 2] = -1.5
    z[c] = 0
    return z, z + 1


def counts(i: Tensor):
    j = i[:, 1]
    a = torch.bincount(j)
    return a, torch.bincount(j, minlength=9), F.one_hot(i), F.one_hot(i, 6), F.one_hot(j, 5) * 2


def products(x: Tensor):
    return x.cumprod(0), x.cumprod(-1), x.cumsum(0) + 1


X = torch.arange(16.0).view(4, 4) - 3
I = torch.tensor([[0, 2, 1, 3], [3, 1, 1, 0], [2, 2, 2, 2]])
V = torch.tensor([[1.5, -2, 3, 4], [5, 6, -7, 8], [9, 10, 11, 0.25], [1, 2, 3, 4]])
B, C = X > 4, torch.tensor([True, False, False, True])
PROGRAMS = {
    scatters: (X, I, V), scatters_in_place: (X, I, V), rows: (X, I, V), rows_in_place: (X, I, V), items: (X, I, V),
    masks: (X, B, C), counts: (I,), products: (X,),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program: Callable[..., Any], layout: str) -> None:
    arguments = PROGRAMS[program]
    lay = LAYOUTS[layout]
    wider = [torch.cat([t] * 3, -1) if t.dtype is not torch.int64 and t.dim() > 1 else t for t in arguments]
    calls = [tuple(map(lay, arguments)), tuple(t.double() if t.is_floating_point() else t for t in arguments)]
    if program in (products, masks):
        calls.append(tuple(map(lay, wider)) if program is products else arguments)
    runs = run(program, calls)
    assert runs == len(calls) or layout in ("turned", "spread"), runs


@pytest.mark.parametrize("wrong", [-1, 4, 100, -5])
@pytest.mark.parametrize("program", [scatters, scatters_in_place, rows, rows_in_place, items], ids=lambda p: p.__name__)
def test_an_index_outside_is_left_to_python(program: Callable[..., Any], wrong: int) -> None:
    for where in ((0, 1), (1, 2), (2, 3)):
        index = I.clone()
        index[where] = wrong
        run(program, [(X, I, V), (X, index, V)])


def test_counts_of_what_is_no_count() -> None:
    run(counts, [(I,), (I - 1,), (I + 3,), (I[:0],), (I + 1000,)])


def chosen(x: Tensor, i: Tensor, s: Tensor):
    z = x * 1
    z.scatter_add_(0, i, s)
    return z, z + 1


def test_sizes_that_do_not_fit() -> None:
    calls = [(X, I, V), (X, I, V[:2]), (X[:, :2], I, V), (X, I[:, :2], V), (X, I[:0], V), (X[:0], I[:0], V)]
    run(chosen, calls)
    run(scatters, calls)
    run(rows, [(X, I, V), (X, I, V[:2]), (X[:, :2], I, V), (X, I[:, :2], V)])


def shared(x: Tensor, i: Tensor):
    z = x * 1
    z[i[0]] = z[0]
    y = x + 1
    y.index_add_(0, i[0], y)
    return z, y


def test_what_is_written_is_not_what_is_read() -> None:
    run(shared, [(X, I)])
