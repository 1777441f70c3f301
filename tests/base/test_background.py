"""Specializing and native compiling in the background: no call waits for them, and none is lost."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import time
from typing import Optional

import pytest
import torch

import jitlite
from jitlite.base import background, options, turns
from jitlite.base.background import wait_for_compilation
from jitlite.base.locks import ObjectLock
from jitlite.executor import executor
from jitlite.ir.compiling import _CompilerScope, compiling
from jitlite.native import policy


@pytest.fixture(autouse=True)
def in_background():
    with options.override(background=True):
        yield
    assert wait_for_compilation(60)


def pick(x: torch.Tensor, mask: Optional[torch.Tensor], y: Optional[torch.Tensor] = None):
    if mask is not None:
        x = x * mask
    if y is not None:
        x = x + y
    if x.dim() == 2 and x.size(0) > 1 and x.size(1) > 1 and x.dtype == torch.float32 and not x.is_complex():
        if x.dim() != 3 and x.size(0) != 77:
            return x + 1
    return x - 1


def loop(n: int):
    s = 0
    for i in range(n):
        s += i * i % 7
    return s


def settled(f, *arguments, calls=80):
    for _ in range(calls):
        f(*arguments)
        assert wait_for_compilation(60)
    return f.executor


def let_the_thread_end():
    background.submit(lambda: None)
    assert wait_for_compilation(60)
    until = time.monotonic() + 60
    while background._worker.thread and time.monotonic() < until:
        time.sleep(0.005)
    assert not background._worker.thread


def test_a_function_is_specialized_while_it_is_called():
    f = jitlite.script(pick)
    x = torch.ones(2, 2)
    found = settled(f, x, None)
    assert found.decision.startswith("specialized for")
    assert torch.equal(f(x, None), pick(x, None)) and torch.equal(f(x[0], x[0]), pick(x[0], x[0]))
    assert found.state().counters["hits"] > 0


def test_in_the_background_it_becomes_what_it_becomes_in_calls():
    x = torch.ones(2, 2)
    one = settled(jitlite.script(pick), x, None)
    with options.override(background=False):
        f = jitlite.script(pick)
        for _ in range(80):
            f(x, None)
    assert str(one.specialized.graph) == str(f.executor.specialized.graph)
    assert one.specialized.types == f.executor.specialized.types


def test_calls_go_on_while_a_function_is_specialized(monkeypatch):
    """Nothing in a call waits for the work: it is held up for as long as the test likes."""
    begun, go = threading.Event(), threading.Event()
    threads = set()
    real = executor.specialize

    def slow(*args, **kwargs):
        threads.add(threading.get_ident())
        begun.set()
        assert go.wait(60)
        return real(*args, **kwargs)

    monkeypatch.setattr(executor, "specialize", slow)
    f, x = jitlite.script(pick), torch.ones(2, 2)
    try:
        for _ in range(2000):
            assert torch.equal(f(x, None), x + 1)
            if begun.is_set():
                break
            wait_for_compilation(0.05)
        assert begun.is_set()
        for _ in range(200):
            assert torch.equal(f(x, None), x + 1)
    finally:
        go.set()
    assert wait_for_compilation(60)
    assert threads and threading.get_ident() not in threads
    assert f.executor.decision.startswith("specialized for")


def test_calls_go_on_while_a_loop_is_compiled(monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(policy, "COMPILE_SECONDS", 0.0)
    monkeypatch.setattr(policy, "NODE_SECONDS", 0.0)
    monkeypatch.setattr(policy, "IMPORT_SECONDS", 0.0)
    begun, go = threading.Event(), threading.Event()
    real = policy.compile_region

    def slow(*args):
        begun.set()
        assert go.wait(60)
        return real(*args)

    monkeypatch.setattr(policy, "compile_region", slow)
    f = jitlite.script(loop)
    try:
        f(100)
        assert begun.wait(60)
        assert [f(n) for n in range(50)] == [loop(n) for n in range(50)]
        assert [t.status for t in f.executor.region_states] == ["hot: it is being compiled"]
    finally:
        go.set()
    assert wait_for_compilation(60)
    assert [t.status for t in f.executor.region_states] == ["machine code"]
    assert [f(n) for n in range(50)] == [loop(n) for n in range(50)]
    assert f.executor.region_states[0].runs == 50


def test_a_long_call_lets_the_thread_go_on_for_as_long_as_it_took():
    held = ObjectLock()
    is_held, may_end = threading.Event(), threading.Event()

    def job():
        with held:
            is_held.set()
            may_end.wait(60)

    background.submit(job)
    assert is_held.wait(60)
    try:
        background.wait_a_turn(held, 0.002)  # comes back though the work goes on
        threading.Timer(0.01, may_end.set).start()
        background.wait_a_turn(held, 60.0)  # comes back when it is done
        assert not held.locked()
    finally:
        may_end.set()


class Watched(ObjectLock):
    """A lock that cannot be had, and counts who waits for it."""

    def __init__(self):
        super().__init__()
        self.waited = 0

    def locked(self):
        return True

    def acquire(self, blocking=True, timeout=-1.0):
        self.waited += 1
        return False


@pytest.mark.parametrize(("seconds", "waits"), [(1e-5, 0), (5e-4, 0), (2e-3, 1)])
def test_a_short_call_does_not_wait(seconds, waits):
    held = Watched()
    background.wait_a_turn(held, seconds)
    assert held.waited == waits


def test_work_that_fails_leaves_the_function_as_it_was(monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("in the background")

    monkeypatch.setattr(executor, "specialize", fail)
    monkeypatch.setattr(background, "failures", [])
    f, x = jitlite.script(pick), torch.ones(2, 2)
    found = settled(f, x, None)
    assert found.decision == "general plan: making another one failed with ZeroDivisionError"
    assert torch.equal(f(x, None), x + 1)
    assert isinstance(background.failures[-1], ZeroDivisionError)


def test_jobs_have_the_switches_of_who_submits_them():
    seen = []
    with options.override(cached_plans=7):
        background.submit(lambda: seen.append(options.current().cached_plans))
    assert wait_for_compilation(60)
    assert seen == [7]
    background.submit(lambda: seen.append(wait_for_compilation()))  # it would wait for itself
    assert wait_for_compilation(60)
    assert seen == [7, False]


def test_the_interval_at_which_threads_take_turns_is_the_process_s():
    before, inside = sys.getswitchinterval(), []
    background.submit(lambda: inside.append(sys.getswitchinterval()))
    assert wait_for_compilation(60)
    assert inside == [before]


def test_the_work_lets_go_of_the_interpreter(monkeypatch):
    """Whatever else it does, it walks over graphs."""
    slept, here = [], []
    monkeypatch.setattr(turns, "SHORTEST", 0.0)
    monkeypatch.setattr(turns.time, "sleep", lambda seconds: slept.append((threading.get_ident(), seconds)))
    graph = jitlite.script(pick).graph
    for node in graph.nodes:
        here.append(node)
    assert not slept
    background.submit(lambda: here.extend(graph.nodes))
    while len(here) < 2 * len(list(graph.nodes)):
        pass
    monkeypatch.undo()
    assert wait_for_compilation(60)
    mine = [seconds for thread, seconds in slept if thread != threading.get_ident()]
    assert len(mine) >= len(here) // 2 and len(mine) == len(slept) and all(mine)  # by 0 it would hand over nothing
    assert not turns.is_working


def test_later_calls_start_no_thread_and_compile_nothing(monkeypatch):
    """The thread is there after the first call, and no call holds the compiler's lock after that."""
    with monkeypatch.context() as patch:
        patch.setattr(background, "_LULL", 0.01)
        let_the_thread_end()
    f, x = jitlite.script(pick), torch.ones(2, 2)
    f(x, None)
    wait_for_compilation(60)
    started, compiled = [], []
    monkeypatch.setattr(background._thread, "start_new_thread", lambda *args: started.append(args))
    enter = _CompilerScope.enter
    monkeypatch.setattr(_CompilerScope, "enter", lambda self: (compiled.append(threading.get_ident()), enter(self)))
    found = settled(f, x, None)
    assert found.decision.startswith("specialized for")
    assert not started and set(compiled) == {background._worker.thread}


