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
