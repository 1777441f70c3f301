"""What regions over tensors must not change: memory that is shared, errors, gradients, modes, threads, copies."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import threading
import weakref
from contextlib import nullcontext

import pytest
import torch
from kernel_law import EXACT, FEW, compared, outcome
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import jitlite
from jitlite.base import options
from jitlite.kernels import backend, torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


@pytest.fixture(autouse=True)
def kernels_now():
    with options.override(native="now"):
        yield


def states(scripted):
    return [r.implementation for r in scripted.executor.general.regions if r.implementation is not None]


def runs(scripted):
    return sum(state.runs for state in states(scripted))


def agree(fn, *arguments, units=EXACT, native=None):
    """A function gives as a kernel what it gives in Python; native says whether a kernel has to run."""
    scripted = jitlite.script(fn)
    with torch.no_grad():
        expected = outcome(fn, arguments)
        for _ in range(2):
            got = outcome(scripted, arguments)
            if isinstance(expected.result, Exception):
                assert type(got.result) is type(expected.result)
            else:
                assert compared(expected, got, units) is None
    if native is not None:
        assert bool(runs(scripted)) is native, [s.status for s in states(scripted)]
    return scripted


X = torch.arange(12.0).view(3, 4)


def chain(x, y):
    z = x * 2 + y
    return z.relu() - x


# -- memory


def test_the_same_tensor_twice_and_overlapping_views():
    agree(chain, X, X, native=True)
    agree(chain, X[:2], X[1:], native=True)
    agree(chain, X[0].expand(3, 4), X, native=True)


def writes_own(x, y):
    z = x + y
    z += y
    z[0] = x[1]
    z[1:].mul_(y[:2])
    return z, z.sum()


def test_own_memory_is_written():
    agree(writes_own, X, X + 1, native=True)
    agree(writes_own, X, X, native=True)


def writes_argument(x, y):
    z = x + y
    x.add_(z * 2)
    x[0] = y[1] - z[0]
    return z * x, x


def test_arguments_are_written_in_python():
    agree(writes_argument, X, X + 1)
    agree(writes_argument, X, X)
    agree(writes_argument, X[:2], X[1:])


def gives_argument(x, y):
    z = (x + y) * 2
    return x, z, y


def gives_twice(x, y):
    z = (x + y) * 2
    return z, z


def gives_views(x, y):
    z = (x + y) * 2
    return z, z[0], z.t(), x[1]


def gives_views_written(x, y):
    z = (x + y) * 2
    w = z[0]
    w += 1.0
    return w, z, z[1:]


def gives_own_view(x, y):
    z = (x + y) * 2
    a, b = z.chunk(2, -1)
    return a, b


@pytest.mark.parametrize("fn", [gives_argument, gives_twice, gives_views, gives_views_written, gives_own_view])
def test_results_share_memory_as_in_python(fn):
    agree(fn, X, X + 1)
    agree(fn, X, X)


def may_be_views(x, n: int):
    y = (x + 1) * 2
    return y.contiguous(), y.reshape(-1), y.to(torch.float32), y.float(), x.contiguous(), x.reshape(-1), y[:n]


@pytest.mark.parametrize("x", [X, X.t(), X[:, ::2], X[:, :1], X[0], X.double()])
def test_what_is_a_view_or_a_copy(x):
    agree(may_be_views, x, 1)


# -- control flow and errors


def loops(x, n: int):
    y = x * 2
    for i in range(n):
        y = y + x
        y[0] = y[0] + i
    return y, y + 1


@pytest.mark.parametrize("n", [0, 1, 3, -1])
def test_loops_that_may_not_run(n):
    agree(loops, X, n)


def only_for_the_loop(x, n: int):
    y, z = x * 2, x + 1
    w = y + z
    for i in range(n):
        y = y + w + i
        z = torch.cat([z, w])
    y[0] = 7
    return y, z, w


def read_behind_the_loop(x, n: int):
    y = x * 2
    z = y
    for _ in range(n):
        y = y + 1
    y[0] = 3
    return y, z


def viewed_before_the_loop(x, n: int):
    y = x * 2
    z = y.t()
    for _ in range(n):
        y = y + 1
    y[0] = 3
    return y + 1, z + 1


def carried_twice(x, n: int):
    y = x * 2
    z = y
    for _ in range(n):
        y, z = y + 1, z - 1
    y[0] = 3
    return y, z + 1


@pytest.mark.parametrize("n", [0, 1, 3, -1])
def test_what_is_carried_first_may_be_the_result(n):
    agree(only_for_the_loop, X, n, native=True)
    for fn in (read_behind_the_loop, viewed_before_the_loop, carried_twice):
        agree(fn, X, n)


def carries_argument(x, n: int):
    y = x
    for _ in range(n):
        y = y * 2 + x
    return y


@pytest.mark.parametrize("n", [0, 2])
def test_a_loop_that_carries_an_argument(n):
    agree(carries_argument, X, n)


def item_of(x, i: int):
    y = x * 2 + 1
    return y[i] * 2


def divides(x, y):
    z = x + 1
    return (z // y) + (z % y)


def products(x, y):
    z = x * 2
    return torch.mm(z, y) + 1


def test_errors_are_pythons():
    agree(chain, X, torch.ones(5))
    agree(products, X, X)
    for i in (0, 2, -3, 3, -4):
        agree(item_of, X, i)
    ints = torch.tensor([1, 2, 3, -7])
    agree(divides, ints, torch.tensor([1, 0, 2, 2]))
    agree(divides, ints, torch.tensor([1, -1, 2, 2]), native=True)
    agree(divides, torch.tensor([-(2**63), 1]), torch.tensor([3, -1]))


def reads_nothing(x, i, n: int):
    y = x * 2
    a = y[i]  # noqa: F841
    for _ in range(n):
        b = x.index_select(1, i)  # noqa: F841
        y = y + 1
        if n > 2:
            c = (y + 1).gather(0, i[None])  # noqa: F841
    return y - 1


def divides_for_nobody(x, y):
    z = x + 1
    a = z // y  # noqa: F841
    return z * 2


def test_what_nobody_reads_is_computed_where_it_may_raise():
    i = torch.tensor([0, 1, 2, 0])
    for n in (1, 3):
        agree(reads_nothing, X, i, n, native=True)
        agree(reads_nothing, X, i + 1, n)
    agree(reads_nothing, X[:, :2].contiguous(), i, 1)
    agree(reads_nothing, X[:2].contiguous(), i - 1, 3)
    agree(divides_for_nobody, i, i + 1, native=True)
    agree(divides_for_nobody, i, i)


def split_of_a_point(x):
    y = x * 2
    a, b = y.split([1, 2], -1)
    return a + 1, b


def chunks_of_a_point(x):
    y = x * 2
    a, b = y.chunk(2)
    return a + 1, b


def rows_of_a_point(x):
    y = x * 2
    a, b = y.unbind(0)
    return a + 1, b


def test_a_tensor_without_dimensions_has_no_pieces():
    for fn in (split_of_a_point, chunks_of_a_point, rows_of_a_point):
        agree(fn, torch.tensor(1.0), native=False)


def of_a_dtype(x, d: torch.dtype):
    y = x * 2
    return y.to(d) + 1, torch.zeros([3], dtype=d) + x[0, 0].to(d), x.sum(0, dtype=d)


def hands_on_a_dtype(x, d: torch.dtype):
    y = (x * 2).to(d)
    return y + 1, d


def test_a_dtype_from_outside_is_a_fact():
    scripted = jitlite.script(of_a_dtype)
    with torch.no_grad():
        for d in (torch.float64, torch.float32, torch.float64, torch.half, torch.float32):
            assert compared(outcome(of_a_dtype, (X, d)), outcome(scripted, (X, d)), EXACT) is None
    assert runs(scripted) == 4
    (state,) = states(scripted)
    assert {str(kernel.facts[1]) for kernel in state.kernels} == {"dtype f64", "dtype f32"}
    for d in (torch.float64, torch.int64, torch.bool, torch.complex64):
        agree(of_a_dtype, X, d)
        agree(hands_on_a_dtype, X, d)


def swaps(x, n: int):
    a, b = x + 1, x * 2
    for _ in range(n):
        a, b = b, a + b
    return a, b


def branches(x):
    y = x * 2
    if bool(y.sum() > 10):
        z = y + 1
    else:
        z = torch.zeros_like(y)
    return z, y


def forgets_in_branch(x, flag: bool, n: int):
    y = x * 2 + 1
    w = y
    if flag:
        w = y[torch.arange(2)]  # noqa: F841
    for _ in range(n):
        s = torch.zeros_like(y)
        s.add_(1)
    return y + 1


def test_control_flow():
    for n in range(4):
        agree(swaps, X, n)
    agree(branches, X)
    agree(branches, -X)
    for flag in (True, False):
        agree(forgets_in_branch, X, flag, 2, native=True)


def writes_through_views(x):
    z = torch.zeros_like(x * 2)
    z.t().add_(x.t())
    z[:, 0].add_(-1.0)
    w = z.view(-1)
    w[1:3] = 7.0
    return z


def test_writes_through_views_are_seen():
    agree(writes_through_views, X)


# -- modes


def with_grad(fn, *arguments):
    given = [a.detach().clone().requires_grad_() for a in arguments]
    result = fn(*given)
    return result.detach(), torch.autograd.grad(result.sum(), given)


def test_gradients_are_recorded():
    scripted = jitlite.script(chain)
    with torch.no_grad():
        scripted(X, X + 1)
    assert runs(scripted)
    expected, got = with_grad(chain, X, X + 1), with_grad(scripted, X, X + 1)
    assert torch.equal(expected[0], got[0]) and all(map(torch.equal, expected[1], got[1]))
    assert not scripted(X, X).requires_grad
    one = X.clone().requires_grad_()
    assert scripted(X, one).requires_grad


MODES = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference": torch.inference_mode,
    "grad": torch.enable_grad,
    "default dtype": None,
}


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode):
    def fn(x, y):
        z = torch.mm(x, y) + 1
        return z * torch.ones(4), torch.zeros(2) + 1

    scripted = jitlite.script(fn)
    y = torch.ones(4, 4)
    with torch.no_grad():
        scripted(X, y), scripted(X, y)
    before = torch.get_default_dtype()
    try:
        if MODES[mode] is None:
            torch.set_default_dtype(torch.float64)
        with (MODES[mode] or nullcontext)():
            for _ in range(2):
                assert compared(outcome(fn, (X, y)), outcome(scripted, (X, y)), FEW) is None
    finally:
        torch.set_default_dtype(before)
    assert compared(outcome(fn, (X, y)), outcome(scripted, (X, y)), FEW) is None


class Sub(torch.Tensor):
    pass


def test_subclasses_fake_tensors_and_vmap():
    scripted = jitlite.script(chain)
    with torch.no_grad():
        scripted(X, X)
        ran = runs(scripted)
        sub = X.as_subclass(Sub)
        assert type(scripted(sub, X)) is type(chain(sub, X))
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(X)
            assert isinstance(scripted(fake, fake), FakeTensor)
        mapped = torch.vmap(scripted)(X, X + 1)
        assert torch.equal(mapped, torch.vmap(chain)(X, X + 1))
        assert scripted(X.to("meta"), X.to("meta")).is_meta
        assert runs(scripted) == ran
        assert torch.equal(scripted(X.half(), X.half()), chain(X.half(), X.half())) and runs(scripted) == ran + 1
        negative = torch.complex(X, X).conj().imag
        assert negative.is_neg() and torch.equal(scripted(negative, X), chain(negative, X))
        tangents = torch.func.jvp(scripted, (X, X), (X, X))
        assert all(map(torch.equal, tangents, torch.func.jvp(chain, (X, X), (X, X))))


class Held(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x):
        y = x * self.weight
        return y + self.weight


def test_what_a_frozen_graph_holds_may_change():
    module = Held().eval()
    frozen = jitlite.freeze(jitlite.script(module))
    held = [c for c in frozen.graph.all_constants()] if hasattr(frozen.graph, "all_constants") else []
    with torch.no_grad():
        assert torch.equal(frozen(X), module(X))
        module.weight.mul_(2)
        expected = frozen(X)
        with options.override(native="off"):
            again = jitlite.freeze(jitlite.script(module))
        assert expected.shape == again(X).shape
        del held


# -- threads, copies, memory


def test_threads_call_while_kernels_are_made(monkeypatch):
    monkeypatch.setattr(backend, "COMPILE_SECONDS", 0.0)
    monkeypatch.setattr(backend, "NODE_SECONDS", 0.0)
    monkeypatch.setattr(backend, "IMPORT_SECONDS", 0.0)
    inputs = [X, X.t().contiguous(), X.double(), X[:, :1], X.long()]
    expected = [chain(x, x) for x in inputs]
    wrong = []
    with options.override(native="auto"):
        scripted = jitlite.script(chain)

        def call(start):
            with torch.no_grad():
                for i in range(start, start + 300):
                    if not torch.equal(scripted(inputs[i % 5], inputs[i % 5]), expected[i % 5]):
                        wrong.append(i)

        threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_copies_and_pickles():
    scripted = jitlite.script(Held())
    with torch.no_grad():
        expected = scripted(X)
        for other in (copy.deepcopy(scripted), pickle.loads(pickle.dumps(Held()))):
            assert torch.equal(other(X), expected)
        function = jitlite.script(chain)
        function(X, X)
        assert torch.equal(copy.deepcopy(function)(X, X), chain(X, X))
        assert torch.equal(function(X, X), chain(X, X))


def test_dropped_functions_free_their_kernels():
    def made():
        scripted = jitlite.script(lambda_like())
        with torch.no_grad():
            scripted(X, X)
        return [weakref.ref(kernel) for state in states(scripted) for kernel in state.kernels]

    def lambda_like():
        def fn(x, y):
            return (x + y) * 2 - y

        return fn

    held = made()
    gc.collect()
    assert held and all(ref() is None for ref in held)


def test_results_do_not_hold_memory():
    scripted = jitlite.script(chain)
    with torch.no_grad():
        found = scripted(X, X)
        storage = found.untyped_storage()
        assert storage.nbytes() == found.numel() * 4
        found.resize_(100)
        found.set_(torch.zeros(2))
        assert torch.equal(scripted(X, X), chain(X, X))


def several_orders(x):
    y = x * 2 + 1
    return y, y.sum(-1), (y * x).sum(0)


def test_orders_of_dimensions_and_no_elements():
    scripted = jitlite.script(several_orders)
    with torch.no_grad():
        for shape in ((2, 3, 4), (2, 1, 4), (0, 3, 4), (3, 0, 2), (3, 2, 0)):
            for dims in itertools.permutations(range(3)):
                x = torch.arange(float(torch.Size(shape).numel())).view(shape).permute(dims)
                assert compared(outcome(several_orders, [x]), outcome(scripted, [x])) is None
    assert runs(scripted)
