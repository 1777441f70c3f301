"""Threads, forks and memory: nobody waits for ever, and nobody sees that others compile."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import jitlite
from jitlite.base import locks
from jitlite.base.computed_once import cached_property
from jitlite.base.recursion import COUNTS_BY_THREAD
from jitlite.ir.compiling import compiling


def in_process(text: str, seconds: int = 300) -> str:
    """What a process of its own prints; it fails if it takes longer or raises."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def source(number: int, statements: int = 12) -> str:
    lines = "".join(f"    a = a * {i} + {number} + b\n    if a > {i}:\n        b += 1.5\n" for i in range(statements))
    return f"def f{number}(a: float, b: float) -> float:\n{lines}    return a\n"


# -- the order of locks


def test_a_lock_out_of_order_is_an_error():
    assert locks.check_order() is True  # the suite has turned it on
    first, last = locks._in_order()[0], locks._in_order()[-1]
    with first, last:
        pass
    with pytest.raises(locks.LockOrderError, match=f"'{first.name}' is acquired while '{last.name}'"):
        with last, first:
            pass
    with first:
        pass  # nothing has stayed locked


def test_a_reentrant_lock_is_acquired_again():
    with compiling(), compiling():
        assert locks._locks["compiler"].is_held_here()
    assert not locks._locks["compiler"].is_held_here()


def test_every_lock_of_the_process_has_a_place():
    import ast

    # locks of single objects, which are held alone or which nobody waits for; a bell, which nobody holds
    own = {"alternatives.py", "locks.py", "futures.py", "awaits.py", "policy.py", "backend.py", "background.py"}
    for path in Path(jitlite.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if path.name not in own:
                assert name not in ("threading.Lock", "threading.RLock", "threading.Condition"), f"{path}:{node.lineno}"
            assert (
                path.name in ("locks.py", "futures.py", "background.py", "forks.py") or name != "os.register_at_fork"
            ), path


# -- forks

FORKS = '''
import os, sys, threading, time, torch, jitlite
from jitlite.base import locks
locks.check_order()
torch.set_num_threads(1)
source = """
{source}
"""
def work(number, until):
    made = 0
    while made < 2 or time.time() < until:
        text = source.replace("f0", f"f{{number}}_{{made}}").replace("0.25", f"{{number}}.{{made}}")
        unit = jitlite.CompilationUnit(text)
        getattr(unit, f"f{{number}}_{{made}}")(1.0, 2.0)
        made += 1
threads = [threading.Thread(target=work, args=(n, time.time() + {seconds})) for n in range(4)]
for thread in threads: thread.start()
children = []
while any(t.is_alive() for t in threads):
    child = os.fork()
    if child == 0:
        try:
            unit = jitlite.CompilationUnit(source)
            result = unit.f0(1.0, 2.0)
            text = "def g(n: int) -> int:\\n    s = 0\\n    for i in range(n):\\n        s += i\\n    return s\\n"
            loop = jitlite.CompilationUnit(text)
            with jitlite.options.override(native="now"):
                assert loop.g(10) == 45
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    children.append(child)
    time.sleep(0.05)
    if len(children) > {forks}: break
for thread in threads: thread.join()
codes = [os.waitpid(child, 0)[1] for child in children]
assert codes and not any(codes), codes
print(len(codes))
'''


def test_a_process_forks_while_threads_compile():
    text = FORKS.format(source=source(0, 4).replace('"', "'"), seconds=1.5, forks=12)
    assert int(in_process(text)) > 2


@pytest.mark.slow
def test_a_process_forks_again_and_again_while_threads_compile():
    text = FORKS.format(source=source(0, 6).replace('"', "'"), seconds=30, forks=400)
    assert int(in_process(text, 400)) > 20


LOADERS = """
import os, tempfile, threading, time, torch, jitlite
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)

def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    for i in range(n):
        x = x * 0.5 + i
    return x

class Items(Dataset):
    def __init__(self): self.f = None
    def __len__(self): return 6
    def __getitem__(self, i):
        if self.f is None: self.f = jitlite.script(scaled)
        return self.f(torch.ones(3), i)

class Scripted(Items):
    def __init__(self): self.f = jitlite.script(scaled)

def busy(stop):
    number = 0
    while not stop.is_set():
        number += 1
        unit = jitlite.CompilationUnit(f"def g(a: float) -> float:\\n    return a * {number} + 1.0\\n")
        unit.g(1.0)

if __name__ == "__main__":
    stop = threading.Event()
    threads = [threading.Thread(target=busy, args=(stop,)) for _ in range(2)]
    for t in threads: t.start()
    try:
        for data in (Items(), Scripted()):
            for context in CONTEXTS:
                loader = DataLoader(data, num_workers=2, batch_size=2, multiprocessing_context=context)
                assert len(list(loader)) == 3
    finally:
        stop.set()
        for t in threads: t.join()
    print("done")
"""


def loaders(contexts, tmp_path, seconds):
    file = tmp_path / "loaders.py"
    file.write_text(LOADERS.replace("CONTEXTS", repr(contexts)))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=seconds)
    assert done.stdout == "done\n", done.stderr[-3000:]


