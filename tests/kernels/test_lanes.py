"""Every elementwise operator, for every type, beside eager over numbers of all kinds."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from kernel_harness import Compiled, place_of

from jitlite.kernels.lanes import LANES
from jitlite.kernels.loop_ir import DTYPES, F32, F64, I32, I64, DType, Fill, LaneCast, LaneOperator, Load, Nest, Store
from jitlite.kernels.meanings import order_key
from jitlite.kernels.vectors import range_of
from jitlite.native.code import NotNative

FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 0.1, -0.7, 7.25, 1e-3, 100.0, -100.0, 12345.678,
    8388609.0, 1e10, -1e10, 1e-40, -1e-40, 1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 1e30, -1e-30,
    math.inf, -math.inf, math.nan, 2147483648.0, 9.223372036854775807e18, -9.3e18, 88.0, -88.0, 20.0, 2.0,
]  # fmt: skip
WHOLES = [0, 1, -1, 2, -2, 3, -3, 7, 10, -10, 31, 32, 63, 64, 1000, -12345, 2**31 - 1, -(2**31)]
LARGE = [2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63), 2**53 + 1]
RAISE = {"fmod", "remainder", "div_floor", "div_trunc"}

EAGER = {
    "div": torch.true_divide,
    "add_scaled": lambda a, b, c: torch.stack([torch.add(x, y, alpha=z) for x, y, z in zip(a, b, c.tolist())]),
    "relu": torch.relu,
    "leaky_relu": lambda a, s: F.leaky_relu(a, s[0].item()),
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "maximum": torch.maximum,
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "where": torch.where,
    "clamp": lambda a, lo, hi: torch.clamp(a, lo[0].item(), hi[0].item()),
    "clamp_min": lambda a, lo: torch.clamp(a, min=lo[0].item()),
    "clamp_max": lambda a, hi: torch.clamp(a, max=hi[0].item()),
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda a: F.gelu(a, approximate="tanh"),
    "order_key": order_key,
}
CONSTANT = {"clamp": 2, "clamp_min": 1, "clamp_max": 1, "leaky_relu": 1, "add_scaled": 1}
"""The last operands of these are numbers in eager."""


def padded(values: torch.Tensor) -> torch.Tensor:
    """Made so long that eager has no rest, which it computes in another way than vectors."""
    return values.repeat(2 + 64 // len(values))[: (len(values) + 63) // 64 * 64].contiguous()


def samples(dtype: DType) -> torch.Tensor:
    if dtype.is_float:
        return torch.tensor(FLOATS, dtype=torch.float64).to(dtype.torch)
    if dtype.lane == "i1":
        return torch.tensor([False, True])
    if dtype.wide is not None:
        low, high = range_of(dtype)
        return torch.tensor([n for n in (*WHOLES, low, high) if low <= n <= high], dtype=dtype.torch)
    return torch.tensor(WHOLES + (LARGE if dtype is I64 else []), dtype=dtype.torch)


def operands(op: str, dtype: DType) -> list[torch.Tensor]:
    """All combinations of numbers; of three operands the last ones are few."""
    values, arity = samples(dtype), LANES[op].arity
    if op == "where":
        values = values[:12]
        rows = list(itertools.product([False, True], values.tolist(), values.tolist()))
        condition, a, b = zip(*rows)
        return [padded(torch.tensor(condition)), *(padded(torch.tensor(x, dtype=dtype.torch)) for x in (a, b))]
    if arity == 3:
        few = torch.cat([values[:9], values[-8:]])
        grid = torch.cartesian_prod(values, values[:9], few) if op == "lerp" else torch.cartesian_prod(values, few, few)
    else:
        grid = torch.cartesian_prod(*[values] * arity)
    return [padded(column) for column in grid.reshape(-1, arity).unbind(1)]


def run(op: str, tensors: list[torch.Tensor], result: torch.dtype) -> torch.Tensor | None:
    """What machine code gives for these operands; None where it gives up."""
    tensors = [t.contiguous() for t in tensors]
    out = torch.empty(tensors[0].shape, dtype=result)
    places = [place_of(t) for t in tensors]
    loads = tuple(Load(p.dtype, p) for p in places)
    target = place_of(out)
    lane = LaneOperator(target.dtype, op, loads)
    nest = Nest(target.sizes, (Store(target, lane),))
    buffers = [(p.buffer, t) for p, t in zip([*places, target], [*tensors, out])]
    return out if Compiled([nest], buffers).run() else None


def same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Are they alike to the bit? Any NaN is as good as another."""
    if not a.is_floating_point():
        return a == b
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return (a.view(bits) == b.view(bits)) | (a.isnan() & b.isnan())


