"""Forked calls, futures, results on demand, and calls from many threads at once."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from typing import List

import pytest
import torch
from torch import Tensor
from torch._awaits import _Await
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

import jitlite
from jitlite.interpreter import futures
from jitlite.interpreter.modes import ThreadModes


@pytest.fixture(params=[1, 2, 5])
def size(request, monkeypatch):
    """A fresh pool of so many threads."""
    monkeypatch.setattr(torch, "get_num_interop_threads", lambda: request.param)
    pool = futures.Pool()
    monkeypatch.setattr(futures, "_pool", pool)
    yield request.param
    pool.close()
    assert not pool._threads, "threads are left"


@pytest.fixture
def one_thread(monkeypatch):
    monkeypatch.setattr(torch, "get_num_interop_threads", lambda: 1)
    pool = futures.Pool()
    monkeypatch.setattr(futures, "_pool", pool)
    yield pool
    pool.close()


def square(x: Tensor) -> Tensor:
    return x * x


def test_results_come_in_the_order_of_the_futures(size):
    def f(x: Tensor, n: int) -> List[Tensor]:
        pending = [jitlite.fork(square, x + i) for i in range(n)]
        return [jitlite.wait(p) for p in pending]

    x = torch.arange(3.0)
    got = jitlite.script(f)(x, 20)
    assert all(torch.equal(g, (x + i) * (x + i)) for i, g in enumerate(got))


def tree_size(depth: int) -> int:
    if depth == 0:
        return 1
    left = jitlite.fork(tree_size, depth - 1)
    right = jitlite.fork(tree_size, depth - 1)
    return jitlite.wait(left) + jitlite.wait(right) + 1


def countdown(n: int) -> int:
    if n == 0:
        return 0
    rest = jitlite.fork(countdown, n - 1)
    return jitlite.wait(rest) + 1


def test_forks_within_forks_never_want_for_a_thread(size):
    assert jitlite.script(tree_size)(6) == 127
    assert jitlite.script(countdown)(300) == 300  # far more than there are threads, deeper than Python's stack


def test_a_function_that_forks_itself_is_compiled_once():
    scripted = jitlite.script(tree_size)
    assert str(scripted.optimized_graph).count("prim::fork") == 2 * 2  # each where it is and where its graph is
    assert str(scripted.optimized_graph).count("prim::CallFunction") == 2


def test_no_more_threads_than_asked_for(size):
    def f(n: int) -> int:
        pending = [jitlite.fork(tree_size, 2) for _ in range(n)]
        total = 0
        for p in pending:
            total += jitlite.wait(p)
        return total

    assert jitlite.script(f)(30) == 210
    # threads that wait for others are replaced while they do, so only those at work count
    assert futures._pool._at_work() <= size


def test_more_threads_when_torch_is_told_to_have_more(monkeypatch, one_thread):
    monkeypatch.setattr(torch, "get_num_interop_threads", lambda: 3)
    meeting = threading.Barrier(3)
    made = [futures.fork(lambda: meeting.wait(20)) for _ in range(3)]
    assert sorted(f.wait() if f.done() else _elsewhere(f) for f in made) == [0, 1, 2]


def _elsewhere(future):
    """The value of a future, which is not run in this thread."""
    until = time.monotonic() + 20
    while not future.done() and time.monotonic() < until:
        time.sleep(0.001)
    return future.value()


def test_waiting_runs_what_has_not_begun(one_thread):
    go = threading.Event()
    running = futures.fork(go.wait)  # keeps the only thread busy
    while not running.has_begun:
        time.sleep(0.001)
    queued = futures.fork(threading.get_ident)
    assert not queued.done()
    assert queued.wait() == threading.get_ident()
    go.set()
    assert running.wait() is True


def test_a_thread_that_waits_makes_room_for_another(one_thread):
    """The first call waits for a plain future that the second one sets."""
    promise = torch.futures.Future()

    def waits(p: jitlite.Future[int]) -> int:
        return jitlite.wait(p)

    first = jitlite.fork(jitlite.script(waits), promise)
    while not first.has_begun:
        time.sleep(0.001)
    second = futures.fork(lambda: promise.set_result(7))
    assert _elsewhere(first) == 7
    assert second.wait() is None


def fail(n: int) -> int:
    if n > 1:
        raise IndexError(f"no {n}")
    return n


def forked_failure(n: int) -> jitlite.Future[int]:
    return jitlite.fork(fail, n)


def test_every_wait_raises_what_the_call_raised(size):
    future = jitlite.script(forked_failure)(3)
    for ask in (future.wait, future.wait, future.value, lambda: jitlite.wait(future)):
        with pytest.raises(IndexError, match="no 3") as caught:
            ask()
        (note,) = caught.value.__notes__
        assert "in fail" in note and 'raise IndexError(f"no {n}")' in note
    assert future.done()


def test_a_script_can_catch_what_a_forked_call_raised(size):
    def f(n: int) -> int:
        future = jitlite.fork(fail, n)
        try:
            return jitlite.wait(future)
        except IndexError:
            return -1

    scripted = jitlite.script(f)
    assert [scripted(n) for n in (0, 1, 2)] == [0, 1, -1]


def test_an_exception_nobody_asks_for_is_reported_once(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(repr(args.exc_value)))
    unseen, seen = futures.at_once(lambda: fail(4)), futures.at_once(lambda: fail(5))
    with pytest.raises(IndexError):
        seen.wait()
    del unseen, seen
    gc.collect()
    assert reported == ["IndexError('no 4')"]


def test_futures_that_failed_are_freed():
    gc.collect()
    before = sum(type(o) is futures.Future for o in gc.get_objects())
    for _ in range(5):
        future = futures.at_once(lambda: fail(2))
        with pytest.raises(IndexError):
            future.wait()
    del future
    gc.collect()
    assert sum(type(o) is futures.Future for o in gc.get_objects()) == before


def test_futures_are_what_python_knows_from_torch(size):
    future = jitlite.script(lambda_free_fork)(torch.ones(2))
    assert isinstance(future, torch.futures.Future)
    assert future.then(lambda f: f.value().sum().item()).wait() == 2.0
    seen = []
    future.add_done_callback(lambda f: seen.append(f.done()))
    assert seen == [True] and future.done() and torch.equal(future.value(), torch.ones(2))
    assert len(torch.futures.wait_all([future, jitlite.script(lambda_free_fork)(torch.ones(1))])) == 2
    with pytest.raises(RuntimeError, match="cannot be set"):
        future.set_result(1)
    failed = jitlite.script(forked_failure)(2)
    with pytest.raises(IndexError):
        torch.futures.wait_all([failed])


def lambda_free_fork(x: Tensor) -> jitlite.Future[Tensor]:
    return jitlite.fork(square, x)


def test_scripts_take_futures(size):
    def f(a: jitlite.Future[Tensor], b: jitlite.Future[Tensor]) -> Tensor:
        return jitlite.wait(a) - jitlite.wait(b)

    ready = torch.futures.Future()
    ready.set_result(torch.ones(2))
    forked = jitlite.script(lambda_free_fork)(torch.full((2,), 3.0))
    assert torch.equal(jitlite.script(f)(forked, ready), torch.full((2,), 8.0))


def test_python_functions_are_forked_at_once_and_scripts_elsewhere():
    assert jitlite.fork(threading.get_ident).value() == threading.get_ident()
    future = jitlite.fork(fail, 9)
    with pytest.raises(IndexError):
        jitlite.wait(future)
    scripted = jitlite.fork(jitlite.script(square), torch.ones(3))
    assert torch.equal(jitlite.wait(scripted), torch.ones(3))
    module = jitlite.script(torch.nn.Linear(2, 2))
    x = torch.ones(1, 2)
    assert torch.equal(jitlite.wait(jitlite.fork(module, x)), module(x))


# -- modes


def modes_of_thread():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
    )


@pytest.mark.parametrize(
    "context",
    [
        torch.no_grad,
        torch.enable_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.float16),
        lambda: torch.autocast("cpu", torch.bfloat16, cache_enabled=False),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_modes_go_with_the_call(context, elsewhere, one_thread):
    outside = modes_of_thread()
    go = threading.Event()
    busy = futures.fork(go.wait)
    while not busy.has_begun:
        time.sleep(0.001)
    with context():
        wanted = modes_of_thread()
        future = futures.fork(modes_of_thread)
    if elsewhere:
        go.set()
        assert _elsewhere(future) == wanted
    else:
        assert future.wait() == wanted
        go.set()
    assert modes_of_thread() == outside
    assert futures.fork(modes_of_thread).wait() == outside  # the pool's thread is as it was


def test_modes_that_a_call_sets_end_with_it():
    def sets():
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", True)
        raise ValueError

    before = modes_of_thread()
    with pytest.raises(ValueError):
        ThreadModes().call(sets)
    assert modes_of_thread() == before


def test_what_cannot_go_elsewhere_runs_at_once():
    class Counts(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    def ident_and_sum(x):
        return threading.get_ident(), (x + 1).sum()

    x = torch.ones(2, requires_grad=True)
    with Counts() as mode:
        assert futures.fork(lambda: ident_and_sum(x)).value()[0] == threading.get_ident()
    assert mode.calls == 2
    packed = []
    with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        jitlite.wait(jitlite.fork(jitlite.script(square), x))
    assert packed
    mapped = torch.vmap(lambda t: jitlite.wait(jitlite.fork(jitlite.script(square), t)))(torch.arange(3.0))
    assert mapped.tolist() == [0.0, 1.0, 4.0]


def test_gradients_through_forked_calls(size):
    def f(x: Tensor) -> Tensor:
        a = jitlite.fork(square, x)
        with torch.no_grad():
            b = jitlite.fork(square, x)
        return jitlite.wait(a) + 3 * jitlite.wait(b)

    x = torch.arange(3.0, requires_grad=True)
    jitlite.script(f)(x).sum().backward()
    assert torch.equal(x.grad, 2 * x.detach())


# -- results on demand


def test_awaitables_are_computed_once_and_on_demand():
    calls = []

    def compute(x, *, k=1):
        calls.append(x)
        return x * k

    awaited = jitlite._awaitable(compute, 3, k=2)
    assert calls == [] and not awaited.is_nowait() and awaited.args() == (3,)
    assert [jitlite._awaitable_wait(awaited), awaited.wait(), awaited.real] == [6, 6, 6]
    assert calls == [3]
    ready = jitlite._awaitable_nowait("x")
    assert ready.is_nowait() and ready.upper() == "X"
    with pytest.raises(AttributeError):
        ready.nothing_of_this_name  # noqa: B018


def test_awaitables_raise_again_without_computing_again():
    calls = []

    def compute():
        calls.append(1)
        raise KeyError("gone")

    awaited = jitlite._awaitable(compute)
    for _ in range(2):
        with pytest.raises(KeyError):
            awaited.wait()
    assert calls == [1]


def test_awaitables_in_scripts_and_between():
    def make(x: Tensor) -> _Await[Tensor]:
        return jitlite._awaitable(square, x)

    def use(w: _Await[Tensor]) -> Tensor:
        return jitlite._awaitable_wait(w) + 1

    made = jitlite.script(make)(torch.full((1,), 2.0))
    assert made.item() == 4.0  # read through
    assert jitlite.script(use)(made).item() == 5.0
    assert jitlite.script(use)(jitlite._awaitable_nowait(torch.zeros(1))).item() == 1.0


def test_many_threads_wait_for_one_awaitable():
    calls = []

    def slow():
        calls.append(1)
        time.sleep(0.02)
        return object()

    awaited = jitlite._awaitable(slow)
    found = in_threads(6, awaited.wait)
    assert len(set(map(id, found))) == 1 and calls == [1]


# -- many threads


def in_threads(count, work):
    """What `work()` gives in each of so many threads that start together."""
    start, results, errors = threading.Barrier(count), [], []

    def run():
        start.wait()
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    return results


def helper(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = x + square(x) * i
    return x


def test_first_calls_of_one_function_at_once():
    def f(x: Tensor, n: int) -> Tensor:
        return helper(x, n) + countdown(n)

    scripted = jitlite.script(f)
    codes = in_threads(8, lambda: scripted(torch.ones(2), 3).tolist() and id(scripted.compiled_code))
    assert len(codes) == 8 and len(set(codes)) == 1


def test_calls_at_once_do_not_share_state():
    scripted = jitlite.script(helper)
    x = torch.tensor([0.5])
    wanted = [helper(x, n).item() for n in range(6)]

    def work():
        return [scripted(x, n).item() for n in range(6) for _ in range(20)][::20]

    assert all(found == wanted for found in in_threads(6, work))


def test_scripting_the_same_class_from_many_threads():
    class Point:
        def __init__(self, x: int):
            self.x = x

        def moved(self, by: int) -> int:
            return self.x + by

    def f(n: int) -> int:
        return Point(n).moved(2)

    assert in_threads(6, lambda: jitlite.script(f)(1)) == [3] * 6


# -- processes


@pytest.fixture
def program(tmp_path):
    """Runs a program in a process of its own; gives what it prints."""

    def run(text):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [sys.executable, path]
        done = subprocess.run(command, env=environment, timeout=60, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_interpreter_ends_while_calls_run_and_wait(program):
    text = """
        import time, torch, jitlite

        def endless(n: int) -> int:
            while n > 0:
                n += 1
            return n

        def f(n: int):
            pending = [jitlite.fork(endless, n) for _ in range(5)]

        jitlite.script(f)(1)
        time.sleep(0.1)
        print("ended")
    """
    assert program(text) == "ended\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork")
def test_forked_processes_have_a_pool_of_their_own(program):
    text = """
        import os, time, torch, jitlite
        from jitlite.interpreter import futures

        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def f(x: torch.Tensor) -> torch.Tensor:
            return jitlite.wait(jitlite.fork(double, x)) + jitlite.wait(jitlite.fork(double, x))

        scripted = jitlite.script(f)

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                return scripted(torch.tensor([float(i)]))

        scripted(torch.ones(1))
        loader = torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context="fork")
        print(torch.cat(list(loader)).flatten().tolist())

        running = [futures.fork(lambda: time.sleep(1)) for _ in range(torch.get_num_interop_threads())]
        while not all(r.has_begun for r in running):
            time.sleep(0.001)
        queued = futures.fork(lambda: "queued")
        child = os.fork()
        if child == 0:
            print(queued.wait())
            try:
                running[0].wait()
            except RuntimeError as error:
                print("another process" in str(error), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """
    assert program(text).splitlines() == [str([4.0 * i for i in range(8)]), "queued", "True"]


def test_a_limited_run_forks_at_once():
    scripted = jitlite.script(lambda_free_fork)
    assert scripted.run(torch.ones(1), step_limit=100).done()
