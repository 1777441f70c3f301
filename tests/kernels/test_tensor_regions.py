"""Which nodes become regions, and what stands behind them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.base import options


def view_of_a_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.relu(x * 2)
    rows = y.t()
    total = (y + 1).sum()
    return rows.t(), total


def views_at_the_end(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.relu(x * 2)
    rows = y.t()
    return rows, rows[0]


def view_between(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = torch.relu(x * 2)
    rows = y.t()
    first = rows[0]
    z = first * 3 + 1
    return rows, z, z[1:]


def pieces(x: Tensor) -> tuple[Tensor, Tensor]:
    a, b = torch.relu(x * 2).chunk(2, 1)
    return b, a


@pytest.mark.parametrize("function", [view_of_a_view, views_at_the_end, view_between, pieces])
def test_views_that_leave_are_views_of_what_they_should_be(function: Callable[..., tuple[Tensor, ...]]) -> None:
    x = torch.randn(4, 6)
    with options.override(native="now"):
        scripted = jitlite.script(function)
        for found, wanted in zip(scripted(x), function(x), strict=True):
            torch.testing.assert_close(found, wanted)
            assert found.stride() == wanted.stride()
            assert found.storage_offset() == wanted.storage_offset()
            assert (found._base is None) == (wanted._base is None)
    (region,) = [r for r in scripted.executor.general.regions if r.kind == "tensors"]
    assert region.implementation is not None
    assert region.implementation.runs == 1, region.status


def the_same_object(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a, b = x.chunk(2)
    w = torch.zeros_like(b)
    w.clamp_(1, 2)
    return a, a.to(torch.float32), w


def test_what_is_the_same_object_stays_it() -> None:
    for native in ("off", "now"):
        with options.override(native=native):
            a, b, _ = jitlite.script(the_same_object)(torch.ones(4, 3))
        assert a is b


def shared_lists(x: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = [n, 3]
    a = torch.zeros(sizes) + x
    b = torch.linalg.inv(a[:3] + torch.eye(3))
    for i in range(n):
        x = x + torch.ones(sizes) * i
    return a, b, x * torch.ones(sizes)


def shared_tensors(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    both = [x, y]
    a = torch.cat(both) * 2
    b = torch.linalg.inv(a.t() @ a + torch.eye(3))
    return a, b, torch.stack(both) + 1


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(shared_lists, (torch.randn(4, 3), 4)), (shared_tensors, (torch.randn(4, 3), torch.randn(4, 3)))],
    ids=["of sizes", "of tensors"],
)
def test_lists_that_several_regions_read(function: Callable[..., tuple[Tensor, ...]], arguments: tuple[object]) -> None:
    with options.override(native="now"):
        scripted = jitlite.script(function)
        for found, wanted in zip(scripted(*arguments), function(*arguments), strict=True):
            torch.testing.assert_close(found, wanted)
    found = [r.implementation for r in scripted.executor.general.regions if r.kind == "tensors"]
    assert len(found) == 2
    assert all(state is not None and state.runs for state in found), [state.status for state in found]
