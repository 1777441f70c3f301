"""Operators as StableHLO, run by IREE, beside eager: for several sizes with one compilation for many operators."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from control_flow_models import of_growing_sizes, of_one_size
from engine_cases import CASES, DECIDED_BY_SIZES, LATER, Calls, floats, pair, with_indices
from engine_checks import assert_engine_computed, small_engine
from torch import Tensor, nn

import jitlite
from jitlite.engines.running import EngineWarning
from jitlite.engines.stablehlo.literals import _ELEMENTS

pytest.importorskip("iree.compiler", reason="IREE is not installed: pip install 'jitlite[iree]'")
pytest.importorskip("iree.runtime", reason="IREE is not installed: pip install 'jitlite[iree]'")

MORE = {
    "empty products": (lambda x: (x[:, :0] @ x[:, :0].t(), x[:, :0].t() @ x), floats(None, 3)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0), x.argmax()), floats(None, 3)),
    "max": (lambda x: (x.max(1).values, x.max(1).indices, x.min(0).indices, x.max()), floats(None, 3)),
    "var": (lambda x: (x.var(1), x.var([0, 1], correction=0), x.std(0)), floats(None, 3)),
    "remainder": (lambda x, y: (torch.remainder(x, y), torch.fmod(x, y), torch.atan2(x, y)), pair(None, 3)),
    "rounds": (lambda x: (x.round(), x.trunc(), x.frac(), torch.floor_divide(x, 0.3)), floats(None, 3)),
    "logarithms": (lambda x: (x.abs().log2(), x.abs().log10(), x.exp2(), x.expm1(), x.abs().log1p()), floats(None, 3)),
    "scatter": (lambda x: torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3), floats(None, 3)),
    "flip": (lambda x: x.flip(0, 1) + x.tril() * 2, floats(None, 3)),
    "halves": (lambda x: ((x.half() @ x.half().t()).float(), x.bfloat16().sum(1), x.half().mean()), floats(None, 3)),
    "ints": (lambda x: (x.int() + 1, x.long().sum(), (x > 0).sum(1), x.abs().byte() & 3, x.char()), floats(None, 3)),
    "index": (lambda x, i: (x[:, torch.tensor([0, -1, 2])], x[i[:, 0] * 0 - 1]), with_indices),
    "group_norm": (lambda x: F.group_norm(x, 2, torch.arange(4.0), torch.ones(4)), floats(None, 4, 5)),
    "equal elements": (
        lambda x: (
            (x.new_zeros(x.size(0)) != 3).any(),
            (x.new_ones(x.size(0), 3) * 3 + 1).sum(0),
            torch.where(x.new_zeros(x.size(0), 3) > 1, x.new_ones(x.size(0), 3), -2.0).to(torch.int64).sum(),
            x.new_zeros(x.size(0), 3).exp().amax(),
        ),
        floats(None, 3),
    ),
    "conv that fits once": (
        lambda x: (
            F.conv2d(x, torch.ones(4, 2, 3, 3), None, 2, 1),
            F.conv2d(x, torch.ones(4, 2, 2, 1), None, 3),
            F.conv2d(x, torch.ones(4, 1, 3, 3), None, 2, (1, 3), groups=2),
            F.conv2d(x, torch.ones(4, 2, 1, 2), None, 3, 1, dilation=2),
        ),
        floats(None, 2, 2, 2),
    ),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)) + F.adaptive_avg_pool2d(x, 1), floats(None, 2, 5, 7)),
}  # fmt: skip
ALL = {**CASES, **LATER, **{f"more {name}": case for name, case in MORE.items()}}


LEFT_OUT = {"aminmax": "median", "view": "view"}
"""Cases that are not whole on the engine, and the operator that has no translation."""


def families() -> dict[str, list[str]]:
    """The cases that take arguments of the same shapes: one model computes all of them."""
    found: dict[str, list[str]] = {}
    for name, (_, make) in ALL.items():
        if name not in DECIDED_BY_SIZES:
            shapes = ", ".join(f"{x.dtype}{list(x.shape)}".removeprefix("torch.") for x in make(4))
            found.setdefault(shapes, []).append(name)
    return found


def check_cases(names: list[str]) -> None:
    make = ALL[names[0]][1]
    first = make(4)
    model = Calls(lambda *args: [ALL[name][0](*args) for name in names]).eval()
    varying = {n: [0] for n, _ in zip("xy", first, strict=False)}
    fast = jitlite.optimize(model, first, engine=small_engine("iree"), dynamic_shapes=varying)
    for n in (4, 2, 6):
        args = make(n)
        for name, found, expected in zip(names, fast(*args), model(*args), strict=True):
            note = f"{name} with a size of {n}: {{}}".format
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True, msg=note)
    left = [LEFT_OUT[name] for name in names if name in LEFT_OUT]
    assert_engine_computed(fast, share=0.9 if left else 1.0)
    assert all(f"left out: aten::{operator}" in fast.explain() for operator in left)


def test_some_operators():
    """Of those that take the shapes that most take."""
    check_cases(max(families().values(), key=len)[::8])


@pytest.mark.slow
@pytest.mark.parametrize("shapes", families())
def test_operators(shapes):
    check_cases(families()[shapes])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DECIDED_BY_SIZES if name in ALL])
def test_what_is_decided_by_sizes(name):
    f, make = ALL[name]
    model, first = Calls(f).eval(), make(4)
    fast = jitlite.optimize(model, first, engine=small_engine("iree"), dynamic_shapes={"x": [0]})
    for n in (4, 2, 6):
        args = make(n)
        torch.testing.assert_close(fast(*args), model(*args))


NUMBERS = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1, -1, 2.5, -2.5, 2, -2, 0.5, 3, 1e5, -1e7]
ON_NUMBERS = {
    "pow": torch.pow, "atan2": torch.atan2, "floor_divide": torch.floor_divide, "remainder": torch.remainder,
    "fmod": torch.fmod, "hypot": torch.hypot, "maximum": torch.maximum, "minimum": torch.minimum,
    "true_divide": torch.true_divide,
    "sin": lambda x, y: torch.sin(x), "cos": lambda x, y: torch.cos(x), "tan": lambda x, y: torch.tan(x),
    "sign": lambda x, y: torch.sign(x), "tanh": lambda x, y: torch.tanh(x), "exp": lambda x, y: torch.exp(x),
    "log": lambda x, y: torch.log(x), "sqrt": lambda x, y: torch.sqrt(x), "erf": lambda x, y: torch.erf(x),
    "x ** 2.5": lambda x, y: x**2.5, "(-2) ** x": lambda x, y: (-2.0) ** x,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_numbers_that_are_not_finite_or_negative_or_large(dtype):
    """Each with each: IREE has its own ideas of powers of negative numbers and of the sine of large ones."""
    numbers = torch.tensor(NUMBERS, dtype=dtype)
    x, y = (t.reshape(-1) for t in torch.meshgrid(numbers, numbers, indexing="ij"))
    model = Calls(lambda x, y: [f(x, y) for f in ON_NUMBERS.values()]).eval()
    fast = jitlite.optimize(model, (x, y), engine=small_engine("iree"))
    for name, found, expected in zip(ON_NUMBERS, fast(x, y), model(x, y), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6, equal_nan=True, msg=f"{name}: {{}}".format)
        is_zero = (found == 0) & (expected == 0)
        if name in ("pow", "atan2"):
            assert torch.equal(found[is_zero].signbit(), expected[is_zero].signbit()), name
    assert_engine_computed(fast, 1.0 if dtype is torch.float32 else 0.5)


def test_an_angle_that_is_too_large_is_left_to_torch():
    x = torch.tensor([1.0, 1e30])
    fast = jitlite.optimize(Calls(torch.sin).eval(), x, engine=small_engine("iree"))
    assert torch.equal(fast(x), x.sin()) and fast.counters.fallbacks == 1
    torch.testing.assert_close(fast(x.log()), x.log().sin())


def puts_twice(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    """Elements are put into an argument, into what was computed, and into zeros that others have, too."""
    zeros = torch.zeros_like(x)
    first = x.scatter_add(1, i, x[:, :3])
    second = (x * 2).scatter(1, i[:, :1], 3.5)
    third = zeros.scatter_add(1, i, x[:, :3]) + zeros
    return first, second, third, zeros.scatter_add(1, i, x[:, :3] + 1), (x > 0).scatter(1, i[:, :1], True), zeros + 1


@pytest.mark.parametrize("varies", [True, False])
def test_what_is_put_into_tensors_changes_no_other(varies):
    """IREE's scatter writes into arguments, and into tensors that others still read."""
    varying = {"x": [0], "y": [0]} if varies else {}
    fast = jitlite.optimize(
        Calls(puts_twice).eval(), with_indices(4), engine=small_engine("iree"), dynamic_shapes=varying
    )
    for n in (4, 2, 7) if varies else (4, 4):
        x, i = with_indices(n)
        before = x.clone()
        for _ in range(2):
            found = fast(x, i)
            assert torch.equal(x, before)
            torch.testing.assert_close(found, puts_twice(x, i))
    assert_engine_computed(fast)


