"""Reductions over any dimensions of anything, beside what torch computes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from test_nests import SHAPES, Memory, layouts, random_tensor

from jitlite.kernels.loop_ir import BOOL, DTYPES, F32, F64, I32, I64, DType, Fill, LaneOperator, Place, Reduce

OPS = {
    "sum": [F32, F64, I64],
    "prod": [F32, F64, I64],
    "amax": [F32, F64, I64, I32, BOOL],
    "amin": [F32, F64, I64, I32, BOOL],
    "any": [BOOL],
    "all": [BOOL],
    "argmax": [F32, F64, I64, I32],
    "argmin": [F32, F64, I64, I32],
}
CASES = [(op, d) for op, kinds in OPS.items() for d in kinds]


def kept_shape(shape: tuple[int, ...], dims: frozenset[int]) -> tuple[int, ...]:
    return tuple(1 if d in dims else n for d, n in enumerate(shape))


def flattened(x: torch.Tensor, dims: frozenset[int]) -> torch.Tensor:
    """With the reduced dimensions as the last one."""
    kept = [d for d in range(x.dim()) if d not in dims]
    count = math.prod(x.shape[d] for d in dims)
    return x.permute([*kept, *sorted(dims)]).reshape([*(x.shape[d] for d in kept), count])


def eager(op: str, x: torch.Tensor, dims: frozenset[int]) -> torch.Tensor:
    flat = flattened(x.double() if op == "sum" and x.dtype == torch.float32 else x, dims)
    found = getattr(torch, op)(flat, -1)
    return found.to(x.dtype if op == "sum" else found.dtype).reshape(kept_shape(tuple(x.shape), dims))


def reduced_place(memory: Memory, out: torch.Tensor, dims: frozenset[int], symbolic: bool = False) -> Place:
    place = memory.place(out, symbolic)
    strides = tuple(0 if d in dims else s for d, s in enumerate(place.strides))
    return Place(place.buffer, 0, place.sizes, strides)


def check(op: str, x: torch.Tensor, dims: frozenset[int], symbolic: bool = False, with_positions: bool = False) -> None:
    memory = Memory()
    dtype = DTYPES[x.dtype]
    load = memory.load(x, symbolic)
    result = I64 if op.startswith("arg") else dtype
    out = torch.zeros(kept_shape(tuple(x.shape), dims), dtype=result.torch)
    places = [reduced_place(memory, out, dims, symbolic)]
    positions = torch.zeros_like(out, dtype=torch.int64)
    if with_positions:
        places.append(reduced_place(memory, positions, dims, symbolic))
    sizes = tuple(memory.scalar(n) if symbolic and n != 1 else n for n in x.shape)
    assert memory.run(Reduce(sizes, dims, op, load, *places))
    want = eager(op, x, dims)
    exact = not x.is_floating_point() or op not in ("sum", "prod")
    tolerance = 0.0 if exact else 1e-4 if x.dtype == torch.float32 else 1e-12
    torch.testing.assert_close(out, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    if with_positions:
        index = getattr(torch, {"amax": "max", "amin": "min"}[op])(flattened(x, dims), -1)[1]
        assert positions.equal(index.reshape(positions.shape))


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=str)
def test_every_reduction_by_rows_and_columns(op: str, dtype: DType):
    for shape, dims in [
        ((5, 70), {1}),
        ((70, 5), {0}),
        ((3, 1000), {0, 1}),
        ((), set()),
        ((4, 1, 33), {1}),
        ((33, 40), {0}),
    ]:
        for symbolic in (False, True):
            x = random_tensor(dtype, shape, len(shape))
            check(op, x / 3 if op == "prod" and dtype.is_float else x, frozenset(dims), symbolic)


@settings(max_examples=150, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_random_reductions(data):
    op, dtype = data.draw(st.sampled_from(CASES))
    shape = data.draw(SHAPES)
    dims = frozenset(d for d in range(len(shape)) if data.draw(st.booleans()))
    count = math.prod(shape[d] for d in dims)
    if count == 0 and op not in ("sum", "prod", "any", "all"):
        return
    x = data.draw(layouts(dtype, shape))
    if op == "prod" and dtype.is_float:
        x = x / x.abs().add(0.1)
    with_positions = op in ("amax", "amin") and dtype is not BOOL and data.draw(st.booleans())
    if dtype.is_float and op not in ("sum", "prod") and data.draw(st.booleans()):
        x = torch.where(x > 1, torch.full((), data.draw(st.sampled_from([math.nan, math.inf, -math.inf]))), x).to(
            x.dtype
        )
    check(op, x, dims, data.draw(st.booleans()), with_positions)


@pytest.mark.parametrize("op", ["sum", "prod", "any", "all"])
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (0, 0)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_of_nothing(op: str, shape: tuple[int, ...], symbolic: bool):
    for dims in ({0}, {len(shape) - 1}):
        check(op, torch.zeros(shape, dtype=OPS[op][0].torch), frozenset(dims), symbolic)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(7,), (16,), (40,), (1000,), (40, 3)])
@pytest.mark.parametrize("op", ["amax", "amin", "argmax", "argmin"])
def test_nan_wins_and_the_first_one_counts(op: str, shape: tuple[int, ...]):
    for dtype in (torch.float32, torch.float64):
        for at in range(0, shape[0], 1 + shape[0] // 5):
            x = random_tensor(DTYPES[dtype], shape, 0)
            x[at:] = math.nan
            check(op, x, frozenset({0}))
            check(op, torch.zeros(shape, dtype=dtype), frozenset({0}))
            check(op, torch.full(shape, -math.inf, dtype=dtype), frozenset({0}))
            check(op, torch.full(shape, math.inf, dtype=dtype), frozenset({0}))
            x[:] = 0
            x[at::2] = 1 if op.endswith("max") else -1
            check(op, x, frozenset({0}), with_positions=not op.startswith("arg"))


@pytest.mark.parametrize("dims", [{0}, {1}, {0, 1}])
def test_long_sums_are_as_exact_as_torchs(dims: set[int]):
    x = torch.rand(1000, 5000, generator=torch.Generator().manual_seed(0)) + 10
    x = x if dims != {0} else x.t().contiguous()
    memory = Memory()
    out = torch.zeros(kept_shape(tuple(x.shape), frozenset(dims)))
    load = memory.load(x)
    assert memory.run(Reduce(tuple(x.shape), frozenset(dims), "sum", load, reduced_place(memory, out, frozenset(dims))))
    exact = x.double().sum(sorted(dims), keepdim=True)
    mine, torchs = (out - exact).abs().max(), (x.sum(sorted(dims), keepdim=True) - exact).abs().max()
    assert mine <= torchs * 1.01 + exact.abs().max() * 6e-8


def test_of_an_expression():
    x, y = torch.randn(9, 130), torch.randn(9, 1)
    memory, out = Memory(), torch.zeros(9, 1)
    lane = LaneOperator(F32, "exp", (LaneOperator(F32, "sub", (memory.load(x), memory.load(y.expand(9, 130)))),))
    place = reduced_place(memory, out, frozenset({1}))
    assert memory.run(Reduce((9, 130), frozenset({1}), "sum", LaneOperator(F32, "mul", (lane, Fill(F32, 2))), place))
    torch.testing.assert_close(out, ((x - y).exp() * 2).sum(1, keepdim=True))
