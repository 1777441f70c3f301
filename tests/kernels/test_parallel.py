"""Loops that threads share: no result depends on how many there are, or on who does which iterations."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from kernel_law import EXACT, SUMS, WHOLE, Outcome, compared, outcome
from kernel_programs import function_of, random_program

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import emit, forks, loop_orders, parallel, shared_products, torch_abi

pytestmark = pytest.mark.skipif(
    torch_abi.torch_abi() is None or torch_abi.symbol(torch_abi.PARALLEL_FOR) is None, reason=torch_abi.why_not()
)

COUNTS = (1, 2, 3, 7)
Body = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
Ranges = Callable[[int, int, int], list[tuple[int, int]]]


def in_order(end: int, grain: int, count: int) -> list[tuple[int, int]]:
    """As torch divides a loop among threads."""
    count = max(1, min(count, -(-end // grain)))
    step = -(-end // count)
    return [(start, min(start + step, end)) for start in range(0, end, step)]


_HELD: list[object] = []
"""Functions whose addresses machine code has, which is kept: another one at the same address would be called."""


class Scheduler:
    """Calls parts one after the other, in the opposite order, as if so many threads had shared the loop.

    Attributes:
        count: how many there are.
        shared: how many loops have been shared.
    """

    def __init__(self) -> None:
        self.count, self.shared = 1, 0
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
        )
        called = kind(self._run)
        _HELD.append(called)
        self.address = ctypes.cast(called, ctypes.c_void_p).value

    def _run(self, start: int, end: int, grain: int, part: int, context: int) -> int:
        assert start == 0 and end > 0 and grain > 0
        ranges = in_order(end, grain, self.count)
        self.shared += len(ranges) > 1
        for low, high in reversed(ranges):
            Body(part)(low, high, context)
        return 0


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """All loops are shared that may be, however few points there are."""
    made = Scheduler()
    monkeypatch.setattr(loop_orders, "GRAIN", 1)
    monkeypatch.setattr(shared_products, "WORK", 1)
    for module in (parallel, emit):
        real = module.symbol
        monkeypatch.setattr(
            module, "symbol", lambda name, real=real: made.address if name == torch_abi.PARALLEL_FOR else real(name)
        )
    return made


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Torch's threads share all loops that may be."""
    monkeypatch.setattr(loop_orders, "GRAIN", 1)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def outcomes(fn: Callable[..., object], given: list[object], set_count: Callable[[int], object]) -> list[Outcome]:
    """What a function gives in eager Python, and as a kernel with different counts of threads."""
    with torch.no_grad(), options.override(native="now"):
        scripted = jitlite.script(fn)
        found = [outcome(fn, given), outcome(scripted, given)]
        for count in COUNTS:
            set_count(count)
            found.append(outcome(scripted, given))
    return found


def check(found: list[Outcome], units: float) -> None:
    expected, first, *others = found
    assert compared(expected, first, units) is None
    for count, other in zip(COUNTS, others, strict=True):
        assert compared(first, other, EXACT) is None, f"{count} threads"


# -- which iterations belong together changes nothing


def chain(x, y):
    return torch.tanh(x * y + 1) * x - y, (x > y) & (x < 1), (x * 8).long()


def rows(x, y):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * y, x.argmax(-1), x.softmax(-1)


def columns(x, y):
    return (x * y).sum(0), x.amax(0), x.argmin(0), (x > 0).any(0)


def whole(x, y):
    return (x * y).sum(), x.amax(), (x * 3).amin(), x.argmax(), x.argmin(), (x > 2).any(), (x > -9).all(), x.prod()


def middle(x, y):
    z = x.unsqueeze(1) * y.unsqueeze(0)
    return z.sum(1), z.amax((0, 2)), z.mean((0, 1)), z.permute(2, 0, 1) + 1