def ulps(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """The distance in units of the last place; 0 where both are NaN or the same infinity."""
    digits, least = (24, -149) if got.dtype == torch.float32 else (53, -1074)
    exponent = torch.frexp(want.double().abs())[1].clamp(min=least + digits) - digits
    unit = torch.ldexp(torch.ones_like(want, dtype=torch.float64), exponent)
    distance = (got.double() - want.double()).abs() / unit
    alike = (got == want) | (got.isnan() & want.isnan())
    return torch.where(alike, torch.zeros((), dtype=torch.float64), distance.nan_to_num(math.inf, math.inf))


def eager(op: str, tensors: list[torch.Tensor]) -> torch.Tensor:
    function = EAGER.get(op) or getattr(torch, op)
    return function(*tensors)


CASES = [(op, d) for op, lane in LANES.items() for d in DTYPES.values() if d in lane.takes]


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda x: str(x))
def test_every_operator_is_what_eager_is(op: str, dtype: DType):
    tensors = operands(op, dtype)
    if op in CONSTANT:
        check_numbers(op, dtype)
        return
    if op in RAISE and not dtype.is_float:
        lowest = torch.iinfo(dtype.torch).min
        bad = (tensors[1] == 0) | ((tensors[0] == lowest) & (tensors[1] == -1))
        for i in bad.nonzero().flatten().tolist()[::7]:
            assert run(op, [t[i : i + 1] for t in tensors], dtype.torch) is None
        tensors = [t[~bad] for t in tensors]
    compare(op, dtype, tensors, eager(op, tensors))


def compare(op: str, dtype: DType, tensors: list[torch.Tensor], want: torch.Tensor) -> None:
    entry = LANES[op]
    result = (entry.gives or dtype).torch
    assert want.dtype == result
    try:
        got = run(op, tensors, result)
    except NotNative:
        assert op == "pow" and not dtype.is_float
        return
    assert got is not None, "gave up"
    if op == "gelu":  # 1 + erf(x) cancels: as exact as a sum of these sizes can be
        want = F.gelu(tensors[0].double())
        size = torch.finfo(dtype.torch).eps * tensors[0].double().abs()
        good = (
            ((got.double() - want).abs() <= 2 * size + torch.finfo(dtype.torch).smallest_normal)
            | (got == want)
            | (got.isnan() & want.isnan())
        )
    else:
        good = same(got, want) if entry.is_exact else ulps(got, want) <= 4
    bad = (~good).nonzero().flatten().tolist()[:8]
    assert not bad, [([t[i].item() for t in tensors], got[i].item(), want[i].item()) for i in bad]


def check_numbers(op: str, dtype: DType) -> None:
    count = CONSTANT[op]
    values = samples(dtype)
    few = values.tolist()[:9] + values.tolist()[-8:]
    few = few if count == 1 else few[::2]
    for numbers in itertools.product(few, repeat=count):
        rows = torch.cartesian_prod(*[values] * (LANES[op].arity - count)).reshape(-1, LANES[op].arity - count)
        tensors = [padded(column) for column in rows.unbind(1)]
        tensors += [torch.full(tensors[0].shape, n, dtype=dtype.torch) for n in numbers]
        want = torch.add(tensors[0], tensors[1], alpha=numbers[0]) if op == "add_scaled" else eager(op, tensors)
        compare(op, dtype, tensors, want)


@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
@pytest.mark.parametrize("target", DTYPES.values(), ids=str)
def test_conversions(source: DType, target: DType):
    values = samples(source).repeat(3)
    out = torch.empty(values.shape, dtype=target.torch)
    a, b = place_of(values), place_of(out)
    nest = Nest(b.sizes, (Store(b, LaneCast(target, Load(source, a))),))
    assert Compiled([nest], [(a.buffer, values), (b.buffer, out)]).run()
    want = values.to(target.torch)
    good = same(out, want)
    assert good.all(), [
        (values[i].item(), out[i].item(), want[i].item()) for i in (~good).nonzero().flatten().tolist()[:8]
    ]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.0, 1.7, -3])
@pytest.mark.parametrize("dtype", [F32, F64, I64, I32], ids=str)
def test_powers(exponent: float, dtype: DType):
    if not dtype.is_float and (exponent not in (2, 3) or isinstance(exponent, float)):
        return
    values = padded(samples(dtype))
    out = torch.empty_like(values)
    a, b = place_of(values), place_of(out)
    lane = LaneOperator(dtype, "pow", (Load(dtype, a), Fill(dtype, exponent)))
    assert Compiled([Nest(b.sizes, (Store(b, lane),))], [(a.buffer, values), (b.buffer, out)]).run()
    want = values**exponent
    good = ulps(out, want) <= 2 if exponent in (1.7, -3) else same(out, want)
    assert good.all(), [
        (values[i].item(), out[i].item(), want[i].item()) for i in (~good).nonzero().flatten().tolist()[:8]
    ]
