"""Kernels of bf16 and f16: what eager Python gives, to the bit where it rounds what it has in f32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, List  # noqa: UP035 - the language's own

import pytest
import torch
from kernel_harness import Compiled, place_of
from kernel_law import EXACT, SUMS, ULP, compared, extreme, outcome
from kernel_programs import function_of
from torch import Tensor
from torch.nn import functional as F

import jitlite
from jitlite.base import options
from jitlite.kernels import torch_abi, vectors, walk
from jitlite.kernels.lanes import fits
from jitlite.kernels.loop_ir import (
    BF16,
    BOOL,
    F16,
    F32,
    DType,
    Fill,
    Lane,
    LaneCast,
    LaneOperator,
    Load,
    Nest,
    Place,
    Store,
)  # fmt: skip
from jitlite.kernels.target import VectorTarget, host

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

HALVES = (torch.bfloat16, torch.float16)
TARGETS = [None, VectorTarget(64), VectorTarget(32, True), VectorTarget(16)]
"""This machine, and others: with and without instructions for f16."""


# -- conversions


def flat(tensor: Tensor) -> Place:
    return Place(place_of(tensor).buffer, 0, tuple(tensor.shape), (1,))


def computed(source: Tensor, result: torch.dtype, lane: Callable[[Lane], Lane]) -> Tensor:
    """What machine code gives for each element."""
    out = torch.empty(len(source), dtype=result)
    into, place = flat(out), flat(source)
    nest = Nest((len(source),), (Store(into, lane(Load(place.dtype, place))),))
    assert Compiled([nest], [(place.buffer, source), (into.buffer, out)]).run()
    return out


def all_halves(dtype: DType) -> Tensor:
    return torch.arange(1 << 16).to(torch.int32).to(torch.int16).view(dtype.torch)


def near_halves(dtype: DType) -> Tensor:
    """Floats at which rounding is decided, and any others."""
    exact = all_halves(dtype).float()
    middle = ((exact[1:].double() + exact[:-1].double()) / 2).float()
    found = [exact, middle]
    for value in (exact, middle):
        found += [torch.nextafter(value, torch.tensor(bound)) for bound in (torch.inf, -torch.inf)]
    bits = torch.randint(-(1 << 31), 1 << 31, (100_003,), generator=torch.Generator().manual_seed(1))
    return torch.cat([*found, bits.to(torch.int32).view(torch.float32)])


def assert_same_bits(got: Tensor, expected: Tensor) -> None:
    whole = torch.int16 if got.dtype in HALVES else torch.int32
    assert torch.equal(got.isnan(), expected.isnan())
    known = ~expected.isnan()
    assert torch.equal(got.view(whole)[known], expected.view(whole)[known])


@pytest.mark.parametrize("dtype", [BF16, F16], ids=repr)
@pytest.mark.parametrize("target", TARGETS, ids=repr)
def test_every_half_is_widened_and_every_float_rounded(
    dtype: DType, target: VectorTarget | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target is not None:
        if target.has_halves and not host().has_halves:
            pytest.skip("this machine has no instructions for f16")
        monkeypatch.setattr(walk, "host", lambda: target)
    halves, floats = all_halves(dtype), near_halves(dtype)
    assert_same_bits(computed(halves, torch.float32, lambda x: LaneCast(F32, x)), halves.float())
    assert_same_bits(computed(floats, dtype.torch, lambda x: LaneCast(dtype, x)), floats.to(dtype.torch))
    kept = computed(floats, torch.float32, lambda x: LaneCast(F32, LaneCast(dtype, x)))
    assert_same_bits(kept, floats.to(dtype.torch).float())


@pytest.mark.parametrize("dtype", [BF16, F16], ids=repr)
def test_numbers_that_are_known_are_rounded_as_tensors_are(dtype: DType) -> None:
    for number in (0.1, -0.3, 1 / 3, 1003.0, 2049.0, 1e-8, 6e-8, 1e-40, 65503.9, 0.0, float("inf"), float("nan")):
        expected = torch.tensor(number, dtype=dtype.torch).item()
        assert repr(vectors.rounded(dtype, number)) == repr(expected)


def test_what_needs_no_rounding() -> None:
    def load(dtype: DType) -> Lane:
        return Load(dtype, flat(torch.zeros(3, dtype=dtype.torch)))

    wide = LaneCast(F32, load(BF16))
    condition = LaneOperator(BOOL, "lt", (wide, Fill(F32, 0.1)))
    assert fits(LaneOperator(F32, "where", (condition, wide, Fill(F32, 0.5))), BF16)
    assert fits(LaneOperator(F32, "neg", (LaneOperator(F32, "relu", (wide,)),)), BF16)
    assert not fits(LaneOperator(F32, "where", (condition, wide, Fill(F32, 0.1))), BF16)
    assert not fits(LaneOperator(F32, "add", (wide, wide)), BF16)
    assert not fits(wide, F16) and not fits(load(F32), BF16) and not fits(load(BOOL), BF16)


# -- operators of several types


def promoted(x: Tensor, y: Tensor, s: Tensor):
    a = x + y, x - y, x * y, x / y, torch.maximum(x, y), x < y, torch.where(x > 0, x, y), torch.where(x > s, x, s)
    return a, x + s, s + x, x * s, s * x, x / s, s / x, x - s, x < s, torch.fmod(x, s)


def numbers(x: Tensor):
    a = x + 0.1, x * 0.1, x / 0.1, 0.1 / x, x - 0.1, 1.1 - x, x < 0.1, x == 0.1, x + 1003, x * 1003, x // 0.3
    b = (
        x**0.3,
        x**3,
        x**-2,
        x.clamp(0.1, 0.7),
        torch.where(x > 0, x, 0.3),
        x.masked_fill(x > 0, 0.3),
        x.lerp(x * 2, 0.3),
    )
    c = F.leaky_relu(x, 0.3), F.hardshrink(x, 0.1), F.threshold(x, 0.1, 0.3), F.elu(x, 0.3)
    return a, b, c


def numbers_that_are_given(x: Tensor, f: float, n: int):
    a = x + f, x * f, x / f, x - f, x < f, f - x, torch.where(x > f, x, f), x.clamp(-f, f)
    return a, x == n, x * n, x + n


def conversions(x: Tensor, i: Tensor, b: Tensor):
    a = x + i, x * i, x * b, x + b, x == i, i.to(x.dtype) * x, b.type_as(x), i.type_as(x)
    return a, x.half(), x.bfloat16(), x.double(), x.float() * 2, x.bool(), x.to(torch.float16), x.to(torch.bfloat16)


def in_place(x: Tensor, y: Tensor):
    z = x.clone()
    z += 0.1
    z *= y
    z.add_(y).sub_(0.3).div_(3).clamp_(-1, 1)
    z[0] = y[1]
    z[:, 1] = 0.1
    z.mul_(0.1)
    z.copy_(z.float() * 3)
    return z, z + 1


def listed(x: Tensor, y: Tensor):
    found: List[Tensor] = []
    h = x
    for _ in range(5):
        h = (h * y).tanh() + 0.1
        found.append(h)
    return torch.stack(found), torch.cat(found, -1), found[2] * 2, h


def read(x: Tensor, y: Tensor):
    a = float(x[0, 0]) * y, x[0, 0].item() + y, int(y[0, 1]) * x, torch.ones_like(x) * y, x.new_full([2], 0.1) + 1
    b = torch.full([4], 0.1, dtype=torch.bfloat16) * 2, torch.tensor(0.1, dtype=torch.float16) * x
    return a, b, x.float().sum(), x.sum(dtype=torch.float32), x.mean(dtype=torch.float64)


def branched(x: Tensor, y: Tensor):
    z = x * 2 if bool(x.sum() > 0) else y + 1
    while bool(z.abs().max() < 100):
        z = z * 1.7
    a = z.argmax(-1), z.topk(2)[0], z.max(0)[0], z.amin(), F.pad(z, [1, 1], value=0.1), z.tril(), z.flip(0)
    return a, z.repeat(2, 1), z.roll(1, 0), z.cumsum(0), z[torch.tensor([2, 0])], F.embedding(torch.tensor([1, 1]), z)


def of_rows(x: Tensor, y: Tensor):
    a = x.log_softmax(-1), x.log_softmax(0), x.logsumexp(-1), x.var(-1), x.std(0), x.norm(dim=-1), F.softmax(y, 0)
    b = F.layer_norm(x, [19], y[0], y[1]), F.mse_loss(x, y, reduction="none"), F.glu(x[:, 1:]), F.rms_norm(x, [19])
    return (
        a,
        b,
        F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction="none"),
        x @ y.t(),
        F.linear(x, y, x[:, 0]),
    )


def pairs(dtype: torch.dtype, *shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(shape, generator=generator).to(dtype), torch.randn(shape, generator=generator).to(dtype)


Program = Callable[..., Any]


def calls(dtype: torch.dtype) -> list[tuple[Program, float, list[Sequence[Any]]]]:
    other = HALVES[dtype is torch.bfloat16]
    x, y = pairs(dtype, 7, 19)
    s, whole = torch.tensor(0.1), (torch.arange(133) * 47 - 3000).view(7, 19)
    one, many = torch.tensor([0.1, 0.3, -0.1, 0.7]).to(dtype), extreme(x)
    by_type = [(x, y, s), (x, y.to(other), s), (x, y.float(), s.double()), (x, y[0].to(other), torch.tensor(3))]
    by_rank = [(x, y[:1].double(), s.to(other)), (x[0, 0], y, s), (x[:, :1], y[0], s), (many, extreme(y), s)]
    return [
        (promoted, EXACT, [*by_type, *by_rank]),
        (numbers, EXACT, [(x,), (one,), (x[0],), (x[0, :1],)]),
        (numbers_that_are_given, EXACT, [(x, 0.1, 1003), (x, 1e-9, -3), (many, 0.7, 2), (x, 1e6, 70000)]),
        (conversions, EXACT, [(x, whole, y > 0), (many, whole.int(), y > 0), (x * 1e4, torch.tensor(2001), y > 0)]),
        (in_place, EXACT, [(x, y), pairs(dtype, 3, 2)]),
        (listed, EXACT, [(x, y)]),
        (read, EXACT, [(x, y * 3)]),
        (branched, EXACT, [(x.abs(), y), (-x.abs(), y)]),
        (of_rows, ULP, [(x, y)]),
    ]


CALLS = [
    pytest.param(program, units, arguments, id=f"{program.__name__}, {dtype}")
    for dtype in HALVES
    for program, units, arguments in calls(dtype)
]


def runs(function: Any) -> int:
    return sum(r.implementation.runs for r in function.executor.general.regions if r.implementation)


@pytest.mark.parametrize(("program", "units", "arguments"), CALLS)
def test_programs(program: Program, units: float, arguments: list[Sequence[Any]]) -> None:
    with options.override(native="now", verify=True), torch.no_grad():
        function = jitlite.script(program)
        for given in arguments:
            expected = outcome(program, given)
            for _ in range(2):
                assert compared(expected, outcome(function, given), units) is None
    assert runs(function)


@pytest.mark.parametrize("text", ["x.clamp(max=1e6)", "x.masked_fill(x > 0, 1e6)", "F.threshold(x, 0.1, 1e6)"])
def test_a_number_that_does_not_fit_raises(text: str) -> None:
    """Python says so: the kernel gives up, or is not made."""
    program = function_of(f"def program(x):\n    return {text} + 1, x * 2\n")
    x, _ = pairs(torch.float16, 3, 4)
    with options.override(native="now"), torch.no_grad():
        assert compared(outcome(program, [x]), outcome(jitlite.script(program), [x])) is None


LEFT = [
    ("x.div(x * 2, rounding_mode='floor')", HALVES, "to whole numbers"),
    ("x.prod(-1)", HALVES[:1], "prod of bf16"),
    ("x.scatter_add(1, i, x)", HALVES, "sums of"),
    ("x.index_add(0, i[0], x)", HALVES, "sums of"),
    ("torch._C._nn.huber_loss(x, y, 1)", HALVES, "huber_loss"),
    ("x.float().cumsum(0, dtype=x.dtype)", HALVES, "of another type as"),
    ("F.linear(x, x.float())", HALVES, "several dtypes"),
]


@pytest.mark.parametrize(("text", "dtypes", "reason"), LEFT)
def test_what_is_left_to_python(text: str, dtypes: Sequence[torch.dtype], reason: str) -> None:
    program = function_of(f"def program(x, i):\n    y = x * 2\n    return {text}, y\n")
    for dtype in dtypes:
        x, i = pairs(dtype, 3, 3)[0], torch.tensor([[0, 1, 0], [2, 2, 1], [0, 0, 0]])
        with options.override(native="now"), torch.no_grad():
            function = jitlite.script(program)
            assert compared(outcome(program, [x, i]), outcome(function, [x, i])) is None
        assert any(reason in r.implementation.status for r in function.executor.general.regions)


def test_small_ints_are_counted() -> None:
    def program(x: Tensor):
        return torch.bincount(x), torch.bincount(x * 2, minlength=3), x + 200

    x = torch.tensor([3, 1, 3, 0, 100], dtype=torch.uint8)
    with options.override(native="now", verify=True):
        function = jitlite.script(program)
        assert compared(outcome(program, [x]), outcome(function, [x])) is None
    assert runs(function)


# -- gradients


def chain(x: Tensor, y: Tensor):
    return (x * y + 0.1).tanh() * 0.3 + y.sigmoid() + x**3 + y**-2


def normed(x: Tensor, y: Tensor):
    return F.layer_norm(x, [32], y[0]) * 2.0 + F.softmax(y, -1) - x.log_softmax(-1)


def activated(x: Tensor, y: Tensor):
    return F.gelu(x) * F.silu(y) + F.glu(torch.cat([x, y], -1)) + F.hardshrink(y, 0.1) * F.softplus(x)


def repeated(x: Tensor, y: Tensor):
    h = x
    for _ in range(4):
        h = torch.tanh(h * y + x)
    return h


def summed(x: Tensor, y: Tensor):
    spread = x.std(-1) * y.var(-1) + x.logsumexp(-1)
    return ((x - x.mean(-1, keepdim=True)) * y).sum(0) / 3 + F.mse_loss(x, y), spread


def multiplied(x: Tensor, y: Tensor):
    return F.linear(x, y).relu() * 0.5, torch.bmm(x.view(2, 4, 32), y.view(2, 32, 4)).softmax(-1) * 2


def mixed(x: Tensor, y: Tensor):
    a = (x.float() * y).to(x.dtype) * 2 + x
    return a, ((x + y.float()).bfloat16() * 2).half().type_as(x) * y


GRADIENTS = [(chain, EXACT), (normed, SUMS), (activated, ULP), (repeated, EXACT), (summed, ULP), (multiplied, ULP)]
GRADIENTS += [(mixed, EXACT)]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("program", "units"), GRADIENTS)
def test_gradients(program: Program, units: float, dtype: torch.dtype) -> None:
    def gradients(function: Program) -> list[Tensor]:
        given = [t.requires_grad_() for t in pairs(dtype, 8, 32)]
        results = function(*given)
        results = results if isinstance(results, tuple) else (results,)
        grads = [torch.linspace(-1, 1, r.numel()).view(r.shape).to(r.dtype) for r in results]
        torch.autograd.backward(results, grads)
        return [*(r.detach() for r in results), *(t.grad for t in given if t.grad is not None)]

    with options.override(native="now", verify=True):
        function = jitlite.script(program)
        kernels = function.kernels.compile_with_gradients(*(t.requires_grad_() for t in pairs(dtype, 8, 32)))
        assert any("backward pass" in kernel.place for kernel in kernels), str(kernels)
        expected, got = (outcome(lambda f=f: gradients(f), []) for f in (program, function))
        assert compared(expected, got, units) is None