def test_workers_of_a_loader_fork_while_threads_compile(tmp_path):
    loaders(("fork",), tmp_path, 300)


@pytest.mark.slow
def test_workers_of_a_loader_are_spawned(tmp_path):
    loaders(("fork", "spawn", "forkserver"), tmp_path, 400)


# -- what others see


def test_other_threads_keep_the_collector_and_the_limit():
    seen, stop, ready = set(), threading.Event(), threading.Event()

    def look():
        while not stop.is_set():
            seen.add((gc.isenabled(), sys.getrecursionlimit()))
            ready.set()
            time.sleep(0)

    watcher = threading.Thread(target=look)
    before = gc.isenabled(), sys.getrecursionlimit()
    watcher.start()
    ready.wait()
    try:
        for number in range(3):
            unit = jitlite.CompilationUnit(source(number))
            getattr(unit, f"f{number}")(1.0, 2.0)
    finally:
        stop.set()
        watcher.join()
    assert seen == {before}


def nested(depth: int) -> int:
    return 0 if depth == 0 else 1 + nested(depth - 1)


def can_nest(depth: int) -> bool:
    try:
        return nested(depth) == depth
    except RecursionError:
        return False


@pytest.mark.skipif(not COUNTS_BY_THREAD, reason="since Python 3.12, the limit of all threads is raised")
def test_a_deep_program_gives_its_own_thread_more_calls():
    limit = sys.getrecursionlimit()
    seen, going_on, looked = [], threading.Event(), threading.Event()

    def look():
        going_on.wait()
        seen.append((sys.getrecursionlimit(), gc.isenabled(), can_nest(limit + 100)))
        looked.set()

    watcher = threading.Thread(target=look)
    watcher.start()
    with compiling():
        jitlite.ir.compiling.make_room(10)
        assert not can_nest(limit + 100)
        jitlite.ir.compiling.make_room(500)
        assert can_nest(limit + 100)
        going_on.set()
        looked.wait()
    watcher.join()
    assert seen == [(limit, True, False)] and not can_nest(limit + 100) and can_nest(limit // 2)


def test_the_limit_is_as_before_after_a_deep_program():
    limit = sys.getrecursionlimit()
    branches = "".join(f"    if x == {k}:\n        return {k}\n" for k in range(400))
    unit = jitlite.CompilationUnit(f"def f(x: int) -> int:\n{branches}    return -1\n")
    assert (unit.f(399), unit.f(400)) == (399, -1)
    assert sys.getrecursionlimit() == limit and not can_nest(limit + 100)


def test_alone_the_collector_is_paused_and_put_back():
    text = """
    import gc, threading, jitlite
    from jitlite.ir.compiling import compiling
    with compiling():
        assert not gc.isenabled() or threading.active_count() > 1
    assert gc.isenabled()
    gc.disable()
    with compiling():
        assert not gc.isenabled()
    assert not gc.isenabled()
    """
    in_process(text)


# -- memory

MEMORY = '''
import gc, torch, jitlite
from jitlite.base import options
from jitlite.native.entry import compile_region
text = """
def f(n: int) -> int:
    s = 0
    for i in range(n):
        s += i * i % 7
    return s
"""
def size(): return int(open("/proc/self/statm").read().split()[1]) * 4
with options.override(native="now"):
    g = jitlite.CompilationUnit(text).f
    g(5)
region = g.executor.general.region_states[0].region
for _ in range(50): assert compile_region(region, "x") is not None
gc.collect()
before = size()
for _ in range(COUNT): compile_region(region, "x")
gc.collect()
print((size() - before) / COUNT)
'''


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the size of the process")
def test_native_compiles_leave_little():
    pytest.importorskip("llvmlite")
    assert float(in_process(MEMORY.replace("COUNT", "60"))) < 30  # kB each; 80 with a leaked pass manager


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the size of the process")
def test_a_thousand_native_compiles_leave_five_megabytes():
    pytest.importorskip("llvmlite")
    assert float(in_process(MEMORY.replace("COUNT", "1000"), 300)) * 1000 < 5 * 1024


def test_no_attribute_is_computed_under_a_lock():
    """`functools.cached_property` has a lock before Python 3.12, which stays locked in the child of a fork."""
    for path in Path(jitlite.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert path.name == "computed_once.py" or not re.search(r"functools(\.| import .*)cached_property", text), path


COMPUTING = """
import os, sys, threading
from jitlite.base.computed_once import cached_property

class Slow:
    @cached_property
    def value(self):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            go_on.wait(60)
        return 5

inside, go_on = threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: Slow().value)
thread.start()
inside.wait(60)
child = os.fork()
if child == 0:
    os._exit(Slow().value)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
go_on.set()
thread.join()
print(code)
"""


def test_the_child_of_a_fork_computes_what_a_thread_was_computing():
    assert int(in_process(COMPUTING, 60)) == 5


def test_an_attribute_is_computed_once():
    class Counted:
        def __init__(self):
            self.asked = 0

        @cached_property
        def value(self):
            """What it is."""
            self.asked += 1
            return self.asked

    counted = Counted()
    assert (counted.value, counted.value, counted.asked) == (1, 1, 1) and Counted.value.__doc__ == "What it is."
    del counted.value
    assert counted.value == 2