SIZES = [(1, 1), (1, 7), (7, 1), (3, 5), (2, 131), (131, 2), (33, 65), (129, 130), (0, 4), (4, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("fn", [chain, rows, columns, whole, middle], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_counts_of_threads(fn, dtype, scheduler):
    for shape in SIZES:
        if 0 in shape and fn in (rows, columns, whole, middle):
            continue  # no greatest element
        x, y = torch.randn(shape, dtype=dtype), torch.randn(shape[-1], dtype=dtype)
        found = outcomes(fn, [x, y], lambda count: setattr(scheduler, "count", count))
        check(found, SUMS)
    assert scheduler.shared > 2 * len(SIZES)


def products(a, b):
    return a @ b, b.t() @ a.t(), a @ b + b[:1], (a @ b[:, 0]) * 2, a[:2] @ b, a.t().contiguous().t() @ b


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_products(dtype, scheduler):
    for m, k, n in ((1, 1, 1), (2, 7, 200), (5, 3, 130), (9, 16, 65), (67, 33, 9), (130, 5, 257), (3, 4, 1)):
        a, b = torch.randn(m, k, dtype=dtype), torch.randn(k, n, dtype=dtype)
        check(outcomes(products, [a, b], lambda count: setattr(scheduler, "count", count)), SUMS)
    assert scheduler.shared > 30


def test_sums_of_nothing(scheduler):
    def fn(x, y):
        return (x * y).sum(), (x > 0).any(), x.prod(), (x * y).sum(0), (x * y).sum(1)

    for shape in ((0, 4), (4, 0), (0, 0)):
        check(outcomes(fn, [torch.ones(shape), torch.ones(shape[-1])], lambda count: None), EXACT)


def test_ties_and_nan(scheduler):
    x = torch.zeros(1000)
    x[[7, 400, 900]] = 3.0
    nan = x.clone()
    nan[[500, 800]] = torch.nan
    for given in (x, -x, nan, torch.full((1000,), -torch.inf), torch.full((1000,), torch.inf), x.long()):
        check(outcomes(extremes, [given], lambda count: setattr(scheduler, "count", count)), EXACT)
    assert scheduler.shared


def extremes(x):
    return x.argmax(), x.argmin(), x.amax(), x.amin()


def test_random_programs(scheduler):
    for seed in range(24):
        program = random_program(seed)
        units = WHOLE if program.is_exact else SUMS
        for given in program.inputs:
            try:
                found = outcomes(function_of(program.source), given, lambda c: setattr(scheduler, "count", c))
            except (jitlite.CompileError, NameError):
                continue
            if not isinstance(found[0].result, Exception):
                check(found, units)
    assert scheduler.shared > 100


@pytest.mark.parametrize("fault", ["end", "start"])
def test_wrong_bounds_are_found(fault, scheduler, monkeypatch):
    """The tests above can fail."""

    def wrong(part: parallel.LoopPart, dim: int, size: object) -> tuple[str, str]:
        if fault == "end":
            return "%begin", part.add("%end", "-1")
        return part.code.intrinsic("i64 @llvm.smax.i64(i64, i64)", "%begin", "1"), "%end"

    monkeypatch.setattr(parallel.LoopPart, "bounds", wrong)
    found = outcomes(mixed, [torch.randn(100)], lambda count: setattr(scheduler, "count", count))
    with pytest.raises(AssertionError):
        check(found, SUMS)


def mixed(x):
    return torch.tanh(x) * 2 + 1


def test_wrong_parts_of_products_are_found(scheduler, monkeypatch):
    monkeypatch.setattr(shared_products, "_range", lambda code, each, size: (code.multiply("%begin", each), str(each)))
    shared_products._part_of_rows.cache_clear()
    try:
        given = [torch.randn(8, 3), torch.randn(3, 5)]
        found = outcomes(one_product, given, lambda count: setattr(scheduler, "count", count))
    finally:
        shared_products._part_of_rows.cache_clear()
    with pytest.raises(AssertionError):
        check(found, SUMS)


def one_product(a, b):
    return (a @ b) * 2


def test_who_gives_up_gives_all_up(scheduler):
    def fn(x, i):
        return x[i] * 2 + 1

    scheduler.count = 3
    x, inside = torch.randn(50), torch.arange(49, -1, -1)
    outside = inside.clone()
    outside[17] = 50
    with torch.no_grad(), options.override(native="now"):
        scripted = jitlite.script(fn)
        assert torch.equal(scripted(x, inside), fn(x, inside))
        with pytest.raises(IndexError, match="50 is out of bounds"):
            scripted(x, outside)
        assert torch.equal(scripted(x, inside), fn(x, inside))
    assert scheduler.shared == 3


@pytest.mark.parametrize(
    ("fn", "said"), [(chain, "i0"), (rows, "i0"), (columns, "i0"), (whole, "chunks of i0")], ids=lambda a: str(a)[:13]
)
def test_the_text_says_which_loops(fn, said):
    with options.override(native="now"):
        text = jitlite.script(fn).kernels.compile(torch.randn(5, 6), torch.randn(6))[0].loops
    assert f"  # parallel: {said}" in text, text


# -- torch's threads


def layers(x, w1, w2, w3):
    for w in (w1, w2, w3):
        x = torch.nn.functional.gelu(torch.layer_norm(x, [7]) * w) + x
    return x.sum(0), x.softmax(-1)


def test_layers_that_are_alike_are_the_same_functions():
    with options.override(native="now"), torch.no_grad():
        scripted = jitlite.script(layers)
        given = torch.randn(9, 7), torch.randn(7), torch.randn(9, 7), torch.randn(7)
        torch.testing.assert_close(scripted(*given), layers(*given))
        (state,) = (state for _, state in tensor_regions(scripted.executor))
    text = state.kernels[0].text
    calls = re.findall(r"@share_\d\(ptr @(part_\w+)", text)
    defined = re.findall(r"define internal void @(part_\w+)", text)
    assert sorted(defined) == sorted(set(calls)) and len(set(calls)) <= len(calls) - 3, "w2 has another stride"


def test_torch_shares_loops(few_points):
    for fn in (chain, rows, columns, whole):
        for shape in ((3, 5), (131, 2), (33, 65)):
            check(outcomes(fn, [torch.randn(shape), torch.randn(shape[-1])], torch.set_num_threads), SUMS)


def test_without_threads_results_are_the_same(few_points, monkeypatch):
    x, y = torch.randn(333, 65), torch.randn(65)
    with torch.no_grad(), options.override(native="now"):
        found = []
        for symbol in (parallel.symbol, lambda name: None):
            monkeypatch.setattr(parallel, "symbol", symbol)
            for fn in (rows, columns, whole):
                found.append(jitlite.script(fn)(x, y))
        assert all(torch.equal(a, b) for i in range(3) for a, b in zip(found[i], found[3 + i], strict=True))


def test_many_threads_of_python_call(few_points):
    torch.set_num_threads(3)
    x = torch.randn(300, 301)
    wrong: list[int] = []
    with torch.no_grad(), options.override(native="now"):
        scripted = jitlite.script(rows)
        y = torch.ones(301)
        expected = scripted(x, y)

        def call() -> None:
            with torch.no_grad():
                for i in range(20):
                    if not all(map(torch.equal, scripted(x, y), expected)):
                        wrong.append(i)

        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


PROCESS = """\
import os, signal, sys, torch, jitlite
signal.alarm(60)
@jitlite.script
def f(x):
    return (torch.tanh(x) * 2 + 1).sum(), torch.tanh(x) + 1
def threads():
    return len(os.listdir("/proc/self/task"))
x = torch.linspace(-1, 1, 1_000_000)
def call():
    with torch.no_grad():
        return f(x)
torch.set_num_threads(1)
f.kernels.compile(x)
call()
before = threads()
"""


def test_as_many_threads_as_torch_is_told(tmp_path):
    run(
        tmp_path,
        """\
        torch.set_num_threads(3)
        a = call()
        assert threads() == before + 2, (before, threads())
        torch.set_num_threads(1)
        b = call()
        assert all(map(torch.equal, a, b)) and threads() <= before + 2
        """,
    )


def test_a_forked_process_has_one_thread(tmp_path):
    """It would wait for threads of torch that it has not inherited."""
    run(
        tmp_path,
        """\
        torch.set_num_threads(3)
        expected = call()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            same = all(a.tolist() == b.tolist() for a, b in zip(expected, call()))
            os._exit(0 if same and threads() == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert all(map(torch.equal, expected, call()))
        """,
    )


def run(folder, text: str) -> None:
    file = folder / "program.py"
    file.write_text(PROCESS + textwrap.dedent(text))
    environment = {**os.environ, "JITLITE_NATIVE": "now", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, file], check=True, timeout=120, env=environment)


# -- what is tried first


def test_a_function_that_is_not_as_expected(monkeypatch):
    torch_abi._found.cache_clear()
    monkeypatch.setattr(forks, "_lost", ctypes.c_int64(1))
    assert torch_abi.symbol(torch_abi.PARALLEL_FOR) is None
    assert "forked" in torch_abi._found(torch_abi.PARALLEL_FOR)[1]
    monkeypatch.undo()
    torch_abi._found.cache_clear()
    assert torch_abi.symbol(torch_abi.PARALLEL_FOR) is not None