@pytest.mark.parametrize("name", ["x // y", "x % y", "fmod", "trunc"])
def test_division_of_ints_by_zero_raises_what_eager_raises(name):
    f = {
        "x // y": lambda x, y: x // y, "x % y": lambda x, y: x % y, "fmod": torch.fmod,
        "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    }[name]  # fmt: skip
    x, y = torch.arange(4) - 2, torch.tensor([1, -2, 3, 4])
    fast = jitlite.optimize(Calls(f).eval(), (x, y), engine=small_engine("iree"))
    assert torch.equal(fast(x, y), f(x, y)) and not fast.counters.fallbacks
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fast(x, y - 1)
    assert torch.equal(fast(x, y), f(x, y))


def test_orders_that_are_too_long_are_left_to_torch():
    f = Calls(lambda x: (x.sort(0)[0], x.topk(3, 0)[1], x.cumsum(0))).eval()
    fast = jitlite.optimize(f, torch.randn(6), engine=small_engine("iree"), dynamic_shapes={"x": [0]})
    for n in (5, 1500):
        x = torch.randn(n)
        torch.testing.assert_close(fast(x), f(x), rtol=1e-4, atol=1e-4)
    assert_engine_computed(fast, fallbacks=1)


# -- models


class Block(nn.Module):
    """A residual block with a convolution in groups and squeezed channels, as mobile networks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1))
        self.head = nn.Linear(8 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)), inplace=True)
        y = F.hardswish(self.depthwise(x))
        x = x + y * F.hardsigmoid(self.squeeze(y))
        x = F.adaptive_avg_pool2d(F.max_pool2d(x, 3, 2, 1), 2)
        return F.log_softmax(self.head(torch.flatten(x, 1)), 1)


class Cell(nn.Module):
    """Three steps of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(6, 32), nn.Linear(8, 32)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        for _ in range(3):
            i, f, g, o = (self.of_input(x) + self.of_state(h)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h + c


class Attention(nn.Module):
    """Patches of images with a token of the class, as in a vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.head = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return self.head(x[:, 0])


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8), nn.Softmax(-1)), floats(None, 16)),
    "convolutions": (Block, floats(None, 3, 16, 16)),
    "lstm cell": (Cell, lambda n: (torch.randn(n, 6), torch.randn(n, 8), torch.randn(n, 8))),
    "attention": (Attention, floats(None, 3, 8, 8)),
    "transformer layer": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu"),
        floats(None, 5, 16),
    ),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 4), nn.Tanh()),
        lambda n: (torch.randint(10, (n, 7)),),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    torch.manual_seed(0)
    make_model, make = MODELS[name]
    model, first = make_model().eval(), make(3)
    names = {"lstm cell": ["x", "h", "c"], "transformer layer": ["src"], "mlp": ["input"], "embedding": ["input"]}
    varying = {n: [0] for n in names.get(name, ["x"])}
    fast = jitlite.optimize(model, first, engine="iree", dynamic_shapes=varying)
    with torch.no_grad():
        for n in (3, 2, 5, 8, 4):
            args = make(n)
            torch.testing.assert_close(fast(*args), model(*args), rtol=1e-4, atol=1e-5)
    assert_engine_computed(fast, 0.95, most_compiled=3)


def test_a_group_that_begins_within_a_model_knows_its_sizes():
    """IREE compiles convolutions of images whose sizes are known; here only the batch varies."""
    torch.manual_seed(0)
    model = Block().eval()
    fast = jitlite.optimize(
        model, torch.randn(2, 3, 16, 16), engine="iree", dynamic_shapes={"x": [0]}, deny=["aten::relu"]
    )
    with torch.no_grad():
        for n in (2, 5, 3):
            x = torch.randn(n, 3, 16, 16)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert_engine_computed(fast, 0.5)
    assert "group 1" in fast.explain()


@pytest.mark.parametrize("name", ["branches", "steps", "halves", "choices"])
def test_branches_and_loops(name):
    model, calls, varying = of_one_size()[name]
    fast = jitlite.optimize(model, calls[0], engine="iree", dynamic_shapes={n: [0] for n in varying})
    with torch.no_grad():
        for args in calls:
            torch.testing.assert_close(fast(*args), model(*args), rtol=1e-4, atol=1e-5)
    assert_engine_computed(fast, most_compiled=1)


def test_what_changes_its_size_in_a_loop_stays_outside():
    model, calls, varying = of_growing_sizes()
    fast = jitlite.optimize(model, calls[0], engine=small_engine("iree"), dynamic_shapes={n: [0] for n in varying})
    for args in calls:
        torch.testing.assert_close(fast(*args), model(*args))
    assert "prim::Loop, 1 time: what is carried through it changes its sizes" in fast.explain()


def several_in_a_loop(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, z, n = x * 2 + 1, torch.zeros(x.size(0), 3), torch.ones(x.size(0), dtype=torch.int64)
    while bool(z.sum() < 100):
        z = torch.tanh(y) + z + 2
        y = torch.tanh(z * 0.7 + x)
        n = n + (x.sum(1) > 0).to(torch.int64)
    return y + 0, z + 0, n + 0


def several_in_a_branch(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if bool(x.sum() > 0):
        y, z, n = x + 1, torch.zeros(x.size(0), 3), torch.ones(x.size(0), dtype=torch.int64)
    else:
        y, z, n = (x * 5 + 1) * 2, torch.ones(x.size(0), 3), torch.zeros(x.size(0), dtype=torch.int64) + 2
    return y + 0, z + 0, n + 0


@pytest.mark.parametrize("f", [pytest.param(several_in_a_loop, id="loop"), pytest.param(several_in_a_branch, id="if")])
@pytest.mark.parametrize("varies", [True, False])
def test_several_tensors_of_sizes_that_vary_are_carried_by_jitlite(f, varies):
    """IREE compiles that, and computes it wrongly: the second tensor begins where the first does."""
    fast = jitlite.optimize(
        f, torch.randn(4, 3), engine=small_engine("iree"), dynamic_shapes={"x": [0]} if varies else {}
    )
    for n in (4, 2, 6) if varies else (4, 4):
        for sign in (1, -1):
            x = torch.rand(n, 3) * sign
            torch.testing.assert_close(fast(x), f(x))
    told = fast.explain()
    assert_engine_computed(fast, 0.0 if varies else 1.0)
    assert ("IREE takes no branch or loop that gives several tensors" in told) == varies, told


def test_an_index_out_of_range_in_a_loop_raises_what_eager_raises():
    def f(x: Tensor, i: Tensor) -> Tensor:
        y = x.sum(0)
        while bool(y.sum() < 30):
            y = y + F.embedding(i, x).sum(0) + 1
            i = i + 1
        return y

    x, i = torch.rand(5, 3) + 1, torch.tensor([0, 1])
    fast = jitlite.optimize(f, (x, i), engine="iree")
    torch.testing.assert_close(fast(x, i), f(x, i))
    assert fast.counters.compiled == 1, fast.explain()
    with pytest.raises(IndexError, match="index out of range"):
        fast(x / 99, i)
    torch.testing.assert_close(fast(x, i), f(x, i))


# -- errors, memory and failures


def test_an_index_out_of_range_raises_what_eager_raises():
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 4), nn.Tanh()).eval()
    fast = jitlite.optimize(model, torch.tensor([1, 2]), engine="iree")
    with torch.no_grad():
        with pytest.raises(IndexError, match="index out of range"):
            fast(torch.tensor([1, 10]))
        torch.testing.assert_close(fast(torch.tensor([3, 9])), model(torch.tensor([3, 9])))
    assert fast.counters.compiled == 1


class Shares(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y + 1, torch.zeros(3) + 1, torch.arange(40) * 2, x.new_zeros(4), y


def test_results_share_no_memory():
    fast = jitlite.optimize(Shares().eval(), torch.ones(3), engine=small_engine("iree"))
    expected = [t.clone() for t in Shares()(torch.ones(3))]
    for _ in range(3):
        found = fast(torch.ones(3))
        torch.testing.assert_close(list(found), expected)
        for t in found:
            t.fill_(7)
    assert_engine_computed(fast)


def test_tensors_that_are_not_as_iree_wants_them():
    model = Calls(lambda x: (x * 2 + 1).sin()).eval()
    fast = jitlite.optimize(model, torch.ones(4, 6), engine="iree", dynamic_shapes={"x": [0, 1]})
    for x in (torch.randn(6, 4).t(), torch.randn(50)[1:25].view(4, 6), torch.randn(4, 12)[:, ::2], torch.randn(4, 1)):
        torch.testing.assert_close(fast(x), model(x))
    with torch.no_grad():
        x = nn.Parameter(torch.randn(4, 6))
        torch.testing.assert_close(fast(x), model(x))
        x.data = torch.randn(4, 6)
        torch.testing.assert_close(fast(x), model(x))
        x.add_(1)
        torch.testing.assert_close(fast(x), model(x))


def test_sizes_that_do_not_fit_are_run_as_a_graph():
    """A size that is computed may be 1 in a call, and is broadcast then."""
    model = Calls(lambda x, y: (x[1:] * 2 + y).sin()).eval()
    first = torch.randn(4, 3), torch.randn(3, 3)
    fast = jitlite.optimize(model, first, engine="iree", dynamic_shapes={"x": [0], "y": [0]})
    for n, m in ((4, 3), (6, 5), (2, 5)):
        x, y = torch.randn(n, 3), torch.randn(m, 3)
        torch.testing.assert_close(fast(x, y), model(x, y))
    with pytest.raises(RuntimeError, match="must match"):
        fast(torch.randn(5, 3), torch.randn(7, 3))


@pytest.mark.without_engine
def test_a_text_that_iree_does_not_read_falls_back(monkeypatch):
    monkeypatch.setattr("jitlite.engines.stablehlo.literals._ELEMENTS", {**_ELEMENTS, torch.float32: "f33"})
    fast = jitlite.optimize(Calls(lambda x: (x * 2 + 1).sin()).eval(), torch.ones(3), engine="iree")
    with pytest.warns(EngineWarning, match="group 0.*iree.*error:"):
        torch.testing.assert_close(fast(torch.ones(3)), (torch.ones(3) * 2 + 1).sin())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast(torch.ones(3))
    assert fast.counters.fallbacks == 1 and not fast.counters.compiled
