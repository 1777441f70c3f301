"""What is put in order by machine code is in eager's order, equal elements and NaN among them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_law import EXACT, LAYOUTS, compared, outcome
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.kernels import ordering, torch_orders
from jitlite.kernels.loop_ir import F32


def run(program: Callable[..., Any], calls: list[tuple[Any, ...]]) -> tuple[int, int]:
    """Compare with eager; gives how often kernels ran, and how often they gave up."""
    with options.override(native="now", verify=True):
        function = jitlite.script(program)
        for arguments in calls:
            reason = compared(outcome(program, arguments), outcome(function, arguments), EXACT)
            assert reason is None, f"{reason}\n{arguments}"
    states = [region.implementation for region in function.executor.general.regions]
    return sum(s.runs for s in states), sum(s.bailouts for s in states)


def largest(x: Tensor, k: int):
    a, b = torch.topk(x, k)
    return a, b, a + b


def lowest(x: Tensor, k: int):
    a, b = x.topk(k, 0, False)
    return a, b, a + b


def unsorted(x: Tensor, k: int):
    a, b = torch.topk(x, k, sorted=False)
    return a, b, a + b


def stable(x: Tensor):
    a, b = torch.sort(x, stable=True)
    c, d = torch.sort(x, stable=True, dim=0, descending=True)
    return a, b, c, d, torch.argsort(x, stable=True, dim=0)


def plain(x: Tensor):
    a, b = torch.sort(x)
    return a, b, x.argsort(0, descending=True), torch.msort(x)


def chosen(x: Tensor, k: int):
    a, b = x.kthvalue(k)
    c, d = torch.kthvalue(x, 1, 0, keepdim=True)
    e, f = x.median(0)
    g, h = torch.median(x, -1, True)
    return a, b, c, d, e, f, g, h


def row(rng: random.Random, length: int, kinds: int, dtype: torch.dtype) -> Tensor:
    """Elements of so many kinds, sometimes in order, sometimes with NaN and zeros of both signs."""
    found = torch.tensor([rng.randrange(-kinds, kinds) for _ in range(length)], dtype=torch.int64).to(dtype)
    if rng.random() < 0.3:
        found = found.sort(descending=rng.random() < 0.5).values
    if dtype.is_floating_point and rng.random() < 0.5:
        for i in range(length):
            found[i] = rng.choice([found[i].item()] * 6 + [math.nan, -0.0, -math.inf])
    return found


@pytest.mark.parametrize("program", [largest, lowest, unsorted], ids=lambda p: p.__name__)
def test_topk_chooses_as_eager_does_among_equal_elements(program: Callable[..., Any]) -> None:
    rng, calls = random.Random(1), []
    for _ in range(300):
        length = rng.choice([1, 2, 3, 4, 5, 16, 17, 40, 64, 65, 100, 700, 2000])
        k = rng.randint(0, length if rng.random() < 0.5 else min(length, 5))
        dtype = rng.choice([torch.float32, torch.float64, torch.int64, torch.int32])
        calls.append((row(rng, length, rng.choice([1, 2, 5, 10**6]), dtype), k))
    assert run(program, calls) == (len(calls), 0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", [largest, lowest, unsorted], ids=lambda p: p.__name__)
def test_topk_of_any_layout(program: Callable[..., Any], layout: str) -> None:
    lay = LAYOUTS[layout]
    calls = [(lay(torch.randint(-9, 9, s).float()), k) for s in [(5, 6), (2, 9), (200, 300), (2, 3, 4)] for k in (1, 2)]
    runs, _ = run(program, [*calls, (lay(torch.randn(4, 4)), 5), (lay(torch.randn(4, 4)), -1)])
    assert runs == len(calls)


def test_rows_that_are_made_to_be_hard_to_partition() -> None:
    """Where partitions go too deep, heaps take over."""
    length = 4000
    fall = torch.cat([torch.arange(length // 2), torch.arange(length // 2)]).double()
    organ = torch.cat([torch.arange(length // 2), torch.arange(length // 2).flip(0)]).double()
    killer = torch.zeros(length, dtype=torch.float64)
    half = length // 2
    killer[:half:2] = torch.arange(1, half + 1, 2).double()
    killer[1:half:2] = torch.arange(half + 1, length, 2).double()
    killer[half:] = torch.arange(2, length + 1, 2).double()
    calls = [(x, k) for x in (fall, organ, killer, -killer, killer.flip(0)) for k in (100, 2000, 3999, 4000)]
    for program in (largest, lowest, unsorted):
        assert run(program, calls) == (len(calls), 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_stable_sorts(layout: str) -> None:
    rng = random.Random(2)
    calls: list[tuple[Any, ...]] = []
    for dtype in (torch.float32, torch.int64, torch.bool):
        for length in (1, 2, 8, 9, 33, 200):
            rows = [row(rng, length, 3, dtype) for _ in range(rng.choice([2, 20]))]
            calls.append((LAYOUTS[layout](torch.stack(rows)),))
    runs, bailouts = run(stable, [*calls, (torch.zeros(0, 3),), (torch.zeros(2, 0),)])
    assert runs > len(calls) // 2 or layout in ("turned", "spread")
    assert bailouts <= 3, "strides of empty tensors may be left to Python"


def test_sorts_that_need_not_be_stable_give_up_where_order_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "sort_is_stable", lambda dtype: False)
    rng = random.Random(3)
    different = [torch.tensor(rng.sample(range(1000), 30), dtype=torch.float32).view(5, 6) for _ in range(4)]
    equal = [different[0].clone(), torch.tensor([[0.0, -0.0], [1.0, 2.0]]), torch.full((2, 2), math.nan)]
    equal[0][3, 2] = equal[0][3, 4]
    assert run(plain, [(x,) for x in different]) == (len(different), 0)
    assert run(plain, [(x,) for x in equal]) == (0, len(equal))


@pytest.mark.slow
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "spread"])
def test_the_one_of_a_rank(layout: str) -> None:
    rng, calls = random.Random(4), []
    for shape in ((3, 4), (5, 9), (2, 2), (20, 2), (6, 1)):
        numbers = torch.tensor(rng.sample(range(1000), shape[0] * shape[1])).view(shape)
        calls += [(LAYOUTS[layout](numbers.to(d)), rng.randint(1, shape[1])) for d in (torch.float64, torch.int64)]
    runs, _ = run(chosen, [*calls, (calls[0][0], 0), (calls[0][0], 100), (torch.zeros(0, 3), 1)])
    assert runs > len(calls) // 2


def test_the_one_of_a_rank_among_equal_ones_and_nan() -> None:
    equal = torch.tensor([[3.0, 1.0, 1.0, 7.0], [2.0, 4.0, 6.0, 8.0], [0.0, 5.0, 9.0, 9.0]])
    nan = equal * 2 + torch.arange(12.0).view(3, 4) * 100
    nan[1, 2] = math.nan
    run(chosen, [(equal, k) for k in (1, 2, 3, 4)] + [(nan, k) for k in (1, 4)])
    assert run(largest, [(equal, 2)])[0] == 1


@pytest.mark.parametrize("program", [largest, unsorted, chosen], ids=lambda p: p.__name__)
def test_choosing_among_bools_is_refused_as_in_eager(program: Callable[..., Any]) -> None:
    calls: list[tuple[Any, ...]] = [(torch.tensor([[True]]), 1), (torch.tensor([[True, False]]), 1)]
    assert run(program, calls) == (0, 0)


def test_an_unknown_order_of_equal_elements_leaves_topk_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch_orders.topk_is_known()
    monkeypatch.setattr(torch_orders, "_TOPK", {**torch_orders._TOPK, (7, 3): [6, 2, 4]})
    assert not torch_orders.topk_is_known.__wrapped__()
    monkeypatch.setattr(ordering, "topk_is_known", torch_orders.topk_is_known.__wrapped__)
    assert run(largest, [(torch.randn(9), 2)]) == (0, 0)


def test_whether_sorts_are_stable_is_found_out() -> None:
    x = torch.arange(1000).remainder(3).float()
    if torch_orders.sort_is_stable(F32):
        assert x.sort().indices.equal(x.sort(stable=True).indices)