def test_a_thread_without_work_ends_and_the_next_job_has_another(monkeypatch):
    monkeypatch.setattr(background, "_LULL", 0.01)
    done = []
    for number in range(50):
        background.submit(lambda number=number: done.append(number))
        time.sleep(number % 5 * 0.004)
    assert wait_for_compilation(60) and done == list(range(50))
    let_the_thread_end()
    background.submit(lambda: done.append(50))
    assert wait_for_compilation(60) and done[-1] == 50


def test_the_collector_goes_on_while_there_is_work_in_the_background():
    seen = []

    def job():
        with compiling():
            seen.append(gc.isenabled())

    background.submit(job)
    assert wait_for_compilation(60)
    assert seen == [True]


def test_many_threads_call_a_function_that_is_being_specialized():
    f, x = jitlite.script(pick), torch.ones(2, 2)
    wrong = []

    def call():
        for i in range(200):
            given = (x, None) if i % 3 else (x[0], x[0])
            if not torch.equal(f(*given), pick(*given)):
                wrong.append(given)

    with options.override(background=True):
        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def in_process(text: str, seconds: int = 300) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=seconds,
        env={**__import__("os").environ, "JITLITE_BACKGROUND": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_child_of_a_fork_does_what_was_left():
    """Also what the thread was at when the process forked: it has stayed with the parent."""
    text = """
    import os, threading, time, jitlite
    from jitlite.base import background
    go, begun, done = threading.Event(), threading.Event(), []
    parent = os.getpid()
    def first():
        begun.set()
        if os.getpid() == parent:
            go.wait(60)
        done.append(1)
    background.submit(first)
    background.submit(lambda: done.append(2))
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if background.wait_for_compilation(30) and done == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    go.set()
    assert background.wait_for_compilation(30) and done == [1, 2]
    """
    in_process(text)


@pytest.mark.parametrize("what", ["numbers", "tensors"])
def test_the_child_of_a_fork_compiles_the_region_that_was_being_compiled(what, tmp_path):
    """The lock of the region's state was held by the thread that has stayed with the parent."""
    pytest.importorskip("llvmlite")
    text = f"""
    import os, threading, jitlite, torch
    from jitlite.base import background
    from jitlite.kernels import backend
    from jitlite.native import policy
    go, begun, parent = threading.Event(), threading.Event(), os.getpid()

    def held_up(real):
        def run(*args, **kwargs):
            begun.set()
            if os.getpid() == parent:
                go.wait(60)
            return real(*args, **kwargs)
        return run

    policy.compile_region = held_up(policy.compile_region)
    backend.KernelState._make = held_up(backend.KernelState._make)

    def numbers(n: int) -> int:
        s = 0
        for i in range(n):
            s = (s * 31 + i) % 1000003
        return s

    def tensors(n: int) -> torch.Tensor:
        s = torch.zeros(3)
        for i in range(n):
            s = torch.tanh(s * 0.5 + i)
        return s

    f = jitlite.script({what})
    while not begun.wait(0):
        f(3000)
    child = os.fork()
    if child == 0:
        done = background.wait_for_compilation(60)
        f(10)
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    go.set()
    assert background.wait_for_compilation(60)
    """
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(text))
    in_process(f"import runpy; runpy.run_path({str(program)!r})")


def test_the_process_ends_while_there_is_work():
    text = """
    import time, jitlite
    from jitlite.base import background
    background.submit(lambda: time.sleep(0.2))
    for _ in range(1000):
        background.submit(lambda: time.sleep(0.2))
    text = "def f(n: int) -> int:\\n    s = 0\\n    for i in range(n):\\n        s += i % 7\\n    return s\\n"
    unit = jitlite.CompilationUnit(text)
    for _ in range(20):
        unit.f(100000)
    print("end")
    """
    assert in_process(text) == "end\n"
